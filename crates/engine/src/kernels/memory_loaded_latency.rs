//! How long a load takes while other threads make traffic: one thread chases, the others move bytes
//! with a delay after each block, so that the load on the memory rises step by step.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use super::memory_latency::{ring_of, ring_parameters};
use crate::clock::now_ns;
use crate::declare::{integer, interval_s, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Role, Stop};
use crate::memory::chase::{Chase, Meter};
use crate::memory::crew::{self, Timeline};
use crate::memory::operation::{Choice, Isa};
use crate::memory::traffic::{Moved, Verdict};
use crate::memory::trial;
use crate::memory::work::{self, Work};
use crate::reading::{CpuTime, Reading, Samples, Stream};
use crate::{cpu_time, team};

/// See the module.
pub struct MemoryLoadedLatency;

/// Traffic runs alone for this part of the runtime before the chase is timed.
const RAMP_SHARE: u64 = 10;

struct Share {
    /// Of the chase; none for a thread that makes traffic.
    chase: Option<(Meter, u64)>,
    moved: Moved,
    line: Timeline,
    cpu: CpuTime,
    verdict: Verdict,
    huge: Option<u64>,
    stopped: bool,
}

impl Kernel for MemoryLoadedLatency {
    fn info(&self) -> KernelInfo {
        let mut parameters = work::parameters("read");
        parameters.extend([
            integer("delay", "cycles that a traffic thread waits after each block", "cycles", (0, 1 << 32), 0)
                .role(Role::Delay),
            integer("threads", "threads that make traffic, beside the one that chases", "", (0, 1023), 1).workers(),
            integer("working_set", "bytes of all arrays of one traffic thread", "B", (64, 1 << 44), 256 << 20),
            number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.5),
            interval_s(),
            work::cpus(),
        ]);
        parameters.extend(ring_parameters("chase_set"));
        parameters.extend(work::placement());
        KernelInfo {
            parameters,
            pass: vec![("operations", "1"), ("bytes", "block")],
            ..KernelInfo::new(
                "memory_loaded_latency",
                "time of a dependent load on the first processor, while threads on the others make traffic",
                "access",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let threads = parameters.integer("threads") as usize;
        let ring = ring_of(parameters, "chase_set", 64)?;
        let work = work::of(parameters, parameters.integer("working_set"))?;
        crew::fits(work.working_set.saturating_mul(threads as u64).saturating_add(ring.working_set))?;
        let cpus = crew::placed(parameters)?;
        let refused = |error: io::Error| crew::refused(work.pages, work.working_set, &error);
        // The first processor chases, and the traffic begins on the second.
        let behind: Vec<_> = (1..=cpus.len()).map(|at| cpus[at % cpus.len()]).collect();
        let (traffics, choice) = match threads {
            0 => (Vec::new(), Isa::Scalar.into()),
            _ => trial::ready(work, threads, &behind)?,
        };
        let traffics: Vec<_> = traffics.into_iter().map(|traffic| Mutex::new(Some(traffic))).collect();
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let interval_ns = (parameters.number("interval_s") * 1e9) as u64;
        let done = AtomicBool::new(false);
        let shares = team::run(threads + 1, &cpus, |member| -> io::Result<Share> {
            // Room for the ramp as well: traffic is counted from the start to the chase's end.
            let mut line = Timeline::new(runtime_ns + 2 * runtime_ns / RAMP_SHARE, interval_ns);
            if member.number == 0 {
                let chase = Chase::new(&ring);
                let mut meter = Meter::default();
                member.wait_for_start();
                let mut chase = chase.inspect_err(|_| done.store(true, Ordering::Relaxed))?;
                chase.warm(runtime_ns / RAMP_SHARE);
                let batch = chase.batch(parameters.integer("batch"));
                let cpu = cpu_time::of_this_thread();
                let mut now = line.start(now_ns());
                let deadline = now + runtime_ns;
                while now < deadline && !stop.is_set() {
                    chase.follow(batch);
                    let then = now_ns();
                    meter.record(then - now, batch);
                    line.add(then, batch);
                    now = then;
                }
                done.store(true, Ordering::Relaxed);
                let cpu = cpu_time::of_this_thread().since(cpu);
                let (verdict, huge) = (chase.verify(), chase.mapping().huge_bytes());
                let stopped = now < deadline;
                return Ok(Share {
                    chase: Some((meter, batch)),
                    moved: Moved::default(),
                    line,
                    cpu,
                    verdict,
                    huge,
                    stopped,
                });
            }
            let taken = traffics[member.number - 1].lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut traffic = taken.ok_or(io::ErrorKind::NotFound)?;
            let (before, mut last) = (traffic.moved(), traffic.visits());
            member.wait_for_start();
            let cpu = cpu_time::of_this_thread();
            line.start(now_ns());
            while !done.load(Ordering::Relaxed) && !stop.is_set() {
                traffic.batch();
                let visits = traffic.visits();
                line.add(now_ns(), visits - last);
                last = visits;
            }
            let cpu = cpu_time::of_this_thread().since(cpu);
            let (verdict, huge) = (traffic.verify(), traffic.mapping().huge_bytes());
            let moved = traffic.moved().since(before);
            Ok(Share { chase: None, moved, line, cpu, verdict, huge, stopped: false })
        })?
        .into_iter()
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused)?;
        let asked = [ring.working_set, work.working_set * threads as u64];
        Ok(reading(parameters, &work, choice, &cpus, &shares, asked.iter().sum()))
    }
}

