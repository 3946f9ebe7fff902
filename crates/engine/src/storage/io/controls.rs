//! All that may steer the loop beyond blocks at full speed; a plain run is compiled without it.

mod waiting;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::trim::TrimWrite;
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::content::Duplicates;
use crate::storage::integrity::verify::Verify;
use crate::storage::order::blocks::Order;
use crate::storage::order::file_selection::FileSelector;
use crate::storage::order::pattern::PatternOrder;
use crate::storage::pace::depth_search::{DepthSearch, SearchStep};
use crate::storage::pace::flow::FlowMember;
use crate::storage::pace::rate::{EveryNth, MinimumRate, Pace};
use crate::storage::pace::steady_state::SteadyState;
use crate::storage::results::metrics::Metrics;
use crate::storage::trace::iolog::{Replay, Step, TraceRecorder};
use crate::timing::histogram::Histogram;

/// Redraws of a random block that is in flight, before the job waits for it.
const REDRAWS: u32 = 64;

/// A pause after this many operations, or after this much time with them.
#[derive(Debug, Default, Clone)]
pub struct ThinkTime {
    /// The number of operations before a pause; none where time counts alone.
    pub every: Option<EveryNth>,
    /// The time before a pause, ns; 0 where operations count alone.
    pub busy_ns: u64,
    /// The length of the pause, ns.
    pub pause_ns: u64,
    /// The part of the pause that is spent spinning, ns.
    pub spin_ns: u64,
    /// The pause is due.
    pub is_due: bool,
    /// When the last one ended.
    pub since_ns: u64,
    /// A rate does not make up for pauses.
    pub shifts_rate: bool,
}

/// Which direction may begin now.
enum AllowedDirection {
    None,
    Any,
    Only(bool),
}

/// What the loop does after a check of what ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoopAction {
    /// It goes on.
    GoOn,
    /// It counts from here on.
    Restart,
    /// It is over.
    End,
    /// It is over, and that is a fault of this number.
    Fault(i32),
}

/// Controls of the loop beyond blocks at full speed; each is none unless requested.
#[derive(Debug, Default)]
pub struct Controls {
    /// Operations begin at a rate.
    pub pace: Option<Pace>,
    /// Pauses after a number of operations, or some time.
    pub think: Option<ThinkTime>,
    /// Syncs after a number of writes: of the data alone, or (`true`) of all that describes the file too.
    pub sync: Option<(EveryNth, bool)>,
    /// Offsets and lengths other than the plain order's.
    pub pattern: Option<PatternOrder>,
    /// Several files, each with its own order; [`Controls::pattern`] is none then.
    pub file_selector: Option<FileSelector>,
    /// Ends the run when its rate is steady.
    pub steady: Option<SteadyState>,
    /// Bytes after which a pass ends, where the order itself does not end.
    pub limit: Option<u64>,
    /// Operations after which it ends.
    pub max_operations: Option<u64>,
    /// Ends the run when its rate is missed.
    pub minimum_rate: Option<MinimumRate>,
    /// Searches for the depth that keeps a latency.
    pub depth: Option<DepthSearch>,
    /// Keeps to a ratio with other jobs.
    pub flow: Option<FlowMember>,
    /// Set when another job ends this one.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Blocks are trimmed and then written.
    pub trim_write: Option<TrimWrite>,
    /// Some blocks are the one before once more.
    pub duplicates: Option<Duplicates>,
    /// Operations of a trace, in place of any order.
    pub replay: Option<Replay>,
    /// Records submitted operations.
    pub trace: Option<TraceRecorder>,
    /// Blocks that are checked.
    pub verify: Option<Verify>,
    /// How long syncs took.
    pub sync_latency: Option<Histogram>,
    /// Bytes submitted since the timed region began.
    pub issued: u64,
    /// Operations likewise.
    pub operations: u64,
    /// Operations that are not complete.
    pub in_flight: usize,
    /// An operation that waits for its block to be free.
    pub deferred: Option<(u64, bool, u64)>,
    /// The next direction, which waits for its time.
    pub pending_direction: Option<bool>,
}

impl Controls {
    /// Whether anything is requested.
    #[must_use]
    pub fn any(&self) -> bool {
        self.pace.is_some()
            || self.think.is_some()
            || self.sync.is_some()
            || self.pattern.is_some()
            || self.file_selector.is_some()
            || self.steady.is_some()
            || self.limit.is_some()
            || self.max_operations.is_some()
            || self.verify.is_some()
            || self.minimum_rate.is_some()
            || self.depth.is_some()
            || self.flow.is_some()
            || self.cancelled.is_some()
            || self.trim_write.is_some()
            || self.duplicates.is_some()
            || self.replay.is_some()
            || self.trace.is_some()
    }

