//! How many bytes a second a number of threads move, by operation, mix, order, block, stride and pages.

use crate::contract::declare::{integer, Group, CPUS, INTERVAL_S, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::loops::memory::allocation::{fits, paged, SMALLER};
use crate::loops::memory::operation::Choice;
use crate::loops::memory::traffic::{Moved, Traffic};
use crate::loops::memory::trial;
use crate::loops::memory::work::{Placement, TrafficParameters, Work};
use crate::parameters;
use crate::timing::clock::now_ns;
use crate::timing::crew::{Crew, Outcome};
use crate::timing::team::PerMember;

/// The kernel `memory_bandwidth`.
pub struct MemoryBandwidth;

parameters! {
    /// What `memory_bandwidth` takes.
    pub struct Parameters {
        traffic: TrafficParameters = Group,
        working_set: u64 = integer("size of all arrays of one thread", "B", (64, 1 << 44), 512 << 20),
        threads: usize = THREADS.means("number of threads, each with its own memory"),
        runtime: f64 = RUNTIME.default(0.5),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS,
        placement: Placement = Group,
    }
}

/// What one thread did.
pub(super) struct Share {
    pub moved: Moved,
    pub verdict: Verdict,
    pub huge: Option<u64>,
}

/// One thread's traffic, and what it had done before it was timed.
pub(super) struct Flow {
    traffic: Traffic,
    before: Moved,
    visits: u64,
}

impl Flow {
    pub fn new(traffic: Traffic) -> Self {
        Self { before: traffic.moved(), visits: traffic.visits(), traffic }
    }

    /// One batch; when it ended, and its visits.
    #[inline]
    pub fn pass(&mut self) -> (u64, u64) {
        self.traffic.batch();
        let visits = self.traffic.visits();
        let done = visits - self.visits;
        self.visits = visits;
        (now_ns(), done)
    }

    pub fn finish(mut self) -> Share {
        let moved = self.traffic.moved().since(self.before);
        self.traffic.finish();
        Share { moved, verdict: self.traffic.verify(), huge: self.traffic.mapping().huge_bytes() }
    }
}

impl Kernel for MemoryBandwidth {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "block")],
        ..Declaration::new(
            "memory_bandwidth",
            "memory bandwidth of threads; every result is verified afterwards",
            "access",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, runtime, interval_s, working_set, ref placement, .. } = *parameters;
        let work = parameters.traffic.work(placement, working_set, None)?;
        fits(working_set.saturating_mul(threads as u64), SMALLER)?;
        let cpus = placement.processors(&parameters.cpus)?;
        let (traffics, choice) = trial::ready(work, threads, &cpus)?;
        let traffics = PerMember::new(traffics);
        let outcome = Crew::new(threads, &cpus, runtime, interval_s, stop).run(
            |member| Ok(Flow::new(traffics.take(member)?)),
            |flow, _| flow.pass(),
            Flow::finish,
        )?;
        Ok(reading(&work, choice, &outcome))
    }
}

/// The streams of some threads' traffic: what was read and what was written, where there is any.
pub(super) fn streams<'a>(work: &Work, shares: impl Iterator<Item = &'a Share>) -> (Moved, Vec<Stream>) {
    let moved = shares.fold(Moved::default(), |all, share| all.and(share.moved));
    let streams = [("read", moved.read), ("write", moved.written)].into_iter().filter(|&(_, bytes)| bytes > 0);
    (moved, streams.map(|(name, bytes)| Stream { bytes, ..Stream::new(name, bytes / work.block) }).collect())
}

fn reading(work: &Work, choice: Choice, outcome: &Outcome<Share>) -> Reading {
    let (moved, streams) = streams(work, outcome.results());
    let mut reading = outcome.reading(streams);
    let elapsed_s = reading.elapsed_s.max(1e-9);
    reading.detail("isa", choice.isa.word());
    reading.detail("loop", choice.way.word());
    reading.detail("flops", moved.flops);
    reading.detail("useful_bytes", moved.read + moved.written);
    reading.detail("line_bytes", moved.line);
    reading.detail("line_bytes_s", moved.line as f64 / elapsed_s);
    let each = outcome.results().zip(outcome.lengths_s());
    let rates: Vec<_> = each.map(|(share, s)| (share.moved.read + share.moved.written) as f64 / s).collect();
    reading.detail("per_thread_bytes_s", rates);
    reading.verified(outcome.results().map(|share| share.verdict));
    paged(&mut reading, work.pages, work.working_set, outcome.results().map(|share| share.huge));
    reading
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::declare::ParameterSet;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("memory_bandwidth", &parameters, &Stop::new())
    }

    #[test]
    fn bytes_and_flop_are_as_declared_and_all_is_verified() {
        let declared = Parameters::declared();
        let operations = &declared.iter().find(|one| one.name == "operation").unwrap().per_element;
        assert!(operations.len() > 1);
        for (operation, each) in operations {
            let reading =
                run(json!({"operation": operation, "working_set": 1 << 20, "runtime": 0.005, "interval_s": 0.001}))
                    .unwrap();
            assert!(reading.faults.is_empty() && !reading.interrupted);
            assert_eq!(reading.details["verification"], "passed");
            for (at, stream) in reading.streams.iter().enumerate() {
                assert!(stream.bytes > 0);
                assert_eq!(stream.bytes, stream.operations * 64);
                assert!(reading.samples.bytes[at].iter().sum::<u64>() <= stream.bytes);
            }
            let bytes = |name| reading.streams.iter().filter(|one| one.name == name).map(|one| one.bytes).sum::<u64>();
            let array = (bytes("read") + bytes("write")) / each.arrays();
            assert_eq!([bytes("read"), bytes("write")], [each.reads * array, each.writes * array], "{operation}");
            assert_eq!(reading.details["flops"], array / 8 * each.flops, "{operation}");
            assert_eq!(reading.details["line_bytes"], array * (each.arrays() + each.allocates), "{operation}");
        }
    }

    #[test]
    fn a_mix_moves_its_shares() {
        for (mix, reads, writes) in [("2:1", 2, 1), ("3:2", 3, 2), ("4:1", 4, 1), ("1:1", 1, 1), ("3:1-nt", 3, 1)] {
            for pattern in ["sequential", "random"] {
                let reading = run(json!({"operation": "mix", "mix": mix, "pattern": pattern, "working_set": 3 << 18,
                    "runtime": 0.003}))
                .unwrap();
                let (read, written) = (reading.streams[0].bytes as f64, reading.streams[1].bytes as f64);
                let ratio = read / written / (f64::from(reads) / f64::from(writes));
                assert!((ratio - 1.0).abs() < 0.01, "{mix} {pattern}: {ratio}");
                assert_eq!(reading.details["verification"], "passed");
            }
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_in_one_line() {
        for wrong in [
            json!({"block": 24}),
            json!({"block": 128, "stride": 64}),
            json!({"working_set": 1024, "block": 4096}),
            json!({"isa": "warp"}),
            json!({"working_set": 1_i64 << 44}),
        ] {
            let says = run(wrong).unwrap_err().to_string();
            assert!(!says.contains('\n') && says.len() > 20, "{says}");
        }
    }

    #[test]
    fn it_stops_when_asked() {
        let stop = Stop::new();
        stop.set();
        let parameters = json!({"working_set": 1 << 20, "runtime": 100.0});
        assert!(crate::run("memory_bandwidth", &parameters, &stop).unwrap().interrupted);
    }
}