/// The time of all: that of the traffic, which begins before the chase and ends after it. Where there is none, or
/// its threads never came to run, that of the chase.
fn elapsed_s(chase: &Timeline, traffic: &[&Timeline], amounts: &[u64], cpus: &[u64]) -> f64 {
    let alone = chase.elapsed_s();
    if traffic.is_empty() {
        return alone;
    }
    crew::elapsed_s(traffic, amounts, traffic.len() + 1, cpus).max(alone)
}

fn reading(
    parameters: &Parameters,
    work: &Work,
    choice: Choice,
    cpus: &[u64],
    shares: &[Share],
    asked: u64,
) -> Reading {
    let mut reading = Reading {
        kernel: "memory_loaded_latency".into(),
        parameters: parameters.as_json(),
        concurrency_asked: (shares.len() - 1) as f64,
        interrupted: shares.iter().any(|share| share.stopped),
        samples: Samples { interval_s: parameters.number("interval_s"), ..Samples::default() },
        ..Reading::default()
    };
    let (chasers, movers): (Vec<_>, Vec<_>) = shares.iter().partition(|share| share.chase.is_some());
    let lines: Vec<_> = movers.iter().map(|share| &share.line).collect();
    let amounts: Vec<_> = movers.iter().map(|share| share.moved.read + share.moved.written).collect();
    for (share, (meter, batch)) in chasers.iter().filter_map(|share| share.chase.as_ref().map(|chase| (share, chase))) {
        let mut stream = Stream { name: "chase".into(), operations: meter.loads, ..Stream::default() };
        stream.add_latency("total", &meter.histogram);
        reading.elapsed_s = elapsed_s(&share.line, &lines, &amounts, cpus);
        reading.samples.operations.push(crew::intervals(&[&share.line]));
        reading.samples.bytes.push(Vec::new());
        reading.streams.push(stream);
        reading.details.insert("latency_ns".into(), json!(meter.mean_ns()));
        reading.details.insert("loads_per_batch".into(), json!(batch));
    }
    let total = |of: fn(&Moved) -> u64| movers.iter().map(|share| of(&share.moved)).sum::<u64>();
    let visits = crew::intervals(&lines);
    let all: u64 = visits.iter().sum();
    for (name, bytes) in [("read", total(|moved| moved.read)), ("write", total(|moved| moved.written))] {
        if bytes > 0 {
            let operations = bytes / work.block;
            reading.streams.push(Stream { name: name.into(), operations, bytes, ..Stream::default() });
            let part = |count: &u64| (u128::from(bytes) * u128::from(*count) / u128::from(all.max(1))) as u64;
            let bytes: Vec<u64> = visits.iter().map(part).collect();
            reading.samples.operations.push(bytes.iter().map(|bytes| bytes / work.block).collect());
            reading.samples.bytes.push(bytes);
        }
    }
    for share in shares {
        reading.cpu += share.cpu;
    }
    let elapsed_s = reading.elapsed_s.max(1e-9);
    let details = &mut reading.details;
    details.insert("isa".into(), json!(choice.isa.word()));
    details.insert("loop".into(), json!(choice.way.word()));
    details.insert("useful_bytes".into(), json!(amounts.iter().sum::<u64>()));
    details.insert("useful_bytes_s".into(), json!(amounts.iter().sum::<u64>() as f64 / elapsed_s));
    details.insert("line_bytes".into(), json!(total(|moved| moved.line)));
    details.insert("line_bytes_s".into(), json!(total(|moved| moved.line) as f64 / elapsed_s));
    let verdicts: Vec<_> = shares.iter().map(|share| share.verdict).collect();
    let huge: Vec<_> = shares.iter().map(|share| share.huge).collect();
    crew::verified(&mut reading, &verdicts);
    crew::paged(&mut reading, work.pages, asked / shares.len() as u64, &huge);
    crew::oversubscribed(&mut reading, shares.len(), cpus);
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parameters: serde_json::Value) -> Reading {
        crate::run("memory_loaded_latency", &parameters, &Stop::new()).unwrap()
    }

    #[test]
    fn traffic_that_never_came_to_run_does_not_shorten_the_time() {
        let line = |from: u64, to: u64, work: u64| {
            let mut line = Timeline::new(10_000_000_000, 100_000_000);
            line.start(from);
            if to > from {
                line.add(to, work);
            }
            line
        };
        let second = 1_000_000_000;
        let (chase, starved, whole) = (line(second, 2 * second, 1), line(second, second, 0), line(0, 3 * second, 9));
        let cpus = [0, 1];
        assert!((elapsed_s(&chase, &[&starved], &[0], &cpus) - 1.0).abs() < 1e-9);
        assert!((elapsed_s(&chase, &[&whole], &[9], &cpus) - 3.0).abs() < 1e-9);
        assert!((elapsed_s(&chase, &[], &[], &cpus) - 1.0).abs() < 1e-9);
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
