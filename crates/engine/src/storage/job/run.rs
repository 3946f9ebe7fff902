//! One run of operations on one file: what was asked, made ready, driven by every job, and put together.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{json, Map};

use super::options::{JobOptions, ThreadPart};
use super::outcome::ThreadResult;
use super::prepare::Prepared;
use crate::clock::Clock;
use crate::cpu_time;
use crate::kernel::{Error, Stop};
use crate::reading::{CpuTime, Note, Reading};
use crate::rng::mix;
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::storage::integrity::journal::Journal;
use crate::storage::integrity::verify;
use crate::storage::io::access::Access;
use crate::storage::io::aio::Aio;
use crate::storage::io::drive::{drive, Schedule};
use crate::storage::io::fault_injection::{FaultInjector, PlannedFault};
use crate::storage::io::mmap::Mmap;
use crate::storage::io::null::Null;
use crate::storage::io::psync::Psync;
use crate::storage::io::setup_error::{aio_refused, uring_refused};
use crate::storage::io::stdio::Stdio;
use crate::storage::io::synchronous::Synchronous;
use crate::storage::io::trim::Trimming;
use crate::storage::io::uring::Uring;
use crate::storage::order::blocks::{Order, Span};
use crate::storage::pace::steady_state::SharedProgress;
use crate::storage::raw::claim::Consent;
use crate::storage::results::counters::Snapshot;
use crate::storage::results::metrics::Metrics;
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
    pub fault: Option<PlannedFault>,
    /// What is asked beyond blocks at full speed.
    pub options: JobOptions,
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
        self.writes() || self.options.trims
    }

    /// Runs it.
    ///
    /// # Errors
    /// Anything that can be known before the timed region; faults inside it are counted in the reading.
    pub fn run(&self, stop: &Stop) -> Result<Reading, Error> {
        self.check()?;
        let mut prepared = if self.engine == Engine::Null { self.without_files() } else { self.prepare()? };
        let clock = Clock::best();
        let watch = clock.watch();
        let team_state = TeamState {
            start: OnceLock::new(),
            failed: AtomicBool::new(false),
            steady: Arc::new(SharedProgress::new(self.jobs)),
            journal: self.journal(&prepared)?,
        };
        let results = team::run(self.jobs, &self.cpus, |member| {
            self.member(member, &prepared, clock, &team_state, stop)
                .inspect_err(|_| team_state.failed.store(true, Ordering::Relaxed))
        })?;
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        if let Some(journal) = &team_state.journal {
            journal.end();
        }
        if let Some(share) = watch.disagreement() {
            prepared.notes.push(note(
                "clock_disagrees",
                format!(
                    "the processor's counter ran {:+.2}% against the system's clock, which is used from now on",
                    share * 100.0
                ),
            ));
        }
        let after = self.cached_share(&prepared.files, prepared.span.offset, prepared.file_blocks);
        if let (Some(after), false) = (after, self.engine == Engine::Null) {
            prepared.details.insert("cached_share_after".into(), json!(after));
        }
        prepared.details.insert("clock".into(), json!(clock.name()));
        Ok(self.reading_of(results, prepared))
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
            (given, _) => given,
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
        self.options.check(self.random, self.share_whole && self.jobs > 1, self.block)?;
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
        let needed =
            BufferPool::bytes(self.depth, self.block as usize, self.writes(), self.jobs) as u128 * self.jobs as u128;
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
    fn span_of(&self, number: usize, prepared: &Prepared) -> Span {
        match (self.share_whole, self.files.len() > 1) {
            (true, _) => prepared.span,
            (false, true) => {
                let files = prepared.files.get(number).map_or(0, Vec::len);
                Span { blocks: prepared.file_blocks * files as u64, ..prepared.span }
            }
            (false, false) => prepared.span.part(number as u64, self.jobs as u64),
        }
    }

    /// The journal that is asked for, of all jobs; each of them keeps its own part.
    fn journal(&self, prepared: &Prepared) -> Result<Option<Journal>, Error> {
        if !self.options.keeps_journal() {
            return Ok(None);
        }
        if !self.writes() || self.files.len() > 1 {
            return Err(Error::usage("a journal tells of writes to one file: take an rw that writes, and no files"));
        }
        let parts: Vec<Span> = (0..self.jobs).map(|number| self.span_of(number, prepared)).collect();
        // No other run's blocks may pass for this one's.
        let nonce = verify::nonce(self.options.verify_seed ^ Clock::best().now() ^ u64::from(std::process::id()));
        Journal::create(&self.options.journal, &self.path, nonce, &parts).map(Some)
    }

    /// One member's part: set up, wait for all, run, bring home.
    fn member(
        &self,
        member: &team::Member<'_>,
        prepared: &Prepared,
        clock: Clock,
        team_state: &TeamState,
        stop: &Stop,
    ) -> Result<ThreadResult, Error> {
        let seed = mix(self.seed ^ mix(member.number as u64));
        let files = prepared.files.get(member.number).map_or(&[][..], Vec::as_slice);
        let span = self.span_of(member.number, prepared);
        let filling = clock.now();
        let pool = BufferPool::new(
            self.depth,
            self.block as usize,
            self.writes(),
            self.jobs,
            self.options.huge,
            &self.options.content,
            seed,
        );
        let fill_s = clock.now().saturating_sub(filling) as f64 / 1e9;
        let result = pool.map_err(|e| Error::machine("map the buffers", &e)).and_then(|pool| {
            let context =
                ThreadContext { job: self, prepared, clock, team_state, stop, member, span, seed, pool: &pool };
            let file_set = match files {
                // A trace says where in the file, and its last operation may end with no whole block.
                [only] if self.options.replay.is_some() => FileSet::one(only),
                _ => FileSet::new(files, span.offset, prepared.file_blocks * span.block),
            };
            let of_each = if files.len() > 1 { Span { blocks: prepared.file_blocks, ..span } } else { span };
            match self.engine {
                _ if files.is_empty() => context.run_with(file_set, Ok(Null::new(self.depth))),
                Engine::Uring => context.run_with(
                    file_set,
                    Uring::new(file_set, &pool, self.submit_at_most(), self.options.hipri)
                        .map_err(|e| uring_refused(&e)),
                ),
                Engine::Aio => context.run_with(file_set, Aio::new(file_set, &pool).map_err(|e| aio_refused(&e))),
                Engine::Psync => context.run_with(file_set, Ok(Synchronous::new(Psync::new(file_set, &pool)))),
                Engine::Mmap => context.run_with(
                    file_set,
                    Mmap::new(file_set, &pool, of_each, self.changes(), self.random)
                        .map(Synchronous::new)
                        .map_err(|e| Error::machine(format!("map {}", self.path.display()), &e)),
                ),
                Engine::Stdio => context.run_with(
                    file_set,
                    Stdio::new(file_set, &pool, self.writes())
                        .map(Synchronous::new)
                        .map_err(|e| Error::machine("open a stream", &e)),
                ),
                Engine::Null => context.run_with(file_set, Ok(Null::new(self.depth))),
            }
        });
        if result.is_err() {
            team_state.failed.store(true, Ordering::Relaxed);
            member.wait_for_start(); // does nothing if this member was there before
        }
        result.map(|result| ThreadResult { fill_s, ..result })
    }
}

