//! Feeds emulated accelerators from a data set on disk, as a training job's loader does, and times each step.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{json, Value};

use crate::contract::declare::{choice, flag, integer, number, text, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Note, Reading};
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::training::batches::{Batches, Meeting};
use crate::training::dataset::{self, DatasetParameters, Format, Layout};
use crate::training::ledger::Ledger;
use crate::training::source::{Reader, Source};
use crate::training::steps::{self, Epoch, Pace, Rank};
use crate::{parameters, sys};

mod choices;

pub use choices::{Cache, Order, Parse};

/// Threads need little: readers keep their buffers on the heap.
const STACK: usize = 256 << 10;
/// Files whose share in the page cache is looked up: a sample beyond this many.
const SAMPLED: usize = 4096;

/// The kernel `training_loader`.
pub struct Loader;

parameters! {
    /// What `training_loader` takes.
    pub struct Parameters {
        dataset: DatasetParameters = Group,
        accelerators: u64 = integer("emulated accelerators, one rank each", "", (1, 4096), 1).role(Role::Concurrency),
        batch_size: u64 = integer("samples per batch", "", (1, 1 << 32), 7),
        read_threads: u64 = integer("reader threads per accelerator; 0 reads in the accelerator's own \
            thread", "", (0, 256), 4).role(Role::Concurrency),
        prefetch: u64 = integer("batches that each reader prefetches", "", (1, 1024), 2).role(Role::Concurrency),
        epochs: u64 = integer("number of passes over the data set", "", (1, 10_000), 5),
        steps: u64 = integer("most steps per epoch; 0 for all", "", (0, 1 << 40), 0),
        compute: f64 = number("compute time of an accelerator per batch", "s", (0.0, 3600.0), 0.323),
        runtime: f64 = number("time limit, at the end of a step; 0 for none", "s", (0.0, 1e7), 0.0),
        order: Order = choice("files in sorted order, or a new random order each epoch"),
        parse: Parse = choice("verify each format's checksums, or only read"),
        transfer_size: u64 = integer("size of one read", "B", (4096, 1 << 30), 512 << 10).role(Role::Size),
        read_columns: usize = integer("parquet: number of columns read; 0 for all", "", (0, 10_000), 0),
        direct: bool = flag("bypass the page cache (O_DIRECT)", false),
        cache: Cache = choice("page cache: leave as it is, drop the files first, or fill it"),
        subset: usize = integer("read only this many files; 0 for all", "", (0, 1 << 32), 0),
        barrier: bool = flag("synchronise accelerators after each step", true),
        #[allow(dead_code, reason = "only recorded in the reading")]
        au_pass: f64 = number("accelerator utilisation needed to pass; recorded, not used", "", (0.0, 1.0), 0.9),
        #[allow(dead_code, reason = "only recorded in the reading")]
        workload: String = text("name of the workload; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        accelerator: String = text("name of the emulated accelerator; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        storage: String = text("name of the storage; recorded, not used", ""),
    }
}

impl Kernel for Loader {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("samples", "1")],
        stateful: true,
        ..Declaration::new("training_loader", "accelerator utilisation with this storage and loader", "sample")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let layout = Layout::of(&parameters.dataset);
        let mut notes = Vec::new();
        let ledger = Ledger::new(0.1);
        let source = source(&layout, parameters, &ledger, &mut notes)?;
        let mut steps = source.steps();
        if parameters.steps > 0 {
            steps = steps.min(parameters.steps);
        }
        let cached = prepare(&source, parameters.cache, &mut notes, stop);
        let pace = Pace {
            epochs: parameters.epochs,
            steps,
            batch: source.batch,
            in_flight: (parameters.read_threads * parameters.prefetch).max(1),
            compute_s: parameters.compute,
            runtime_s: parameters.runtime,
            barrier: parameters.barrier,
            // only with a processor for each may the last microseconds of a wait be spent spinning
            spins: source.ranks <= sys::affinity::allowed().len() as u64,
        };
        let outcome = race(&source, &pace, parameters.read_threads, &ledger, stop)?;

        if source.direct_refused.load(Ordering::Relaxed) {
            notes.push(Note {
                code: "direct_refused".into(),
                says: "the filesystem refuses O_DIRECT: the files were read through the page cache".into(),
            });
        }
        if outcome.epochs.iter().flatten().all(|epoch| epoch.steps == 0) {
            notes.push(Note { code: "no_step".into(), says: "no step was run".into() });
        }
        Ok(report(parameters, &source, &pace, &ledger, outcome, cached, notes, stop.is_set()))
    }
}

