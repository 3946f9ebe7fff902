//! What the threads of a run have counted: requests, bytes, times and failures, and the reading of them.

use crate::contract::reading::{counted, CpuTime, Fault, Reading, Samples, Stream};
use crate::object::exchange::Moments;
use crate::object::failure::{Failure, ALL, KINDS};
use crate::object::options::Operation;
use crate::object::paths::Paths;
use crate::object::plan::Work;
use crate::timing::histogram::Histogram;

/// Intervals that are counted at most.
const MAX_INTERVALS: usize = 100_000;
/// Share of the rate below which requests queued up.
const RATE_REACHED: f64 = 0.98;

/// Progress over time.
pub struct Progress {
    interval_ns: u64,
    begin_ns: u64,
    operations: Vec<u64>,
    bytes: Vec<u64>,
}

impl Progress {
    /// Room for a run of this length.
    #[must_use]
    pub fn new(runtime_s: f64, sampled_s: f64) -> Self {
        let interval_ns = ((sampled_s * 1e9) as u64).max(1);
        let count = ((runtime_s / sampled_s) as usize + 2).min(MAX_INTERVALS);
        Self { interval_ns, begin_ns: 0, operations: vec![0; count], bytes: vec![0; count] }
    }

    /// Time begins.
    pub fn start(&mut self, now_ns: u64) {
        self.begin_ns = now_ns;
    }

    /// Counts what was done just before `now_ns`.
    pub fn add(&mut self, now_ns: u64, operations: u64, bytes: u64) {
        let at = (now_ns.saturating_sub(self.begin_ns) / self.interval_ns) as usize;
        if let (Some(sum), Some(moved)) = (self.operations.get_mut(at), self.bytes.get_mut(at)) {
            *sum += operations;
            *moved += bytes;
        }
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.operations.iter_mut().zip(&other.operations) {
            *sum += more;
        }
        for (sum, more) in self.bytes.iter_mut().zip(&other.bytes) {
            *sum += more;
        }
    }
}

/// What one thread counted of one operation.
pub struct Share {
    operation: Operation,
    /// Times until the first byte, from when the request was due.
    first_byte: Histogram,
    /// Times until the last byte.
    total: Histogram,
    /// Complete requests, and the bytes of objects that they moved.
    operations: u64,
    bytes: u64,
    /// Failures by kind.
    failures: [u64; KINDS],
}

/// What one thread counted.
pub struct Tally {
    /// Counts of each operation.
    pub shares: Vec<Share>,
    /// Times until a failure.
    pub failed: Histogram,
    /// Times until a connection was made.
    pub connect: Histogram,
    /// Times of the parts of multipart uploads.
    pub part: Histogram,
    /// Progress over time.
    pub progress: Progress,
    /// Requests that were sent again, because they had to succeed.
    pub repeated: u64,
    /// What is known of its connections.
    pub paths: Paths,
    /// CPU time of the thread in the timed region.
    pub cpu: CpuTime,
    /// When its last request was complete, ns.
    pub last_ns: u64,
    /// When its time began, ns.
    pub begin_ns: u64,
    /// Requests that were due and did not begin.
    pub late: u64,
    /// Whether it was stopped.
    pub stopped: bool,
}

impl Tally {
    /// An empty one; it allocates all that it will need.
    #[must_use]
    pub fn new(operations: &[Operation], runtime_s: f64, interval_s: f64) -> Self {
        let share = |operation: &Operation| Share {
            operation: *operation,
            first_byte: Histogram::new(),
            total: Histogram::new(),
            operations: 0,
            bytes: 0,
            failures: [0; KINDS],
        };
        Self {
            shares: operations.iter().map(share).collect(),
            failed: Histogram::new(),
            connect: Histogram::new(),
            part: Histogram::new(),
            progress: Progress::new(runtime_s, interval_s),
            repeated: 0,
            paths: Paths::default(),
            cpu: CpuTime::default(),
            last_ns: 0,
            begin_ns: 0,
            late: 0,
            stopped: false,
        }
    }

