//! Writes a training data set: in parallel, resumable, of incompressible content, never beyond the room there is.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::timing::rng::mix;

use crate::contract::declare::{integer, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::reading::{CpuTime, Reading};
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::layout::Left;
use crate::object::place::{Line, Place};
use crate::safe_files::Folder;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::timing::team;
use crate::training::dataset::{DatasetParameters, Format, Layout};
use crate::training::ledger::Ledger;
use crate::training::sink::{Halt, Sink};
use crate::{parameters, sys};

/// Room that always stays free: a filesystem filled to the brim serves no one.
const SPARE: u64 = 256 << 20;

/// The kernel `training_generate`.
pub struct Generate;

parameters! {
    /// What `training_generate` takes.
    pub struct Parameters {
        dataset: DatasetParameters = Group,
        threads: usize = integer("files written in parallel; 0 for one per CPU", "", (0, 1024), 0).workers(),
    }
}

impl Kernel for Generate {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("files", "1")],
        writes: Writes::Folder,
        stateful: true,
        ..Declaration::new("training_generate", "writing a training data set, file by file, each synced", "file")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let layout = Layout::of(&parameters.dataset);
        check_files(&layout)?;
        let place = Place::of(&layout.folder, &parameters.dataset.reach)?;
        if place.is_none() {
            possible(&layout)?;
        }
        let dimensions = layout.dimensions();
        countable(&layout, &dimensions)?;
        let (target, missing, kept_bytes) = Target::of(place, &layout, &dimensions, stop)?;
        let threads = match parameters.threads {
            0 => sys::affinity::allowed().len().max(1),
            given => given,
        }
        .min(missing.len().max(1));
        let (ledger, next, full) = (Ledger::new(0.1), AtomicU64::new(0), Stop::new());
        crate::timing::start::hold_once();
        let start = now_ns();
        ledger.start(start);
        let work = |member: &team::Member<'_>| {
            let (mut buffer, mut histogram, before) = (Vec::new(), Histogram::new(), cpu_time::of_this_thread());
            let mut line = target.line(member.number as u64);
            while !full.is_set() && !stop.is_set() {
                let Some(&file) = missing.get(next.fetch_add(1, Ordering::Relaxed) as usize) else { break };
                let began = now_ns();
                match target.write(&layout, file, dimensions[file as usize], (&mut buffer, &mut line), stop) {
                    Ok(bytes) => {
                        let now = now_ns();
                        histogram.record(now - began);
                        ledger.done(now, 1, bytes);
                    }
                    Err(_) if stop.is_set() => break,
                    Err(halt) => {
                        name_fault(&layout, file, halt, &ledger);
                        full.set();
                    }
                }
            }
            (histogram, cpu_time::of_this_thread().since(before))
        };
        let members = team::run(threads, &[], work)?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;

        let mut reading = Reading { interrupted: stop.is_set(), ..report(&ledger, &members, elapsed_s) };
        let kept = layout.files - missing.len() as u64;
        if kept > 0 {
            reading.note("kept", format!("{kept} of {} files were already complete and were kept", layout.files));
        }
        reading.detail("kept_files", kept);
        let (files, bytes) = reading.streams.first().map_or((0, 0), |stream| (stream.operations, stream.bytes));
        reading.detail("dataset_bytes", kept_bytes + bytes);
        reading.detail("written_files", files);
        if let Target::Store(_, _, left) = &target {
            left.describe(&mut reading);
        }
        Ok(reading)
    }
}

/// Names what kept a file from being written.
fn name_fault(layout: &Layout, file: u64, halt: Halt, ledger: &Ledger) {
    let name = layout.path(file).display().to_string();
    match halt {
        Halt::Stopped => {}
        Halt::Failed(failure) => ledger.fault("write", 0, format!("{name}: {}", failure.line())),
        Halt::Refused(error) => {
            let says = Error::filesystem(name, &layout.folder, &error).to_string();
            ledger.fault("write", error.raw_os_error().unwrap_or(0), says);
        }
    }
}

/// Where the files go.
enum Target {
    /// A folder.
    Folder(Folder),
    /// Objects of a store: their keys, and what was found there of earlier runs.
    Store(Place, Keys, Left),
}

