//! What many threads add to while they work: progress over time, and faults by name.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::contract::reading::{Fault, Reading, Samples, Stream};
use crate::timing::histogram::Histogram;

/// Intervals that are kept; later progress is counted in the last one.
const INTERVALS: usize = 1 << 16;
/// Faults that are kept by name; more are only counted.
const NAMED: usize = 50;

/// Shared by all threads of a kernel; adding to it takes no lock unless something failed.
pub struct Ledger {
    start_ns: AtomicU64,
    interval_ns: u64,
    operations: Vec<AtomicU64>,
    bytes: Vec<AtomicU64>,
    faults: Mutex<Vec<Fault>>,
}

impl Ledger {
    /// An empty one.
    #[must_use]
    pub fn new(interval_s: f64) -> Self {
        let zeroes = || (0..INTERVALS).map(|_| AtomicU64::new(0)).collect();
        Self {
            start_ns: AtomicU64::new(0),
            interval_ns: ((interval_s * 1e9) as u64).max(1_000_000),
            operations: zeroes(),
            bytes: zeroes(),
            faults: Mutex::default(),
        }
    }

    /// Sets the beginning of the timed region.
    pub fn start(&self, now_ns: u64) {
        self.start_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Counts what was done by `now_ns`.
    pub fn done(&self, now_ns: u64, operations: u64, bytes: u64) {
        let since = now_ns.saturating_sub(self.start_ns.load(Ordering::Relaxed));
        let at = ((since / self.interval_ns) as usize).min(INTERVALS - 1);
        self.operations[at].fetch_add(operations, Ordering::Relaxed);
        self.bytes[at].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Names a fault; the same words are counted together.
    pub fn fault(&self, operation: &str, errno: i32, says: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = faults.iter_mut().find(|fault| fault.operation == operation && fault.says == says) {
            same.count += 1;
        } else if faults.len() < NAMED {
            faults.push(Fault { operation: operation.into(), errno, says, count: 1 });
        } else if let Some(last) = faults.last_mut() {
            last.says = "and further ones".into();
            last.count += 1;
        }
    }

    /// The faults so far.
    #[must_use]
    pub fn faults(&self) -> Vec<Fault> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds to the reading, whose time is known, a stream with these latencies, its samples over time, and the faults.
    pub fn add(&self, reading: &mut Reading, name: &str, latencies: &[(&str, &Histogram)]) {
        let (samples, mut stream) = self.samples(reading.elapsed_s, name);
        for (kind, histogram) in latencies {
            stream.add_latency(kind, histogram);
        }
        reading.samples.interval_s = samples.interval_s;
        reading.samples.operations.extend(samples.operations);
        reading.samples.bytes.extend(samples.bytes);
        reading.faults.extend(self.faults());
        reading.streams.push(stream);
    }

    /// Progress over `elapsed_s`, the interval that was cut short left out, and the whole as a stream.
    fn samples(&self, elapsed_s: f64, name: &str) -> (Samples, Stream) {
        let read = |list: &[AtomicU64]| list.iter().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let (operations, bytes) = (read(&self.operations), read(&self.bytes));
        let stream = Stream {
            name: name.into(),
            operations: operations.iter().sum(),
            bytes: bytes.iter().sum(),
            ..Stream::default()
        };
        let whole = ((elapsed_s * 1e9) as u64 / self.interval_ns) as usize;
        let cut = |mut list: Vec<u64>| {
            list.truncate(whole);
            vec![list]
        };
        let samples =
            Samples { interval_s: self.interval_ns as f64 / 1e9, operations: cut(operations), bytes: cut(bytes) };
        (samples, stream)
    }
}
