//! When the next operation may begin: at a rate (open loop), after time to think, or after a sync.

use super::choice::Draws;

/// Operations begin at intended moments, whether those before them are complete or not; their latency
/// counts from there, so that what a user would have waited is not left out (coordinated omission).
#[derive(Debug, Clone)]
pub struct Pace {
    /// ns between two operations; 0 where bytes count.
    operation_ns: f64,
    /// ns a byte; 0 where operations count.
    byte_ns: f64,
    /// Gaps are exponential with this mean, not even: arrivals of a Poisson process.
    poisson: bool,
    draws: Draws,
    begin_ns: u64,
    next_ns: f64,
}

impl Pace {
    /// At `operations_s`, or `bytes_s` where that is 0.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "rates have few digits")]
    pub fn new(operations_s: f64, bytes_s: u64, poisson: bool, seed: u64) -> Self {
        let (operation_ns, byte_ns) =
            if operations_s > 0.0 { (1e9 / operations_s, 0.0) } else { (0.0, 1e9 / bytes_s.max(1) as f64) };
        Self { operation_ns, byte_ns, poisson, draws: Draws::new(seed ^ 0xACE), begin_ns: 0, next_ns: 0.0 }
    }

    /// The schedule begins now.
    pub fn restart(&mut self, now_ns: u64) {
        self.begin_ns = now_ns;
        self.next_ns = 0.0;
    }

    /// When the next operation is meant to begin.
    #[inline]
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        self.begin_ns + self.next_ns as u64
    }

    /// An operation of `length` bytes was handed over.
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "lengths fit into 53 bits")]
    pub fn issued(&mut self, length: u64) {
        let mean = self.operation_ns + self.byte_ns * length as f64;
        self.next_ns += if self.poisson { -self.draws.share().ln() * mean } else { mean };
    }
}

/// After every so many operations handed over, all of them are seen home and something else happens.
#[derive(Debug, Clone, Copy)]
pub struct Every {
    every: u32,
    since: u32,
}

impl Every {
    /// After every `every`-th; none for 0.
    #[must_use]
    pub fn new(every: u32) -> Option<Self> {
        (every > 0).then_some(Self { every, since: 0 })
    }

    /// One more was handed over.
    #[inline]
    pub fn count(&mut self) {
        self.since += 1;
    }

    /// It is time.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.since >= self.every
    }

    /// It was done.
    pub fn done(&mut self) {
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_pace_never_drifts_and_a_poisson_one_keeps_its_mean() {
        let mut even = Pace::new(3000.0, 0, false, 1);
        even.restart(77);
        (0..3_000_000).for_each(|_| even.issued(4096));
        assert!(even.due_ns().abs_diff(77 + 1_000_000_000_000) < 1000, "{}", even.due_ns());
        let mut random = Pace::new(1e6, 0, true, 1);
        (0..1_000_000).for_each(|_| random.issued(4096));
        // The sum of n exponential gaps deviates by 1 / sqrt(n): 0.1% here.
        assert!(random.due_ns().abs_diff(1_000_000_000) < 5_000_000, "{}", random.due_ns());
        let mut bytes = Pace::new(0.0, 1 << 20, false, 1);
        (0..256).for_each(|_| bytes.issued(4096));
        assert_eq!(bytes.due_ns(), 1_000_000_000);
    }
}