impl Target {
    /// The target of a layout, with the files that are still to be written there and the bytes of the others.
    fn of(
        place: Option<Place>,
        layout: &Layout,
        dimensions: &[(u32, u32)],
        stop: &Stop,
    ) -> Result<(Self, Vec<u64>, u64), Error> {
        if let Some(place) = place {
            return Ok((Self::of_store(place, layout, stop)?, (0..layout.files).collect(), 0));
        }
        let (folder, missing, kept_bytes) = plan(layout, dimensions)?;
        let needed: u64 = missing.iter().map(|&file| layout.size(dimensions[file as usize]).0).sum();
        room(&layout.folder, needed, layout)?;
        Error::without_inodes("the data set", &layout.folder, missing.len() as u64)?;
        Ok((Self::Folder(folder), missing, kept_bytes))
    }

    /// The objects of a layout, in a folder of the bucket that is marked as this run's.
    fn of_store(place: Place, layout: &Layout, stop: &Stop) -> Result<Self, Error> {
        let left = place.claim(stop)?;
        let key = |file| format!("{}{}", place.prefix, layout.name(file).display());
        let keys = Keys::listed(&(0..layout.files).map(key).collect::<Vec<_>>());
        Ok(Self::Store(place, keys, left))
    }

    /// A thread's connection, where it needs one.
    fn line(&self, number: u64) -> Option<Line> {
        match self {
            Self::Folder(_) => None,
            Self::Store(place, ..) => Some(place.line(number)),
        }
    }

    /// Writes one file; gives its bytes.
    fn write(
        &self,
        layout: &Layout,
        file: u64,
        dimensions: (u32, u32),
        (buffer, line): (&mut Vec<u8>, &mut Option<Line>),
        stop: &Stop,
    ) -> Result<u64, Halt> {
        let content = mix((u64::from(layout.seed) << 32) ^ mix(file));
        let mut sink = match (self, line) {
            (Self::Folder(folder), _) => Sink::create(folder, &layout.name(file), buffer, content, stop)?,
            (Self::Store(_, keys, _), Some(line)) => Sink::upload(line, (keys, file), buffer, content, stop),
            (Self::Store(..), None) => return Err(Halt::Failed(Failure::Unreachable)),
        };
        layout.write(&mut sink, dimensions)?;
        sink.finish()
    }
}

/// What all threads wrote; each has a histogram of its files and its CPU time.
fn report(ledger: &Ledger, members: &[(Histogram, CpuTime)], elapsed_s: f64) -> Reading {
    let mut latency = Histogram::new();
    let mut reading = Reading { elapsed_s, concurrency_requested: members.len() as f64, ..Reading::default() };
    for (histogram, spent) in members {
        latency.merge(histogram);
        reading.cpu += *spent;
    }
    ledger.add(&mut reading, "write", &[("total", &latency)]);
    reading
}

/// Refuses a data set without bytes, and files outside of its folder.
fn check_files(layout: &Layout) -> Result<(), Error> {
    if layout.record < 1.0 || layout.files == 0 {
        return Err(Error::usage("a data set needs at least one file, and samples of at least one byte"));
    }
    if layout.prefix.contains('/') {
        return Err(Error::usage(format!("the prefix {} must be a plain name, without /", layout.prefix)));
    }
    Ok(())
}

/// The data folder, which files are still to be written there, and the bytes of those that are whole.
fn plan(layout: &Layout, dimensions: &[(u32, u32)]) -> Result<(Folder, Vec<u64>, u64), Error> {
    let failed = |name: &Path| {
        let doing = format!("create {}", layout.folder.join(name).display());
        let folder = layout.folder.clone();
        move |error: std::io::Error| Error::filesystem(doing, &folder, &error)
    };
    let (whole, is_new) = Folder::for_files(&layout.folder).map_err(failed(Path::new("")))?;
    if is_new {
        whole.mark();
    }
    let mut folders = vec![Path::new("train").to_path_buf()];
    if layout.subfolders > 1 {
        folders.extend((0..layout.subfolders).filter_map(|at| layout.name(at).parent().map(Path::to_path_buf)));
    }
    // `valid` stays empty: DLIO refuses a data folder without it
    for folder in folders.iter().map(std::path::PathBuf::as_path).chain([Path::new("valid")]) {
        whole.folder(folder).map_err(failed(folder))?;
    }
    let (mut missing, mut kept) = (Vec::new(), 0);
    for file in 0..layout.files {
        let (size, exact) = layout.size(dimensions[file as usize]);
        match std::fs::metadata(layout.path(file)) {
            // a file gets its name only when it is whole
            Ok(found) if found.is_file() && (found.len() == size || !exact) => kept += found.len(),
            Ok(found) => {
                return Err(Error::Machine(
                    format!(
                        "{} has {} bytes where this data set has {size}: it belongs to another data set; remove it \
                        or use another folder",
                        layout.path(file).display(),
                        found.len()
                    ),
                    Some(libc::EEXIST),
                ))
            }
            Err(_) => missing.push(file),
        }
    }
    Ok((whole, missing, kept))
}

