//! One run of operations on one file: what was asked, made ready, driven by every job, and put together.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{json, Map, Value};

use super::access::Access;
use super::aio::Aio;
use super::asked::{Asked, Told};
use super::counters::{Device, Snapshot};
use super::drive::{drive, Ending, Schedule};
use super::extras::Extras;
use super::mmap::Mmap;
use super::null::Null;
use super::order::{Order, Span};
use super::pool::Pool;
use super::psync::Psync;
use super::raw::{self, Claim, Consent};
use super::record::Record;
use super::refused::{aio_refused, uring_refused};
use super::uring::Uring;
use crate::clock::Clock;
use crate::cpu_time;
use crate::kernel::{Error, Stop};
use crate::reading::{CpuTime, Fault, Note, Reading, Samples, Stream};
use crate::sys::files::{self, Advice};
use crate::sys::memory::{mix, Region};
use crate::team;

/// How operations reach the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `io_uring`.
    Uring,
    /// libaio's system calls.
    Aio,
    /// pread and pwrite.
    Psync,
    /// Copies from and to a mapping.
    Mmap,
    /// Nothing: the loop alone.
    Null,
}

impl Engine {
    /// The engine of the field's name for it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        match name {
            "libaio" => Self::Aio,
            "psync" => Self::Psync,
            "mmap" => Self::Mmap,
            "null" => Self::Null,
            _ => Self::Uring,
        }
    }

    fn synchronous(self) -> bool {
        matches!(self, Self::Psync | Self::Mmap)
    }
}

/// What is asked for.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct Job {
    /// The file.
    pub path: PathBuf,
    /// How to reach it.
    pub engine: Engine,
    /// Share of reads, percent: 100 reads only, 0 writes only.
    pub read_percent: u64,
    /// In random order.
    pub random: bool,
    /// Length of an operation, B.
    pub block: u64,
    /// Operations in flight a thread.
    pub depth: usize,
    /// Threads.
    pub jobs: usize,
    /// Past the page cache.
    pub direct: bool,
    /// Length of the region, B; 0 for all of the file from `offset` on.
    pub size: u64,
    /// Beginning of the region, B.
    pub offset: u64,
    /// Each job covers the whole region, not a part of its own.
    pub share_whole: bool,
    /// Length of the timed region, s; 0 for no limit.
    pub runtime_s: f64,
    /// Goes on for `runtime_s`, pass after pass, and does not end after one.
    pub time_based: bool,
    /// Operations of this first stretch are not counted, s.
    pub ramp_s: f64,
    /// Wait before anything, s.
    pub delay_s: f64,
    /// Decides every random choice.
    pub seed: u64,
    /// Length of a sampling interval, s.
    pub interval_s: f64,
    /// Processors to run on; empty for any.
    pub cpus: Vec<u64>,
    /// Hand over so many operations a call of `io_uring`; 0 for [`Job::submit_at_most`] to decide.
    pub batch_submit: usize,
    /// Wait for so many completions at a time; 0 for [`Job::reap_at_least`] to decide.
    pub batch_complete_min: usize,
    /// Make durable what was written, inside the timed region.
    pub end_fsync: bool,
    /// Drop the region from the page cache first.
    pub drop_cache: bool,
    /// What was typed to have a raw device written.
    pub consent: Consent,
    /// What is asked beyond blocks at full speed.
    pub asked: Asked,
}

/// A job made ready: files open, region known.
struct Ready {
    /// Holds a raw device that is written against everybody else, for as long as the run lasts.
    _claim: Option<Claim>,
    files: Vec<File>,
    span: Span,
    device: Option<Device>,
    notes: Vec<Note>,
    details: Map<String, Value>,
}

/// What one member of the team brings home.
struct Outcome {
    record: Record,
    ending: Ending,
    cpu: CpuTime,
    calls: u64,
    touched: u64,
    facts: Map<String, Value>,
    counters: Option<Map<String, Value>>,
    fill_s: f64,
    extras: Extras,
}

impl Job {
    fn reads(&self) -> bool {
        self.read_percent > 0
    }

    fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// Runs it.
    ///
    /// # Errors
    /// Anything that can be known before the timed region; faults inside it are counted in the reading.
    pub fn run(&self, stop: &Stop) -> Result<Reading, Error> {
        self.check()?;
        let mut ready = if self.engine == Engine::Null { self.nothing() } else { self.make_ready()? };
        let clock = Clock::best();
        let watch = clock.watch();
        let start = OnceLock::new();
        let failed = AtomicBool::new(false);
        let outcomes = team::run(self.jobs, &self.cpus, |member| {
            self.member(member, &ready, clock, &start, &failed, stop)
                .inspect_err(|_| failed.store(true, Ordering::Relaxed))
        })?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let Some(share) = watch.disagreement() {
            ready.notes.push(note(
                "clock_disagrees",
                format!(
                    "the processor's counter ran {:+.2}% against the system's clock, which is used from now on",
                    share * 100.0
                ),
            ));
        }
        if let (Some(file), false) = (ready.files.first(), self.engine == Engine::Null) {
            let length = ready.span.blocks * ready.span.block;
            ready
                .details
                .insert("cached_share_after".into(), json!(files::cached_share(file, ready.span.offset, length)));
        }
        ready.details.insert("clock".into(), json!(clock.name()));
        Ok(self.put_together(outcomes, ready))
    }

    /// How many completions to wait for at a time: one in 16 of the depth unless asked otherwise.
    ///
    /// Waiting for k of n keeps a slot idle for (k - 1) / 2 completions on average, so that on a device
    /// that is not saturated the rate falls by (k - 1) / (2 n), here at most 3%; on one that is saturated,
    /// nothing is lost. What is won is a wake-up and a system call shared by k operations.
    fn reap_at_least(&self) -> usize {
        if self.batch_complete_min > 0 {
            self.batch_complete_min.min(self.depth)
        } else {
            (self.depth / 16).max(1)
        }
    }

    /// How many operations one call of `io_uring` hands over, unless asked otherwise.
    ///
    /// From three on, the kernel holds a call's requests back until all are prepared, and rings the device's
    /// doorbell once. That saves CPU time, but the device starts later: a virtual disk at depth 32 gave 127 k
    /// reads/s so, and 150 to 160 k by ones and twos, as fio has them. Out of the page cache nothing waits.
    fn submit_at_most(&self) -> usize {
        match (self.batch_submit, self.direct && self.batch_complete_min == 0) {
            (0, true) => 2,
            (0, false) => self.depth,
            (asked, _) => asked,
        }
    }

    fn check(&self) -> Result<(), Error> {
        if self.engine.synchronous() && self.depth > 1 {
            return Err(Error::usage(format!(
                "this engine is synchronous and keeps 1 operation in flight, not iodepth {}: use io_uring (or libaio), or numjobs {}",
                self.depth, self.depth
            )));
        }
        if self.time_based && self.runtime_s <= 0.0 {
            return Err(Error::usage("a time_based run needs a runtime above 0 s"));
        }
        self.asked.check(self.random, self.share_whole && self.jobs > 1, self.block)?;
        let needed = Pool::bytes(self.depth, self.block as usize, self.writes(), self.jobs) as u128 * self.jobs as u128;
        let limit = available_memory().map_or(u128::MAX, |bytes| u128::from(bytes) * 4 / 5);
        if needed > limit {
            return Err(Error::usage(format!(
                "bs x iodepth x numjobs needs {} MiB of buffers and {} MiB of memory may be used: lower one of them",
                needed >> 20,
                limit >> 20
            )));
        }
        Ok(())
    }

    /// For the engine that touches no file.
    fn nothing(&self) -> Ready {
        let span = Span { offset: 0, blocks: (self.size / self.block).max(1), block: self.block };
        Ready { _claim: None, files: Vec::new(), span, device: None, notes: Vec::new(), details: Map::new() }
    }

