//! The clock of the processors by a chain of additions that each wait for the one before.

use serde_json::json;

use crate::clock::now_ns;
use crate::declare::{integer, interval_s, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::memory::crew::{self, Chain, Timeline};
use crate::memory::work::cpus;
use crate::reading::{Reading, Samples, Stream};
use crate::{cpu_time, team};

/// See the module.
pub struct ComputeClock;

/// A look at the clock and the stop after this long.
const BATCH_NS: u64 = 100_000;

impl Kernel for ComputeClock {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            parameters: vec![
                integer("threads", "how many threads do it at once", "", (1, 1024), 1).workers(),
                number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.1),
                interval_s(),
                cpus(),
            ],
            ..KernelInfo::new(
                "compute_clock",
                "dependent additions a second, one a cycle: the clock that the processors really run at",
                "addition",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let threads = parameters.integer("threads") as usize;
        let cpus = crew::cpus(&parameters.integers("cpus"));
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let interval_ns = (parameters.number("interval_s") * 1e9) as u64;
        let shares = team::run(threads, &cpus, |member| {
            let mut line = Timeline::new(runtime_ns, interval_ns);
            let mut chain = Chain::new((runtime_ns / 5_000) as usize);
            member.wait_for_start();
            let cpu = cpu_time::of_this_thread();
            let mut now = line.start(now_ns());
            while now < line.deadline() && !stop.is_set() {
                let before = chain.adds();
                now = chain.run(BATCH_NS);
                line.add(now, chain.adds() - before);
                if chain.adds() == 0 {
                    break;
                }
            }
            (chain, cpu_time::of_this_thread().since(cpu), now < line.deadline(), line)
        })?;
        let lines: Vec<_> = shares.iter().map(|share| &share.3).collect();
        let adds: Vec<_> = shares.iter().map(|share| share.0.adds()).collect();
        let total: u64 = adds.iter().sum();
        if total == 0 {
            return Err(Error::Machine("there is no dependent chain for this architecture yet".into(), None));
        }
        let mut reading = Reading {
            kernel: "compute_clock".into(),
            parameters: parameters.as_json(),
            elapsed_s: crew::elapsed_s(&lines, &adds, threads, &cpus),
            concurrency_asked: threads as f64,
            interrupted: shares.iter().any(|share| share.2),
            streams: vec![Stream { name: "add".into(), operations: total, ..Stream::default() }],
            samples: Samples {
                interval_s: parameters.number("interval_s"),
                operations: vec![crew::intervals(&lines)],
                bytes: vec![vec![]],
            },
            ..Reading::default()
        };
        for share in &shares {
            reading.cpu += share.1;
        }
        let mean = shares.iter().map(|share| share.0.hz()).sum::<f64>() / threads as f64;
        let best = shares.iter().map(|share| share.0.best_hz()).fold(0.0, f64::max);
        reading.details.insert("clock_hz".into(), json!(mean));
        reading.details.insert("clock_hz_best".into(), json!(best));
        crew::oversubscribed(&mut reading, threads, &cpus);
        Ok(reading)
    }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;

    #[test]
    fn additions_are_counted() {
        let reading = crate::run("compute_clock", &json!({"runtime": 0.002}), &Stop::new()).unwrap();
        assert!(reading.streams[0].operations > 0 && reading.streams[0].operations % 32_000 == 0);
        assert!(reading.details["clock_hz"].as_f64() <= reading.details["clock_hz_best"].as_f64());
    }
}
