//! Ends a run when its rate is steady: over a window of intervals, the deviation or the slope is small (fio's
//! `steadystate`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use serde_json::{json, Map, Value};

use crate::storage::results::metrics::Metrics;

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watched {
    Operations,
    Bytes,
    Latency,
}

/// The criterion.
#[derive(Debug, Clone, PartialEq)]
pub struct Criterion {
    text: String,
    watched: Watched,
    slope: bool,
    percent: bool,
    limit: f64,
    window: usize,
    ramp_ns: u64,
    interval_ns: u64,
}

impl Criterion {
    /// Reads `iops:2%`, `iops_slope:0.3%`, `bw:10`, `bw_slope:…`, `lat:…`, `lat_slope:…`; the window is
    /// `duration_s`, after `ramp_s`, in intervals of `interval_s`. None for an empty text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, duration_s: f64, ramp_s: f64, interval_s: f64) -> Result<Option<Self>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            format!("steadystate {text}: write iops, bw or lat (or iops_slope …) with a limit, such as iops_slope:0.3%")
        };
        let (name, limit) = text.split_once(':').ok_or_else(wrong)?;
        let (name, slope) = name.strip_suffix("_slope").map_or((name, false), |name| (name, true));
        let watched = match name {
            "iops" => Watched::Operations,
            "bw" => Watched::Bytes,
            "lat" => Watched::Latency,
            _ => return Err(wrong()),
        };
        let (digits, percent) = limit.strip_suffix('%').map_or((limit, false), |digits| (digits, true));
        let limit = digits.parse::<f64>().ok().filter(|limit| *limit >= 0.0 && limit.is_finite()).ok_or_else(wrong)?;
        let window = (duration_s / interval_s).round() as usize;
        if !(2..=1 << 16).contains(&window) {
            return Err(format!(
                "steadystate_duration {duration_s} s must hold at least two intervals of {interval_s} s"
            ));
        }
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        Ok(Some(Self {
            text: text.into(),
            watched,
            slope,
            percent,
            limit,
            window,
            ramp_ns: ns(ramp_s),
            interval_ns: ns(interval_s).max(1_000_000),
        }))
    }
}

/// What all jobs of a run share about it.
#[derive(Debug)]
pub struct SharedProgress {
    /// Operations, bytes and ns of latency so far, a job each.
    counts: Vec<[AtomicU64; 3]>,
    reached: AtomicBool,
}

impl SharedProgress {
    /// Progress of this many jobs.
    #[must_use]
    pub fn new(jobs: usize) -> Self {
        Self { counts: (0..jobs).map(|_| <[AtomicU64; 3]>::default()).collect(), reached: AtomicBool::new(false) }
    }
}

/// What one job does about it; the first one judges.
#[derive(Debug)]
pub struct SteadyState {
    criterion: Criterion,
    shared: Arc<SharedProgress>,
    number: usize,
    block: u64,
    last_ns: u64,
    next_ns: u64,
    before: [u64; 3],
    /// Rates of the last intervals: operations/s, bytes/s, ns of mean latency.
    rows: Vec<[f64; 3]>,
    /// Figures of the last full window.
    slope: f64,
    deviation: f64,
    value: f64,
}

#[allow(clippy::cast_precision_loss, reason = "rates have few digits")]
impl SteadyState {
    /// The detector of job `number`, in blocks of `block` bytes.
    #[must_use]
    pub fn new(criterion: &Criterion, shared: &Arc<SharedProgress>, number: usize, block: u64) -> Self {
        Self {
            criterion: criterion.clone(),
            shared: shared.clone(),
            number,
            block,
            last_ns: 0,
            next_ns: u64::MAX,
            before: [0; 3],
            rows: Vec::with_capacity(criterion.window + 1),
            slope: 0.0,
            deviation: 0.0,
            value: 0.0,
        }
    }

    /// The timed region begins.
    pub fn restart(&mut self, now_ns: u64) {
        self.last_ns = u64::MAX;
        self.next_ns = now_ns + self.criterion.ramp_ns;
        self.before = [0; 3];
        self.rows.clear();
    }

    /// Whether the run has reached its steady state.
    #[inline]
    pub fn is_reached(&mut self, now_ns: u64, metrics: &Metrics) -> bool {
        if now_ns >= self.next_ns {
            self.look(now_ns, metrics);
        }
        self.shared.reached.load(Ordering::Relaxed)
    }