    fn make_ready(&self) -> Result<Ready, Error> {
        let mut notes = Vec::new();
        let mut details = Map::new();
        let raw = self.writes() && raw::is_block_device(&self.path);
        let claim = if raw { Some(raw::claim(&self.path, &self.consent)?) } else { None };
        let file = self.open(claim.as_ref(), false)?;
        let metadata = file.metadata().map_err(|e| Error::machine(format!("stat {}", self.path.display()), &e))?;
        let kind = metadata.file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_file() {
            return Err(Error::usage(format!("{} is no regular file and no block device", self.path.display())));
        }
        let length = if is_device { files::device_size(&file).unwrap_or(0) } else { metadata.len() };
        let size = if self.size == 0 { length.saturating_sub(self.offset) } else { self.size };
        if self.offset.checked_add(size).is_none_or(|end| end > length) || size == 0 {
            return Err(Error::usage(format!(
                "{} has {length} B, but offset {} + size {size} needs more: lay the file out first, or ask for less",
                self.path.display(),
                self.offset
            )));
        }
        let span = Span { offset: self.offset, blocks: size / self.block, block: self.block };
        let least = if self.share_whole { 1 } else { self.jobs as u64 };
        if span.blocks < least {
            return Err(Error::usage(format!(
                "a region of {size} B holds {} blocks of {} B, and {least} are needed: use a larger size or a smaller bs{}",
                span.blocks,
                self.block,
                if self.share_whole { "" } else { ", or share=whole" }
            )));
        }
        if self.block > files::LARGEST_CALL && self.engine != Engine::Mmap {
            notes.push(note(
                "block_split",
                format!(
                    "a block of {} B goes in {} system calls: one carries {} B at most",
                    self.block,
                    self.block.div_ceil(files::LARGEST_CALL),
                    files::LARGEST_CALL
                ),
            ));
        }
        let (covered_from, covered) = (span.offset, span.blocks * span.block);
        if !is_device {
            let found = files::extents(&file, covered_from, covered);
            details.insert("extent_written_bytes".into(), json!(found.map(|f| f.written)));
            details.insert("extent_unwritten_bytes".into(), json!(found.map(|f| f.unwritten)));
            details.insert("extent_hole_bytes".into(), json!(found.map(|f| f.hole)));
            details.insert("extent_encoded_bytes".into(), json!(found.map(|f| f.encoded)));
        }
        let mut direct = self.direct;
        if direct {
            if let Some(why) = self.direct_refused(&file, claim.as_ref(), span) {
                direct = false;
                notes.push(note("direct_refused", format!("{why}; the page cache is in the way of every figure here")));
            }
        }
        details.insert("direct_used".into(), json!(direct));
        let mut all = Vec::with_capacity(self.jobs);
        for _ in 0..self.jobs {
            // A file description of its own for each job: it holds the state of the read-ahead.
            let own = self.open(claim.as_ref(), direct)?;
            if !direct {
                let advice = if self.random { Advice::Random } else { Advice::Sequential };
                files::advise(&own, covered_from, covered, advice);
            }
            all.push(own);
        }
        if self.drop_cache {
            files::advise(&file, covered_from, covered, Advice::DropCache);
        }
        details.insert("cached_share_before".into(), json!(files::cached_share(&file, covered_from, covered)));
        let device = Device::of(&metadata, is_device);
        self.asked.check_polling(self.engine == Engine::Uring, direct, device.as_ref())?;
        Ok(Ready { _claim: claim, files: all, span, device, notes, details })
    }

    /// Opens the file as this job needs it; a device for writing by its claim alone.
    fn open(&self, claim: Option<&Claim>, direct: bool) -> Result<File, Error> {
        if let Some(claim) = claim {
            return claim.open(&self.path, direct);
        }
        let file = open(&self.path, self.writes(), direct)?;
        // The path may lead elsewhere than a moment ago.
        if self.writes() && file.metadata().is_ok_and(|now| now.file_type().is_block_device()) {
            return Err(Error::usage(format!("{} became a block device while it was opened", self.path.display())));
        }
        Ok(file)
    }

    /// Why the file cannot be read directly in these blocks; none if it can.
    fn direct_refused(&self, buffered: &File, claim: Option<&Claim>, span: Span) -> Option<String> {
        if self.engine == Engine::Mmap {
            return Some("a mapping always goes through the page cache".into());
        }
        if files::in_memory_only(buffered) {
            return Some("this filesystem lives in memory and has no device to go to".into());
        }
        let direct = match self.open(claim, true) {
            Ok(file) => file,
            Err(error) => return Some(format!("O_DIRECT was refused ({error})")),
        };
        // A read of one block shows whether its alignment will do; a longer one adds nothing.
        let block = self.asked.shortest(self.block);
        let length = if block <= 1 << 20 { block as usize } else { 4096 + block as usize % 4096 };
        let probe = Region::new(length).ok()?;
        let answer = files::read_at(&direct, &probe, 0, length, span.offset);
        (answer == -i64::from(libc::EINVAL))
            .then(|| format!("blocks of {block} B at offset {} do not fit the device's for O_DIRECT", span.offset))
    }

