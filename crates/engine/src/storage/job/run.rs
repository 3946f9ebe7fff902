//! Runs a job: prepares its files, drives every thread, and makes one reading of their results.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::timing::rng::mix;
use serde_json::{json, Map, Value};

use super::options::ThreadPart;
use super::prepare::{Prepared, ShareOf};
use super::reading::ThreadResult;
use super::spec::{Engine, Job};
use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::{CpuTime, Note, Reading};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::storage::integrity::journal::Journal;
use crate::storage::integrity::verify;
use crate::storage::io::access::Access;
use crate::storage::io::aio::Aio;
use crate::storage::io::controls::Controls;
use crate::storage::io::drive::{drive, Schedule};
use crate::storage::io::fault_injection::FaultInjector;
use crate::storage::io::mmap::Mmap;
use crate::storage::io::null::Null;
use crate::storage::io::psync::Psync;
use crate::storage::io::setup_error::{aio_refused, uring_refused};
use crate::storage::io::stdio::Stdio;
use crate::storage::io::synchronous::Synchronous;
use crate::storage::io::trim::Trimming;
use crate::storage::io::uring::Uring;
use crate::storage::io::wrapped::Wrapped;
use crate::storage::order::blocks::{Order, Span};
use crate::storage::pace::steady_state::SharedProgress;
use crate::storage::results::counters::{Device, Snapshot};
use crate::storage::results::metrics::Metrics;
use crate::sys::files;
use crate::sys::uring::Queues;
use crate::timing::clock::Clock;
use crate::timing::cpu_time;
use crate::timing::stalls::Counting;
use crate::timing::team;

impl Job {
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
            edges: Edges::new(self.jobs),
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
            prepared.notes.push(Note::new(
                "clock_disagrees",
                format!(
                    "the CPU's counter differs by {:+.2}% from the system clock, which is used from now on",
                    share * 100.0
                ),
            ));
        }
        if self.engine != Engine::Null {
            let shares: [(&str, ShareOf); 2] =
                [("cached_share_after", files::cached_share), ("dirty_share_after", files::dirty_share)];
            for (name, of) in shares {
                let after = self.region_share(&prepared.files, prepared.span.offset, prepared.file_blocks, of);
                if let Some(after) = after {
                    prepared.details.insert(name.into(), json!(after));
                }
            }
        }
        prepared.details.insert("clock".into(), json!(clock.name()));
        let mut counters = team_state.edges.counted();
        if !counters.is_empty() {
            // What began before the system's counters were read and ended after it.
            let straddling: u64 = results.iter().map(|result| result.straddling).sum();
            counters.insert("straddling_bytes".into(), json!(straddling));
        }
        Ok(Reading { counters, ..self.make_reading(results, prepared) })
    }

    /// The part of the region that thread `number` covers.
    fn thread_span(&self, number: usize, prepared: &Prepared) -> Span {
        match (self.share_whole, self.files.len() > 1) {
            (true, _) => prepared.span,
            (false, true) => {
                let files = prepared.files.get(number).map_or(0, Vec::len);
                Span { blocks: prepared.file_blocks * files as u64, ..prepared.span }
            }
            (false, false) => prepared.span.part(number as u64, self.jobs as u64),
        }
    }

    /// The journal of all threads, if requested; each thread writes a part.
    fn journal(&self, prepared: &Prepared) -> Result<Option<Journal>, Error> {
        if !self.options.keeps_journal() {
            return Ok(None);
        }
        if !self.writes() || self.files.len() > 1 {
            return Err(Error::usage("a journal needs writes to one file: use an rw that writes, and no files"));
        }
        let parts: Vec<Span> = (0..self.jobs).map(|number| self.thread_span(number, prepared)).collect();
        // No other run's blocks may pass for this one's.
        let nonce = verify::nonce(self.options.verify_seed ^ Clock::best().now() ^ u64::from(std::process::id()));
        Journal::create(&self.options.journal, &self.path, nonce, &parts).map(Some)
    }

    /// One thread's run: set up, wait for all others, run, return the result.
    fn member(
        &self,
        member: &team::Member<'_>,
        prepared: &Prepared,
        clock: Clock,
        team_state: &TeamState,
        stop: &Stop,
    ) -> Result<ThreadResult, Error> {
        // Through the page cache threads copy and hardly sleep; a switch to and from a counted thread takes longer.
        let _counting = (!self.direct).then(|| Counting::start(true));
        let seed = mix(self.seed ^ mix(member.number as u64));
        let files = prepared.files.get(member.number).map_or(&[][..], Vec::as_slice);
        let span = self.thread_span(member.number, prepared);
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
            context.run_on(files)
        });
        if result.is_err() {
            team_state.failed.store(true, Ordering::Relaxed);
            member.wait_for_start(); // does nothing if this member was there before
        }
        result.map(|result| ThreadResult { fill_s, ..result })
    }
}

