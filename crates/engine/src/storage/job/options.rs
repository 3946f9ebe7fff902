//! What a job does beyond blocks at full speed, and the [`Controls`] that each of its threads makes of it.

mod checks;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use crate::timing::rng::mix;

use super::parameters::{
    JobFileParameters, LoadParameters, MultiFileParameters, RateProcess, RwSequencer, SequenceDirection, Verification,
};
use crate::contract::kernel::Error;
use crate::storage::data::content::{Content, Duplicates};
use crate::storage::integrity::journal::Journal;
use crate::storage::integrity::ledger::Ledger;
use crate::storage::integrity::verify::{self, Verify};
use crate::storage::io::controls::{Controls, ThinkTime};
use crate::storage::io::trim::TrimWrite;
use crate::storage::order::blocks::{Order, Span};
use crate::storage::order::distribution::Distribution;
use crate::storage::order::file_selection::{FileSelector, FileService};
use crate::storage::order::pattern::{lengths, AccessPattern, PatternOrder, Traversal, Zone};
use crate::storage::pace::depth_search::{DepthSearch, LatencyTarget};
use crate::storage::pace::flow::{FlowMember, FlowShare};
use crate::storage::pace::rate::{EveryNth, MinimumRate, Pace};
use crate::storage::pace::steady_state::{Criterion, SharedProgress, SteadyState};
use crate::storage::trace::iolog::{Iolog, Replay, TraceRecorder};
use crate::sys::files::Durable;
use crate::timing::histogram::Histogram;

/// One thread's part of a run.
#[derive(Debug, Clone, Copy)]
pub struct ThreadPart<'a> {
    /// Its region, of all its files.
    pub span: Span,
    /// How many files that is, each as long.
    pub files: u64,
    /// Which thread.
    pub number: usize,
    /// The number of threads.
    pub jobs: u64,
    /// Whether the order is random.
    pub random: bool,
    /// Only time ends it.
    pub endless: bool,
    /// Operations in flight.
    pub depth: usize,
    /// Share of reads.
    pub read_percent: u64,
    /// Decides every random choice.
    pub seed: u64,
    /// What all threads share.
    pub shared: &'a Arc<SharedProgress>,
    /// Where it is written down which writes were acknowledged.
    pub journal: Option<&'a Journal>,
}

/// What a job does beyond blocks at full speed; the default requests nothing.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct JobOptions {
    /// Operations/s of all threads together; 0 for as fast as the depth allows.
    pub rate: f64,
    /// Bytes/s likewise; 0 for no limit.
    pub rate_bytes: u64,
    /// Or operations/s and B/s of reads and of writes, each of all threads together; 0 and 0 for none.
    pub rates: Option<[(f64, u64); 2]>,
    /// Rates below which the run ends, likewise.
    pub minimum_rate: [(f64, u64); 2],
    /// Time between two checks of those, s.
    pub minimum_rate_cycle_s: f64,
    /// Operations begin at random moments, not evenly spaced.
    pub poisson: bool,
    /// Pause after every `think_blocks`, s.
    pub think_s: f64,
    /// Operations from one pause to the next.
    pub think_blocks: u32,
    /// Part of the pause that is spent spinning, s.
    pub think_spin_s: f64,
    /// Or after so long, s, regardless of the number of operations; 0 for operations alone.
    pub think_busy_s: f64,
    /// A rate does not make up for those pauses.
    pub think_shifts_rate: bool,
    /// Passes, where time does not end the run.
    pub loops: u64,
    /// How the next of several files is chosen, and after how many operations.
    pub service: (FileService, u32),
    /// This many of the files are in use at a time; 0 for all.
    pub open_files: usize,
    /// Ends the run early.
    pub steady: Option<Criterion>,
    /// Each thread's progress is reported, with latencies.
    pub log: bool,
    /// A sync after this many writes; 0 for none.
    pub sync_every: u32,
    /// The sync is of all that describes the file too.
    pub sync_whole: bool,
    /// Which blocks are visited, of which length.
    pub pattern: AccessPattern,
    /// Distance between two beginnings in sequence, B; 0 for block after block.
    pub stride: u64,
    /// Blocks in sequence from the end down.
    pub backward: bool,
    /// Bytes of one pass, all threads together; 0 for the region's.
    pub io_size: u64,
    /// Operations of one pass, all threads together; 0 for as many as fill the bytes.
    pub max_operations: u64,
    /// The depth is searched that keeps a latency.
    pub target: Option<LatencyTarget>,
    /// Keeps to a ratio with other jobs.
    pub flow: Option<FlowShare>,
    /// Another job may end this one.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// What does not write gives blocks back, and does not read; with writes, each block is given back and written.
    pub trims: bool,
    /// What is written.
    pub content: Content,
    /// How durable a write is when it is complete.
    pub durable: Durable,
    /// The region is read first, so that it is in the page cache.
    pub pre_read: bool,
    /// A trace that is run in place of any order; of the times between its steps this much is waited.
    pub replay: Option<(Arc<Iolog>, f64)>,
    /// Where operations are written down.
    pub trace: Option<PathBuf>,
    /// Whether that file may be another's than this tool's.
    pub overwrite: bool,
    /// Blocks identify themselves, and are checked.
    pub verify: bool,
    /// The generation of the first writes.
    pub generation: u32,
    /// Tells blocks of this run from those of others.
    pub verify_seed: u64,
    /// The file that records which writes were acknowledged; empty for none.
    pub journal: PathBuf,
    /// The raw device is discarded first.
    pub purge: bool,
    /// Completions are polled for at the device, not announced by an interrupt.
    pub hipri: bool,
    /// Buffers are in huge pages.
    pub huge: bool,
}