/// What all threads have done.
#[derive(Default)]
struct Outcome {
    elapsed_s: f64,
    /// Epochs of each rank.
    epochs: Vec<Vec<Epoch>>,
    step: Histogram,
    wait: Histogram,
    batch: Histogram,
    readers: CpuTime,
    accelerators: CpuTime,
    spun_s: f64,
    lost: u64,
    bytes: u64,
    device_bytes: Option<u64>,
}

impl Outcome {
    /// Adds an accelerator, with its worker where it read for itself.
    fn add_accelerator(&mut self, rank: Rank, worker: Option<&Worker<'_>>) {
        self.epochs.push(rank.epochs);
        self.step.merge(&rank.step);
        self.wait.merge(&rank.wait);
        self.accelerators += rank.cpu;
        self.spun_s += rank.spun_ns as f64 / 1e9;
        if let Some(worker) = worker {
            self.add_worker(worker);
        }
    }

    fn add_worker(&mut self, worker: &Worker<'_>) {
        self.batch.merge(&worker.batch);
        self.readers += worker.cpu;
        self.lost += worker.reader.lost;
        self.bytes += worker.reader.bytes;
    }

    fn ended(mut self, begun: u64, read_before: Option<u64>) -> Self {
        self.elapsed_s = (now_ns() - begun) as f64 / 1e9;
        self.device_bytes = device_bytes().zip(read_before).map(|(after, before)| after - before);
        self
    }
}

/// Lists the files and names what is wrong with them.
fn source(layout: &Layout, parameters: &Parameters, ledger: &Ledger, notes: &mut Vec<Note>) -> Result<Source, Error> {
    let (mut files, others) = dataset::list(&layout.folder, layout.format)?;
    let ending = layout.format.word();
    if files.is_empty() {
        let found =
            others.first().map_or(String::new(), |other| format!("; {} is of another workload", other.display()));
        let folder = layout.folder.display();
        return Err(Error::Machine(
            format!("no .{ending} file under {folder}/train{found}: generate the data set first"),
            Some(libc::ENOENT),
        ));
    }
    for other in others.iter().filter(|path| path.extension().is_none_or(|ending| ending != "part")).take(20) {
        ledger.fault("list", 0, format!("{} is no .{ending}: of another workload, not read", other.display()));
    }
    let is_there = |number: u64| {
        let path = layout.path(number);
        files.binary_search(&path).is_ok()
    };
    if layout.files > 0 && (files.len() as u64) < layout.files {
        let lacking = (0..layout.files).find(|&number| !is_there(number)).unwrap_or(0);
        let says = format!(
            "{} is missing: {} of {} files are there",
            layout.path(lacking).display(),
            files.len(),
            layout.files
        );
        ledger.fault("list", libc::ENOENT, says);
    }
    if layout.files > 0 {
        files.truncate(layout.files as usize);
    }
    if parameters.subset > 0 {
        files.truncate(parameters.subset);
    }
    let mean_bytes = mean_size(layout, &files, notes);
    let exact = layout.stdev == 0.0;
    Ok(Source {
        files,
        format: layout.format,
        samples: layout.samples,
        batch: parameters.batch_size,
        ranks: parameters.accelerators,
        shuffled: parameters.order == Order::Shuffled,
        seed: layout.seed.into(),
        full: parameters.parse == Parse::Full,
        direct: parameters.direct,
        transfer: parameters.transfer_size.next_multiple_of(4096),
        columns: parameters.read_columns,
        file_bytes: match (layout.format, exact) {
            (Format::Binary, true) => layout.dimensions().first().map_or(0, |&sides| layout.size(sides).0),
            _ => 0,
        },
        mean_bytes,
        direct_refused: AtomicBool::new(false),
    })
}

/// The mean size of the files; a remark where it is not the workload's: they are someone else's then.
fn mean_size(layout: &Layout, files: &[std::path::PathBuf], notes: &mut Vec<Note>) -> f64 {
    let some = files.iter().step_by(files.len().div_ceil(1024).max(1));
    let found: Vec<f64> =
        some.filter_map(|path| std::fs::metadata(path).ok()).map(|about| about.len() as f64).collect();
    let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
    let nominal = layout.record * if layout.format == Format::Csv { 3.57 } else { 1.0 };
    let expected = nominal * layout.samples as f64;
    // five standard errors of a mean of this many, and a fifth for what the container adds or a format saves
    let error = layout.stdev * layout.samples as f64 / (found.len().max(1) as f64).sqrt() * 5.0;
    if (mean - expected).abs() > error + 0.2 * expected + 4096.0 {
        notes.push(Note {
            code: "other_workload".into(),
            says: format!(
                "the files have {:.3} MB on average but this workload's have {:.3} MB: they belong to another one",
                mean / 1e6,
                expected / 1e6
            ),
        });
    }
    mean
}

