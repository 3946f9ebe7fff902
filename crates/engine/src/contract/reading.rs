//! What every kernel returns: counts, whole latency histograms, samples over time and CPU cost.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::timing::histogram::Histogram;
use crate::timing::stalls::Stalls;

/// One run of one kernel. Counts are exact; every rate is derived from them by the reader.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Reading {
    /// The kernel's name.
    pub kernel: String,
    /// Every parameter as it was used, defaults included.
    pub parameters: Value,
    /// Length of the timed region, by the monotonic clock, s.
    pub elapsed_s: f64,
    /// What was done, one entry a direction (`read`, `write`) or one alone.
    pub streams: Vec<Stream>,
    /// Progress over time, for minimum, average and maximum.
    pub samples: Samples,
    /// CPU time that the measuring threads spent inside the timed region.
    pub cpu: CpuTime,
    /// How many operations should be in flight.
    pub concurrency_requested: f64,
    /// Counters of the system over the timed region, by name with the unit in it, such as
    /// `process_read_bytes` or `device_read_bytes`; absent where the system has none.
    pub counters: Map<String, Value>,
    /// Faults inside the timed region, counted by kind.
    pub faults: Vec<Fault>,
    /// What the reader should know: a fallback taken, an option refused.
    pub notes: Vec<Note>,
    /// Figures of this kernel alone, by name with the unit in it.
    pub details: Map<String, Value>,
    /// True if it was stopped before its end: what is here is right, but short.
    pub interrupted: bool,
}

/// The check of what an operation has left, after it was timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Words or results that were looked at.
    pub checked: u64,
    /// Those that were wrong.
    pub wrong: u64,
}

impl Reading {
    /// Sets a figure of this kernel alone; its name has the unit in it.
    pub fn detail(&mut self, name: &str, value: impl Into<Value>) {
        self.details.insert(name.into(), value.into());
    }

    /// Adds a remark.
    pub fn note(&mut self, code: &str, says: impl Into<String>) {
        self.notes.push(Note { code: code.into(), says: says.into() });
    }

    /// Sets `verification` to `passed`, or to `failed` with a fault that counts what was wrong.
    pub fn verified(&mut self, verdicts: impl Iterator<Item = Verdict>) {
        let (checked, wrong) =
            verdicts.fold((0, 0), |(checked, wrong), one| (checked + one.checked, wrong + one.wrong));
        self.detail("verification", if wrong == 0 { "passed" } else { "failed" });
        self.detail("verified_words", checked);
        if wrong > 0 {
            self.faults.push(Fault {
                operation: "verify".into(),
                errno: 0,
                says: "a result is wrong: memory, CPU or loop is faulty".into(),
                count: wrong,
            });
        }
    }
}

/// What was done in one direction.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stream {
    /// `read`, `write`, or the kernel's own word.
    pub name: String,
    /// Completed operations.
    pub operations: u64,
    /// Bytes moved, as the kernel's declaration counts them; 0 where it moves none.
    pub bytes: u64,
    /// Arithmetic operations done; 0 where it does none.
    pub flops: u64,
    /// Whole latency histograms in ns, by kind: `submit`, `complete`, `total`.
    pub latency_ns: Map<String, Value>,
}

impl Stream {
    /// One that counts operations alone; what else it has is set beside it.
    #[must_use]
    pub fn new(name: &str, operations: u64) -> Self {
        Self { name: name.into(), operations, ..Self::default() }
    }

    /// Adds the histogram of one kind of latency.
    pub fn add_latency(&mut self, kind: &str, histogram: &Histogram) {
        self.latency_ns.insert(kind.to_string(), histogram.to_json());
    }
}

/// Progress over time: row `i` covers `[i, i + 1) * interval_s`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Samples {
    /// Length of an interval, s.
    pub interval_s: f64,
    /// Operations completed in each interval, one list a stream in the order of `streams`.
    pub operations: Vec<Vec<u64>>,
    /// Bytes moved in each interval, likewise.
    pub bytes: Vec<Vec<u64>>,
}

/// CPU time of threads, s, and what kept them from more of it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct CpuTime {
    /// CPU time in user mode.
    pub user_s: f64,
    /// CPU time in the kernel on behalf of the measuring threads.
    pub system_s: f64,
    /// How often they slept until something woke them (`ru_nvcsw`).
    pub voluntary_switches: u64,
    /// How often another thread took their processor (`ru_nivcsw`).
    pub involuntary_switches: u64,
    /// How long they were ready to run and waited for a processor, s; none where the system does not count it.
    pub run_delay_s: Option<f64>,
    /// Stalled cycles, where they were counted (`crate::timing::stalls`).
    #[serde(flatten)]
    pub stalls: Option<Stalls>,
}

/// One kind of fault inside the timed region.
#[derive(Debug, Clone, Serialize)]
pub struct Fault {
    /// What failed, such as `read`.
    pub operation: String,
    /// The system's number for it; 0 for a short transfer.
    pub errno: i32,
    /// What it means in words.
    pub says: String,
    /// How many times.
    pub count: u64,
}

impl Fault {
    /// One refusal by the system.
    #[must_use]
    pub fn of(operation: &str, error: &std::io::Error) -> Self {
        Self {
            operation: operation.into(),
            errno: error.raw_os_error().unwrap_or(0),
            says: error.to_string(),
            count: 1,
        }
    }
}

/// A remark on how the reading was taken.
#[derive(Debug, Clone, Serialize)]
pub struct Note {
    /// A stable word for it, such as `direct_refused`.
    pub code: String,
    /// One sentence with the figures.
    pub says: String,
}

impl Note {
    /// A remark under a stable word.
    pub fn new(code: &str, says: impl Into<String>) -> Self {
        Self { code: code.into(), says: says.into() }
    }
}

/// A count with its noun, such as `1 entry` or `3 entries`.
#[must_use]
pub fn counted(count: u64, singular: &str, plural: &str) -> String {
    format!("{count} {}", if count == 1 { singular } else { plural })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_has_the_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "entry", "entries")), ["0 entries", "1 entry", "2 entries"]);
    }
}