    /// One member's part: set up, wait for all, run, bring home.
    fn member(
        &self,
        member: &team::Member<'_>,
        ready: &Ready,
        clock: Clock,
        start: &OnceLock<u64>,
        failed: &AtomicBool,
        stop: &Stop,
    ) -> Result<Outcome, Error> {
        let seed = mix(self.seed ^ mix(member.number as u64));
        let span = if self.share_whole { ready.span } else { ready.span.part(member.number as u64, self.jobs as u64) };
        let filling = clock.now();
        let pool = Pool::new(self.depth, self.block as usize, self.writes(), self.jobs, self.asked.huge, seed);
        let fill_s = clock.now().saturating_sub(filling) as f64 / 1e9;
        let result = pool.map_err(|e| Error::machine("map the buffers", &e)).and_then(|pool| {
            let go = Go { job: self, ready, clock, start, failed, stop, member, span, seed, pool: &pool };
            let file = ready.files.get(member.number);
            match (self.engine, file) {
                (Engine::Uring, Some(file)) => go.with(
                    Uring::new(file, &pool, self.submit_at_most(), self.asked.hipri).map_err(|e| uring_refused(&e)),
                ),
                (Engine::Aio, Some(file)) => go.with(Aio::new(file, &pool).map_err(|e| aio_refused(&e))),
                (Engine::Psync, Some(file)) => go.with(Ok(Psync::new(file, &pool))),
                (Engine::Mmap, Some(file)) => go.with(
                    Mmap::new(file, &pool, span, self.writes(), self.random)
                        .map_err(|e| Error::machine(format!("map {}", self.path.display()), &e)),
                ),
                (Engine::Null, _) | (_, None) => go.with(Ok(Null::new(self.depth))),
            }
        });
        if result.is_err() {
            failed.store(true, Ordering::Relaxed);
            member.wait_for_start(); // does nothing if this member was there before
        }
        result.map(|outcome| Outcome { fill_s, ..outcome })
    }

    fn put_together(&self, outcomes: Vec<Outcome>, ready: Ready) -> Reading {
        let Ready { span, mut notes, mut details, .. } = ready;
        let mut reading = Reading { concurrency_asked: (self.depth * self.jobs) as f64, ..Reading::default() };
        let mut all: Option<Record> = None;
        let (mut calls, mut touched, mut fill_s) = (0_u64, 0_u64, 0.0_f64);
        let mut told = Told::default();
        let varied = !self.asked.lengths.is_empty();
        for outcome in outcomes {
            told.add(outcome.extras);
            reading.cpu += outcome.cpu;
            reading.interrupted |= outcome.ending == Ending::Stopped;
            calls += outcome.calls;
            touched += outcome.touched;
            fill_s = fill_s.max(outcome.fill_s);
            if let Some(counters) = outcome.counters {
                reading.counters = counters;
            }
            details.extend(outcome.facts);
            if outcome.ending == Ending::Faults && !notes.iter().any(|note| note.code == "faults_ended_run") {
                notes.push(note("faults_ended_run", "so many operations failed in a row that the run was ended early"));
            }
            match &mut all {
                Some(all) => all.merge(outcome.record),
                None => all = Some(outcome.record),
            }
        }
        let Some(record) = all else { return reading };
        reading.elapsed_s = (record.ended_ns - record.began_ns) as f64 / 1e9;
        reading.samples = Samples { interval_s: record.interval_ns as f64 / 1e9, ..Samples::default() };
        let mut in_flight_ns = 0.0;
        for (name, asked, direction) in
            [("read", self.reads(), &record.directions[0]), ("write", self.writes(), &record.directions[1])]
        {
            if !asked {
                continue;
            }
            let operations = direction.total.count();
            in_flight_ns += direction.total.mean() * operations as f64;
            let bytes = if varied { direction.bytes } else { operations * self.block };
            let mut stream = Stream { name: name.into(), operations, bytes, ..Stream::default() };
            stream.add_latency("submit", &direction.submit);
            stream.add_latency("complete", &direction.complete);
            stream.add_latency("total", &direction.total);
            reading.streams.push(stream);
            reading.samples.bytes.push(if varied {
                direction.bytes_progress.clone()
            } else {
                direction.progress.iter().map(|count| count * self.block).collect()
            });
            reading.samples.operations.push(direction.progress.clone());
        }
        for fault in &record.faults {
            reading.faults.push(Fault {
                operation: if fault.write { "write" } else { "read" }.into(),
                errno: fault.errno,
                says: if fault.errno == 0 {
                    "the transfer was cut short".into()
                } else {
                    io::Error::from_raw_os_error(fault.errno).to_string()
                },
                count: fault.count,
            });
        }
        told.write(&mut details, &mut reading.faults);
        notes.extend(self.asked.tell_rate(&mut reading, &mut details));
        if self.engine != Engine::Null {
            details.insert("system_calls".into(), json!(calls));
            details.insert("batch_submit".into(), json!(self.submit_at_most()));
            details.insert("batch_complete_min".into(), json!(self.reap_at_least()));
            details.insert("region_bytes".into(), json!(span.blocks * span.block));
            let most = if self.share_whole { u64::MAX } else { span.blocks * span.block };
            details.insert("touched_bytes".into(), json!(touched.min(most)));
        }
        details.insert("in_flight_mean".into(), json!(in_flight_ns / 1e9 / reading.elapsed_s.max(1e-9)));
        details.insert("fill_s".into(), json!(fill_s));
        reading.notes = notes;
        reading.details = details;
        reading
    }
}