impl Default for JobOptions {
    fn default() -> Self {
        Self {
            rate: 0.0,
            rate_bytes: 0,
            rates: None,
            minimum_rate: [(0.0, 0); 2],
            minimum_rate_cycle_s: 1.0,
            poisson: false,
            think_s: 0.0,
            think_blocks: 1,
            think_spin_s: 0.0,
            think_busy_s: 0.0,
            think_shifts_rate: false,
            loops: 1,
            service: (FileService::RoundRobin, 1),
            open_files: 0,
            steady: None,
            log: false,
            sync_every: 0,
            sync_whole: false,
            pattern: AccessPattern::default(),
            stride: 0,
            backward: false,
            io_size: 0,
            max_operations: 0,
            target: None,
            flow: None,
            cancelled: None,
            trims: false,
            content: Content::default(),
            durable: Durable::Later,
            pre_read: false,
            replay: None,
            trace: None,
            overwrite: false,
            verify: false,
            generation: 1,
            verify_seed: 1,
            journal: PathBuf::new(),
            purge: false,
            hipri: false,
            huge: true,
        }
    }
}

impl JobOptions {
    /// What these parameters of `storage_blocks` request.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn of(load: &LoadParameters, multi: &MultiFileParameters, job: &JobFileParameters) -> Result<Self, Error> {
        if load.fsync > 0 && load.fdatasync > 0 {
            return Err(Error::usage("fsync and fdatasync exclude each other: use one of them"));
        }
        if load.rate > 0.0 && load.rate_bytes > 0 {
            return Err(Error::usage("rate and rate_bytes exclude each other: use one of them"));
        }
        let rates = [(job.rate_iops_read, job.rate_read), (job.rate_iops_write, job.rate_write)];
        Ok(Self {
            rate: load.rate,
            rate_bytes: load.rate_bytes,
            rates: Some(rates).filter(|rates| rates.iter().any(|&rate| rate != (0.0, 0))),
            minimum_rate: [(job.rate_iops_min_read, job.rate_min_read), (job.rate_iops_min_write, job.rate_min_write)],
            minimum_rate_cycle_s: job.rate_cycle,
            poisson: load.rate_process == RateProcess::Poisson,
            think_s: load.thinktime,
            think_blocks: load.thinktime_blocks,
            think_spin_s: load.thinktime_spin,
            think_busy_s: load.thinktime_iotime,
            think_shifts_rate: job.rate_ignore_thinktime,
            loops: multi.loops,
            service: FileService::parse(&multi.file_service_type).map_err(Error::usage)?,
            open_files: multi.openfiles,
            steady: Criterion::parse(
                &multi.steadystate,
                multi.steadystate_duration,
                multi.steadystate_ramp_time,
                multi.steadystate_interval,
            )
            .map_err(Error::usage)?,
            log: multi.log,
            sync_every: load.fsync.max(load.fdatasync),
            sync_whole: load.fsync > 0,
            pattern: pattern(load, job)?,
            stride: load.stride,
            backward: load.pattern == SequenceDirection::Backward,
            io_size: load.io_size,
            max_operations: job.number_ios,
            target: latency_target(job),
            content: content(job)?,
            durable: job.sync,
            pre_read: job.pre_read,
            replay: match &job.read_iolog {
                None => None,
                Some(path) => Some((Arc::new(Iolog::read(path, &job.replay_skip)?), job.replay_time_scale)),
            },
            trace: job.write_iolog.clone(),
            overwrite: job.overwrite,
            verify: load.verify == Verification::Crc32c,
            generation: load.generation,
            verify_seed: load.verify_seed,
            journal: load.journal.clone(),
            purge: load.purge,
            ..Self::default()
        })
    }

    /// Operations begin at a rate, so that any number of them may have to wait.
    #[must_use]
    pub fn open_loop(&self) -> bool {
        self.rate > 0.0 || self.rate_bytes > 0 || self.rates.is_some()
    }

    /// Fewer operations than the depth allows are in flight, because they wait for others or for their time.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.target.is_some() || self.flow.is_some() || self.replay.is_some()
    }

    /// It is written down which writes were acknowledged.
    #[must_use]
    pub fn keeps_journal(&self) -> bool {
        !self.journal.as_os_str().is_empty()
    }

    /// The longest operation, B; `block` where all are alike.
    #[must_use]
    pub fn longest(&self, block: u64) -> u64 {
        self.pattern.lengths.iter().flatten().map(|&(_, bytes)| bytes).max().unwrap_or(block)
    }

    /// The shortest operation, B.
    #[must_use]
    pub fn shortest(&self, block: u64) -> u64 {
        self.pattern.lengths.iter().flatten().map(|&(_, bytes)| bytes).min().unwrap_or(block)
    }

    /// Operations differ in length.
    #[must_use]
    pub fn variable_length(&self) -> bool {
        self.replay.is_some() || self.pattern.lengths.iter().any(|lengths| !lengths.is_empty())
    }

    /// What one of the threads does of it.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share of a rate has few digits")]
    pub fn controls(&self, part: &ThreadPart<'_>) -> Controls {
        let &ThreadPart { span, files, jobs, random, endless, seed, .. } = part;
        let size = span.blocks * span.block;
        let pattern = self.pattern_of(random);
        let patterned = pattern.any(random);
        let pattern_order = |span: Span, seed| {
            let size = span.blocks * span.block;
            patterned.then(|| PatternOrder::new(span.offset, size, span.block, &pattern, seed))
        };
        let file_selector = (files > 1 && self.replay.is_none()).then(|| self.file_selector(part, &pattern_order));
        let limited = !endless && self.replay.is_none() && (patterned || self.io_size > 0 || self.loops > 1);
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        let of_one = |rates: [(f64, u64); 2]| rates.map(|(rate, bytes)| (rate / jobs as f64, bytes.div_ceil(jobs)));
        let mixed = (1..100).contains(&part.read_percent) && !self.trims;
        Controls {
            pace: match self.rates {
                Some(rates) => Some(Pace::apart(of_one(rates), mixed, self.poisson, seed)),
                None => self
                    .open_loop()
                    .then(|| Pace::new(self.rate / jobs as f64, self.rate_bytes.div_ceil(jobs), self.poisson, seed)),
            },
            minimum_rate: MinimumRate::new(of_one(self.minimum_rate), self.minimum_rate_cycle_s),
            think: (self.think_s > 0.0).then(|| ThinkTime {
                every: EveryNth::new(self.think_blocks).filter(|_| self.think_busy_s <= 0.0),
                busy_ns: ns(self.think_busy_s),
                pause_ns: ns(self.think_s),
                spin_ns: ns(self.think_spin_s),
                shifts_rate: self.think_shifts_rate,
                ..ThinkTime::default()
            }),
            sync: EveryNth::new(self.sync_every).map(|every| (every, self.sync_whole)),
            pattern: if file_selector.is_some() { None } else { pattern_order(span, seed) },
            file_selector,
            steady: self
                .steady
                .as_ref()
                .map(|criterion| SteadyState::new(criterion, part.shared, part.number, span.block)),
            limit: limited.then(|| self.loops * if self.io_size > 0 { self.io_size.div_ceil(jobs) } else { size }),
            max_operations: (!endless && self.max_operations > 0)
                .then(|| self.max_operations.div_ceil(jobs) * self.loops),
            depth: self.target.map(|target| DepthSearch::new(target, part.depth)),
            flow: self.flow.as_ref().map(FlowMember::new),
            cancelled: self.cancelled.clone(),
            trim_write: (self.trims && part.read_percent < 100).then(TrimWrite::default),
            duplicates: Duplicates::new(self.content.duplicate_percent, seed).filter(|_| !self.verify),
            replay: self.replay.as_ref().map(|(recorded, scale)| {
                let (offset, length) = if files > 1 { (span.offset, size / files) } else { (0, 0) };
                Replay::new(recorded.clone(), *scale, offset, length)
            }),
            trace: self.trace.as_ref().map(|_| TraceRecorder::new()),
            verify: self.verify.then(|| self.verification(part)),
            sync_latency: (self.sync_every > 0).then(Histogram::new),
            ..Controls::default()
        }
    }

    /// Which blocks are visited, where the order is random or in sequence.
    fn pattern_of(&self, random: bool) -> AccessPattern {
        let traversal = match (random, self.backward) {
            _ if self.pattern.traversal != Traversal::Random => self.pattern.traversal,
            (true, _) => Traversal::Random,
            (false, true) => Traversal::Down { step: self.stride },
            (false, false) => Traversal::Up { step: self.stride },
        };
        AccessPattern { traversal, ..self.pattern.clone() }
    }

    /// Chooses between a thread's files, each with a separate order; `pattern_order` is that of a region, if any.
    fn file_selector(
        &self,
        part: &ThreadPart<'_>,
        pattern_order: &dyn Fn(Span, u64) -> Option<PatternOrder>,
    ) -> FileSelector {
        let &ThreadPart { span, files, endless, seed, .. } = part;
        let length = span.blocks * span.block / files;
        let orders = (0..files).map(|number| {
            let file_span =
                Span { offset: span.offset + number * length, blocks: span.blocks / files, block: span.block };
            let seed = mix(seed ^ mix(number));
            let order = Order::new(file_span, part.random, part.read_percent, false, seed);
            (order, pattern_order(file_span, seed))
        });
        let again = endless || self.io_size > 0 || self.loops > 1;
        FileSelector::new(orders.collect(), length, self.service.clone(), self.open_files, again, seed)
    }

    fn verification(&self, part: &ThreadPart<'_>) -> Verify {
        let ledger = part.journal.map_or_else(|| Ledger::new(part.span.blocks), |journal| journal.ledger(part.number));
        let nonce = part.journal.map_or_else(|| verify::nonce(self.verify_seed), Journal::nonce);
        Verify::new(part.span, ledger, nonce, self.generation, part.read_percent == 100)
    }

    /// Whether the plain order has to go on beyond one pass, because bytes are what ends it.
    #[must_use]
    pub fn endless(&self, time_based: bool) -> bool {
        time_based || self.io_size > 0 || self.loops > 1
    }
}

