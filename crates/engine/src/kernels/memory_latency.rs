//! How long a load takes that needs the one before: by working set, page size and locality.

use serde_json::json;

use crate::clock::now_ns;
use crate::declare::{choice, integer, interval_s, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameter, Parameters, Stop};
use crate::memory::chase::{Chase, Locality, Meter, Ring};
use crate::memory::crew::{self, Timeline};
use crate::memory::traffic::Verdict;
use crate::memory::work::{cpus, placement};
use crate::reading::{CpuTime, Reading, Samples, Stream};
use crate::sys::clock_chain;
use crate::sys::pages::Pages;
use crate::{cpu_time, team};

/// See the module.
pub struct MemoryLatency;

struct Share {
    meter: Meter,
    line: Timeline,
    cpu: CpuTime,
    batch: u64,
    length: u64,
    verdict: Verdict,
    huge: Option<u64>,
    stopped: bool,
}

/// Parameters of a ring, which the loaded latency has as well.
pub(super) fn ring_parameters(set: &'static str) -> Vec<Parameter> {
    vec![
        integer(set, "bytes that the chase goes through", "B", (128, 1 << 44), 256 << 20),
        choice(
            "locality",
            "order of the chase: over the whole set, within neighbourhoods, or in turn",
            &["random", "local", "sequential"],
        ),
        integer("local_size", "bytes of a neighbourhood, for locality local", "B", (256, 1 << 40), 256 << 10),
        integer("batch", "loads timed together; 0 for as many as take 8 µs, and 64 at least", "", (0, 1 << 20), 0),
    ]
}

pub(super) fn ring_of(parameters: &Parameters, set: &str, stride: u64) -> Result<Ring, Error> {
    let working_set = parameters.integer(set);
    if stride % 8 != 0 || stride * 2 > working_set {
        return Err(Error::usage(format!(
            "stride {stride}: take a multiple of 8 bytes that is at most half of {set} ({working_set})"
        )));
    }
    let locality = match parameters.text("locality") {
        "local" => Locality::Local(parameters.integer("local_size")),
        "sequential" => Locality::Sequential,
        _ => Locality::Random,
    };
    let pages = Pages::of(parameters.text("pages"));
    Ok(Ring { working_set, stride, locality, pages, node: parameters.node("node") })
}

impl Kernel for MemoryLatency {
    fn info(&self) -> KernelInfo {
        let mut parameters = ring_parameters("working_set");
        parameters.extend([
            integer("stride", "distance between the places of the chase, a multiple of 8", "B", (8, 1 << 30), 64),
            integer("threads", "how many threads chase at once, each through memory of its own", "", (1, 1024), 1)
                .workers(),
            number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.3),
            interval_s(),
            cpus(),
        ]);
        parameters.extend(placement());
        KernelInfo {
            parameters,
            ..KernelInfo::new(
                "memory_latency",
                "time of a load that depends on the one before, means of short batches as a histogram",
                "access",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let threads = parameters.integer("threads") as usize;
        let ring = ring_of(parameters, "working_set", parameters.integer("stride"))?;
        crew::fits(ring.working_set.saturating_mul(threads as u64))?;
        let cpus = crew::placed(parameters)?;
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let interval_ns = (parameters.number("interval_s") * 1e9) as u64;
        let clock_before = clock_chain::hertz();
        let shares = team::run(threads, &cpus, |member| {
            let chase = Chase::new(&ring);
            let mut meter = Meter::default();
            let mut line = Timeline::new(runtime_ns, interval_ns);
            member.wait_for_start();
            let mut chase = chase?;
            chase.warm(100_000_000);
            let batch = chase.batch(parameters.integer("batch"));
            let cpu = cpu_time::of_this_thread();
            let mut now = line.start(now_ns());
            while now < line.deadline() && !stop.is_set() {
                chase.follow(batch);
                let then = now_ns();
                meter.record(then - now, batch);
                line.add(then, batch);
                now = then;
            }
            let cpu = cpu_time::of_this_thread().since(cpu);
            Ok(Share {
                stopped: now < line.deadline(),
                meter,
                line,
                cpu,
                batch,
                length: chase.length(),
                verdict: chase.verify(),
                huge: chase.mapping().huge_bytes(),
            })
        })?
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| crew::refused(ring.pages, ring.working_set, &error))?;
        let clock_hz = clock_before.max(clock_chain::hertz());
        Ok(reading(parameters, &ring, &cpus, &shares, clock_hz))
    }
}

fn reading(parameters: &Parameters, ring: &Ring, cpus: &[u64], shares: &[Share], clock_hz: Option<u64>) -> Reading {
    let lines: Vec<_> = shares.iter().map(|share| &share.line).collect();
    let loads: Vec<_> = shares.iter().map(|share| share.meter.loads).collect();
    let mut stream = Stream { name: "read".into(), operations: loads.iter().sum(), ..Stream::default() };
    let mut meter = Meter::default();
    for share in shares {
        meter.histogram.merge(&share.meter.histogram);
        meter.loads += share.meter.loads;
        meter.elapsed_ns += share.meter.elapsed_ns;
    }
    stream.add_latency("total", &meter.histogram);
    let mut reading = Reading {
        kernel: "memory_latency".into(),
        parameters: parameters.as_json(),
        elapsed_s: crew::elapsed_s(&lines, &loads, shares.len(), cpus),
        concurrency_asked: shares.len() as f64,
        interrupted: shares.iter().any(|share| share.stopped),
        samples: Samples {
            interval_s: parameters.number("interval_s"),
            operations: vec![crew::intervals(&lines)],
            bytes: vec![vec![]],
        },
        streams: vec![stream],
        ..Reading::default()
    };
    for share in shares {
        reading.cpu += share.cpu;
    }
    let details = &mut reading.details;
    details.insert("latency_ns".into(), json!(meter.mean_ns()));
    if let Some(clock_hz) = clock_hz {
        details.insert("clock_hz".into(), json!(clock_hz));
        details.insert("latency_cycles".into(), json!(meter.mean_ns() * clock_hz as f64 / 1e9));
    }
    details.insert("loads_per_batch".into(), json!(shares.first().map_or(0, |share| share.batch)));
    details.insert("cycle_length".into(), json!(shares.first().map_or(0, |share| share.length)));
    let verdicts: Vec<_> = shares.iter().map(|share| share.verdict).collect();
    let huge: Vec<_> = shares.iter().map(|share| share.huge).collect();
    crew::verified(&mut reading, &verdicts);
    crew::paged(&mut reading, ring.pages, ring.working_set, &huge);
    crew::oversubscribed(&mut reading, shares.len(), cpus);
    reading
}

#[cfg(test)]
mod tests {
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
        assert!(says.contains("node has no processor"), "{says}");
    }

    #[test]
    fn a_stride_that_leaves_no_ring_is_refused() {
        assert!(run(json!({"working_set": 128, "stride": 256})).is_err());
        assert!(run(json!({"stride": 12})).is_err());
    }
}
