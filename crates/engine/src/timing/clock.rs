//! Time in ns by the monotonic clock, and a cheaper clock for hot loops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use crate::sys::ticks;

/// Now, in ns since an arbitrary origin; never runs backwards. About 20 ns a call through the vDSO.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    crate::sys::time::monotonic_ns()
}

/// The two clocks may differ by this share before the cheap one is given up.
const TOLERANCE: f64 = 1e-3;

/// Set for the life of the process once the counter was caught lying.
static DISTRUSTED: AtomicBool = AtomicBool::new(false);

/// A clock for hot loops: the processor's counter scaled to the monotonic clock (about 10 ns a call),
/// or that clock itself where the counter cannot be trusted.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// ns a tick, times 2^32; 0 means: ask the system.
    scale: u64,
    origin_ticks: u64,
    origin_ns: u64,
}

impl Clock {
    /// The best clock of this machine; the first call in a process takes 10 ms to calibrate it.
    #[must_use]
    pub fn best() -> Self {
        static BEST: OnceLock<Clock> = OnceLock::new();
        let best = *BEST.get_or_init(|| if ticks::constant() { Self::calibrate() } else { Self::system() });
        if DISTRUSTED.load(Ordering::Relaxed) {
            return Self::system();
        }
        best
    }

    /// The system's monotonic clock.
    #[must_use]
    pub fn system() -> Self {
        Self { scale: 0, origin_ticks: 0, origin_ns: 0 }
    }

    fn calibrate() -> Self {
        let (from_ns, from_ticks) = pair();
        std::thread::sleep(Duration::from_millis(10));
        let (to_ns, to_ticks) = pair();
        let (ns, passed) = (to_ns.saturating_sub(from_ns), to_ticks.wrapping_sub(from_ticks));
        // A counter between 1 MHz and 100 GHz is plausible; anything else is not a clock.
        if passed < ns / 1000 || passed > ns * 100 || ns == 0 {
            return Self::system();
        }
        let scale = ((u128::from(ns) << 32) / u128::from(passed)) as u64;
        Self { scale, origin_ticks: to_ticks, origin_ns: to_ns }
    }

    /// Now, in ns on the scale of [`now_ns`]. Between cores it may step back by a few ns.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        if self.scale == 0 {
            return now_ns();
        }
        let passed = ticks::now().wrapping_sub(self.origin_ticks);
        self.origin_ns + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64
    }

    /// `counter` or `system`, for the reading.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.scale == 0 {
            "system"
        } else {
            "counter"
        }
    }

    /// Starts a stretch of time that is measured by both clocks.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch { clock: *self, by_clock: self.now(), by_system: now_ns() }
    }
}

/// A stretch of time measured by both clocks, to catch a counter that drifts.
#[derive(Debug, Clone, Copy)]
pub struct Watch {
    clock: Clock,
    by_clock: u64,
    by_system: u64,
}

impl Watch {
    /// The clock's error against the system's, as a share (positive if it ran fast), if that is more than 0.1%; from
    /// then on [`Clock::best`] is the system's clock.
    #[must_use]
    pub fn disagreement(&self) -> Option<f64> {
        let by_clock = self.clock.now().saturating_sub(self.by_clock) as f64;
        let by_system = now_ns().saturating_sub(self.by_system) as f64;
        let apart = by_clock - by_system;
        // Being put off the processor between the two reads can cost much of a short stretch.
        if by_system < 5e7 || apart.abs() <= (by_system * TOLERANCE).max(1e6) {
            return None;
        }
        DISTRUSTED.store(true, Ordering::Relaxed);
        Some(apart / by_system)
    }
}

/// The system's clock and the counter at one moment: the tightest of several tries.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = ticks::now();
        let ns = now_ns();
        let after = ticks::now();
        let width = after.wrapping_sub(before);
        if width < best.0 {
            best = (width, ns, before.wrapping_add(width / 2));
        }
    }
    (best.1, best.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_clock_keeps_the_systems_time() {
        let clock = Clock::best();
        let watch = clock.watch();
        let (from, from_system) = (clock.now(), now_ns());
        std::thread::sleep(Duration::from_millis(60));
        let (passed, by_system) = (clock.now() - from, now_ns() - from_system);
        assert!(passed.abs_diff(by_system) < by_system / 5, "{passed} against {by_system}");
        assert!(watch.disagreement().is_none());
    }

    #[test]
    fn a_clock_that_runs_fast_is_caught() {
        let right = Clock::best();
        if right.scale == 0 {
            return crate::here::absent("a counter that could run fast");
        }
        let fast = Clock { scale: right.scale + right.scale / 10, ..right };
        let watch = Watch { clock: fast, by_clock: fast.now(), by_system: now_ns() };
        std::thread::sleep(Duration::from_millis(60));
        let share = watch.disagreement();
        DISTRUSTED.store(false, Ordering::Relaxed);
        assert!(share.is_some_and(|share| (0.05..0.15).contains(&share)), "{share:?}");
    }
}