fn latency_target(job: &JobFileParameters) -> Option<LatencyTarget> {
    (job.latency_target > 0.0).then_some(LatencyTarget {
        latency_ns: (job.latency_target * 1e9) as u64,
        window_ns: (job.latency_window * 1e9) as u64,
        percentile: job.latency_percentile,
        run: job.latency_run,
    })
}

fn content(job: &JobFileParameters) -> Result<Content, Error> {
    Ok(Content {
        compress_percent: job.buffer_compress_percentage,
        compress_chunk: job.buffer_compress_chunk,
        duplicate_percent: job.dedupe_percentage,
        pattern: hexadecimal(&job.buffer_pattern)?,
    })
}

fn pattern(load: &LoadParameters, job: &JobFileParameters) -> Result<AccessPattern, Error> {
    let both = lengths(&load.bssplit).map_err(Error::usage)?;
    let writes = lengths(&load.bssplit_write).map_err(Error::usage)?;
    let writes = if writes.is_empty() { both.clone() } else { writes };
    let (size, range, align) = (job.zonesize, job.zonerange, job.blockalign);
    Ok(AccessPattern {
        lengths: [both, writes],
        unaligned: job.bs_unaligned,
        by_order: job.bs_is_seq_rand,
        align: [align, Some(job.blockalign_write).filter(|&bytes| bytes > 0).unwrap_or(align)],
        traversal: match job.gap {
            0 => Traversal::Random,
            by => Traversal::Gap { by },
        },
        distribution: Distribution::parse(&load.random_distribution).map_err(Error::usage)?,
        sequential_percent: [job.sequential_read, job.sequential_write],
        run: job.random_every,
        identical: job.rw_sequencer == RwSequencer::Identical,
        apart: job.positions_apart,
        revisits: job.norandommap,
        zone: (size > 0).then_some(Zone { size, range: if range > 0 { range } else { size }, skip: job.zoneskip }),
    })
}

/// Bytes from two digits each.
fn hexadecimal(text: &str) -> Result<Vec<u8>, Error> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes = (0..text.len()).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
    bytes.ok_or_else(|| Error::usage(format!("buffer_pattern {text}: write bytes as two hexadecimal digits each")))
}
