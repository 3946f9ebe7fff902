//! What each thread of a run measured, and the one reading made of it.

use std::io;
use std::path::Path;

use serde_json::{json, Map, Value};

use super::options::JobOptions;
use super::prepare::Prepared;
use super::spec::{Engine, Job};
use crate::contract::reading::{CpuTime, Fault, Note, Reading, Samples, Stream};
use crate::storage::io::controls::Controls;
use crate::storage::io::drive::Ending;
use crate::storage::order::blocks::Span;
use crate::storage::results::metrics::{Direction, Metrics};
use crate::storage::results::summary::Summary;
use crate::storage::trace::iolog::{self, TraceRecorder};

/// Share of the requested rate below which operations queued up.
const RATE_MISSED: f64 = 0.98;
/// Operations below which the share is noise.
const MIN_OPERATIONS: u64 = 1000;

impl JobOptions {
    /// Reports how much of its rate an open loop reached, with a note where operations queued up.
    fn note_missed_rate(&self, reading: &mut Reading, details: &mut Map<String, Value>) -> Option<Note> {
        if !self.open_loop() {
            return None;
        }
        // More operations may wait than the depth allows: the load is a rate.
        reading.concurrency_requested = 0.0;
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
                "{:.0}% of the requested rate was reached, so operations queue up and latency grows with the runtime",
                reached * 100.0
            ),
        })
    }
}

/// The result of one thread.
pub struct ThreadResult {
    /// Its measurements.
    pub metrics: Metrics,
    /// Why it ended.
    pub ending: Ending,
    /// CPU time inside the timed region.
    pub cpu: CpuTime,
    /// System calls likewise.
    pub calls: u64,
    /// Bytes of the region that it touched, at most.
    pub touched: u64,
    /// Facts about its access engine.
    pub facts: Map<String, Value>,
    /// Bytes of operations that were in flight when its timed region began.
    pub straddling: u64,
    /// How long filling its buffers took, s.
    pub fill_s: f64,
    /// Its controls, with their results.
    pub controls: Controls,
}

/// Bytes and time of each thread, for comparison with the throughput of the whole run (the parent).
#[derive(Default)]
struct ThreadRates(Vec<(u64, f64)>);

impl ThreadRates {
    fn add(&mut self, metrics: &Metrics, block: u64, variable_length: bool) {
        let bytes =
            metrics.directions.iter().map(|direction| count_bytes(direction, block, variable_length)).sum::<u64>();
        let took_s = metrics.ended_ns.saturating_sub(metrics.began_ns) as f64 / 1e9;
        if took_s > 0.0 {
            self.0.push((bytes, took_s));
        }
    }

