//! How long a load takes that needs the one before: by working set, page size and locality.

use crate::sys::clock_chain;

use crate::contract::declare::{choice, integer, Group, CPUS, INTERVAL_S, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::loops::memory::allocation::{fits, paged, refused, SMALLER};
use crate::loops::memory::chase::{Chase, Locality, Meter, Ring};
use crate::loops::memory::work::Placement;
use crate::parameters;
use crate::timing::clock::now_ns;
use crate::timing::crew::Crew;
use crate::timing::team::Member;

/// The kernel `memory_latency`.
pub struct MemoryLatency;

parameters! {
    /// The order of a chase, which the loaded latency has as well.
    pub struct RingParameters {
        locality: Locality = choice("order of accesses: random over the whole set, random within neighbourhoods, or \
            sequential"),
        local_size: u64 = integer("size of a neighbourhood, for locality local", "B", (256, 1 << 40), 256 << 10),
        batch: u64 = integer("loads per timing; 0 for as many as take 8 µs, at least 64", "", (0, 1 << 20), 0),
    }
}

/// How many bytes a chase goes through.
pub(super) const CHASE_BYTES: crate::contract::declare::Integer =
    integer("size of the memory that is read", "B", (128, 1 << 44), 256 << 20);

parameters! {
    /// What `memory_latency` takes.
    pub struct Parameters {
        working_set: u64 = CHASE_BYTES,
        ring: RingParameters = Group,
        stride: u64 = integer("distance between elements, a multiple of 8", "B", (8, 1 << 30), 64),
        threads: usize = THREADS.means("number of threads, each with its own memory"),
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS,
        placement: Placement = Group,
    }
}

impl RingParameters {
    /// The ring of `bytes`, which the parameter called `set` says.
    pub fn ring(&self, placement: &Placement, (set, bytes): (&str, u64), stride: u64) -> Result<Ring, Error> {
        if stride % 8 != 0 || stride * 2 > bytes {
            return Err(Error::usage(format!(
                "stride {stride}: use a multiple of 8 bytes, at most half of {set} ({bytes})"
            )));
        }
        let Self { locality, local_size, .. } = *self;
        Ok(Ring { working_set: bytes, stride, locality, local_size, pages: placement.pages, node: placement.node })
    }
}

/// One thread's chase and its times.
pub(super) struct Chaser {
    chase: Chase,
    meter: Meter,
    batch: u64,
}

/// What one thread found.
pub(super) struct Found {
    pub meter: Meter,
    pub batch: u64,
    pub length: u64,
    pub verdict: Verdict,
    pub huge: Option<u64>,
}

impl Chaser {
    /// Makes the ring, waits for the others, and goes once round, or for `warm_ns`.
    pub fn ready(member: &Member<'_>, ring: &Ring, batch: u64, warm_ns: u64) -> Result<Self, Error> {
        let mut chase = Chase::new(ring).map_err(|error| refused(ring.pages, ring.working_set, &error))?;
        member.wait_for_start();
        chase.warm(warm_ns);
        Ok(Self { batch: chase.batch(batch), meter: Meter::default(), chase })
    }

    /// One batch of loads that begins at `now`; when it ended, and its loads.
    #[inline]
    pub fn pass(&mut self, now: u64) -> (u64, u64) {
        self.chase.follow(self.batch);
        let then = now_ns();
        self.meter.record(then - now, self.batch);
        (then, self.batch)
    }

    pub fn finish(self) -> Found {
        let Self { chase, meter, batch } = self;
        let (length, verdict, huge) = (chase.length(), chase.verify(), chase.mapping().huge_bytes());
        Found { meter, batch, length, verdict, huge }
    }
}

impl Kernel for MemoryLatency {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("memory_latency", "latency of dependent loads, as a histogram of short batches", "access");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, runtime, interval_s, working_set, stride, ref placement, .. } = *parameters;
        let ring = parameters.ring.ring(placement, ("working_set", working_set), stride)?;
        fits(working_set.saturating_mul(threads as u64), SMALLER)?;
        let cpus = placement.processors(&parameters.cpus)?;
        let clock_before = clock_chain::hertz();
        let outcome = Crew::new(threads, &cpus, runtime, interval_s, stop).run(
            |member| Chaser::ready(member, &ring, parameters.ring.batch, 100_000_000),
            Chaser::pass,
            Chaser::finish,
        )?;
        let clock_hz = clock_before.max(clock_chain::hertz());
        let mut meter = Meter::default();
        outcome.results().for_each(|found| meter.merge(&found.meter));
        let mut stream = Stream::new("read", meter.loads);
        stream.add_latency("total", &meter.histogram);
        let mut reading = outcome.reading(vec![stream]);
        reading.detail("latency_ns", meter.mean_ns());
        if let Some(clock_hz) = clock_hz {
            reading.detail("clock_hz", clock_hz);
            reading.detail("latency_cycles", meter.mean_ns() * clock_hz as f64 / 1e9);
        }
        if let Some(found) = outcome.results().next() {
            reading.detail("loads_per_batch", found.batch);
            reading.detail("cycle_length", found.length);
        }
        reading.verified(outcome.results().map(|found| found.verdict));
        paged(&mut reading, ring.pages, working_set, outcome.results().map(|found| found.huge));
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("memory_latency", &parameters, &Stop::new())
    }

    #[test]
    fn loads_are_counted_and_the_ring_is_verified() {
        for locality in ["random", "local", "sequential"] {
            let reading = run(json!({"working_set": 1 << 20, "locality": locality, "runtime": 0.003})).unwrap();
            let stream = &reading.streams[0];
            let batch = reading.details["loads_per_batch"].as_u64().unwrap();
            assert!(stream.operations > 0 && stream.operations % batch == 0);
            assert_eq!(stream.latency_ns["total"]["count"], stream.operations / batch);
            assert_eq!(reading.details["cycle_length"], (1 << 20) / 64);
            assert_eq!(reading.details["verification"], "passed");
        }
    }

    #[test]
    fn processors_and_memory_are_taken_from_a_node() {
        let near = run(json!({"working_set": 1 << 16, "cpu_node": 0, "runtime": 0.002})).unwrap();
        assert_eq!(near.details["verification"], "passed");
        let says = run(json!({"working_set": 1 << 16, "cpu_node": 900})).unwrap_err().to_string();
        assert!(says.contains("node has no usable CPU"), "{says}");
    }

    #[test]
    fn a_stride_that_leaves_no_ring_is_refused() {
        assert!(run(json!({"working_set": 128, "stride": 256})).is_err());
        assert!(run(json!({"stride": 12})).is_err());
    }
}
