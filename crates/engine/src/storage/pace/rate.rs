//! When the next operation may start: at a rate (open loop), or after every n-th one; and the minimum rate.

use crate::timing::rng::Rng;

/// One direction's schedule, or that of both together.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_field_names, reason = "the unit stands in the name")]
struct DirectionRate {
    /// ns between two operations; 0 where bytes count.
    operation_ns: f64,
    /// ns a byte; 0 where operations count.
    byte_ns: f64,
    next_ns: f64,
}

impl DirectionRate {
    #[allow(clippy::cast_precision_loss, reason = "rates have few digits")]
    fn new(operations_s: f64, bytes_s: u64) -> Option<Self> {
        let (operation_ns, byte_ns) = match (operations_s > 0.0, bytes_s) {
            (true, _) => (1e9 / operations_s, 0.0),
            (false, 0) => return None,
            (false, bytes_s) => (0.0, 1e9 / bytes_s as f64),
        };
        Some(Self { operation_ns, byte_ns, next_ns: 0.0 })
    }
}

/// Operations begin at intended moments, whether those before them are complete or not; their latency
/// counts from there, so that what a user would have waited is not left out (coordinated omission).
#[derive(Debug, Clone)]
pub struct Pace {
    /// The rates of reads and of writes, or, in the first place, of both together.
    rates: [Option<DirectionRate>; 2],
    combined: bool,
    /// Reads and writes are mixed, so that one direction may go where the other is ahead of its time.
    mixed: bool,
    /// Gaps are exponential with the same mean, not even: arrivals of a Poisson process.
    poisson: bool,
    rng: Rng,
    begin_ns: u64,
}

impl Pace {
    /// All at `operations_s`, or `bytes_s` where that is 0.
    #[must_use]
    pub fn new(operations_s: f64, bytes_s: u64, poisson: bool, seed: u64) -> Self {
        let rng = Rng::new(seed ^ 0xACE);
        let rates = [DirectionRate::new(operations_s, bytes_s.max(1)), None];
        Self { rates, combined: true, mixed: false, poisson, rng, begin_ns: 0 }
    }

    /// Reads and writes each at a separate rate, operations/s and B/s; 0 and 0 for none.
    #[must_use]
    pub fn apart(rates: [(f64, u64); 2], mixed: bool, poisson: bool, seed: u64) -> Self {
        let rates = rates.map(|(operations_s, bytes_s)| DirectionRate::new(operations_s, bytes_s));
        Self { rates, combined: false, mixed, poisson, rng: Rng::new(seed ^ 0xACE), begin_ns: 0 }
    }

    /// Whether reads and writes each have a rate.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        !self.combined
    }

    /// The schedule begins now.
    pub fn restart(&mut self, now_ns: u64) {
        self.begin_ns = now_ns;
        self.rates.iter_mut().flatten().for_each(|rate| rate.next_ns = 0.0);
    }

    /// This much later than it was meant, and nothing is made up for.
    pub fn shift(&mut self, by_ns: u64) {
        self.begin_ns += by_ns;
    }

    fn place(&self, write: bool) -> usize {
        usize::from(write && !self.combined)
    }

    /// When the next operation of this direction is meant to begin; none if at any time.
    #[inline]
    #[must_use]
    pub fn due_ns(&self, write: bool) -> Option<u64> {
        self.rates[self.place(write)].map(|rate| self.begin_ns + rate.next_ns as u64)
    }

    /// When the next of either direction is.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        let due = |write| self.due_ns(write).unwrap_or(u64::MAX);
        due(false).min(due(true))
    }

    /// The direction that may begin now: the one that is wanted, or in a mix the other one if only that is due.
    #[inline]
    #[must_use]
    pub fn choose(&self, wanted: bool, now_ns: u64) -> Option<bool> {
        let may = |write| self.due_ns(write).is_none_or(|due| due <= now_ns);
        if may(wanted) {
            return Some(wanted);
        }
        (self.mixed && !self.combined && may(!wanted)).then_some(!wanted)
    }

    /// Counts a submitted operation of `length` bytes.
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "lengths fit into 53 bits")]
    pub fn issued(&mut self, write: bool, length: u64) {
        let place = self.place(write);
        let Some(rate) = &mut self.rates[place] else { return };
        let mean = rate.operation_ns + rate.byte_ns * length as f64;
        rate.next_ns += if self.poisson { -self.rng.share().ln() * mean } else { mean };
    }
}

/// An action after every n-th submitted operation, once all in flight are complete.
#[derive(Debug, Clone, Copy)]
pub struct EveryNth {
    every: u32,
    since: u32,
}

impl EveryNth {
    /// A counter that is due after every `every`-th operation; none for 0.
    #[must_use]
    pub fn new(every: u32) -> Option<Self> {
        (every > 0).then_some(Self { every, since: 0 })
    }

    /// One that is due now, and then never again of itself.
    #[must_use]
    pub fn now() -> Self {
        Self { every: u32::MAX, since: u32::MAX }
    }

    /// Counts a submitted operation.
    #[inline]
    pub fn count(&mut self) {
        self.since += 1;
    }

    /// It is time.
    #[inline]
    #[must_use]
    pub fn is_due(self) -> bool {
        self.since >= self.every
    }

    /// It was done.
    pub fn done(&mut self) {
        self.since = 0;
    }
}

/// A rate below which the run ends; fio's `rate_min` and `rate_iops_min`.
#[derive(Debug, Clone)]
pub struct MinimumRate {
    /// Operations/s and B/s of reads and of writes; 0 for none.
    rates: [(f64, u64); 2],
    /// Time between two checks, ns.
    cycle_ns: u64,
    settled_ns: u64,
    before: [Option<(u64, u64, u64)>; 2],
    /// What was missed.
    pub missed: Option<String>,
}

