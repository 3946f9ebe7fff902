//! Searches for the greatest queue depth that keeps a latency; fio's `latency_target`.
//!
//! As in fio, the depth doubles from 1 on while windows succeed, is halved towards the last good one when one
//! fails, and once it stays the same one more window is measured by itself and ends the run.

use serde_json::{json, Value};

/// Successes in a row after which one more is tried.
const STABLE: u32 = 3;

/// The latency to keep, and how to search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LatencyTarget {
    /// Longest latency, ns.
    pub latency_ns: u64,
    /// How long each depth is tried, ns; 0 for one operation's.
    pub window_ns: u64,
    /// This many of 100 operations have to keep it.
    pub percentile: f64,
    /// The search goes on for as long as the run does.
    pub run: bool,
}

/// What the loop has to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchStep {
    /// Nothing.
    GoOn,
    /// Count from here on: this is the depth.
    Restart,
    /// The run is over: the depth was found.
    Found,
    /// The run is over: even one operation at a time takes too long.
    Hopeless,
}

/// The search of one thread.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "states that are independent of each other")]
pub struct DepthSearch {
    target: LatencyTarget,
    max_depth: usize,
    now: usize,
    low: usize,
    high: usize,
    stable: u32,
    /// A depth was too great: from then on the search goes by halves.
    failed_once: bool,
    last: bool,
    /// All must complete before more may start.
    drains: bool,
    begun_ns: u64,
    operations: u64,
    failed: u64,
    hopeless: bool,
}

#[allow(clippy::cast_precision_loss, reason = "counts of a window are small")]
impl DepthSearch {
    /// Up to `max_depth`.
    #[must_use]
    pub fn new(target: LatencyTarget, max_depth: usize) -> Self {
        let high = max_depth.max(1);
        Self {
            target,
            max_depth: high,
            now: 1,
            low: 1,
            high,
            stable: 0,
            failed_once: false,
            last: false,
            drains: false,
            begun_ns: 0,
            operations: 0,
            failed: 0,
            hopeless: false,
        }
    }

    /// The timed region begins.
    pub fn restart(&mut self, now_ns: u64) {
        if !self.last {
            *self = Self { begun_ns: now_ns, ..Self::new(self.target, self.max_depth) };
        }
    }

    /// Whether one more may begin beside this many.
    #[inline]
    #[must_use]
    pub fn allows(&mut self, in_flight: usize) -> bool {
        self.drains &= in_flight > 0;
        !self.drains && in_flight < self.now
    }

    /// Operations were complete after so long.
    #[inline]
    pub fn completed(&mut self, latency_ns: u64, operations: u32, now_ns: u64) {
        self.operations += u64::from(operations);
        if latency_ns <= self.target.latency_ns || self.drains {
            return;
        }
        if self.target.percentile < 100.0 {
            self.failed += u64::from(operations);
        } else if self.now == 1 {
            self.hopeless = true;
        } else {
            self.down(now_ns);
        }
    }

    /// Judges the window once it is over.
    #[inline]
    pub fn next(&mut self, now_ns: u64) -> SearchStep {
        if self.hopeless {
            return SearchStep::Hopeless;
        }
        if self.operations == 0 || now_ns.saturating_sub(self.begun_ns) < self.target.window_ns {
            return SearchStep::GoOn;
        }
        let kept = 100.0 * (self.operations - self.failed) as f64 / self.operations as f64;
        if kept >= self.target.percentile {
            return self.up(now_ns);
        }
        if self.now > 1 {
            self.down(now_ns);
        } else {
            self.begin(now_ns);
        }
        SearchStep::GoOn
    }

    fn begin(&mut self, now_ns: u64) {
        (self.begun_ns, self.operations, self.failed) = (now_ns, 0, 0);
    }

    fn down(&mut self, now_ns: u64) {
        (self.high, self.failed_once) = (self.now, true);
        if self.now == self.low {
            self.low -= 1;
        }
        self.now = usize::midpoint(self.now, self.low).max(1);
        (self.stable, self.drains) = (0, true);
        self.begin(now_ns);
    }

    fn up(&mut self, now_ns: u64) -> SearchStep {
        let before = self.now;
        self.low = before;
        if before + 1 == self.high {
            self.stable += 1;
            if self.stable >= STABLE {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        self.now = if self.failed_once { usize::midpoint(before, self.high) } else { before * 2 }.min(self.max_depth);
        self.begin(now_ns);
        if self.target.run || self.now != before {
            return SearchStep::GoOn;
        }
        if std::mem::replace(&mut self.last, true) {
            return SearchStep::Found;
        }
        self.drains = true;
        SearchStep::Restart
    }

    /// The result as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "depth": self.now,
            "found": self.last,
            "latency_ns": self.target.latency_ns,
            "window_ns": self.target.window_ns,
            "percentile": self.target.percentile,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device that serves one operation a microsecond: at depth n each takes n us.
    fn search(latency_ns: u64, percentile: f64, max_depth: usize) -> (SearchStep, usize) {
        let target = LatencyTarget { latency_ns, window_ns: 1_000_000, percentile, run: false };
        let mut depth = DepthSearch::new(target, max_depth);
        depth.restart(0);
        let mut now = 0;
        for _ in 0..1_000_000 {
            assert!(depth.allows(0));
            now += 1000;
            depth.completed(depth.now as u64 * 1000, 1, now);
            match depth.next(now) {
                SearchStep::GoOn | SearchStep::Restart => {}
                ended => return (ended, depth.now),
            }
        }
        panic!("it never ended");
    }

    #[test]
    fn the_greatest_depth_within_the_target_is_found() {
        for percentile in [99.0, 100.0] {
            assert_eq!(search(24_500, percentile, 128), (SearchStep::Found, 24), "{percentile}");
            assert_eq!(search(1_000_000, percentile, 64), (SearchStep::Found, 64), "{percentile}");
            assert_eq!(search(63_500, percentile, 64), (SearchStep::Found, 63), "{percentile}");
        }
        assert_eq!(search(900, 100.0, 64).0, SearchStep::Hopeless);
    }

    #[test]
    fn no_more_begin_than_the_depth_and_none_while_it_sinks() {
        let target = LatencyTarget { latency_ns: 100, window_ns: 1000, percentile: 100.0, run: true };
        let mut depth = DepthSearch::new(target, 8);
        depth.restart(0);
        depth.completed(50, 10, 500);
        assert_eq!((depth.next(1000), depth.now), (SearchStep::GoOn, 2));
        assert!(depth.allows(1) && !depth.allows(2));
        depth.completed(500, 1, 1100);
        assert_eq!(depth.now, 1);
        assert!(!depth.allows(1) && depth.allows(0));
    }
}
