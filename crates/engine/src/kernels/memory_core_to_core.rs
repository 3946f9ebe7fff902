//! What it costs to get a cache line from another processor: by compare-and-swap back and forth, or by
//! loads of lines that the other holds clean or modified.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

use crate::clock::now_ns;
use crate::declare::{choice, integer, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::memory::chase::{Chase, Locality, Meter, Ring};
use crate::memory::crew;
use crate::memory::traffic::Verdict;
use crate::memory::work::cpus;
use crate::reading::{Reading, Stream};
use crate::sys::pages::Pages;
use crate::team::{self, Member};

/// See the module.
pub struct MemoryCoreToCore;

/// Round trips between two looks at the clock.
const ROUNDS: u64 = 500;

impl Kernel for MemoryCoreToCore {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            parameters: vec![
                choice("operation", "cas: compare-and-swap in turn, one way; clean, modified: loads of lines that the other has read or written", &[
                    "cas", "clean", "modified",
                ]),
                integer("lines", "lines that are handed over together, for clean and modified", "", (16, 1 << 20), 1024),
                number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.2),
                cpus(),
            ],
            ..KernelInfo::new(
                "memory_core_to_core",
                "time to get a cache line from the second processor to the first",
                "transfer",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let cpus = crew::cpus(&parameters.integers("cpus"));
        if cpus.len() < 2 || cpus[0] == cpus[1] {
            return Err(Error::Machine(
                "core to core needs two processors, and one alone is allowed here".into(),
                None,
            ));
        }
        let cpus = &cpus[..2];
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let (meter, verdict, stopped) = match parameters.text("operation") {
            "cas" => swap(cpus, runtime_ns, stop)?,
            word => hand_over(cpus, runtime_ns, parameters.integer("lines"), word == "modified", stop)?,
        };
        let mut stream = Stream { name: "read".into(), operations: meter.loads, ..Stream::default() };
        stream.add_latency("total", &meter.histogram);
        let mut reading = Reading {
            kernel: "memory_core_to_core".into(),
            parameters: parameters.as_json(),
            elapsed_s: meter.elapsed_ns as f64 / 1e9,
            streams: vec![stream],
            concurrency_asked: 1.0,
            interrupted: stopped,
            ..Reading::default()
        };
        reading.details.insert("latency_ns".into(), json!(meter.mean_ns()));
        reading.details.insert("cpus".into(), json!(cpus));
        crew::verified(&mut reading, &[verdict]);
        Ok(reading)
    }
}

/// A number on a cache line (and its neighbour, which is fetched with it) of its own.
#[repr(align(256))]
struct Line(AtomicU64);

/// Waits until `line` holds `value` or `over` is set, whichever comes first.
fn wait_for(line: &Line, value: u64, over: &AtomicBool) -> bool {
    while line.0.load(Ordering::Acquire) != value {
        if over.load(Ordering::Relaxed) {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

/// Both swap a number up by one in turn: the first from even, the second from odd.
fn swap(cpus: &[u64], runtime_ns: u64, stop: &Stop) -> Result<(Meter, Verdict, bool), Error> {
    let ball = Line(AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let mut results = team::run(2, cpus, |member| {
        let mut meter = Meter::default();
        let mine = member.number as u64;
        member.wait_for_start();
        let begun = now_ns();
        let (mut now, mut turn) = (begun, mine);
        while !over.load(Ordering::Relaxed) {
            for _ in 0..ROUNDS {
                while ball.0.compare_exchange(turn, turn + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    if over.load(Ordering::Relaxed) {
                        return (meter, turn, stop.is_set());
                    }
                }
                turn += 2;
            }
            if mine == 0 {
                let then = now_ns();
                // A round trip is two transfers of the line.
                meter.record(then - now, 2 * ROUNDS);
                now = then;
                over.store(now - begun >= runtime_ns || stop.is_set(), Ordering::Relaxed);
            }
        }
        (meter, turn, stop.is_set())
    })?;
    let (meter, turn, stopped) = results.remove(0);
    // The first thread's last swap left `turn - 1`, to which the second may have added one.
    let left = ball.0.load(Ordering::Relaxed);
    let wrong = u64::from(left + 1 != turn && left != turn);
    Ok((meter, Verdict { checked: 1, wrong }, stopped))
}

/// The second thread takes a ring of lines into its cache; the first chases through it.
fn hand_over(
    cpus: &[u64],
    runtime_ns: u64,
    lines: u64,
    modified: bool,
    stop: &Stop,
) -> Result<(Meter, Verdict, bool), Error> {
    let ring =
        Ring { working_set: lines * 64, stride: 64, locality: Locality::Random, pages: Pages::Huge2M, node: None };
    let refused = |error: std::io::Error| crew::refused(ring.pages, ring.working_set, &error);
    let chase = Chase::new(&ring).map_err(refused)?;
    let length = chase.length();
    let loads = length / 16 * 16;
    // Never waited for: the phase says whose turn it is.
    let chase = Mutex::new(chase);
    // Odd: the second thread's turn; even: the first's.
    let phase = Line(AtomicU64::new(1));
    let over = AtomicBool::new(false);
    let results = team::run(2, cpus, |member: &Member<'_>| {
        let mut meter = Meter::default();
        member.wait_for_start();
        let mut turn = 0;
        if member.number == 1 {
            while wait_for(&phase, turn + 1, &over) {
                let mut chase = chase.lock().unwrap_or_else(PoisonError::into_inner);
                (0..length as usize).for_each(|line| chase.take_line(line * 64, modified));
                drop(chase);
                turn += 2;
                phase.0.store(turn, Ordering::Release);
            }
            return meter;
        }
        let begun = now_ns();
        while now_ns() - begun < runtime_ns && !stop.is_set() {
            turn += 2;
            if !wait_for(&phase, turn, &over) {
                break;
            }
            let mut chase = chase.lock().unwrap_or_else(PoisonError::into_inner);
            let before = now_ns();
            chase.follow(loads);
            let after = now_ns();
            drop(chase);
            // The first hand-over also fills the TLB.
            if turn > 2 {
                meter.record(after - before, loads);
            }
            phase.0.store(turn + 1, Ordering::Release);
        }
        over.store(true, Ordering::Relaxed);
        meter
    })?;
    let chase = chase.into_inner().unwrap_or_else(PoisonError::into_inner);
    let meter = results.into_iter().next().unwrap_or_default();
    Ok((meter, chase.verify(), stop.is_set()))
}

#[cfg(test)]
#[cfg(not(target_arch = "aarch64"))] // qemu-user runs no second thread
mod tests {
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