    /// Counts a complete request that moved this many bytes.
    pub fn complete(&mut self, operation: Operation, bytes: u64, moments: &Moments) {
        if let Some(share) = self.shares.iter_mut().find(|share| share.operation == operation) {
            share.operations += 1;
            share.bytes += bytes;
            share.first_byte.record(moments.first_ns.saturating_sub(moments.due_ns));
            share.total.record(moments.last_ns.saturating_sub(moments.due_ns));
        }
        self.last_ns = self.last_ns.max(moments.last_ns);
        self.progress.add(moments.last_ns, 1, 0);
    }

    /// Counts a failure of a request that was due at `due_ns`.
    pub fn fail(&mut self, operation: Operation, failure: Failure, due_ns: u64, now_ns: u64) {
        if let Some(share) = self.shares.iter_mut().find(|share| share.operation == operation) {
            share.failures[failure.number()] += 1;
        }
        self.failed.record(now_ns.saturating_sub(due_ns));
    }

    fn merge(&mut self, other: &Self) {
        for (share, more) in self.shares.iter_mut().zip(&other.shares) {
            share.first_byte.merge(&more.first_byte);
            share.total.merge(&more.total);
            share.operations += more.operations;
            share.bytes += more.bytes;
            for (sum, more) in share.failures.iter_mut().zip(more.failures) {
                *sum += more;
            }
        }
        self.failed.merge(&other.failed);
        self.connect.merge(&other.connect);
        self.part.merge(&other.part);
        self.progress.merge(&other.progress);
        self.repeated += other.repeated;
        self.paths.merge(&other.paths);
        self.cpu += other.cpu;
        self.last_ns = self.last_ns.max(other.last_ns);
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.late += other.late;
        self.stopped |= other.stopped;
    }

    /// All complete requests.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shares.iter().map(|share| share.operations).sum()
    }

    /// All failures by kind.
    #[must_use]
    pub fn failures(&self) -> [u64; KINDS] {
        std::array::from_fn(|kind| self.shares.iter().map(|share| share.failures[kind]).sum())
    }

    /// The mean time until the first byte, ns.
    fn first_byte_mean(&self) -> f64 {
        let sum: f64 = self.shares.iter().map(|share| share.first_byte.mean() * share.operations as f64).sum();
        sum / self.operations().max(1) as f64
    }
}

/// The sum of what some threads counted.
#[must_use]
pub fn sum(tallies: Vec<Tally>) -> Option<Tally> {
    tallies.into_iter().reduce(|mut sum, tally| {
        sum.merge(&tally);
        sum
    })
}

/// The reading of what all threads counted.
#[must_use]
pub fn make_reading(tally: &Tally, work: &Work, concurrency: usize) -> Reading {
    let elapsed_s = tally.last_ns.saturating_sub(tally.begin_ns) as f64 / 1e9;
    let streams = list_streams(tally);
    let moved: u64 = streams.iter().map(|stream| stream.bytes).sum();
    let is_open = work.rate > 0.0;
    let whole = ((elapsed_s * 1e9) as u64 / tally.progress.interval_ns) as usize;
    let sampled = |row: &[u64]| vec![row[..whole.min(row.len())].to_vec()];
    let mut reading = Reading {
        elapsed_s,
        streams,
        samples: Samples {
            interval_s: tally.progress.interval_ns as f64 / 1e9,
            operations: sampled(&tally.progress.operations),
            bytes: if tally.shares.iter().any(|share| work.bytes(share.operation) > 0) {
                sampled(&tally.progress.bytes)
            } else {
                Vec::new()
            },
        },
        cpu: tally.cpu,
        // Of a multipart upload the parts are in flight, and an operation is the whole object.
        concurrency_requested: if is_open || work.operation == Operation::Multipart { 0.0 } else { concurrency as f64 },
        interrupted: tally.stopped,
        ..Reading::default()
    };
    for share in &tally.shares {
        for (kind, count) in ALL.into_iter().zip(share.failures).filter(|(_, count)| *count > 0) {
            let operation = share.operation.word().into();
            reading.faults.push(Fault { operation, errno: 0, says: kind.says().into(), count });
        }
    }
    note_repeated(tally.repeated, &mut reading);
    let (operations, failed) = (tally.operations(), tally.failures().iter().sum::<u64>());
    reading.detail("failed_share", failed as f64 / (operations + failed).max(1) as f64);
    reading.detail("connections_made", tally.connect.count());
    reading.detail("first_byte_mean_ns", tally.first_byte_mean());
    let spent_s = tally.cpu.user_s + tally.cpu.system_s;
    if operations > 0 {
        reading.detail("client_cpu_s_per_operation", spent_s / operations as f64);
    }
    if moved > 0 {
        reading.detail("client_cpu_s_per_gb", spent_s * 1e9 / moved as f64);
    }
    if is_open && elapsed_s > 0.0 {
        let reached = operations as f64 / work.runtime_s.max(elapsed_s.min(work.runtime_s));
        reading.detail("requests_late", tally.late);
        if reached < RATE_REACHED * work.rate {
            reading.note("rate_not_reached", format!("{reached:.0} of {:.0} requests/s were complete", work.rate));
        }
    }
    reading
}

