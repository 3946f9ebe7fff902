//! The results of all threads' controls: syncs, verification, steady state, depth search.

use serde_json::{json, Map, Value};

use crate::contract::reading::Fault;
use crate::storage::integrity::verify::DamageReport;
use crate::storage::io::controls::Controls;
use crate::storage::pace::depth_search::DepthSearch;
use crate::storage::pace::steady_state::SteadyState;
use crate::storage::trace::iolog::TraceRecorder;
use crate::timing::histogram::Histogram;

/// The results of all threads' controls.
#[derive(Debug, Default)]
pub struct Summary {
    verified: Option<DamageReport>,
    sync_latency: Option<Histogram>,
    steady: Option<SteadyState>,
    depth: Option<DepthSearch>,
    missed: Vec<String>,
    /// Each thread's trace, where one was recorded.
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

    /// Adds it to a reading: `details`, and a fault for each kind of damage.
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
