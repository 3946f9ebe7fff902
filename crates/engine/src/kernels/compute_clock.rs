//! The clock of the processors by a chain of additions that each wait for the one before.

use crate::contract::declare::{CPUS, INTERVAL_S, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream};
use crate::loops::compute::chain::Chain;
use crate::parameters;
use crate::timing::crew::Crew;

/// The kernel `compute_clock`.
pub struct ComputeClock;

/// A look at the clock and the stop after this long.
const BATCH_NS: u64 = 100_000;

parameters! {
    /// What `compute_clock` takes.
    pub struct Parameters {
        threads: usize = THREADS,
        runtime: f64 = RUNTIME.default(0.1),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS,
    }
}

impl Kernel for ComputeClock {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("compute_clock", "the actual CPU clock, from dependent additions, one per cycle", "addition");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, runtime, interval_s, ref cpus } = *parameters;
        let outcome = Crew::new(threads, cpus, runtime, interval_s, stop).run(
            |_| Ok(Chain::new((runtime * 200_000.0) as usize)),
            |chain, _| {
                let before = chain.adds();
                let now = chain.run(BATCH_NS);
                (now, chain.adds() - before)
            },
            |chain| chain,
        )?;
        let adds = outcome.results().map(Chain::adds).sum();
        if adds == 0 {
            return Err(Error::Machine("the clock measurement does not support this architecture".into(), None));
        }
        let mut reading = outcome.reading(vec![Stream::new("add", adds)]);
        reading.detail("clock_hz", outcome.results().map(Chain::hz).sum::<f64>() / threads as f64);
        reading.detail("clock_hz_best", outcome.results().map(Chain::best_hz).fold(0.0, f64::max));
        Ok(reading)
    }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn additions_are_counted() {
        let reading = crate::run("compute_clock", &json!({"runtime": 0.002}), &Stop::new()).unwrap();
        assert!(reading.streams[0].operations > 0 && reading.streams[0].operations % 32_000 == 0);
        assert!(reading.details["clock_hz"].as_f64() <= reading.details["clock_hz_best"].as_f64());
    }
}