/// State shared by the threads of a job.
struct TeamState {
    /// When the first of them started.
    start: OnceLock<u64>,
    /// One of them could not be set up.
    failed: AtomicBool,
    steady: Arc<SharedProgress>,
    journal: Option<Journal>,
    edges: Edges,
}

/// The system's counters at the edges of the timed region: where the first thread begins and the last one ends, so that
/// they cover all that any thread counts.
struct Edges {
    /// Threads that have not ended.
    running: AtomicUsize,
    /// The counters as the region began, and how often it has: a steady state that was missed begins it again.
    before: Mutex<(u32, Snapshot)>,
    after: Mutex<Option<Snapshot>>,
}

impl Edges {
    fn new(threads: usize) -> Self {
        let before = Mutex::new((0, Snapshot::default()));
        Self { running: AtomicUsize::new(threads), before, after: Mutex::new(None) }
    }

    /// A thread begins its timed region for the `time`-th time, from 1. No thread goes on before the counters are
    /// read: what it issued and counted meanwhile would be missing between them.
    fn begin(&self, time: u32, device: Option<&Device>) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        if before.0 < time {
            *before = (time, Snapshot::take(device));
        }
    }

    /// A thread ends.
    fn end(&self, device: Option<&Device>) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            *self.after.lock().unwrap_or_else(PoisonError::into_inner) = Some(Snapshot::take(device));
        }
    }

    /// What was counted in between; empty unless every thread has ended.
    fn counted(&self) -> Map<String, Value> {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let after = self.after.lock().unwrap_or_else(PoisonError::into_inner);
        after.as_ref().map(|after| after.since(&before.1)).unwrap_or_default()
    }
}

/// What a thread needs to run once its access engine is set up.
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

/// What a thread's loop works with.
struct Parts {
    order: Order,
    metrics: Metrics,
    controls: Controls,
    schedule: Schedule,
}