/// A stream for each operation, one with the times of parts, and one with those of failures.
fn list_streams(tally: &Tally) -> Vec<Stream> {
    let make_stream = |share: &Share| {
        let mut stream = Stream { bytes: share.bytes, ..Stream::new(share.operation.word(), share.operations) };
        if share.total.count() > 0 || tally.shares.len() == 1 {
            stream.add_latency("total", &share.total);
            stream.add_latency("first_byte", &share.first_byte);
        }
        stream
    };
    let mut streams: Vec<Stream> = tally.shares.iter().map(make_stream).collect();
    if let (Some(stream), true) = (streams.first_mut(), tally.connect.count() > 0) {
        stream.add_latency("connect", &tally.connect);
    }
    if tally.part.count() > 0 {
        // Parts are no operations, so the stream has their times alone.
        let mut part = Stream::new("part", 0);
        part.add_latency("total", &tally.part);
        streams.push(part);
    }
    if tally.failed.count() > 0 {
        let mut failed = Stream::new("failed", 0);
        failed.add_latency("until_failure", &tally.failed);
        streams.push(failed);
    }
    streams
}

/// Notes how many requests were sent once more, if any was.
pub fn note_repeated(repeated: u64, reading: &mut Reading) {
    if repeated > 0 {
        reading.note(
            "requests_repeated",
            format!("{} sent again after a failure", counted(repeated, "request", "requests")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_kind_and_timed_apart() {
        let work = Work {
            operation: Operation::Get,
            mix: crate::object::mix::Mix::default(),
            objects: 1,
            object_size: 1000,
            range_size: 1,
            part_size: 1,
            once: false,
            attempts: 1,
            rate: 0.0,
            runtime_s: 1.0,
            seed: 1,
        };
        let mut first = Tally::new(&[Operation::Get], 1.0, 0.5);
        first.begin_ns = 10;
        first.complete(Operation::Get, 1000, &Moments { due_ns: 10, first_ns: 20, last_ns: 1_000_000_010 });
        first.fail(Operation::Get, Failure::SlowDown, 10, 510);
        let mut second = Tally::new(&[Operation::Get], 1.0, 0.5);
        second.begin_ns = 12;
        second.fail(Operation::Get, Failure::SlowDown, 10, 1010);
        second.fail(Operation::Get, Failure::Lost, 10, 1010);
        let both = sum(vec![first, second]).unwrap();
        let reading = make_reading(&both, &work, 4);
        assert_eq!((reading.elapsed_s, reading.streams[0].bytes), (1.0, 1000));
        assert_eq!(reading.streams[1].latency_ns["until_failure"]["count"], 3);
        let counts: Vec<_> = reading.faults.iter().map(|fault| (fault.says.as_str(), fault.count)).collect();
        assert_eq!(counts, [(Failure::SlowDown.says(), 2), (Failure::Lost.says(), 1)]);
        assert_eq!(reading.details["failed_share"], 0.75);
    }
}