/// What the members of a team share.
struct TeamState {
    /// When the first of them began.
    start: OnceLock<u64>,
    /// One of them could not be made ready.
    failed: AtomicBool,
    steady: Arc<SharedProgress>,
    journal: Option<Journal>,
}

/// What a member needs to run once its engine stands.
struct ThreadContext<'a> {
    job: &'a Job,
    prepared: &'a Prepared,
    clock: Clock,
    team_state: &'a TeamState,
    stop: &'a Stop,
    member: &'a team::Member<'a>,
    span: Span,
    seed: u64,
    pool: &'a BufferPool,
}

impl ThreadContext<'_> {
    fn run_with<A: Access>(self, file_set: FileSet<'_>, access: Result<A, Error>) -> Result<ThreadResult, Error> {
        match (self.job.fault, self.job.options.trims) {
            (Some(fault), true) => self.run(file_set, FaultInjector::new(Trimming::new(file_set, access?), fault)),
            (Some(fault), false) => self.run(file_set, FaultInjector::new(access?, fault)),
            (None, true) => self.run(file_set, Trimming::new(file_set, access?)),
            (None, false) => self.run(file_set, access?),
        }
    }

    fn run<A: Access>(self, file_set: FileSet<'_>, mut access: A) -> Result<ThreadResult, Error> {
        let job = self.job;
        let endless = job.options.endless(job.time_based);
        let mut order = Order::new(self.span, job.random, job.read_percent, endless, self.seed);
        let mut metrics = Metrics::new((job.interval_s * 1e9) as u64);
        let mut controls = job.options.controls(&ThreadPart {
            span: self.span,
            files: file_set.files().len().max(1) as u64,
            number: self.member.number,
            jobs: job.jobs as u64,
            depth: job.depth,
            random: job.random,
            endless: job.time_based,
            read_percent: job.read_percent,
            seed: self.seed,
            shared: &self.team_state.steady,
            journal: self.team_state.journal.as_ref(),
        });
        if job.options.variable_length() {
            metrics.count_bytes();
        }
        if job.options.log {
            metrics.sum_latencies();
        }
        self.member.wait_for_start();
        if self.team_state.failed.load(Ordering::Relaxed) {
            return Err(Error::Machine("another job could not be set up".into(), None));
        }
        let start_ns = *self.team_state.start.get_or_init(|| self.clock.now());
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
                    before = Snapshot::take(self.prepared.device.as_ref());
                }
                calls = access.calls();
                cpu = cpu_time::of_this_thread();
            } else {
                cpu = cpu_time::of_this_thread().since(cpu);
                calls = access.calls() - calls;
                if observes {
                    counters = Some(Snapshot::take(self.prepared.device.as_ref()).since(&before));
                }
            }
        };
        let (order, recorded) = (&mut order, &mut metrics);
        let ending = if controls.any() || job.fault.is_some() {
            drive::<A, true>(&mut access, order, &mut controls, self.pool, &schedule, self.stop, recorded, edge)
        } else {
            drive::<A, false>(&mut access, order, &mut controls, self.pool, &schedule, self.stop, recorded, edge)
        };
        if let (Some(verify), true) = (&mut controls.verify, job.writes()) {
            access
                .sync()
                .inspect(|()| verify.synced())
                .and_then(|()| verify.read_back(file_set, &|| self.stop.is_set()))
                .map_err(|error| Error::machine("read back what was written", &error))?;
        }
        // Those who stay in a flow do not wait for one that has ended.
        controls.flow = None;
        let operations = metrics.directions.iter().map(|direction| direction.total.count()).sum::<u64>();
        let mut facts = Map::new();
        access.facts(&mut facts);
        Ok(ThreadResult {
            touched: operations.min(self.span.blocks) * self.span.block,
            metrics,
            ending,
            cpu,
            calls,
            facts,
            counters,
            fill_s: 0.0,
            controls,
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