impl ThreadContext<'_> {
    /// Sets up the access engine, and runs.
    fn run_on(self, files: &[File]) -> Result<ThreadResult, Error> {
        let (job, pool) = (self.job, self.pool);
        let file_set = match files {
            // A trace says where in the file, and its last operation may end with no whole block.
            [only] if job.options.replay.is_some() => FileSet::one(only),
            _ => FileSet::new(files, self.span.offset, self.prepared.file_blocks * self.span.block),
        };
        let of_each = if files.len() > 1 { Span { blocks: self.prepared.file_blocks, ..self.span } } else { self.span };
        match job.engine {
            _ if files.is_empty() => self.run_with(file_set, Ok(Null::new(job.depth))),
            Engine::Uring => match Queues::new(job.depth as u32, job.options.hipri) {
                Ok(mut queues) => {
                    self.run_with(file_set, Ok(Uring::new(&mut queues, file_set, pool, job.submit_at_most())))
                }
                Err(error) => Err(uring_refused(&error)),
            },
            Engine::Aio => self.run_with(file_set, Aio::new(file_set, pool).map_err(|e| aio_refused(&e))),
            Engine::Psync => self.run_with(file_set, Ok(Synchronous::new(Psync::new(file_set, pool)))),
            Engine::Mmap => self.run_with(
                file_set,
                Mmap::new(file_set, pool, of_each, job.changes(), job.random)
                    .map(Synchronous::new)
                    .map_err(|e| Error::machine(format!("map {}", job.path.display()), &e)),
            ),
            Engine::Stdio => self.run_with(
                file_set,
                Stdio::new(file_set, pool, job.writes())
                    .map(Synchronous::new)
                    .map_err(|e| Error::machine("open a stream", &e)),
            ),
            Engine::Null => self.run_with(file_set, Ok(Null::new(job.depth))),
        }
    }

    fn run_with<A: Access>(self, file_set: FileSet<'_>, access: Result<A, Error>) -> Result<ThreadResult, Error> {
        let access = access?;
        if self.job.fault.is_none() && !self.job.options.trims {
            self.run(file_set, access)
        } else if A::SYNCHRONOUS {
            self.run_wrapped(file_set, Wrapped::<true>::new(access))
        } else {
            self.run_wrapped(file_set, Wrapped::<false>::new(access))
        }
    }

    /// Wraps `access` in what the job needs: trims in place of reads, a planted fault.
    fn run_wrapped<const SYNCHRONOUS: bool>(
        self,
        file_set: FileSet<'_>,
        access: Wrapped<'_, SYNCHRONOUS>,
    ) -> Result<ThreadResult, Error> {
        let access: Wrapped<'_, SYNCHRONOUS> =
            if self.job.options.trims { Wrapped::new(Trimming::new(file_set, access)) } else { access };
        match self.job.fault {
            Some(fault) => self.run(file_set, Wrapped::<SYNCHRONOUS>::new(FaultInjector::new(access, fault))),
            None => self.run(file_set, access),
        }
    }

    /// Makes what the loop needs and waits for its start: the same for every engine, so it is outside the loop.
    fn begin(&self, file_set: FileSet<'_>) -> Result<Parts, Error> {
        let job = self.job;
        let endless = job.options.endless(job.time_based);
        let order = Order::new(self.span, job.random, job.read_percent, endless, self.seed);
        let mut metrics = Metrics::new((job.interval_s * 1e9) as u64);
        let controls = job.options.controls(&ThreadPart {
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
        Ok(Parts { order, metrics, controls, schedule })
    }

    fn run<A: Access>(self, file_set: FileSet<'_>, mut access: A) -> Result<ThreadResult, Error> {
        let job = self.job;
        let Parts { mut order, mut metrics, mut controls, schedule } = self.begin(file_set)?;
        let (edges, device) = (&self.team_state.edges, self.prepared.device.as_ref());
        let (mut cpu, mut calls) = (CpuTime::default(), 0);
        let (mut begun, mut straddling) = (0, 0);
        let edge = |access: &A, begins: bool, in_flight: u64| {
            if begins {
                begun += 1;
                straddling = in_flight;
                edges.begin(begun, device);
                calls = access.calls();
                cpu = cpu_time::of_this_thread();
            } else {
                cpu = cpu_time::of_this_thread().since(cpu);
                calls = access.calls() - calls;
                edges.end(device);
            }
        };
        let (order, recorded) = (&mut order, &mut metrics);
        let ending = if !A::PLAIN || controls.any() {
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
            straddling,
            fill_s: 0.0,
            controls,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn no_thread_begins_before_the_counters_are_read() {
        for _ in 0..200 {
            let (edges, together) = (Edges::new(4), Barrier::new(4));
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        together.wait();
                        edges.begin(1, None);
                        assert_ne!(edges.before.lock().unwrap().1, Snapshot::default());
                        edges.end(None);
                    });
                }
            });
            assert!(!edges.counted().is_empty());
        }
    }
}