/// Empties or fills the page cache, or leaves it; gives the share of the files' bytes that it holds then.
fn prepare(source: &Source, cache: Cache, notes: &mut Vec<Note>, stop: &Stop) -> Option<f64> {
    let every = if cache == Cache::Keep { source.files.len().div_ceil(SAMPLED) } else { 1 };
    let mut buffer = if cache == Cache::Warm { vec![0_u8; 1 << 20] } else { Vec::new() };
    let (mut cached, mut total) = (0_u64, 0_u64);
    for path in source.files.iter().step_by(every) {
        let (file, about) = match std::fs::File::open(path).and_then(|file| file.metadata().map(|about| (file, about)))
        {
            Ok(opened) => opened,
            Err(error) => {
                let says = format!("the page cache may hold what was not looked at: open {}: {error}", path.display());
                notes.push(Note { code: "cache_unknown".into(), says });
                return None;
            }
        };
        match cache {
            Cache::Drop => sys::files::forget(&file),
            // a file that cannot be read is named when it is, in the timed region
            Cache::Warm => while !stop.is_set() && (&file).read(&mut buffer).is_ok_and(|got| got > 0) {},
            Cache::Keep => {}
        }
        cached += sys::files::cached_bytes(&file, about.len())?;
        total += about.len();
    }
    (total > 0).then(|| cached as f64 / total as f64)
}

/// Runs readers and accelerators until the last epoch ends, the time is over or someone asks to stop.
fn race(source: &Source, pace: &Pace, readers: u64, ledger: &Ledger, stop: &Stop) -> Result<Outcome, Error> {
    let ranks: Vec<_> = (0..source.ranks).map(|_| Batches::new(pace.in_flight)).collect();
    let meeting = Meeting::new(source.ranks as usize);
    crate::timing::start::hold_once();
    let begun = now_ns();
    ledger.start(begun);
    let read_before = device_bytes();
    let accelerate = |rank: u64, batches: &Batches| {
        if readers > 0 {
            return (steps::accelerate(pace, batches, &meeting, begun, stop, None), None);
        }
        // without readers each accelerator reads for itself
        let mut worker = Worker::new(source, ledger, rank);
        let mut fetch = |epoch, step| worker.fetch(epoch, step);
        (steps::accelerate(pace, batches, &meeting, begun, stop, Some(&mut fetch)), Some(worker))
    };
    if readers == 0 && ranks.len() == 1 {
        let mut outcome = Outcome::default();
        let (rank, worker) = accelerate(0, &ranks[0]);
        outcome.add_accelerator(rank, worker.as_ref());
        return Ok(outcome.ended(begun, read_before));
    }
    thread::scope(|scope| {
        let (mut reading, mut computing) = (Vec::new(), Vec::new());
        let accelerate = &accelerate;
        let mut start = || -> std::io::Result<()> {
            for (rank, batches) in ranks.iter().enumerate() {
                for reader in 0..readers {
                    let worker = Worker::new(source, ledger, rank as u64);
                    let work = move || worker.run(pace, batches, (reader, readers), stop);
                    reading.push(thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?);
                }
                let work = move || accelerate(rank as u64, batches);
                computing.push(thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)?);
            }
            Ok(())
        };
        if let Err(error) = start() {
            meeting.leave();
            ranks.iter().for_each(Batches::close);
            return Err(Error::machine("start a reading thread; use fewer accelerators", &error));
        }
        let mut outcome = Outcome::default();
        for handle in computing {
            let (rank, worker) = handle.join().map_err(panicked)?;
            outcome.add_accelerator(rank, worker.as_ref());
        }
        outcome = outcome.ended(begun, read_before);
        ranks.iter().for_each(Batches::close);
        for handle in reading {
            outcome.add_worker(&handle.join().map_err(panicked)?);
        }
        Ok(outcome)
    })
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Error {
    Error::Machine("a measuring thread panicked; please report it".into(), None)
}

/// One thread that reads: its files, its figures.
struct Worker<'a> {
    reader: Reader<'a>,
    source: &'a Source,
    ledger: &'a Ledger,
    rank: u64,
    batch: Histogram,
    cpu: CpuTime,
}