    /// The threads' rates, and the ratio of their sum to the rate of all together over `elapsed_s`.
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

fn count_bytes(direction: &Direction, block: u64, variable_length: bool) -> u64 {
    if variable_length {
        direction.bytes
    } else {
        direction.total.count() * block
    }
}

/// One thread's progress, by direction: operations, bytes and sums of latency an interval.
fn make_log(metrics: &Metrics, block: u64, variable_length: bool) -> Value {
    let direction = |of: &Direction| {
        let [submit, complete, total] = &of.latency_progress;
        let bytes =
            if variable_length { of.bytes_progress.clone() } else { of.progress.iter().map(|n| n * block).collect() };
        json!({"operations": of.progress, "bytes": bytes, "submit_ns": submit, "complete_ns": complete, "total_ns": total})
    };
    json!({
        "interval_s": metrics.interval_ns as f64 / 1e9,
        "read": direction(&metrics.directions[0]),
        "write": direction(&metrics.directions[1]),
    })
}

/// Whether the work of every thread was done before the ramp was over: then that is what is counted, and noted. Otherwise
/// a thread that ended there counts nothing, and its time is none of the others' region.
fn only_ramp(results: &[ThreadResult], notes: &mut Vec<Note>) -> bool {
    let is_all = results.iter().all(|result| result.ending == Ending::Ramp);
    let says = "all operations were done before ramp_time was over, so all of them are counted";
    notes.extend(is_all.then(|| Note::new("done_in_ramp", says)));
    is_all
}

/// The results of all threads together.
#[derive(Default)]
struct Totals {
    metrics: Option<Metrics>,
    summary: Summary,
    threads: ThreadRates,
    logs: Vec<Value>,
    cpu: CpuTime,
    interrupted: bool,
    ended_by_faults: bool,
    calls: u64,
    touched: u64,
    /// The longest time that a thread took to fill its buffers, s.
    fill_s: f64,
    facts: Map<String, Value>,
}

impl Totals {
    /// Adds a thread; of one that ended in the ramp its controls alone, unless all did.
    fn add(&mut self, job: &Job, result: ThreadResult, all_in_ramp: bool) {
        let variable_length = job.options.variable_length();
        self.summary.add(result.controls);
        if result.ending == Ending::Ramp && !all_in_ramp {
            return;
        }
        self.cpu += result.cpu;
        self.interrupted |= result.ending == Ending::Stopped;
        self.ended_by_faults |= result.ending == Ending::Faults;
        self.calls += result.calls;
        self.touched += result.touched;
        self.fill_s = self.fill_s.max(result.fill_s);
        self.facts.extend(result.facts);
        self.threads.add(&result.metrics, job.block, variable_length);
        if job.options.log {
            self.logs.push(make_log(&result.metrics, job.block, variable_length));
        }
        match &mut self.metrics {
            Some(metrics) => metrics.merge(result.metrics),
            None => self.metrics = Some(result.metrics),
        }
    }
}

impl Job {
    /// The direction beside writing.
    fn other_way(&self) -> &'static str {
        if self.options.trims {
            "trim"
        } else {
            "read"
        }
    }

    /// Writes the operations of all threads to `write_iolog`; a note where some are missing.
    fn write_trace(&self, path: &Path, traces: &[TraceRecorder], span: Span, file_blocks: u64) -> Option<Note> {
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
        let dropped: u64 = traces.iter().map(|trace| trace.dropped).sum();
        match iolog::write_iolog(path, traces, self.other_way(), &names, self.options.overwrite, place) {
            Err(error) => Some(Note::new("trace_not_written", format!("write_iolog: {error}"))),
            Ok(()) if dropped > 0 => Some(Note::new(
                "trace_cut",
                format!(
                    "write_iolog holds the first {} operations of each thread, and lacks {dropped} more",
                    iolog::MAX_RECORDED
                ),
            )),
            Ok(()) => None,
        }
    }

    /// Adds a stream and its samples for each direction that is used.
    fn add_streams(&self, metrics: &Metrics, reading: &mut Reading) {
        let variable_length = self.options.variable_length();
        for (name, used, direction) in
            [(self.other_way(), self.reads(), &metrics.directions[0]), ("write", self.writes(), &metrics.directions[1])]
        {
            if !used {
                continue;
            }
            let operations = direction.total.count();
            let bytes = count_bytes(direction, self.block, variable_length);
            let mut stream = Stream { name: name.into(), operations, bytes, ..Stream::default() };
            stream.add_latency("submit", &direction.submit);
            stream.add_latency("complete", &direction.complete);
            stream.add_latency("total", &direction.total);
            reading.streams.push(stream);
            reading.samples.bytes.push(if variable_length {
                direction.bytes_progress.clone()
            } else {
                direction.progress.iter().map(|count| count * self.block).collect()
            });
            reading.samples.operations.push(direction.progress.clone());
        }
    }

    fn faults<'a>(&'a self, metrics: &'a Metrics) -> impl Iterator<Item = Fault> + 'a {
        metrics.faults.iter().map(|fault| Fault {
            operation: if fault.write { "write" } else { self.other_way() }.into(),
            errno: fault.errno,
            says: if fault.errno == 0 {
                "the transfer was incomplete".into()
            } else {
                io::Error::from_raw_os_error(fault.errno).to_string()
            },
            count: fault.count,
        })
    }

