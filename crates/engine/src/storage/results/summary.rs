//! What came of what a job was asked beyond blocks at full speed: rates, syncs, checks, searches.

use serde_json::{json, Map, Value};

use crate::histogram::Histogram;
use crate::reading::{Fault, Note, Reading};
use crate::storage::integrity::verify::DamageReport;
use crate::storage::io::controls::Controls;
use crate::storage::job::options::JobOptions;
use crate::storage::pace::depth_search::DepthSearch;
use crate::storage::pace::steady_state::SteadyState;
use crate::storage::trace::iolog::TraceRecorder;

/// Below this share of the rate asked for, operations queued up.
const RATE_MISSED: f64 = 0.98;
/// With fewer operations the share is chance.
const MIN_OPERATIONS: u64 = 1000;

impl JobOptions {
    /// Tells how much of its rate an open loop reached, with a note where operations queued up.
    pub fn note_missed_rate(&self, reading: &mut Reading, details: &mut Map<String, Value>) -> Option<Note> {
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
        (reached < RATE_MISSED && operations > MIN_OPERATIONS).then(|| Note {
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
pub struct Summary {
    verified: Option<DamageReport>,
    sync_latency: Option<Histogram>,
    steady: Option<SteadyState>,
    depth: Option<DepthSearch>,
    missed: Vec<String>,
    /// Of each thread, where operations were written down.
    pub traces: Vec<TraceRecorder>,
}

impl Summary {
    /// Adds one thread's.
    pub fn add(&mut self, controls: Controls) {
        // The first thread judges for all.
        self.steady = self.steady.take().or(controls.steady);
        self.depth = self.depth.take().or(controls.depth);
        self.missed.extend(controls.minimum_rate.and_then(|minimum_rate| minimum_rate.missed));
        self.traces.extend(controls.trace);
        if let Some(verify) = controls.verify {
            self.verified.get_or_insert_with(DamageReport::default).merge(&verify.found);
        }
        if let Some(sync_latency) = controls.sync_latency {
            self.sync_latency.get_or_insert_with(Histogram::new).merge(&sync_latency);
        }
    }

    /// Tells it in a reading: `details`, and a fault for each kind of damage.
    pub fn write(&self, details: &mut Map<String, Value>, faults: &mut Vec<Fault>) {
        if let Some(sync_latency) = &self.sync_latency {
            details.insert("sync_count".into(), json!(sync_latency.count()));
            details.insert("sync_latency_ns".into(), sync_latency.to_json());
            details.insert("sync_latency_ns_mean".into(), json!(sync_latency.mean()));
        }
        if let Some(steady) = &self.steady {
            steady.write(details);
        }
        if let Some(depth) = &self.depth {
            details.insert("latency_target".into(), depth.to_json());
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