impl<'a> Worker<'a> {
    fn new(source: &'a Source, ledger: &'a Ledger, rank: u64) -> Self {
        Self { reader: Reader::new(source), source, ledger, rank, batch: Histogram::new(), cpu: CpuTime::default() }
    }

    /// Reads one batch whole.
    fn fetch(&mut self, epoch: u64, step: u64) {
        let (began, bytes) = (now_ns(), self.reader.bytes);
        let (source, ledger) = (self.source, self.ledger);
        self.reader.batch(self.rank, epoch, step, |trouble| {
            let path = source.files.get(trouble.file as usize).map_or(Path::new("?"), |path| path.as_path());
            ledger.fault(trouble.operation, trouble.errno, format!("{}: {}", path.display(), trouble.says));
        });
        let now = now_ns();
        self.batch.record(now - began);
        ledger.done(now, source.batch, self.reader.bytes - bytes);
    }

    /// Reads every `of`th batch from number `first` on, as far ahead as it may.
    fn run(mut self, pace: &Pace, batches: &Batches, (first, of): (u64, u64), stop: &Stop) -> Self {
        let before = cpu_time::of_this_thread();
        'all: for epoch in 0..pace.epochs {
            let mut at = first;
            while at < pace.steps {
                let batch = epoch * pace.steps + at;
                if !batches.begin(batch, stop) {
                    break 'all;
                }
                self.fetch(epoch, at);
                batches.deliver(batch);
                at += of;
            }
        }
        self.cpu = cpu_time::of_this_thread().since(before);
        self
    }
}

/// Bytes that this process fetched from storage so far: `read_bytes` of `/proc/self/io`.
fn device_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.trim().parse().ok()
}

#[allow(clippy::too_many_arguments, reason = "all there is to report")]
fn report(
    parameters: &Parameters,
    source: &Source,
    pace: &Pace,
    ledger: &Ledger,
    outcome: Outcome,
    cached: Option<f64>,
    notes: Vec<Note>,
    interrupted: bool,
) -> Reading {
    let mut cpu = outcome.readers;
    cpu += outcome.accelerators;
    cpu.user_s = (cpu.user_s - outcome.spun_s).max(0.0);

    let mut details = steps::summary(pace, &outcome.epochs);
    let mut add = |name: &str, value: Value| details.insert(name.into(), value);
    add("accelerators", json!(source.ranks));
    let need = parameters.dataset.record_bytes * source.batch as f64 / pace.compute_s;
    add("need_bytes_s", if pace.compute_s > 0.0 { json!(need) } else { Value::Null });
    add("files", json!(source.files.len()));
    add("dataset_bytes", json!(source.mean_bytes * source.files.len() as f64));
    add("samples_per_epoch", json!(pace.steps * pace.batch * source.ranks));
    add("samples_left_over", json!(source.total() - pace.steps * pace.batch * source.ranks));
    add("lost_samples", json!(outcome.lost));
    add("cached_share_before", json!(cached));
    add(
        "cached_share_by_device",
        json!(outcome.device_bytes.map(|device| (1.0 - device as f64 / outcome.bytes.max(1) as f64).max(0.0))),
    );
    add("reader_cpu_s", json!(outcome.readers.user_s + outcome.readers.system_s));
    add("client_cpu_s_per_gb", json!((cpu.user_s + cpu.system_s) / (outcome.bytes.max(1) as f64 / 1e9)));
    add("spun_s", json!(outcome.spun_s));
    let mut reading = Reading { elapsed_s: outcome.elapsed_s, cpu, notes, details, interrupted, ..Reading::default() };
    let latencies = [("total", &outcome.step), ("wait", &outcome.wait), ("complete", &outcome.batch)];
    ledger.add(&mut reading, "read", &latencies);
    let samples = reading.streams.first().map_or(0, |stream| stream.operations);
    reading.detail("nominal_bytes", (samples as f64 * parameters.dataset.record_bytes) as u64);
    if let Some(bytes) = outcome.device_bytes {
        reading.counters.insert("process_read_bytes".into(), json!(bytes));
    }
    let uneven = (0..source.ranks).map(|rank| source.shard(rank)).map(|(from, to)| to - from);
    if let (Some(least), Some(most)) = (uneven.clone().min(), uneven.max()) {
        if least != most {
            reading.note(
                "uneven_tails",
                format!(
                    "the accelerators share the samples unevenly ({least} to {most}): each epoch ends after {} steps, \
                     with which all are served",
                    pace.steps
                ),
            );
        }
    }
    reading
}
