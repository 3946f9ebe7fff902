//! What it costs to get a cache line from another processor: by compare-and-swap back and forth, or by
//! loads of lines that the other holds clean or modified.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::contract::declare::{choice, integer, CPUS, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Samples, Stream, Verdict};
use crate::loops::memory::allocation::refused;
use crate::loops::memory::chase::{Chase, Locality, Meter, Ring};
use crate::sys::pages::Pages;
use crate::timing::clock::now_ns;
use crate::timing::crew::{processors, Crew, Outcome};
use crate::{parameters, words};

/// The kernel `memory_core_to_core`.
pub struct MemoryCoreToCore;

/// Round trips between two looks at the clock.
const ROUNDS: u64 = 500;

words! {
    /// How the line goes from one processor to the other.
    pub enum Operation {
        /// Compare-and-swap in turn.
        Cas = "cas",
        /// Loads of lines that the other has read.
        Clean = "clean",
        /// Loads of lines that the other has written.
        Modified = "modified",
    }
}

parameters! {
    /// What `memory_core_to_core` takes.
    pub struct Parameters {
        operation: Operation = choice("cas: alternating compare-and-swap, one way; clean, modified: loads of lines \
            that the other core read or wrote"),
        lines: u64 = integer("cache lines per handover, for clean and modified", "", (16, 1 << 20), 1024),
        runtime: f64 = RUNTIME.default(0.2),
        cpus: Vec<u64> = CPUS,
    }
}

impl Kernel for MemoryCoreToCore {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("memory_core_to_core", "time to move a cache line from one core to another", "transfer");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let cpus = processors(&parameters.cpus);
        if cpus.len() < 2 || cpus[0] == cpus[1] {
            return Err(Error::Machine(
                "core-to-core latency needs two CPUs, and only one is allowed here".into(),
                None,
            ));
        }
        let crew = Crew::new(2, &cpus[..2], parameters.runtime, parameters.runtime, stop).led();
        let (outcome, verdict) = match parameters.operation {
            Operation::Cas => swap(&crew)?,
            Operation::Clean => hand_over(&crew, parameters.lines, false)?,
            Operation::Modified => hand_over(&crew, parameters.lines, true)?,
        };
        let mut reading = outcome.reading(Vec::new());
        if let Some(side) = outcome.results().next() {
            let mut stream = Stream::new("read", side.meter.loads);
            stream.add_latency("total", &side.meter.histogram);
            reading.streams.push(stream);
            // The time of the transfers alone, without that of handing over, which samples would have as well.
            reading.samples = Samples::default();
            reading.elapsed_s = side.meter.elapsed_ns as f64 / 1e9;
            reading.detail("latency_ns", side.meter.mean_ns());
        }
        reading.detail("cpus", crew.cpus());
        reading.verified([verdict].into_iter());
        Ok(reading)
    }
}

/// A number alone on a cache line and its neighbour, which is fetched with it.
#[repr(align(256))]
struct Line(AtomicU64);

impl Line {
    /// Waits until it holds `value` or the crew's time is over, whichever comes first.
    fn wait_for(&self, value: u64, crew: &Crew<'_>) -> bool {
        while self.0.load(Ordering::Acquire) != value {
            if crew.is_over() {
                return false;
            }
            std::hint::spin_loop();
        }
        true
    }
}

/// One of the two processors: whose turn comes next, and what the first has timed.
struct Side {
    first: bool,
    turn: u64,
    meter: Meter,
}

/// Both swap a number up by one in turn: the first from even, the second from odd.
fn swap(crew: &Crew<'_>) -> Result<(Outcome<Side>, Verdict), Error> {
    let ball = Line(AtomicU64::new(0));
    let outcome = crew.run(
        |member| Ok(Side { first: member.number == 0, turn: member.number as u64, meter: Meter::default() }),
        |side, now| {
            for _ in 0..ROUNDS {
                let turn = side.turn;
                while ball.0.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    if crew.is_over() {
                        return (now, 0);
                    }
                }
                side.turn += 2;
            }
            let then = now_ns();
            // A round trip is two transfers of the line.
            if side.first {
                side.meter.record(then - now, 2 * ROUNDS);
            }
            (then, 2 * ROUNDS)
        },
        |side| side,
    )?;
    // The first thread's last swap left `turn - 1`, to which the second may have added one.
    let turn = outcome.results().next().map_or(0, |side| side.turn);
    let left = ball.0.load(Ordering::Relaxed);
    let wrong = u64::from(left + 1 != turn && left != turn);
    Ok((outcome, Verdict { checked: 1, wrong }))
}

/// The second thread takes a ring of lines into its cache; the first chases through it.
fn hand_over(crew: &Crew<'_>, lines: u64, modified: bool) -> Result<(Outcome<Side>, Verdict), Error> {
    let ring = Ring {
        working_set: lines * 64,
        stride: 64,
        locality: Locality::Random,
        local_size: 0,
        pages: Pages::Huge2M,
        node: None,
    };
    let chase = Chase::new(&ring).map_err(|error| refused(ring.pages, ring.working_set, &error))?;
    let length = chase.length();
    let loads = length / 16 * 16;
    // Never waited for: the phase says whose turn it is.
    let chase = Mutex::new(chase);
    // Odd: the second thread's turn; even: the first's.
    let phase = Line(AtomicU64::new(1));
    let outcome = crew.run(
        |member| Ok(Side { first: member.number == 0, turn: 0, meter: Meter::default() }),
        |side, now| {
            if !phase.wait_for(side.turn + if side.first { 2 } else { 1 }, crew) {
                return (now, 0);
            }
            side.turn += 2;
            let mut chase = chase.lock().unwrap_or_else(PoisonError::into_inner);
            if !side.first {
                (0..length as usize).for_each(|line| chase.take_line(line * 64, modified));
                drop(chase);
                phase.0.store(side.turn, Ordering::Release);
                return (now_ns(), length);
            }
            let before = now_ns();
            chase.follow(loads);
            let after = now_ns();
            drop(chase);
            // The first hand-over also fills the TLB.
            if side.turn > 2 {
                side.meter.record(after - before, loads);
            }
            phase.0.store(side.turn + 1, Ordering::Release);
            (after, loads)
        },
        |side| side,
    )?;
    let verdict = chase.into_inner().unwrap_or_else(PoisonError::into_inner).verify();
    Ok((outcome, verdict))
}

#[cfg(test)]
#[cfg(not(target_arch = "aarch64"))] // qemu-user runs no second thread
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_go_from_one_processor_to_the_other() {
        if crate::sys::affinity::allowed().len() < 2 {
            return crate::here::absent("a second processor");
        }
        for operation in ["cas", "clean", "modified"] {
            let parameters = json!({"operation": operation, "lines": 64, "runtime": 0.02});
            let reading = crate::run("memory_core_to_core", &parameters, &Stop::new()).unwrap();
            assert!(!reading.interrupted);
            assert_eq!(reading.details["verification"], "passed", "{operation}");
        }
    }

    #[test]
    fn one_processor_is_not_enough() {
        assert!(crate::run("memory_core_to_core", &json!({"cpus": [0]}), &Stop::new()).is_err());
    }
}
