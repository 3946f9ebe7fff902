//! What the threads of a run bring home, and the one reading made of it.

use std::io;
use std::path::Path;

use serde_json::{json, Map, Value};

use super::prepare::Ready;
use super::run::{note, Engine, Job};
use crate::reading::{CpuTime, Fault, Note, Reading, Samples, Stream};
use crate::storage::io::controls::Extras;
use crate::storage::io::drive::Ending;
use crate::storage::order::blocks::Span;
use crate::storage::results::metrics::{Direction, Record};
use crate::storage::results::summary::Told;
use crate::storage::trace::iolog::{self, Trace};

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

/// What each thread moved, and how long it took over it: beside the whole's throughput, which is the parent's.
#[derive(Default)]
struct Children(Vec<(u64, f64)>);

impl Children {
    fn add(&mut self, record: &Record, block: u64, varied: bool) {
        let bytes = record.directions.iter().map(|direction| bytes_of(direction, block, varied)).sum::<u64>();
        let took_s = record.ended_ns.saturating_sub(record.began_ns) as f64 / 1e9;
        if took_s > 0.0 {
            self.0.push((bytes, took_s));
        }
    }

    /// Their own rates, and by how much the sum of them is above what all moved together in `elapsed_s`.
    fn write(&self, elapsed_s: f64, details: &mut Map<String, Value>) {
        if self.0.len() < 2 || elapsed_s <= 0.0 {
            return;
        }
        let rates = || self.0.iter().map(|&(bytes, took_s)| bytes as f64 / took_s);
        let sum = rates().sum::<f64>();
        let moved = self.0.iter().map(|&(bytes, _)| bytes).sum::<u64>();
        let shortest_s = self.0.iter().map(|&(_, took_s)| took_s).fold(f64::INFINITY, f64::min);
        details.insert("children_sum_bytes_s".into(), json!(sum));
        details.insert("children_mean_bytes_s".into(), json!(sum / self.0.len() as f64));
        details.insert("children_min_bytes_s".into(), json!(rates().fold(f64::INFINITY, f64::min)));
        details.insert("children_max_bytes_s".into(), json!(rates().fold(0.0, f64::max)));
        details.insert("children_shortest_share".into(), json!(shortest_s / elapsed_s));
        if moved > 0 {
            details.insert("children_sum_over_parent".into(), json!(sum / (moved as f64 / elapsed_s)));
        }
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
    /// The direction beside writing.
    fn other_way(&self) -> &'static str {
        if self.asked.trims {
            "trim"
        } else {
            "read"
        }
    }

    /// Writes down the operations of all threads; a note where that is not the whole of it.
    fn write_trace(&self, path: &Path, traces: &[Trace], span: Span, file_blocks: u64) -> Option<Note> {
        let paths = if self.files.is_empty() { std::slice::from_ref(&self.path) } else { &self.files };
        let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let length = (file_blocks * span.block).max(1);
        let of_each = if self.share_whole || names.len() == 1 { 0 } else { names.len() / self.jobs };
        let place = |thread: usize, offset: u64| {
            if names.len() == 1 {
                return (0, offset);
            }
            let at = offset - span.offset;
            (thread * of_each + (at / length) as usize, span.offset + at % length)
        };
        let left_out: u64 = traces.iter().map(|trace| trace.left_out).sum();
        match iolog::write_down(path, traces, self.other_way(), &names, place) {
            Err(error) => Some(note("trace_not_written", format!("write_iolog {}: {error}", path.display()))),
            Ok(()) if left_out > 0 => Some(note(
                "trace_cut",
                format!(
                    "write_iolog holds the first {} operations of each thread; {left_out} more were made",
                    iolog::MOST_WRITTEN
                ),
            )),
            Ok(()) => None,
        }
    }

    pub(super) fn put_together(&self, outcomes: Vec<Outcome>, ready: Ready) -> Reading {
        let Ready { span, mut notes, mut details, file_blocks: ready_blocks, .. } = ready;
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
        if let Some(path) = &self.asked.trace {
            notes.extend(self.write_trace(path, &told.traces, span, ready_blocks));
        }
        reading.elapsed_s = (record.ended_ns - record.began_ns) as f64 / 1e9;
        reading.samples = Samples { interval_s: record.interval_ns as f64 / 1e9, ..Samples::default() };
        let mut in_flight_ns = 0.0;
        for (name, asked, direction) in
            [(self.other_way(), self.reads(), &record.directions[0]), ("write", self.writes(), &record.directions[1])]
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
                operation: if fault.write { "write" } else { self.other_way() }.into(),
                errno: fault.errno,
                says: if fault.errno == 0 {
                    "the transfer was cut short".into()
                } else {
                    io::Error::from_raw_os_error(fault.errno).to_string()
                },
                count: fault.count,
            });
        }
        children.write(reading.elapsed_s, &mut details);
        if !logs.is_empty() {
            details.insert("logs".into(), json!(logs));
        }
        told.write(&mut details, &mut reading.faults);
        notes.extend(self.asked.tell_rate(&mut reading, &mut details));
        if self.asked.is_held_back() {
            // Something else than the depth says how many are in flight.
            reading.concurrency_asked = 0.0;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// So many blocks of 1000 B written from 1 s on for so long.
    fn record(blocks: u32, took_s: u64) -> Record {
        let mut record = Record::new(1_000_000_000);
        record.begin(1_000_000_000);
        record.completed(true, 1, 1, blocks);
        record.end((1 + took_s) * 1_000_000_000);
        record
    }

    fn told(records: &[Record], elapsed_s: f64) -> Map<String, Value> {
        let (mut children, mut details) = (Children::default(), Map::new());
        for record in records {
            children.add(record, 1000, false);
        }
        children.write(elapsed_s, &mut details);
        details
    }

    #[test]
    fn threads_that_end_together_add_up_to_the_whole() {
        let details = told(&[record(100, 4), record(300, 4)], 4.0);
        assert_eq!(details["children_sum_bytes_s"], json!(100_000.0));
        assert_eq!(details["children_sum_over_parent"], json!(1.0));
        assert_eq!(details["children_shortest_share"], json!(1.0));
        assert!(told(&[record(100, 4)], 4.0).is_empty());
    }

    #[test]
    fn one_that_is_done_early_makes_the_sum_more_than_was_ever_moved() {
        let details = told(&[record(100, 1), record(100, 4)], 4.0);
        // 100 000 + 25 000 B/s of its own each; 200 000 B in 4 s all together.
        assert_eq!(details["children_sum_bytes_s"], json!(125_000.0));
        assert_eq!(details["children_sum_over_parent"], json!(2.5));
        assert_eq!(details["children_shortest_share"], json!(0.25));
        assert_eq!(
            (&details["children_min_bytes_s"], &details["children_max_bytes_s"]),
            (&json!(25_000.0), &json!(100_000.0))
        );
    }
}
