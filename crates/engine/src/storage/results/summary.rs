//! What came of what a job was asked beyond blocks at full speed: rates, syncs, checks, searches.

use serde_json::{json, Map, Value};

use crate::histogram::Histogram;
use crate::reading::{Fault, Note, Reading};
use crate::storage::integrity::verify::Findings;
use crate::storage::io::controls::Extras;
use crate::storage::job::options::Asked;
use crate::storage::pace::depth_search::Depth;
use crate::storage::pace::steady_state::Steady;
use crate::storage::trace::iolog::Trace;

/// Below this share of the rate asked for, operations queued up.
const RATE_MISSED: f64 = 0.98;
/// With fewer operations the share is chance.
const LEAST_TO_JUDGE: u64 = 1000;

impl Asked {
    /// Tells how much of its rate an open loop reached, with a note where operations queued up.
    pub fn tell_rate(&self, reading: &mut Reading, details: &mut Map<String, Value>) -> Option<Note> {
        if !self.open_loop() {
            return None;
        }
        // More may be waiting than the depth holds; what was asked for is a rate.
        reading.concurrency_asked = 0.0;
        let elapsed_s = reading.elapsed_s.max(1e-9);
        let operations: u64 = reading.streams.iter().map(|stream| stream.operations).sum();
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        let reached = match self.rates {
            // Of two rates the one that fell further behind.
            Some(rates) => reading
                .streams
                .iter()
                .filter_map(|stream| match rates[usize::from(stream.name == "write")] {
                    (operations_s, _) if operations_s > 0.0 => {
                        Some(stream.operations as f64 / elapsed_s / operations_s)
                    }
                    (_, 0) => None,
                    (_, bytes_s) => Some(stream.bytes as f64 / elapsed_s / bytes_s as f64),
                })
                .fold(f64::INFINITY, f64::min),
            None if self.rate > 0.0 => operations as f64 / elapsed_s / self.rate,
            None => bytes as f64 / elapsed_s / self.rate_bytes as f64,
        };
        details.insert("rate_reached_share".into(), json!(reached));
        (reached < RATE_MISSED && operations > LEAST_TO_JUDGE).then(|| Note {
            code: "rate_not_reached".into(),
            says: format!(
                "{:.0}% of the rate asked for was reached, so operations queued up and their latency grows with the runtime",
                reached * 100.0
            ),
        })
    }
}

/// What all threads' extras came to.
#[derive(Debug, Default)]
pub struct Told {
    verified: Option<Findings>,
    synced: Option<Histogram>,
    steady: Option<Steady>,
    depth: Option<Depth>,
    missed: Vec<String>,
    /// Of each thread, where operations were written down.
    pub traces: Vec<Trace>,
}

impl Told {
    /// Adds one thread's.
    pub fn add(&mut self, extras: Extras) {
        // The first thread judges for all.
        self.steady = self.steady.take().or(extras.steady);
        self.depth = self.depth.take().or(extras.depth);
        self.missed.extend(extras.least.and_then(|least| least.missed));
        self.traces.extend(extras.trace);
        if let Some(verify) = extras.verify {
            self.verified.get_or_insert_with(Findings::default).merge(&verify.found);
        }
        if let Some(synced) = extras.synced {
            self.synced.get_or_insert_with(Histogram::new).merge(&synced);
        }
    }

    /// Tells it in a reading: `details`, and a fault for each kind of damage.
    pub fn write(&self, details: &mut Map<String, Value>, faults: &mut Vec<Fault>) {
        if let Some(synced) = &self.synced {
            details.insert("sync_count".into(), json!(synced.count()));
            details.insert("sync_latency_ns".into(), synced.to_json());
            details.insert("sync_latency_ns_mean".into(), json!(synced.mean()));
        }
        if let Some(steady) = &self.steady {
            steady.write(details);
        }
        if let Some(depth) = &self.depth {
            details.insert("latency_target".into(), depth.told());
        }
        for says in &self.missed {
            let says = format!("the run was ended: {says}");
            faults.push(Fault { operation: "rate".into(), errno: libc::EIO, says, count: 1 });
        }
        if let Some(found) = &self.verified {
            found.write("", details, faults);
        }
    }
}
