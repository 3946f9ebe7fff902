//! Feeds emulated accelerators from a data set on disk, as a training job's loader does, and times each step.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use serde_json::{json, Value};

use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{CpuTime, Note, Reading};
use crate::object::line_totals::LineTotals;
use crate::object::paths::Flow;
use crate::sys;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::training::batches::{Batches, Meeting};
use crate::training::dataset::Layout;
use crate::training::ledger::Ledger;
use crate::training::source::{Reader, Source};
use crate::training::steps::{self, Epoch, Pace, Rank};

mod choices;
mod data;

pub use choices::Parameters;
use data::{prepare, source};

/// Threads need little: readers keep their buffers on the heap.
const STACK: usize = 256 << 10;

/// The kernel `training_loader`.
pub struct Loader;

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
        let source = source(&layout, parameters, &ledger, &mut notes, stop)?;
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

        if source.files.direct_refused.load(Ordering::Relaxed) {
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
    lines: LineTotals,
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
        self.bytes += worker.reader.access.bytes;
        if let Some(line) = &worker.reader.access.line {
            self.lines.add(line);
        }
    }

    fn ended(mut self, begun: u64, read_before: Option<u64>) -> Self {
        self.elapsed_s = (now_ns() - begun) as f64 / 1e9;
        self.device_bytes = device_bytes().zip(read_before).map(|(after, before)| after - before);
        self
    }
}

/// Runs readers and accelerators until the last epoch ends, the time is over or someone asks to stop.
fn race(source: &Source, pace: &Pace, readers: u64, ledger: &Ledger, stop: &Stop) -> Result<Outcome, Error> {
    let ranks: Vec<_> = (0..source.ranks).map(|_| Batches::new(pace.in_flight)).collect();
    let meeting = Meeting::new(source.ranks as usize);
    crate::timing::start::hold_once();
    let begun = now_ns();
    ledger.start(begun);
    let read_before = if source.files.objects.is_some() { None } else { device_bytes() };
    let accelerate = |rank: u64, batches: &Batches| {
        if readers > 0 {
            return (steps::accelerate(pace, batches, &meeting, begun, stop, None), None);
        }
        // without readers each accelerator reads for itself
        let mut worker = Worker::new(source, ledger, (rank, rank), stop);
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
                    let number = rank as u64 * readers + reader;
                    let worker = Worker::new(source, ledger, (rank as u64, number), stop);
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
    /// One of an accelerator's, by the accelerator's number and its own.
    fn new(source: &'a Source, ledger: &'a Ledger, (rank, number): (u64, u64), stop: &'a Stop) -> Self {
        Self {
            reader: Reader::new(source, number, stop),
            source,
            ledger,
            rank,
            batch: Histogram::new(),
            cpu: CpuTime::default(),
        }
    }

    /// Reads one batch whole; false where the storage stopped answering.
    fn fetch(&mut self, epoch: u64, step: u64) -> bool {
        let (began, bytes) = (now_ns(), self.reader.access.bytes);
        let (source, ledger) = (self.source, self.ledger);
        let answers = self.reader.batch(self.rank, epoch, step, |trouble| {
            let path = source.files.paths.get(trouble.file as usize).map_or(Path::new("?"), |path| path.as_path());
            ledger.fault(trouble.operation, trouble.errno, format!("{}: {}", path.display(), trouble.says));
        });
        let now = now_ns();
        self.batch.record(now - began);
        ledger.done(now, source.batch, self.reader.access.bytes - bytes);
        answers
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
                if !self.fetch(epoch, at) {
                    batches.close();
                    break 'all;
                }
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
    add("files", json!(source.files.paths.len()));
    add("dataset_bytes", json!(source.mean_bytes * source.files.paths.len() as f64));
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
    if let Some(objects) = &source.files.objects {
        let threads = source.ranks * parameters.read_threads.max(1);
        outcome.lines.describe(&objects.place, "requests", threads as usize, Flow::Down, &mut reading);
    }
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
