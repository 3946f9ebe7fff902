//! Saves and loads checkpoints over ranks, each its own file, synced, as a training job does; or its own object, in parts.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::training::noise::Noise;

use crate::contract::declare::{flag, integer, number, required, text, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Reading};
use crate::object::line_totals::LineTotals;
use crate::object::options::ReachParameters;
use crate::object::paths::Flow;
use crate::object::place::Line;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::timing::team;
use crate::training::batches::Meeting;
use crate::training::ledger::Ledger;
use crate::training::target::Target;
use crate::{parameters, sys};

mod target;

use target::{check_room, get, mark_blocks, put, transfer, BLOCK};

/// The kernel `training_checkpoint`.
pub struct Checkpoint;

parameters! {
    /// What `training_checkpoint` takes.
    pub struct Parameters {
        path: PathBuf = required("folder for the files, in a directory of this run, or that of a run in a bucket \
            (s3://BUCKET/hwdyno-…); removed afterwards"),
        checkpoint_bytes: u64 = integer("size of one checkpoint over all \
            ranks", "B", (4096, 1 << 50), 1 << 30).role(Role::Size),
        ranks: u64 = integer("ranks that save and load in parallel", "", (1, 4096), 8).role(Role::Concurrency),
        model_share: f64 = number("share of the bytes that is the model; the rest is the optimizer, in its own \
            file", "", (0.0, 1.0), 0.0),
        model_ranks_share: f64 = number("share of the ranks that save the model; the others have \
            replicas", "", (0.0, 1.0), 1.0),
        model_files: u64 = integer("files per rank for its part of the model, such as one per layer", "", (1, 1000), 1),
        writes: u64 = integer("number of checkpoints saved", "", (1, 1000), 10),
        reads: u64 = integer("number of checkpoints loaded", "", (0, 1000), 10),
        slots: u64 = integer("number of checkpoints kept; the oldest is overwritten", "", (1, 1000), 1),
        transfer_size: u64 = integer("size of one write or read, or of a part of an object", "B", (4096, 1 << 30), 8 << 20).role(Role::Size),
        fsync: bool = flag("sync at the end of a save", true),
        drop_cache: bool = flag("loads read from storage, not from the page cache", true),
        #[allow(dead_code, reason = "only recorded in the reading")]
        model: String = text("name of the model; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        scale: f64 = number("share of the model's full checkpoint; recorded, not used", "", (0.0, 1.0), 1.0),
        reach: ReachParameters = Group,
    }
}

impl Kernel for Checkpoint {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("bytes", "checkpoint_bytes")],
        writes: Writes::Folder,
        stateful: true,
        ..Declaration::new("training_checkpoint", "saving and loading a checkpoint, by ranks", "checkpoint")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let folder = parameters.path.clone();
        let (ranks, slots) = (parameters.ranks, parameters.slots);
        let size = parameters.checkpoint_bytes;
        let model = (size as f64 * parameters.model_share) as u64;
        let model_ranks = ((ranks as f64 * parameters.model_ranks_share).round() as u64).clamp(1, ranks);
        // the ranks that save the model have the most to save
        let model_files = parameters.model_files;
        let (model_part, part) = (model.div_ceil(model_ranks * model_files), (size - model).div_ceil(ranks));
        let size = model_part * model_files * model_ranks + part * ranks;
        let target = Target::of(&folder, &parameters.reach, stop)?;
        if target.store().is_none() {
            check_room(&folder, size, slots)?;
        }
        let transfer = transfer(&target, parameters.transfer_size, model_part.max(part));
        let job = Job {
            target: &target,
            kinds: [
                Files { name: "model", bytes: model_part, each: model_files, ranks: model_ranks },
                Files { name: "optimizer", bytes: part, each: 1, ranks },
            ],
            slots,
            transfer,
            fsync: parameters.fsync,
            drop_cache: parameters.drop_cache,
            writes: parameters.writes,
            reads: parameters.reads,
        };
        let (saves, loads) = (Ledger::new(0.1), Ledger::new(0.1));
        let meeting = Meeting::new(ranks as usize);
        crate::timing::start::hold_once();
        let start = now_ns();
        saves.start(start);
        loads.start(start);
        let members =
            team::run(ranks as usize, &[], |member| job.rank(member.number as u64, &meeting, &saves, &loads, stop))?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let mut reading = report(&members, (&saves, &loads), elapsed_s, size, stop.is_set());
        if let Target::Store(place) = &target {
            let mut lines = LineTotals::default();
            for times in &members {
                lines.merge(&times.lines);
            }
            lines.describe(place, "requests", members.len(), Flow::Both, &mut reading);
            reading.detail("part_bytes", transfer as u64);
        }
        Ok(reading)
    }
}