    /// The timed region begins: counts begin anew, and so does the schedule.
    pub fn restart(&mut self, now_ns: u64) {
        if let Some(pace) = &mut self.pace {
            pace.restart(now_ns);
        }
        if let Some(pattern) = &mut self.pattern {
            pattern.restart();
        }
        if let Some(file_selector) = &mut self.file_selector {
            file_selector.restart();
        }
        if let Some(steady) = &mut self.steady {
            steady.restart(now_ns);
        }
        if let Some(think) = &mut self.think {
            think.since_ns = now_ns;
        }
        if let Some(sync_latency) = &mut self.sync_latency {
            sync_latency.clear();
        }
        if let Some(minimum_rate) = &mut self.minimum_rate {
            minimum_rate.restart(now_ns);
        }
        if let Some(depth) = &mut self.depth {
            depth.restart(now_ns);
        }
        if let Some(replay) = &mut self.replay {
            replay.restart(now_ns);
        }
        if let Some(trace) = &mut self.trace {
            trace.restart(now_ns);
        }
        (self.issued, self.operations) = (0, 0);
    }

    /// Whether operations begin at moments of their own, which waiting for others must not delay.
    #[inline]
    #[must_use]
    pub fn is_paced(&self) -> bool {
        self.pace.is_some() || self.replay.as_ref().is_some_and(Replay::is_timed)
    }

    /// Whether all operations must complete before another may start.
    #[inline]
    #[must_use]
    pub fn must_settle(&self) -> bool {
        self.think.as_ref().is_some_and(|think| think.is_due)
            || self.sync.as_ref().is_some_and(|(every, _)| every.is_due())
    }

    /// Whether no operation may begin now, because of others that did.
    #[inline]
    fn is_blocked(&mut self, now_ns: u64) -> bool {
        if self.must_settle() || self.trim_write.as_ref().is_some_and(TrimWrite::waits) {
            return true;
        }
        if let Some(think) = self.think.as_mut().filter(|think| think.busy_ns > 0) {
            if now_ns.saturating_sub(think.since_ns) >= think.busy_ns {
                think.is_due = true;
                return true;
            }
        }
        let in_flight = self.in_flight;
        self.depth.as_mut().is_some_and(|depth| !depth.allows(in_flight))
            || self.flow.as_ref().is_some_and(FlowMember::is_ahead)
            || self.replay.as_ref().is_some_and(|replay| replay.is_timed() && replay.due_ns() > now_ns)
    }

    /// The direction that the rates of reads and of writes let begin now.
    #[inline]
    fn allowed_direction(&mut self, order: &mut Order, now_ns: u64) -> AllowedDirection {
        let Some(pace) = &self.pace else { return AllowedDirection::Any };
        if !pace.is_apart() {
            return if pace.due_ns(false).is_none_or(|due| due <= now_ns) {
                AllowedDirection::Any
            } else {
                AllowedDirection::None
            };
        }
        let deferred = self.deferred.map(|(_, write, _)| write);
        let pending_direction = deferred.or(self.pending_direction.take()).unwrap_or_else(|| order.next_direction());
        match pace.choose(pending_direction, now_ns) {
            Some(chosen) if deferred.is_none_or(|deferred| deferred == chosen) => AllowedDirection::Only(chosen),
            _ => {
                self.pending_direction = Some(pending_direction);
                AllowedDirection::None
            }
        }
    }

    /// The next operation, and when it is meant to begin: offset, whether it writes, length. None if it may
    /// not begin yet, or if there is none.
    #[inline]
    pub fn next_operation(&mut self, order: &mut Order, block: u64, now_ns: u64) -> Option<(u64, bool, u64, u64)> {
        if self.is_blocked(now_ns) {
            return None;
        }
        let direction = match self.allowed_direction(order, now_ns) {
            AllowedDirection::None => return None,
            AllowedDirection::Any => None,
            AllowedDirection::Only(write) => Some(write),
        };
        let due_ns = self.replay.as_ref().filter(|replay| replay.is_timed()).map(Replay::due_ns);
        let (offset, write, length) = match self.deferred.take() {
            Some(deferred) => deferred,
            None => self.draw(order, block, direction)?,
        };
        if self.verify.as_ref().is_some_and(|verify| verify.is_busy(offset)) {
            self.deferred = Some((offset, write, length));
            return None;
        }
        let begins = due_ns.or(self.pace.as_ref().and_then(|pace| pace.due_ns(write))).unwrap_or(now_ns);
        self.count(offset, write, length, now_ns);
        Some((offset, write, length, begins))
    }

    /// Counts a submitted operation.
    #[inline]
    fn count(&mut self, offset: u64, write: bool, length: u64, now_ns: u64) {
        self.operations += 1;
        match &mut self.trim_write {
            // Of a block that is trimmed and written the write alone counts, as in fio.
            Some(trim_write) if !write => trim_write.trim(offset, length),
            _ => self.issued += length,
        }
        if let Some(pace) = &mut self.pace {
            pace.issued(write, length);
        }
        if let Some(think) = &mut self.think {
            if let Some(every) = &mut think.every {
                every.count();
                think.is_due |= every.is_due();
            }
        }
        if let (Some((every, _)), true) = (&mut self.sync, write) {
            every.count();
        }
        if let Some(flow) = &mut self.flow {
            flow.count();
        }
        if let Some(trace) = &mut self.trace {
            trace.add(now_ns, offset, write, length);
        }
    }