/// Time before the rate is first checked, as in fio.
const SETTLE_NS: u64 = 2_000_000_000;

#[allow(clippy::cast_precision_loss, reason = "rates have few digits")]
impl MinimumRate {
    /// Checked every `cycle_s`; none without a minimum.
    #[must_use]
    pub fn new(rates: [(f64, u64); 2], cycle_s: f64) -> Option<Self> {
        let limited = rates.iter().any(|&(operations_s, bytes_s)| operations_s > 0.0 || bytes_s > 0);
        let between_ns = ((cycle_s * 1e9) as u64).max(1_000_000);
        limited.then_some(Self { rates, cycle_ns: between_ns, settled_ns: u64::MAX, before: [None; 2], missed: None })
    }

    /// The timed region begins.
    pub fn restart(&mut self, now_ns: u64) {
        self.settled_ns = now_ns + SETTLE_NS;
        self.before = [None; 2];
    }

    /// Whether a rate was missed; `done` are operations and bytes of reads and of writes so far.
    pub fn is_missed(&mut self, now_ns: u64, done: impl FnOnce() -> [(u64, u64); 2]) -> bool {
        let waits = |before: &Option<(u64, _, _)>| before.is_some_and(|(at, _, _)| now_ns < at + self.cycle_ns);
        if now_ns < self.settled_ns || self.before.iter().any(waits) {
            return false;
        }
        for (direction, (operations, bytes)) in done().into_iter().enumerate() {
            let (min_operations, min_bytes) = self.rates[direction];
            // A direction that has not started is not checked.
            if (min_operations <= 0.0 && min_bytes == 0) || operations == 0 {
                continue;
            }
            if let Some((at, operations_before, bytes_before)) = self.before[direction] {
                let took_s = now_ns.saturating_sub(at) as f64 / 1e9;
                let operations_s = (operations - operations_before) as f64 / took_s;
                let bytes_s = (bytes - bytes_before) as f64 / took_s;
                if min_bytes > 0 && bytes_s < min_bytes as f64 {
                    self.missed = Some(format!("{bytes_s:.0} B/s in one cycle, below rate_min {min_bytes}"));
                } else if operations_s < min_operations {
                    self.missed = Some(format!(
                        "{operations_s:.0} operations/s in one cycle, below rate_iops_min {min_operations}"
                    ));
                }
            }
            self.before[direction] = Some((now_ns, operations, bytes));
        }
        self.missed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_pace_never_drifts_and_a_poisson_one_keeps_its_mean() {
        let mut even = Pace::new(3000.0, 0, false, 1);
        even.restart(77);
        (0..3_000_000).for_each(|_| even.issued(false, 4096));
        let due = even.next_ns();
        assert!(due.abs_diff(77 + 1_000_000_000_000) < 1000, "{due}");
        let mut random = Pace::new(1e6, 0, true, 1);
        (0..1_000_000).for_each(|_| random.issued(true, 4096));
        // The sum of n exponential gaps deviates by 1 / sqrt(n): 0.1% here.
        assert!(random.next_ns().abs_diff(1_000_000_000) < 5_000_000, "{}", random.next_ns());
        let mut bytes = Pace::new(0.0, 1 << 20, false, 1);
        (0..256).for_each(|_| bytes.issued(false, 4096));
        assert_eq!(bytes.due_ns(true), Some(1_000_000_000));
    }

    #[test]
    fn reads_and_writes_each_keep_their_own_rate_whatever_the_mix_wants() {
        let mut pace = Pace::apart([(200.0, 0), (0.0, 50 * 4096)], true, false, 1);
        pace.restart(0);
        let mut counts = [0_u32; 2];
        // Every ms the mix wants a write three times of four; a second in all.
        for step in 0..1000_u64 {
            if let Some(write) = pace.choose(step % 4 != 0, step * 1_000_000) {
                counts[usize::from(write)] += 1;
                pace.issued(write, 4096);
            }
        }
        assert_eq!(counts, [200, 50]);
        let mut one = Pace::apart([(0.0, 0), (100.0, 0)], true, false, 1);
        one.issued(true, 4096);
        assert_eq!((one.choose(true, 5), one.choose(true, 10_000_000)), (Some(false), Some(true)));
        let mut alone = Pace::apart([(0.0, 0), (100.0, 0)], false, false, 1);
        alone.issued(true, 4096);
        assert_eq!(alone.choose(true, 5), None);
    }

    #[test]
    fn a_rate_is_missed_after_the_time_to_settle_and_not_before() {
        assert!(MinimumRate::new([(0.0, 0); 2], 1.0).is_none());
        let mut minimum = MinimumRate::new([(100.0, 0), (0.0, 0)], 1.0).unwrap();
        minimum.restart(0);
        let s = 1_000_000_000;
        assert!(!minimum.is_missed(s, || panic!("it settles")));
        assert!(!minimum.is_missed(2 * s, || [(10, 0), (0, 0)]));
        assert!(!minimum.is_missed(3 * s - 1, || panic!("the cycle is not over")));
        assert!(!minimum.is_missed(3 * s, || [(110, 0), (0, 0)]));
        assert!(minimum.is_missed(4 * s, || [(209, 0), (0, 0)]));
        assert!(minimum.missed.unwrap().starts_with("99 operations/s"));
        let mut bytes = MinimumRate::new([(0.0, 0), (0.0, 1000)], 1.0).unwrap();
        bytes.restart(0);
        assert!(!bytes.is_missed(2 * s, || [(0, 0), (1, 500)]));
        assert!(bytes.is_missed(4 * s, || [(0, 0), (2, 2000)]));
    }
}
