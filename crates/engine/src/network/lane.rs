//! What one stream counts while others look on, and the phases that all streams of a test go through together.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicU8, Ordering};

use crate::contract::reading::CpuTime;
use crate::timing::cpu_time;

/// Not begun.
pub const WAITING: u8 = 0;
/// Data flows.
pub const RUNNING: u8 = 1;
/// Streams end at their next look.
pub const DONE: u8 = 2;

/// Counters of one stream on cache lines of their own; its thread writes, the test's thread reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Lane {
    /// Bytes sent or received.
    pub bytes: AtomicU64,
    /// Blocks or datagrams sent or received.
    pub operations: AtomicU64,
    /// Highest number of a datagram that was sent or received.
    pub highest: AtomicU64,
    /// Datagrams that are missing below the highest number.
    pub lost: AtomicU64,
    /// Datagrams that came after one with a higher number.
    pub reordered: AtomicU64,
    /// Datagrams that came again.
    pub duplicates: AtomicU64,
    /// Jitter by RFC 3550, ns.
    pub jitter_ns: AtomicU64,
    /// The system's number for what ended it early; 0 for nothing, -1 for an end of file.
    pub errno: AtomicI32,
}

/// One look at a lane.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Bytes sent or received.
    pub bytes: u64,
    /// Blocks or datagrams sent or received.
    pub operations: u64,
    /// Highest number of a datagram that was sent or received.
    pub highest: u64,
    /// Datagrams that are missing below the highest number.
    pub lost: u64,
    /// Datagrams that came after one with a higher number.
    pub reordered: u64,
    /// Datagrams that came again.
    pub duplicates: u64,
    /// Jitter by RFC 3550, ns.
    pub jitter_ns: u64,
}

impl Lane {
    /// Adds to what was moved; only the stream's own thread calls it.
    #[inline]
    pub fn moved(&self, bytes: u64, operations: u64) {
        // One writer: a load and a store are cheaper than an atomic addition, and lose nothing.
        self.bytes.store(self.bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        self.operations.store(self.operations.load(Ordering::Relaxed) + operations, Ordering::Relaxed);
    }

    /// The system's number for what ended it before the test was over; 0 for nothing, and for the other end's close.
    #[must_use]
    pub fn refusal(&self) -> i32 {
        self.errno.load(Ordering::Relaxed).max(0)
    }

    /// Whether an error or the other end's close has ended it before the test was over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.errno.load(Ordering::Relaxed) != 0
    }

    /// A look at all of it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            bytes: of(&self.bytes),
            operations: of(&self.operations),
            highest: of(&self.highest),
            lost: of(&self.lost),
            reordered: of(&self.reordered),
            duplicates: of(&self.duplicates),
            jitter_ns: of(&self.jitter_ns),
        }
    }
}

impl Counts {
    /// Adds another stream's, but for the jitter; what the other end claims may be anything.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.bytes, other.bytes),
            (&mut self.operations, other.operations),
            (&mut self.highest, other.highest),
            (&mut self.lost, other.lost),
            (&mut self.reordered, other.reordered),
            (&mut self.duplicates, other.duplicates),
        ] {
            *sum = sum.saturating_add(more);
        }
    }

    /// What was counted since `earlier`; jitter is as it is now.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            operations: self.operations.saturating_sub(earlier.operations),
            highest: self.highest.saturating_sub(earlier.highest),
            lost: self.lost.saturating_sub(earlier.lost),
            reordered: self.reordered.saturating_sub(earlier.reordered),
            duplicates: self.duplicates.saturating_sub(earlier.duplicates),
            jitter_ns: self.jitter_ns,
        }
    }
}

/// The phase that all streams of one end are in.
#[derive(Debug, Default)]
pub struct Phase {
    now: AtomicU8,
    /// Goes up when what was counted before no longer counts (the end of the omitted time).
    round: AtomicU8,
}

impl Phase {
    /// Sets the phase.
    pub fn set(&self, phase: u8) {
        self.now.store(phase, Ordering::Release);
    }

    /// Whether streams shall end.
    #[inline]
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.now.load(Ordering::Relaxed) == DONE
    }

    /// Waits for the start, without taking the processor from those who prepare it; false if it never comes.
    #[must_use]
    pub fn wait_for_start(&self) -> bool {
        loop {
            match self.now.load(Ordering::Acquire) {
                WAITING => std::thread::sleep(std::time::Duration::from_micros(200)),
                phase => return phase == RUNNING,
            }
        }
    }

    /// Which round it is.
    #[inline]
    #[must_use]
    pub fn round(&self) -> u8 {
        self.round.load(Ordering::Relaxed)
    }

    /// Begins to count anew.
    pub fn next_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }
}

/// The CPU time of a stream's thread, counted from the current round on.
pub struct Meter {
    round: u8,
    from: CpuTime,
}

impl Meter {
    /// Starts on the calling thread.
    #[must_use]
    pub fn start() -> Self {
        Self { round: 0, from: cpu_time::of_this_thread() }
    }

    /// Starts anew when a new round has begun.
    #[inline]
    pub fn look(&mut self, phase: &Phase) {
        let round = phase.round();
        if round != self.round {
            *self = Self { round, from: cpu_time::of_this_thread() };
        }
    }

    /// CPU time of this round.
    #[must_use]
    pub fn spent(&self) -> CpuTime {
        cpu_time::of_this_thread().since(self.from)
    }
}