    fn draw(&mut self, order: &mut Order, block: u64, direction: Option<bool>) -> Option<(u64, bool, u64)> {
        if let Some(write) = self.trim_write.as_mut().and_then(TrimWrite::write) {
            return Some(write);
        }
        if self.limit.is_some_and(|limit| self.issued >= limit)
            || self.max_operations.is_some_and(|most| self.operations >= most)
        {
            return None;
        }
        if self.replay.is_some() {
            return self.replayed();
        }
        let direction = if self.trim_write.is_some() { Some(false) } else { direction };
        if let Some(file_selector) = &mut self.file_selector {
            return file_selector.next_operation(block, direction);
        }
        let Some(pattern) = &mut self.pattern else {
            return order.next_operation().map(|(offset, write)| (offset, direction.unwrap_or(write), block));
        };
        if self.limit.is_some() && pattern.is_over() {
            return None;
        }
        let write = direction.unwrap_or_else(|| order.next_direction());
        let (mut offset, mut length) = pattern.next_access(write);
        if let Some(verify) = &self.verify {
            for _ in 0..REDRAWS {
                if !verify.is_busy(offset) {
                    break;
                }
                (offset, length) = pattern.next_access(write);
            }
        }
        Some((offset, write, length))
    }

    fn replayed(&mut self) -> Option<(u64, bool, u64)> {
        match self.replay.as_mut()?.step()? {
            Step::Transfer { offset, length, write, .. } => Some((offset, write, length)),
            Step::Sync(whole) => {
                self.sync = Some((EveryNth::now(), whole));
                None
            }
        }
    }

    /// Whether more operations are to come although none is in flight.
    #[must_use]
    pub fn has_more(&self, order: &Order) -> bool {
        let waits = self.pace.is_some() || self.flow.is_some() || self.depth.is_some();
        self.must_settle()
            || self.deferred.is_some()
            || self.trim_write.as_ref().is_some_and(TrimWrite::is_open)
            || self.replay.as_ref().is_some_and(|replay| !replay.is_over())
            || (waits
                && self.replay.is_none()
                && self.max_operations.is_none_or(|most| self.operations < most)
                && match self.limit {
                    Some(limit) => self.issued < limit,
                    None => match &self.file_selector {
                        Some(file_selector) => !file_selector.is_over(),
                        None => self.pattern.is_some() || !order.is_over(),
                    },
                })
    }

    /// Whether the run is over before its time.
    #[inline]
    pub fn next_action(&mut self, now_ns: u64, metrics: &Metrics, block: u64) -> LoopAction {
        if self.steady.as_mut().is_some_and(|steady| steady.is_reached(now_ns, metrics))
            || self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed))
        {
            return LoopAction::End;
        }
        if let Some(minimum_rate) = &mut self.minimum_rate {
            let done = || [0, 1].map(|direction| metrics.directions[direction].done(block));
            if minimum_rate.is_missed(now_ns, done) {
                return LoopAction::End;
            }
        }
        match self.depth.as_mut().map_or(SearchStep::GoOn, |depth| depth.next(now_ns)) {
            SearchStep::GoOn => LoopAction::GoOn,
            SearchStep::Restart => LoopAction::Restart,
            SearchStep::Found => LoopAction::End,
            SearchStep::Hopeless => LoopAction::Fault(libc::ETIMEDOUT),
        }
    }

    /// Whether the block written at `at` duplicates the one before.
    #[inline]
    pub fn duplicates(&mut self, pool: &BufferPool, at: usize, length: usize) -> bool {
        self.duplicates.as_mut().is_some_and(|duplicates| duplicates.repeat(pool.region(), at, length))
    }

    /// Counts completed operations by their latency.
    #[inline]
    pub fn on_completed(&mut self, latency_ns: u64, operations: u32, now_ns: u64) {
        if let Some(depth) = &mut self.depth {
            depth.completed(latency_ns, operations, now_ns);
        }
    }

    /// Notes a successful sync: it covers what was acknowledged.
    pub fn on_synced(&self) {
        if let Some(verify) = &self.verify {
            verify.synced();
        }
    }

    /// An operation begins.
    #[inline]
    pub fn begin(&mut self, pool: &BufferPool, at: usize, offset: u64, write: bool) {
        self.in_flight += 1;
        if let Some(verify) = &mut self.verify {
            verify.begin(pool.region(), at, offset, write);
        }
    }

    /// An operation has ended.
    #[inline]
    pub fn end(&mut self, pool: &BufferPool, at: usize, offset: u64, write: bool, whole: bool) {
        self.in_flight -= 1;
        if let Some(trim_write) = &mut self.trim_write {
            trim_write.ended(write);
        }
        if let Some(verify) = &mut self.verify {
            verify.end(pool.region(), at, offset, write, whole);
        }
    }
}