/// Refuses at once what no filesystem of this size could ever hold: its files are too many to even count.
fn possible(layout: &Layout) -> Result<(), Error> {
    let nominal = layout.files as f64 * layout.samples as f64 * layout.record;
    let there = layout.folder.ancestors().find(|folder| folder.is_dir());
    let Some((size, free)) = there.and_then(sys::filesystem::size_and_free_bytes) else { return Ok(()) };
    // images and tables may come out somewhat smaller than their nominal size
    if nominal * 0.8 <= size as f64 {
        return Ok(());
    }
    let fits = (free as f64 * 0.95 / layout.record) as u64;
    Err(Error::Machine(
        format!(
            "the data set needs {:.1} GB more and {} has {:.1} GB free: use a path with more space, or at most \
            {fits} samples",
            nominal / 1e9,
            layout.folder.display(),
            free as f64 / 1e9,
        ),
        Some(libc::ENOSPC),
    ))
}

/// Refuses files whose length, or all of whose together, no file offset can count.
fn countable(layout: &Layout, dimensions: &[(u32, u32)]) -> Result<(), Error> {
    let of = |&(rows, columns): &(u32, u32)| match layout.format {
        Format::Parquet => layout.record * layout.samples as f64,
        _ => f64::from(rows) * f64::from(columns) * layout.samples as f64,
    };
    let all: f64 = dimensions.iter().map(of).sum();
    // What a format adds is less than three times the samples' bytes, or a few hundred bytes a file and a sample.
    let most = 4.0 * all + 1024.0 * layout.files as f64 * (layout.samples as f64 + 1.0);
    if most <= i64::MAX as f64 {
        return Ok(());
    }
    Err(Error::usage(format!(
        "the data set would have {all:.3e} bytes, more than a file system can count: use smaller record_bytes, \
        record_bytes_stdev, samples_per_file or files"
    )))
}

fn room(folder: &Path, needed: u64, layout: &Layout) -> Result<(), Error> {
    let free = sys::filesystem::free_bytes(folder)
        .map_err(|error| Error::machine(format!("ask {} for its room", folder.display()), &error))?;
    if needed + SPARE.min(needed / 20) <= free {
        return Ok(());
    }
    let fits = (layout.files as f64 * free as f64 / needed as f64 * 0.95) as u64;
    Err(Error::Machine(
        format!(
            "the data set needs {:.1} GB more and {} has {:.1} GB free: use a path with more space, or at most {} \
            samples",
            needed as f64 / 1e9,
            folder.display(),
            free as f64 / 1e9,
            fits * layout.samples,
        ),
        Some(libc::ENOSPC),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::scratch::Scratch;

    #[test]
    fn sizes_beyond_any_file_are_refused_in_one_line() {
        let scratch = Scratch::new("generate-extremes");
        for format in ["npz", "npy", "tfrecord", "hdf5", "jpeg", "png", "csv", "bin", "parquet"] {
            for (record, stdev, samples) in [(1.0, 1e12, 1_u64), (4.0, 1e12, 3), (1.0, 1e12, 1 << 40)] {
                let folder = scratch.path(&format!("{format}-{record}-{samples}"));
                let given = json!({"path": folder, "format": format, "files": 4, "samples_per_file": samples,
                    "record_bytes": record, "record_bytes_stdev": stdev, "columns": 4, "row_group": 10});
                let refused = crate::run("training_generate", &given, &Stop::new());
                // A table's columns have no spread: it is as large as its nominal size.
                if format == "parquet" && samples < 1 << 40 {
                    assert!(refused.is_ok(), "{refused:?}");
                    continue;
                }
                let says = refused.unwrap_err().to_string();
                assert!(!says.contains('\n') && says.contains("use "), "{format} {samples}: {says}");
                assert!(!folder.exists(), "{format} {samples}");
            }
        }
    }
}
