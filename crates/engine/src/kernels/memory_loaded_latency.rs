//! How long a load takes while other threads make traffic: one thread chases, the others move bytes
//! with a pause after every two lines, so that the load on the memory rises step by step.

use super::memory_bandwidth::{streams, Flow, Share};
use super::memory_latency::{Chaser, Found, RingParameters, CHASE_BYTES};
use crate::contract::declare::{integer, Group, CPUS, INTERVAL_S, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{Reading, Stream};
use crate::loops::memory::allocation::{fits, paged, SMALLER};
use crate::loops::memory::operation::{Choice, Isa};
use crate::loops::memory::trial;
use crate::loops::memory::work::{Placement, TrafficParameters, Work};
use crate::parameters;
use crate::timing::crew::{Crew, Outcome};
use crate::timing::team::PerMember;

/// The kernel `memory_loaded_latency`.
pub struct MemoryLoadedLatency;

/// Traffic runs alone for this part of the runtime before the chase is timed.
const RAMP_SHARE: f64 = 0.1;

parameters! {
    /// What `memory_loaded_latency` takes.
    pub struct Parameters {
        traffic: TrafficParameters = Group,
        delay: u64 = integer("pause of a traffic thread after every 128 bytes, in cycles", "cycles", (0, 1 << 32), 0)
            .role(Role::Delay),
        threads: usize = THREADS.means("number of traffic threads").within(0, 1023),
        working_set: u64 = integer("size of all arrays of one traffic thread", "B", (64, 1 << 44), 256 << 20),
        runtime: f64 = RUNTIME.default(0.5),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS,
        chase_set: u64 = CHASE_BYTES,
        ring: RingParameters = Group,
        placement: Placement = Group,
    }
}

/// The first thread chases, the others make traffic.
#[allow(clippy::large_enum_variant, reason = "one a thread, made before anything is timed")]
enum Part {
    Chase(Chaser),
    Traffic(Flow),
}

/// What each of them found.
enum PartResult {
    Chase(Found),
    Traffic(Share),
}

impl Kernel for MemoryLoadedLatency {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "block")],
        ..Declaration::new(
            "memory_loaded_latency",
            "latency of a dependent load on one CPU while other CPUs generate memory traffic",
            "access",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, runtime, interval_s, chase_set, ref placement, .. } = *parameters;
        let ring = parameters.ring.ring(placement, ("chase_set", chase_set), 64)?;
        let work = parameters.traffic.work(placement, parameters.working_set, Some(parameters.delay))?;
        fits(work.working_set.saturating_mul(threads as u64).saturating_add(chase_set), SMALLER)?;
        let cpus = placement.processors(&parameters.cpus)?;
        // The first processor chases, and the traffic begins on the second.
        let behind: Vec<_> = (1..=cpus.len()).map(|at| cpus[at % cpus.len()]).collect();
        let (traffics, choice) = match threads {
            0 => (Vec::new(), Isa::Scalar.into()),
            _ => trial::ready(work, threads, &behind)?,
        };
        // The place of the one that chases stays empty.
        let traffics = PerMember::behind(1, traffics);
        let warm_ns = (runtime * RAMP_SHARE * 1e9) as u64;
        let outcome = Crew::new(threads + 1, &cpus, runtime, interval_s, stop).led().run(
            |member| match member.number {
                0 => Chaser::ready(member, &ring, parameters.ring.batch, warm_ns).map(Part::Chase),
                _ => Ok(Part::Traffic(Flow::new(traffics.take(member)?))),
            },
            |part, now| match part {
                Part::Chase(chaser) => chaser.pass(now),
                Part::Traffic(flow) => flow.pass(),
            },
            |part| match part {
                Part::Chase(chaser) => PartResult::Chase(chaser.finish()),
                Part::Traffic(flow) => PartResult::Traffic(flow.finish()),
            },
        )?;
        Ok(reading(&work, choice, &outcome, chase_set + work.working_set * threads as u64))
    }
}

fn reading(work: &Work, choice: Choice, outcome: &Outcome<PartResult>, bytes: u64) -> Reading {
    let everyone = outcome.threads();
    let mut reading = outcome.reading(Vec::new());
    let elapsed_s = reading.elapsed_s.max(1e-9);
    if let Some(PartResult::Chase(found)) = outcome.results().next() {
        let mut stream = Stream::new("chase", found.meter.loads);
        stream.add_latency("total", &found.meter.histogram);
        outcome.add(&mut reading, 0..1, stream);
        reading.detail("latency_ns", found.meter.mean_ns());
        reading.detail("loads_per_batch", found.batch);
    }
    let traffic = outcome.results().filter_map(|one| match one {
        PartResult::Traffic(share) => Some(share),
        PartResult::Chase(_) => None,
    });
    let (moved, streams) = streams(work, traffic);
    for stream in streams {
        outcome.add(&mut reading, 1..everyone, stream);
    }
    reading.detail("isa", choice.isa.word());
    reading.detail("loop", choice.way.word());
    reading.detail("useful_bytes", moved.read + moved.written);
    reading.detail("useful_bytes_s", (moved.read + moved.written) as f64 / elapsed_s);
    reading.detail("line_bytes", moved.line);
    reading.detail("line_bytes_s", moved.line as f64 / elapsed_s);
    let (verdicts, huge): (Vec<_>, Vec<_>) = outcome
        .results()
        .map(|one| match one {
            PartResult::Chase(found) => (found.verdict, found.huge),
            PartResult::Traffic(share) => (share.verdict, share.huge),
        })
        .unzip();
    reading.verified(verdicts.into_iter());
    paged(&mut reading, work.pages, bytes / everyone as u64, huge.into_iter());
    reading
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(parameters: serde_json::Value) -> Reading {
        crate::run("memory_loaded_latency", &parameters, &Stop::new()).unwrap()
    }

    #[test]
    fn without_traffic_it_is_the_idle_latency() {
        let reading = run(json!({"threads": 0, "chase_set": 1 << 20, "runtime": 0.003}));
        assert_eq!(reading.streams.len(), 1);
        assert!(reading.streams[0].operations > 0);
        assert_eq!(reading.details["verification"], "passed");
    }

    #[test]
    #[cfg_attr(target_arch = "aarch64", ignore = "no second thread under qemu-user")]
    fn latency_and_traffic_stand_side_by_side() {
        for (pattern, block, delay) in [("sequential", 64, 0), ("random", 256, 100), ("random", 64, 20_000)] {
            let reading = run(json!({"operation": "mix", "mix": "2:1", "pattern": pattern, "block": block,
                "delay": delay, "threads": 1, "working_set": 1 << 20, "chase_set": 1 << 20, "runtime": 0.02}));
            let names: Vec<_> = reading.streams.iter().map(|stream| stream.name.as_str()).collect();
            assert_eq!(names, ["chase", "read", "write"]);
            assert_eq!(reading.streams[0].bytes, 0);
            assert_eq!(reading.streams[1].bytes, reading.streams[1].operations * block);
            assert_eq!(reading.details["verification"], "passed");
        }
    }
}