    pub(super) fn make_reading(&self, results: Vec<ThreadResult>, prepared: Prepared) -> Reading {
        let Prepared { span, mut notes, mut details, file_blocks: ready_blocks, .. } = prepared;
        let mut reading = Reading { concurrency_requested: (self.depth * self.jobs) as f64, ..Reading::default() };
        let all_in_ramp = only_ramp(&results, &mut notes);
        let mut totals = Totals::default();
        for result in results {
            totals.add(self, result, all_in_ramp);
        }
        let Totals { metrics, summary, threads, logs, calls, touched, fill_s, .. } = totals;
        (reading.cpu, reading.interrupted) = (totals.cpu, totals.interrupted);
        details.extend(totals.facts);
        if totals.ended_by_faults {
            notes.push(Note::new("faults_ended_run", "too many operations failed in a row, so the run ended early"));
        }
        let Some(metrics) = metrics else { return reading };
        if let Some(path) = &self.options.trace {
            notes.extend(self.write_trace(path, &summary.traces, span, ready_blocks));
        }
        reading.elapsed_s = (metrics.ended_ns - metrics.began_ns) as f64 / 1e9;
        reading.samples = Samples { interval_s: metrics.interval_ns as f64 / 1e9, ..Samples::default() };
        self.add_streams(&metrics, &mut reading);
        reading.faults.extend(self.faults(&metrics));
        threads.write(reading.elapsed_s, &mut details);
        if !logs.is_empty() {
            details.insert("logs".into(), json!(logs));
        }
        summary.write(&mut details, &mut reading.faults);
        notes.extend(self.options.note_missed_rate(&mut reading, &mut details));
        if self.options.is_throttled() {
            // Something else than the depth says how many are in flight.
            reading.concurrency_requested = 0.0;
        }
        if self.engine != Engine::Null {
            details.insert("system_calls".into(), json!(calls));
            details.insert("batch_submit".into(), json!(self.submit_at_most()));
            details.insert("batch_complete_min".into(), json!(self.reap_at_least()));
            details.insert("region_bytes".into(), json!(span.blocks * span.block));
            let most = if self.share_whole { u64::MAX } else { span.blocks * span.block };
            details.insert("touched_bytes".into(), json!(touched.min(most)));
        }
        details
            .insert("in_flight_mean".into(), json!(metrics.in_flight_ns() as f64 / 1e9 / reading.elapsed_s.max(1e-9)));
        details.insert("fill_s".into(), json!(fill_s));
        reading.notes = notes;
        reading.details = details;
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This many blocks of 1000 B written from 1 s on for so long.
    fn metrics(blocks: u32, took_s: u64) -> Metrics {
        let mut metrics = Metrics::new(1_000_000_000);
        metrics.begin(1_000_000_000);
        metrics.completed(true, 1, 1, blocks);
        metrics.end((1 + took_s) * 1_000_000_000);
        metrics
    }

    fn measure_rates(threads_metrics: &[Metrics], elapsed_s: f64) -> Map<String, Value> {
        let (mut threads, mut details) = (ThreadRates::default(), Map::new());
        for metrics in threads_metrics {
            threads.add(metrics, 1000, false);
        }
        threads.write(elapsed_s, &mut details);
        details
    }

    #[test]
    fn threads_that_end_together_add_up_to_the_whole() {
        let details = measure_rates(&[metrics(100, 4), metrics(300, 4)], 4.0);
        assert_eq!(details["children_sum_bytes_s"], json!(100_000.0));
        assert_eq!(details["children_sum_over_parent"], json!(1.0));
        assert_eq!(details["children_shortest_share"], json!(1.0));
        assert!(measure_rates(&[metrics(100, 4)], 4.0).is_empty());
    }

    #[test]
    fn one_that_is_done_early_makes_the_sum_more_than_was_ever_moved() {
        let details = measure_rates(&[metrics(100, 1), metrics(100, 4)], 4.0);
        // 100 000 + 25 000 B/s by each one's time; 200 000 B in 4 s all together.
        assert_eq!(details["children_sum_bytes_s"], json!(125_000.0));
        assert_eq!(details["children_sum_over_parent"], json!(2.5));
        assert_eq!(details["children_shortest_share"], json!(0.25));
        assert_eq!(
            (&details["children_min_bytes_s"], &details["children_max_bytes_s"]),
            (&json!(25_000.0), &json!(100_000.0))
        );
    }
}
