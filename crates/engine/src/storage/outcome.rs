//! What the threads of a run bring home, and the one reading made of it.

use std::io;

use serde_json::{json, Map, Value};

use super::asked::Told;
use super::drive::Ending;
use super::extras::Extras;
use super::job::{note, Engine, Job};
use super::ready::Ready;
use super::record::{Direction, Record};
use crate::reading::{CpuTime, Fault, Reading, Samples, Stream};

/// What one member of the team brings home.
pub struct Outcome {
    /// What it wrote down.
    pub record: Record,
    /// Why it ended.
    pub ending: Ending,
    /// CPU time inside the timed region.
    pub cpu: CpuTime,
    /// System calls likewise.
    pub calls: u64,
    /// Bytes of the region that it reached, at most.
    pub touched: u64,
    /// What its engine tells.
    pub facts: Map<String, Value>,
    /// The system's counters, from the one that observes.
    pub counters: Option<Map<String, Value>>,
    /// How long filling its buffers took, s.
    pub fill_s: f64,
    /// What was asked beyond blocks at full speed, with what came of it.
    pub extras: Extras,
}

/// Throughput of each thread over its own time, beside which the whole's is the parent's.
#[derive(Default)]
struct Children(Vec<f64>);

impl Children {
    fn add(&mut self, record: &Record, block: u64, varied: bool) {
        let bytes = record.directions.iter().map(|direction| bytes_of(direction, block, varied)).sum::<u64>();
        let took_s = record.ended_ns.saturating_sub(record.began_ns) as f64 / 1e9;
        if took_s > 0.0 {
            self.0.push(bytes as f64 / took_s);
        }
    }

    fn write(&self, details: &mut Map<String, Value>) {
        if self.0.len() < 2 {
            return;
        }
        let sum = self.0.iter().sum::<f64>();
        let least = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.0.iter().copied().fold(0.0, f64::max);
        details.insert("children_sum_bytes_s".into(), json!(sum));
        details.insert("children_mean_bytes_s".into(), json!(sum / self.0.len() as f64));
        details.insert("children_min_bytes_s".into(), json!(least));
        details.insert("children_max_bytes_s".into(), json!(most));
    }
}

fn bytes_of(direction: &Direction, block: u64, varied: bool) -> u64 {
    if varied {
        direction.bytes
    } else {
        direction.total.count() * block
    }
}

/// One thread's progress, by direction: operations, bytes and sums of latency an interval.
fn log_of(record: &Record, block: u64, varied: bool) -> Value {
    let direction = |of: &Direction| {
        let [submit, complete, total] = &of.latency_progress;
        let bytes = if varied { of.bytes_progress.clone() } else { of.progress.iter().map(|n| n * block).collect() };
        json!({"operations": of.progress, "bytes": bytes, "submit_ns": submit, "complete_ns": complete, "total_ns": total})
    };
    json!({
        "interval_s": record.interval_ns as f64 / 1e9,
        "read": direction(&record.directions[0]),
        "write": direction(&record.directions[1]),
    })
}

impl Job {
    pub(super) fn put_together(&self, outcomes: Vec<Outcome>, ready: Ready) -> Reading {
        let Ready { span, mut notes, mut details, .. } = ready;
        let mut reading = Reading { concurrency_asked: (self.depth * self.jobs) as f64, ..Reading::default() };
        let mut all: Option<Record> = None;
        let (mut calls, mut touched, mut fill_s) = (0_u64, 0_u64, 0.0_f64);
        let mut told = Told::default();
        let varied = self.asked.varied();
        let mut children = Children::default();
        let mut logs = Vec::new();
        for outcome in outcomes {
            told.add(outcome.extras);
            reading.cpu += outcome.cpu;
            reading.interrupted |= outcome.ending == Ending::Stopped;
            calls += outcome.calls;
            touched += outcome.touched;
            fill_s = fill_s.max(outcome.fill_s);
            if let Some(counters) = outcome.counters {
                reading.counters = counters;
            }
            details.extend(outcome.facts);
            if outcome.ending == Ending::Faults && !notes.iter().any(|note| note.code == "faults_ended_run") {
                notes.push(note("faults_ended_run", "so many operations failed in a row that the run was ended early"));
            }
            children.add(&outcome.record, self.block, varied);
            if self.asked.log {
                logs.push(log_of(&outcome.record, self.block, varied));
            }
            match &mut all {
                Some(all) => all.merge(outcome.record),
                None => all = Some(outcome.record),
            }
        }
        let Some(record) = all else { return reading };
        reading.elapsed_s = (record.ended_ns - record.began_ns) as f64 / 1e9;
        reading.samples = Samples { interval_s: record.interval_ns as f64 / 1e9, ..Samples::default() };
        let mut in_flight_ns = 0.0;
        for (name, asked, direction) in
            [("read", self.reads(), &record.directions[0]), ("write", self.writes(), &record.directions[1])]
        {
            if !asked {
                continue;
            }
            let operations = direction.total.count();
            in_flight_ns += direction.total.mean() * operations as f64;
            let bytes = if varied { direction.bytes } else { operations * self.block };
            let mut stream = Stream { name: name.into(), operations, bytes, ..Stream::default() };
            stream.add_latency("submit", &direction.submit);
            stream.add_latency("complete", &direction.complete);
            stream.add_latency("total", &direction.total);
            reading.streams.push(stream);
            reading.samples.bytes.push(if varied {
                direction.bytes_progress.clone()
            } else {
                direction.progress.iter().map(|count| count * self.block).collect()
            });
            reading.samples.operations.push(direction.progress.clone());
        }
        for fault in &record.faults {
            reading.faults.push(Fault {
                operation: if fault.write { "write" } else { "read" }.into(),
                errno: fault.errno,
                says: if fault.errno == 0 {
                    "the transfer was cut short".into()
                } else {
                    io::Error::from_raw_os_error(fault.errno).to_string()
                },
                count: fault.count,
            });
        }
        children.write(&mut details);
        if !logs.is_empty() {
            details.insert("logs".into(), json!(logs));
        }
        told.write(&mut details, &mut reading.faults);
        notes.extend(self.asked.tell_rate(&mut reading, &mut details));
        if self.engine != Engine::Null {
            details.insert("system_calls".into(), json!(calls));
            details.insert("batch_submit".into(), json!(self.submit_at_most()));
            details.insert("batch_complete_min".into(), json!(self.reap_at_least()));
            details.insert("region_bytes".into(), json!(span.blocks * span.block));
            let most = if self.share_whole { u64::MAX } else { span.blocks * span.block };
            details.insert("touched_bytes".into(), json!(touched.min(most)));
        }
        details.insert("in_flight_mean".into(), json!(in_flight_ns / 1e9 / reading.elapsed_s.max(1e-9)));
        details.insert("fill_s".into(), json!(fill_s));
        reading.notes = notes;
        reading.details = details;
        reading
    }
}