/// What a member needs to run once its engine stands.
struct Go<'a> {
    job: &'a Job,
    ready: &'a Ready,
    clock: Clock,
    start: &'a OnceLock<u64>,
    failed: &'a AtomicBool,
    stop: &'a Stop,
    member: &'a team::Member<'a>,
    span: Span,
    seed: u64,
    pool: &'a Pool,
}

impl Go<'_> {
    fn with<A: Access>(self, access: Result<A, Error>) -> Result<Outcome, Error> {
        let mut access = access?;
        let job = self.job;
        let endless = job.asked.endless(job.time_based);
        let mut order = Order::new(self.span, job.random, job.read_percent, endless, self.seed);
        let mut record = Record::new((job.interval_s * 1e9) as u64);
        let mut extras =
            job.asked.extras(self.span, job.jobs as u64, job.random, job.time_based, !job.writes(), self.seed);
        if !job.asked.lengths.is_empty() {
            record.weigh();
        }
        self.member.wait_for_start();
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::Machine("another job could not be set up".into(), None));
        }
        let start_ns = *self.start.get_or_init(|| self.clock.now());
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let begin_ns = start_ns + ns(job.delay_s);
        let mut stopped = false;
        while self.clock.now() < begin_ns && !stopped {
            std::thread::sleep(Duration::from_nanos((begin_ns.saturating_sub(self.clock.now())).min(10_000_000)));
            stopped = self.stop.is_set();
        }
        let count_from_ns = if job.ramp_s > 0.0 { begin_ns + ns(job.ramp_s) } else { 0 };
        let schedule = Schedule {
            clock: self.clock,
            count_from_ns,
            runtime_ns: (job.runtime_s > 0.0).then(|| ns(job.runtime_s)),
            reap_at_least: job.reap_at_least(),
            sync_at_end: job.end_fsync && job.writes(),
        };
        let observes = self.member.number == 0;
        let (mut cpu, mut calls) = (CpuTime::default(), 0);
        let mut before = Snapshot::default();
        let mut counters = None;
        let edge = |access: &A, begins: bool| {
            if begins {
                if observes {
                    before = Snapshot::take(self.ready.device.as_ref());
                }
                calls = access.calls();
                cpu = cpu_time::of_this_thread();
            } else {
                cpu = cpu_time::of_this_thread().since(cpu);
                calls = access.calls() - calls;
                if observes {
                    counters = Some(Snapshot::take(self.ready.device.as_ref()).since(&before));
                }
            }
        };
        let (order, record_) = (&mut order, &mut record);
        let ending = if extras.any() {
            drive::<A, true>(&mut access, order, &mut extras, self.pool, &schedule, self.stop, record_, edge)
        } else {
            drive::<A, false>(&mut access, order, &mut extras, self.pool, &schedule, self.stop, record_, edge)
        };
        if let (Some(verify), Some(file), true) =
            (&mut extras.verify, self.ready.files.get(self.member.number), job.writes())
        {
            access
                .sync()
                .and_then(|()| verify.read_back(file, &|| self.stop.is_set()))
                .map_err(|error| Error::machine("read back what was written", &error))?;
        }
        let operations = record.directions.iter().map(|direction| direction.total.count()).sum::<u64>();
        let mut facts = Map::new();
        access.facts(&mut facts);
        Ok(Outcome {
            touched: operations.min(self.span.blocks) * self.span.block,
            record,
            ending,
            cpu,
            calls,
            facts,
            counters,
            fill_s: 0.0,
            extras,
        })
    }
}

fn open(path: &Path, write: bool, direct: bool) -> Result<File, Error> {
    files::open(path, write, direct).map_err(|error| {
        let mend = match error.kind() {
            io::ErrorKind::NotFound => ": lay the file out first",
            io::ErrorKind::PermissionDenied => ": choose a path that you may use",
            _ => "",
        };
        Error::machine(format!("open {}{}{mend}", path.display(), if write { " for writing" } else { "" }), &error)
    })
}

/// `MemAvailable` of `/proc/meminfo`, B.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

fn note(code: &str, says: impl Into<String>) -> Note {
    Note { code: code.into(), says: says.into() }
}
