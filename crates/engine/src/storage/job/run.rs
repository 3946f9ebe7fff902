//! One run of operations on one file: what was asked, made ready, driven by every job, and put together.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{json, Map};

use super::options::{Asked, Part};
use super::outcome::Outcome;
use super::prepare::Ready;
use crate::clock::Clock;
use crate::cpu_time;
use crate::kernel::{Error, Stop};
use crate::reading::{CpuTime, Note, Reading};
use crate::storage::data::buffers::Pool;
use crate::storage::data::file_set::Set;
use crate::storage::integrity::journal::Journal;
use crate::storage::integrity::verify;
use crate::storage::io::access::Access;
use crate::storage::io::aio::Aio;
use crate::storage::io::drive::{drive, Schedule};
use crate::storage::io::fault_injection::{Fail, Failing};
use crate::storage::io::mmap::Mmap;
use crate::storage::io::null::Null;
use crate::storage::io::psync::Psync;
use crate::storage::io::setup_error::{aio_refused, uring_refused};
use crate::storage::io::stdio::Stdio;
use crate::storage::io::synchronous::OneAtATime;
use crate::storage::io::trim::Trimming;
use crate::storage::io::uring::Uring;
use crate::storage::order::blocks::{Order, Span};
use crate::storage::pace::steady_state::Shared;
use crate::storage::raw::claim::Consent;
use crate::storage::results::counters::Snapshot;
use crate::storage::results::metrics::Record;
use crate::sys::memory::mix;
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
    /// The C library's fread and fwrite.
    Stdio,
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
            "stdio" => Self::Stdio,
            "null" => Self::Null,
            _ => Self::Uring,
        }
    }

    fn synchronous(self) -> bool {
        matches!(self, Self::Psync | Self::Mmap | Self::Stdio)
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
    /// The files, where it is not the one at `path`: each job has its share of them, or all with `share_whole`.
    pub files: Vec<PathBuf>,
    /// The files are made for this run, empty, and removed after it: every write is a first one.
    pub fresh: bool,
    /// A fault to plant, for tests.
    pub fail: Option<Fail>,
    /// What is asked beyond blocks at full speed.
    pub asked: Asked,
}

impl Job {
    pub(super) fn reads(&self) -> bool {
        self.read_percent > 0
    }

    pub(super) fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// Whether what lies there will not be the same after it.
    pub(super) fn changes(&self) -> bool {
        self.writes() || self.asked.trims
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
        let together = Together {
            start: OnceLock::new(),
            failed: AtomicBool::new(false),
            steady: Arc::new(Shared::new(self.jobs)),
            journal: self.journal(&ready)?,
        };
        let outcomes = team::run(self.jobs, &self.cpus, |member| {
            self.member(member, &ready, clock, &together, stop)
                .inspect_err(|_| together.failed.store(true, Ordering::Relaxed))
        })?;
        let outcomes = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let Some(journal) = &together.journal {
            journal.end();
        }
        if let Some(share) = watch.disagreement() {
            ready.notes.push(note(
                "clock_disagrees",
                format!(
                    "the processor's counter ran {:+.2}% against the system's clock, which is used from now on",
                    share * 100.0
                ),
            ));
        }
        let after = self.cached_share(&ready.files, ready.span.offset, ready.file_blocks);
        if let (Some(after), false) = (after, self.engine == Engine::Null) {
            ready.details.insert("cached_share_after".into(), json!(after));
        }
        ready.details.insert("clock".into(), json!(clock.name()));
        Ok(self.put_together(outcomes, ready))
    }