/// What is saved, as equal files.
struct Files {
    name: &'static str,
    /// Size of one file.
    bytes: u64,
    /// Files of a rank.
    each: u64,
    /// Ranks that have any.
    ranks: u64,
}

/// What every rank does.
struct Job<'a> {
    target: &'a Target,
    kinds: [Files; 2],
    slots: u64,
    transfer: usize,
    fsync: bool,
    drop_cache: bool,
    writes: u64,
    reads: u64,
}

/// Durations of the steps that all ranks took together, ns, and the rank's CPU time.
struct Times {
    saves: Vec<u64>,
    loads: Vec<u64>,
    cpu: CpuTime,
    lines: LineTotals,
}

impl Job<'_> {
    /// The names of a rank's files, with their bytes.
    fn files(&self, rank: u64, slot: u64) -> Vec<(PathBuf, u64)> {
        let mine = self.kinds.iter().filter(|kind| kind.bytes > 0 && rank < kind.ranks);
        mine.flat_map(|kind| {
            (0..kind.each).map(move |part| {
                let name = format!("checkpoint-{slot}-{}-rank-{rank:04}-{part}.hwdyno", kind.name);
                (PathBuf::from(name), kind.bytes)
            })
        })
        .collect()
    }

    fn rank(&self, rank: u64, meeting: &Meeting, saves: &Ledger, loads: &Ledger, stop: &Stop) -> Times {
        let largest = self.kinds.iter().map(|kind| kind.bytes).max().unwrap_or(0).max(1);
        let mut buffer = vec![0_u8; self.transfer.min(largest.next_multiple_of(BLOCK as u64) as usize)];
        Noise::new(rank).fill(&mut buffer);
        let mut times = Times {
            saves: Vec::with_capacity(self.writes as usize),
            loads: Vec::with_capacity(self.reads as usize),
            cpu: CpuTime::default(),
            lines: LineTotals::default(),
        };
        let mut line = self.target.line(rank);
        // A store that cannot be reached is named by the first save.
        let _ = line.as_mut().map(|line| line.connect(stop));
        let before = cpu_time::of_this_thread();
        let goes_on = || !stop.is_set();
        for number in 0..self.writes + self.reads {
            let is_save = number < self.writes;
            let slot = if is_save { number } else { number - self.writes } % self.slots.min(self.writes);
            let files = self.files(rank, slot);
            if !is_save && self.drop_cache && !self.empty_cache(&files, loads) {
                meeting.leave();
                break;
            }
            if !meeting.join(goes_on) {
                break;
            }
            let began = now_ns();
            let succeeded = if is_save {
                self.transfer(&files, "save", saves, |file| self.save(file, &mut buffer, number, &mut line, stop))
            } else {
                self.transfer(&files, "load", loads, |file| self.load(file, &mut buffer, &mut line, stop))
            };
            if !succeeded {
                meeting.leave();
                break;
            }
            if !meeting.join(goes_on) {
                break;
            }
            let took = now_ns() - began;
            if is_save {
                times.saves.push(took);
            } else {
                times.loads.push(took);
            }
        }
        times.cpu = cpu_time::of_this_thread().since(before);
        if let Some(line) = &line {
            times.lines.add(line);
        }
        times
    }

    /// Drops the files from the page cache; whether all were dropped. One that was not would be loaded from there.
    fn empty_cache(&self, files: &[(PathBuf, u64)], loads: &Ledger) -> bool {
        let Target::Folder(folder) = self.target else { return true };
        for (path, _) in files {
            match folder.folder().read(path, false) {
                Ok(file) => sys::files::forget(&file),
                Err(error) => {
                    loads.fault("load", error.raw_os_error().unwrap_or(0), format!("{}: {error}", path.display()));
                    return false;
                }
            }
        }
        true
    }

    /// Saves or loads the files, one after the other; whether all of them succeeded. A failure is in the ledger.
    fn transfer(
        &self,
        files: &[(PathBuf, u64)],
        operation: &str,
        ledger: &Ledger,
        mut move_file: impl FnMut((&Path, u64)) -> std::io::Result<u64>,
    ) -> bool {
        for (path, wanted) in files {
            match move_file((path, *wanted)) {
                Ok(bytes) => ledger.done(now_ns(), 0, bytes),
                Err(error) => {
                    let says = format!("{}: {error}", self.target.show(path));
                    ledger.fault(operation, error.raw_os_error().unwrap_or(0), says);
                    return false;
                }
            }
        }
        true
    }

    /// Writes one file of the rank's part; each block gets a stamp, so that no two are alike.
    fn save(
        &self,
        (path, wanted): (&Path, u64),
        buffer: &mut [u8],
        number: u64,
        line: &mut Option<Line>,
        stop: &Stop,
    ) -> std::io::Result<u64> {
        let folder = match (self.target, line) {
            (Target::Store(place), Some(line)) => return put(place, (path, wanted), buffer, number, line, stop),
            (Target::Folder(folder), _) => folder,
            (Target::Store(_), None) => return Err(ErrorKind::NotConnected.into()),
        };
        let mut file = folder.rewrite(path)?;
        let (mut left, mut stamp) = (wanted, number << 40);
        while left > 0 && !stop.is_set() {
            let length = left.min(buffer.len() as u64) as usize;
            mark_blocks(&mut buffer[..length], &mut stamp);
            file.write_all(&buffer[..length])?;
            left -= length as u64;
        }
        if self.fsync {
            file.sync_all()?;
        }
        Ok(wanted - left)
    }

    fn load(
        &self,
        (path, wanted): (&Path, u64),
        buffer: &mut [u8],
        line: &mut Option<Line>,
        stop: &Stop,
    ) -> std::io::Result<u64> {
        let folder = match (self.target, line) {
            (Target::Store(place), Some(line)) => return get(place, (path, wanted), line, stop),
            (Target::Folder(folder), _) => folder,
            (Target::Store(_), None) => return Err(ErrorKind::NotConnected.into()),
        };
        let mut file = folder.folder().read(path, false)?;
        let mut bytes = 0;
        while !stop.is_set() {
            match file.read(buffer) {
                Ok(0) => break,
                Ok(got) => bytes += got as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if bytes < wanted && !stop.is_set() {
            return Err(std::io::Error::other(format!("{bytes} bytes found where {wanted} were saved")));
        }
        Ok(bytes)
    }
}

fn report(
    members: &[Times],
    (saves, loads): (&Ledger, &Ledger),
    elapsed_s: f64,
    size: u64,
    interrupted: bool,
) -> Reading {
    let mut reading = Reading { elapsed_s, interrupted, ..Reading::default() };
    for member in members {
        reading.cpu += member.cpu;
    }
    // the slowest rank's: all had met before and after
    let slowest = |of: &dyn Fn(&Times) -> &Vec<u64>| -> Vec<u64> {
        let whole = members.iter().map(|member| of(member).len()).min().unwrap_or(0);
        (0..whole).map(|at| members.iter().map(|member| of(member)[at]).max().unwrap_or(0)).collect()
    };
    for (name, word, ledger, took) in
        [("write", "save", saves, slowest(&|t| &t.saves)), ("read", "load", loads, slowest(&|t| &t.loads))]
    {
        let mut histogram = Histogram::new();
        for &ns in &took {
            histogram.record(ns);
        }
        ledger.add(&mut reading, name, &[("total", &histogram)]);
        if let Some(stream) = reading.streams.last_mut() {
            stream.operations = took.len() as u64;
        }
        let seconds: Vec<f64> = took.iter().map(|&ns| ns as f64 / 1e9).collect();
        let total: f64 = seconds.iter().sum();
        let speed = (total > 0.0).then(|| size as f64 * seconds.len() as f64 / total);
        reading.detail(&format!("{word}_bytes_s"), speed);
        reading.detail(&format!("{word}_mean_s"), (!seconds.is_empty()).then(|| total / seconds.len() as f64));
        reading.detail(&format!("{word}s_s"), seconds);
    }
    reading.detail("checkpoint_bytes", size);
    if members.iter().any(|member| member.saves.is_empty()) {
        reading.note("no_step", "no checkpoint was saved completely");
    }
    reading
}
