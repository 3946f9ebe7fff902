//! How many bytes a second a number of threads move, by operation, mix, order, block, stride and pages.

use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::clock::now_ns;
use crate::declare::{integer, interval_s, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::memory::crew::{self, Timeline};
use crate::memory::operation::Choice;
use crate::memory::traffic::{Moved, Verdict};
use crate::memory::trial;
use crate::memory::work;
use crate::reading::{CpuTime, Reading, Samples, Stream};
use crate::{cpu_time, team};

/// See the module.
pub struct MemoryBandwidth;

/// What one thread did.
struct Share {
    moved: Moved,
    line: Timeline,
    cpu: CpuTime,
    verdict: Verdict,
    huge: Option<u64>,
    stopped: bool,
}

impl Kernel for MemoryBandwidth {
    fn info(&self) -> KernelInfo {
        let mut parameters = work::parameters("read");
        parameters.extend([
            integer("working_set", "bytes of all arrays of one thread together", "B", (64, 1 << 44), 512 << 20),
            integer("threads", "how many threads do it at once, each on memory of its own", "", (1, 1024), 1).workers(),
            number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.5),
            interval_s(),
            work::cpus(),
        ]);
        parameters.extend(work::placement());
        KernelInfo {
            parameters,
            pass: vec![("operations", "1"), ("bytes", "block")],
            ..KernelInfo::new(
                "memory_bandwidth",
                "bytes that threads move between registers and memory, every result verified afterwards",
                "access",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let threads = parameters.integer("threads") as usize;
        let work = work::of(parameters, parameters.integer("working_set"))?;
        crew::fits(work.working_set.saturating_mul(threads as u64))?;
        let cpus = crew::placed(parameters)?;
        let (traffics, choice) = trial::ready(work, threads, &cpus)?;
        let traffics: Vec<_> = traffics.into_iter().map(|traffic| Mutex::new(Some(traffic))).collect();
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let interval_ns = (parameters.number("interval_s") * 1e9) as u64;
        let shares = team::run(threads, &cpus, |member| {
            let mut traffic = traffics[member.number].lock().unwrap_or_else(PoisonError::into_inner).take()?;
            let mut line = Timeline::new(runtime_ns, interval_ns);
            let (before, mut last) = (traffic.moved(), traffic.visits());
            member.wait_for_start();
            let cpu = cpu_time::of_this_thread();
            let mut now = line.start(now_ns());
            while now < line.deadline() && !stop.is_set() {
                traffic.batch();
                now = now_ns();
                let visits = traffic.visits();
                line.add(now, visits - last);
                last = visits;
            }
            let cpu = cpu_time::of_this_thread().since(cpu);
            let stopped = now < line.deadline();
            let verdict = traffic.verify();
            let (moved, huge) = (traffic.moved().since(before), traffic.mapping().huge_bytes());
            Some(Share { moved, line, cpu, verdict, huge, stopped })
        })?;
        let shares: Vec<_> = shares.into_iter().flatten().collect();
        Ok(reading(parameters, &work, choice, &cpus, &shares))
    }
}

fn reading(parameters: &Parameters, work: &work::Work, choice: Choice, cpus: &[u64], shares: &[Share]) -> Reading {
    let mut reading = Reading {
        kernel: "memory_bandwidth".into(),
        parameters: parameters.as_json(),
        concurrency_asked: shares.len() as f64,
        interrupted: shares.iter().any(|share| share.stopped),
        ..Reading::default()
    };
    let total = |of: fn(&Moved) -> u64| shares.iter().map(|share| of(&share.moved)).sum::<u64>();
    let (read, written) = (total(|moved| moved.read), total(|moved| moved.written));
    for (name, bytes) in [("read", read), ("write", written)] {
        if bytes > 0 {
            reading.streams.push(Stream {
                name: name.into(),
                operations: bytes / work.block,
                bytes,
                ..Stream::default()
            });
        }
    }
    let lines: Vec<_> = shares.iter().map(|share| &share.line).collect();
    let amounts: Vec<_> = shares.iter().map(|share| share.moved.read + share.moved.written).collect();
    reading.elapsed_s = crew::elapsed_s(&lines, &amounts, shares.len(), cpus);
    let visits = crew::intervals(&lines);
    let all: u64 = visits.iter().sum();
    let share_of = |bytes: u64| -> Vec<u64> {
        visits.iter().map(|&count| (u128::from(bytes) * u128::from(count) / u128::from(all.max(1))) as u64).collect()
    };
    reading.samples = Samples { interval_s: parameters.number("interval_s"), ..Samples::default() };
    for stream in &reading.streams {
        let bytes = share_of(stream.bytes);
        reading.samples.operations.push(bytes.iter().map(|bytes| bytes / work.block).collect());
        reading.samples.bytes.push(bytes);
    }
    for share in shares {
        reading.cpu += share.cpu;
    }
    let details = &mut reading.details;
    details.insert("isa".into(), json!(choice.isa.word()));
    details.insert("loop".into(), json!(choice.way.word()));
    details.insert("flops".into(), json!(total(|moved| moved.flops)));
    details.insert("useful_bytes".into(), json!(read + written));
    details.insert("line_bytes".into(), json!(total(|moved| moved.line)));
    let elapsed_s = reading.elapsed_s.max(1e-9);
    details.insert("line_bytes_s".into(), json!(total(|moved| moved.line) as f64 / elapsed_s));
    details.insert(
        "per_thread_bytes_s".into(),
        json!(lines.iter().zip(&amounts).map(|(line, &bytes)| bytes as f64 / line.elapsed_s()).collect::<Vec<_>>()),
    );
    let verdicts: Vec<_> = shares.iter().map(|share| share.verdict).collect();
    let huge: Vec<_> = shares.iter().map(|share| share.huge).collect();
    crew::verified(&mut reading, &verdicts);
    crew::paged(&mut reading, work.pages, work.working_set, &huge);
    crew::oversubscribed(&mut reading, shares.len(), cpus);
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("memory_bandwidth", &parameters, &Stop::new())
    }

    #[test]
    fn bytes_are_operations_times_blocks_and_all_is_verified() {
        for operation in ["read", "nt_write", "copy", "triad", "nt_triad"] {
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
            let bytes: Vec<_> = reading.streams.iter().map(|stream| stream.bytes).collect();
            match operation {
                "triad" | "nt_triad" => {
                    assert_eq!(bytes[0], 2 * bytes[1]);
                    assert_eq!(reading.details["flops"], bytes[1] / 8 * 2);
                }
                "copy" => assert_eq!(bytes[0], bytes[1]),
                _ => assert_eq!(bytes.len(), 1),
            }
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