    #[cold]
    fn look(&mut self, now_ns: u64, metrics: &Metrics) {
        let [reads, writes] = &metrics.directions;
        let operations = reads.total.count() + writes.total.count();
        let bytes = if reads.bytes_progress.is_empty() { operations * self.block } else { reads.bytes + writes.bytes };
        let latency = reads.total.sum().wrapping_add(writes.total.sum());
        for (place, value) in self.shared.counts[self.number].iter().zip([operations, bytes, latency]) {
            place.store(value, Ordering::Relaxed);
        }
        // A look that comes late does not make the next one late too.
        self.next_ns = (self.next_ns + self.criterion.interval_ns).max(now_ns + self.criterion.interval_ns / 2);
        if self.number != 0 {
            return;
        }
        let sum = |at: usize| self.shared.counts.iter().map(|one| one[at].load(Ordering::Relaxed)).sum::<u64>();
        let all = [sum(0), sum(1), sum(2)];
        let grown = [0, 1, 2].map(|at| all[at].saturating_sub(self.before[at]) as f64);
        self.before = all;
        let took_s = now_ns.saturating_sub(self.last_ns) as f64 / 1e9;
        self.last_ns = now_ns;
        if took_s <= 0.0 {
            return; // the first row begins where the ramp ended
        }
        if self.rows.len() == self.criterion.window {
            self.rows.remove(0);
        }
        self.rows.push([grown[0] / took_s, grown[1] / took_s, grown[2] / grown[0].max(1.0)]);
        if self.rows.len() == self.criterion.window && self.judge() {
            self.shared.reached.store(true, Ordering::Relaxed);
        }
    }

    fn judge(&mut self) -> bool {
        let column = match self.criterion.watched {
            Watched::Operations => 0,
            Watched::Bytes => 1,
            Watched::Latency => 2,
        };
        let n = self.rows.len() as f64;
        let mean = self.rows.iter().map(|row| row[column]).sum::<f64>() / n;
        if mean <= 0.0 {
            return false;
        }
        let middle = (n - 1.0) / 2.0;
        let (mut along, mut square, mut worst) = (0.0, 0.0, 0.0_f64);
        for (at, row) in self.rows.iter().enumerate() {
            along += (at as f64 - middle) * row[column];
            square += (at as f64 - middle).powi(2);
            worst = worst.max((row[column] - mean).abs());
        }
        (self.slope, self.deviation) = (along / square, worst);
        let value = if self.criterion.slope { self.slope.abs() } else { worst };
        self.value = if self.criterion.percent { 100.0 * value / mean } else { value };
        self.value <= self.criterion.limit
    }

    /// Tells what came of it, as fio's document names it.
    pub fn write(&self, details: &mut Map<String, Value>) {
        let column = |at: usize| self.rows.iter().map(|row| row[at].round()).collect::<Vec<_>>();
        let mean = |at: usize| self.rows.iter().map(|row| row[at]).sum::<f64>() / (self.rows.len().max(1) as f64);
        details.insert(
            "steadystate".into(),
            json!({
                "criterion": self.criterion.text,
                "attained": self.shared.reached.load(Ordering::Relaxed),
                "duration_s": self.criterion.window as f64 * self.criterion.interval_ns as f64 / 1e9,
                "interval_s": self.criterion.interval_ns as f64 / 1e9,
                "value": self.value,
                "slope": self.slope,
                "max_deviation": self.deviation,
                "operations_s": column(0),
                "bytes_s": column(1),
                "latency_ns": column(2),
                "operations_s_mean": mean(0),
                "bytes_s_mean": mean(1),
                "latency_ns_mean": mean(2),
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `rates` (operations an interval of 1 s) of two jobs, and says after how many it was steady.
    fn steady_after(text: &str, rates: &[u32]) -> Option<usize> {
        let criterion = Criterion::parse(text, 5.0, 0.0, 1.0).unwrap().unwrap();
        let shared = Arc::new(SharedProgress::new(2));
        let mut jobs =
            [0, 1].map(|number| (SteadyState::new(&criterion, &shared, number, 512), Metrics::new(1_000_000_000)));
        for (steady, metrics) in &mut jobs {
            metrics.begin(0);
            steady.restart(0);
            steady.is_reached(0, metrics);
        }
        for (at, &rate) in rates.iter().enumerate() {
            let now = (at as u64 + 1) * 1_000_000_000;
            for (steady, metrics) in jobs.iter_mut().rev() {
                metrics.completed(false, 10, 10, rate);
                if steady.is_reached(now, metrics) {
                    return Some(at + 1);
                }
            }
        }
        None
    }

    #[test]
    fn a_level_rate_is_steady_and_a_rising_or_wild_one_is_not() {
        assert_eq!(steady_after("iops:2%", &[100; 9]), Some(5));
        assert_eq!(steady_after("bw_slope:0.3%", &[100; 9]), Some(5));
        assert_eq!(steady_after("iops_slope:1%", &[100, 200, 300, 400, 500, 600, 700, 800]), None);
        assert_eq!(steady_after("iops:10%", &[100, 200, 100, 200, 100, 200, 100, 200]), None);
        // Wild but level: the slope over five of them is small only where the ends are alike.
        assert_eq!(steady_after("iops_slope:1%", &[100, 200, 100, 200, 100]), Some(5));
        assert_eq!(steady_after("iops:2%", &[10, 40, 80, 100, 100, 100, 100, 100]), Some(8));
        assert_eq!(steady_after("lat:1%", &[100; 9]), Some(5));
    }

    #[test]
    fn what_is_no_criterion_is_told() {
        for text in ["iops", "iops:x", "cpu:1%", "iops:-1%"] {
            assert!(Criterion::parse(text, 5.0, 0.0, 1.0).is_err(), "{text}");
        }
        assert!(Criterion::parse("iops:1%", 1.0, 0.0, 1.0).is_err());
        assert_eq!(Criterion::parse("", 0.0, 0.0, 1.0), Ok(None));
    }
}