    /// How many completions to wait for at a time: one in 16 of the depth unless asked otherwise.
    ///
    /// Waiting for k of n keeps a slot idle for (k - 1) / 2 completions on average, so that on a device
    /// that is not saturated the rate falls by (k - 1) / (2 n), here at most 3%; on one that is saturated,
    /// nothing is lost. What is won is a wake-up and a system call shared by k operations.
    pub(super) fn reap_at_least(&self) -> usize {
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
    pub(super) fn submit_at_most(&self) -> usize {
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
        if self.files.len() > 1 && !self.share_whole && self.files.len() % self.jobs != 0 {
            return Err(Error::usage(format!(
                "{} files cannot be shared out among {} jobs: give each as many, or use share=whole",
                self.files.len(),
                self.jobs
            )));
        }
        if self.fresh && (self.engine == Engine::Mmap || self.reads() || self.size == 0) {
            return Err(Error::usage("a fresh file is written only, not by mmap, and needs a size"));
        }
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

    /// What of the region is the job's `number`.
    fn span_of(&self, number: usize, ready: &Ready) -> Span {
        match (self.share_whole, self.files.len() > 1) {
            (true, _) => ready.span,
            (false, true) => {
                let files = ready.files.get(number).map_or(0, Vec::len);
                Span { blocks: ready.file_blocks * files as u64, ..ready.span }
            }
            (false, false) => ready.span.part(number as u64, self.jobs as u64),
        }
    }

    /// The journal that is asked for, of all jobs; each of them keeps its own part.
    fn journal(&self, ready: &Ready) -> Result<Option<Journal>, Error> {
        if !self.asked.keeps_journal() {
            return Ok(None);
        }
        if !self.writes() || self.files.len() > 1 {
            return Err(Error::usage("a journal tells of writes to one file: take an rw that writes, and no files"));
        }
        let parts: Vec<Span> = (0..self.jobs).map(|number| self.span_of(number, ready)).collect();
        // No other run's blocks may pass for this one's.
        let nonce = verify::nonce(self.asked.verify_seed ^ Clock::best().now() ^ u64::from(std::process::id()));
        Journal::create(&self.asked.journal, &self.path, nonce, &parts).map(Some)
    }

    /// One member's part: set up, wait for all, run, bring home.
    fn member(
        &self,
        member: &team::Member<'_>,
        ready: &Ready,
        clock: Clock,
        together: &Together,
        stop: &Stop,
    ) -> Result<Outcome, Error> {
        let seed = mix(self.seed ^ mix(member.number as u64));
        let files = ready.files.get(member.number).map_or(&[][..], Vec::as_slice);
        let span = self.span_of(member.number, ready);
        let filling = clock.now();
        let pool = Pool::new(
            self.depth,
            self.block as usize,
            self.writes(),
            self.jobs,
            self.asked.huge,
            &self.asked.content,
            seed,
        );
        let fill_s = clock.now().saturating_sub(filling) as f64 / 1e9;
        let result = pool.map_err(|e| Error::machine("map the buffers", &e)).and_then(|pool| {
            let go = Go { job: self, ready, clock, together, stop, member, span, seed, pool: &pool };
            let set = match files {
                // A trace says where in the file, and its last operation may end with no whole block.
                [only] if self.asked.replay.is_some() => Set::one(only),
                _ => Set::new(files, span.offset, ready.file_blocks * span.block),
            };
            let of_each = if files.len() > 1 { Span { blocks: ready.file_blocks, ..span } } else { span };
            match self.engine {
                _ if files.is_empty() => go.with(set, Ok(Null::new(self.depth))),
                Engine::Uring => go.with(
                    set,
                    Uring::new(set, &pool, self.submit_at_most(), self.asked.hipri).map_err(|e| uring_refused(&e)),
                ),
                Engine::Aio => go.with(set, Aio::new(set, &pool).map_err(|e| aio_refused(&e))),
                Engine::Psync => go.with(set, Ok(OneAtATime::new(Psync::new(set, &pool)))),
                Engine::Mmap => go.with(
                    set,
                    Mmap::new(set, &pool, of_each, self.changes(), self.random)
                        .map(OneAtATime::new)
                        .map_err(|e| Error::machine(format!("map {}", self.path.display()), &e)),
                ),
                Engine::Stdio => go.with(
                    set,
                    Stdio::new(set, &pool, self.writes())
                        .map(OneAtATime::new)
                        .map_err(|e| Error::machine("open a stream", &e)),
                ),
                Engine::Null => go.with(set, Ok(Null::new(self.depth))),
            }
        });
        if result.is_err() {
            together.failed.store(true, Ordering::Relaxed);
            member.wait_for_start(); // does nothing if this member was there before
        }
        result.map(|outcome| Outcome { fill_s, ..outcome })
    }
}

/// What the members of a team share.
struct Together {
    /// When the first of them began.
    start: OnceLock<u64>,
    /// One of them could not be made ready.
    failed: AtomicBool,
    steady: Arc<Shared>,
    journal: Option<Journal>,
}

/// What a member needs to run once its engine stands.
struct Go<'a> {
    job: &'a Job,
    ready: &'a Ready,
    clock: Clock,
    together: &'a Together,
    stop: &'a Stop,
    member: &'a team::Member<'a>,
    span: Span,
    seed: u64,
    pool: &'a Pool,
}

impl Go<'_> {
    fn with<A: Access>(self, set: Set<'_>, access: Result<A, Error>) -> Result<Outcome, Error> {
        match (self.job.fail, self.job.asked.trims) {
            (Some(fail), true) => self.go(set, Failing::new(Trimming::new(set, access?), fail)),
            (Some(fail), false) => self.go(set, Failing::new(access?, fail)),
            (None, true) => self.go(set, Trimming::new(set, access?)),
            (None, false) => self.go(set, access?),
        }
    }

    fn go<A: Access>(self, set: Set<'_>, mut access: A) -> Result<Outcome, Error> {
        let job = self.job;
        let endless = job.asked.endless(job.time_based);
        let mut order = Order::new(self.span, job.random, job.read_percent, endless, self.seed);
        let mut record = Record::new((job.interval_s * 1e9) as u64);
        let mut extras = job.asked.extras(&Part {
            span: self.span,
            files: set.files().len().max(1) as u64,
            number: self.member.number,
            jobs: job.jobs as u64,
            depth: job.depth,
            random: job.random,
            endless: job.time_based,
            read_percent: job.read_percent,
            seed: self.seed,
            shared: &self.together.steady,
            journal: self.together.journal.as_ref(),
        });
        if job.asked.varied() {
            record.weigh();
        }
        if job.asked.log {
            record.follow();
        }
        self.member.wait_for_start();
        if self.together.failed.load(Ordering::Relaxed) {
            return Err(Error::Machine("another job could not be set up".into(), None));
        }
        let start_ns = *self.together.start.get_or_init(|| self.clock.now());
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
        let ending = if extras.any() || job.fail.is_some() {
            drive::<A, true>(&mut access, order, &mut extras, self.pool, &schedule, self.stop, record_, edge)
        } else {
            drive::<A, false>(&mut access, order, &mut extras, self.pool, &schedule, self.stop, record_, edge)
        };
        if let (Some(verify), true) = (&mut extras.verify, job.writes()) {
            access
                .sync()
                .inspect(|()| verify.synced())
                .and_then(|()| verify.read_back(set, &|| self.stop.is_set()))
                .map_err(|error| Error::machine("read back what was written", &error))?;
        }
        // Those who stay in a flow do not wait for one that has ended.
        extras.flow = None;
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

/// `MemAvailable` of `/proc/meminfo`, B.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

pub(super) fn note(code: &str, says: impl Into<String>) -> Note {
    Note { code: code.into(), says: says.into() }
}
