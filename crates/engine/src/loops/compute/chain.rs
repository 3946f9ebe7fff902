//! The clock of a processor by additions that each wait for the one before.

use crate::sys::clock_chain;

use crate::timing::clock::now_ns;
use crate::timing::histogram::median;

/// A clock by the dependent-add chain, a slice at a time.
///
/// A thread that is preempted in the middle of a slice makes it milliseconds longer, which has nothing to do with the
/// clock, so the median slice counts and not their sum.
pub struct Chain {
    adds: u64,
    /// The last slices, ns; the oldest is overwritten when there is no more room.
    slices: Vec<u32>,
    at: usize,
}

impl Chain {
    /// Turns of a slice: 32 additions each, so 10 µs at 3 GHz.
    const TURNS: u64 = 1000;
    /// Additions of a slice.
    pub const SLICE: u64 = Self::TURNS * clock_chain::TURN;

    /// Room for `slices`, allocated and touched here.
    #[must_use]
    pub fn new(slices: usize) -> Self {
        let mut room = vec![1; slices.clamp(1, 1 << 17)];
        room.clear();
        Self { adds: 0, slices: room, at: 0 }
    }

    /// Runs slices for at least `ns`, and at least one.
    #[inline]
    pub fn run(&mut self, ns: u64) -> u64 {
        let begun = now_ns();
        let mut now = begun;
        loop {
            if clock_chain::chain(Self::TURNS) == 0 {
                return now;
            }
            let then = now_ns();
            self.record(then - now);
            now = then;
            if now - begun >= ns {
                return now;
            }
        }
    }

    /// One slice of `beat`, which is a chain of as many additions a turn; when it ended.
    #[inline]
    pub fn slice(&mut self, beat: impl Fn(u64) -> u64) -> u64 {
        let begun = now_ns();
        let done = std::hint::black_box(beat(Self::TURNS));
        let now = now_ns();
        if done > 0 {
            self.record(now - begun);
        }
        now
    }

    #[inline]
    fn record(&mut self, ns: u64) {
        let ns = u32::try_from(ns.max(1)).unwrap_or(u32::MAX);
        if self.slices.len() < self.slices.capacity() {
            self.slices.push(ns);
        } else {
            self.slices[self.at] = ns;
            self.at = (self.at + 1) % self.slices.len();
        }
        self.adds += Self::SLICE;
    }

    /// Additions done.
    #[must_use]
    pub fn adds(&self) -> u64 {
        self.adds
    }

    /// Lengths of the slices, ns, in turn as long as there was room.
    #[must_use]
    pub fn slices(&self) -> &[u32] {
        &self.slices
    }

    /// Additions a second, which are cycles a second, in the median slice; 0 where there is no chain.
    #[must_use]
    pub fn hz(&self) -> f64 {
        median(self.slices.iter().map(|&ns| f64::from(ns)).collect()).map_or(0.0, |ns| Self::SLICE as f64 * 1e9 / ns)
    }

    /// The clock by the fastest slice: the highest that it was.
    #[must_use]
    pub fn best_hz(&self) -> f64 {
        self.slices.iter().min().map_or(0.0, |&ns| Self::SLICE as f64 * 1e9 / f64::from(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_that_was_cut_into_says_nothing_of_the_clock() {
        let mut chain = Chain::new(100);
        for at in 0..300 {
            chain.record(if at % 3 == 0 { 8_000_000 } else { 8_000 + at });
        }
        assert_eq!(chain.slices().len(), 100, "the last hundred");
        assert!((chain.hz() / 4e9 - 1.0).abs() < 0.05, "{}", chain.hz());
        assert_eq!(chain.adds(), 300 * Chain::SLICE);
    }
}
