//! How many arithmetic operations a second the processors do, by operation, precision and instruction
//! set, beside the clock at which they did them.

use std::cell::RefCell;

use serde_json::json;

use crate::clock::now_ns;
use crate::compute::variant::{Operands, Operation, Precision, Variant};
use crate::declare::{choice, integer, interval_s, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::memory::crew::{self, Chain, Timeline};
use crate::memory::traffic::Verdict;
use crate::memory::work::cpus;
use crate::reading::{CpuTime, Reading, Samples, Stream};
use crate::{compute, cpu_time, team};

/// See the module.
pub struct ComputeFlops;

const ISAS: [&str; 8] = ["auto", "scalar", "sse", "avx2", "avx512", "amx", "neon", "sve"];
/// Slices of arithmetic between two slices of the clock's chain: the chain takes under 5% of the time,
/// and the clock is that of the arithmetic, since a core keeps it for far longer than a slice.
const SLICES: u64 = 8;
/// Instructions a cycle this near a whole number are those of that many units.
const WHOLE: f64 = 0.04;
/// Slices that are remembered beside one of the chain: those of the first half minute.
const PAIRS: usize = 1 << 16;
/// How long the clock is measured before and after.
const CLOCK_NS: u64 = 2_000_000;

struct Share {
    slices: u64,
    busy_ns: u64,
    best_ns: u64,
    /// The slice before each of the chain's during the run, ns, as long as there was room.
    beside: Vec<u32>,
    /// Before, during, after.
    clocks: [Chain; 3],
    line: Timeline,
    cpu: CpuTime,
    verdict: Verdict,
    stopped: bool,
}

impl Kernel for ComputeFlops {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            parameters: vec![
                choice(
                    "operation",
                    "fma counts 2 a lane; dot counts each product and each addition",
                    &Operation::WORDS,
                ),
                choice("precision", "of the operands", &Precision::WORDS),
                choice("isa", "instruction set; auto takes the fastest by a short timing", &ISAS),
                choice(
                    "operands",
                    "the numbers: zeros draw less power, so that a core may clock higher on them",
                    &Operands::WORDS,
                ),
                integer("threads", "how many threads do it at once", "", (1, 1024), 1).workers(),
                number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.2),
                interval_s(),
                cpus(),
            ],
            ..KernelInfo::new(
                "compute_flops",
                "arithmetic operations on registers that do not wait for each other, beside the clock",
                "operation",
            )
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let cpus = crew::cpus(&parameters.integers("cpus"));
        let variant = choose(parameters, &cpus)?;
        let operands = Operands::named(parameters.text("operands"));
        let threads = parameters.integer("threads") as usize;
        let runtime_ns = (parameters.number("runtime") * 1e9) as u64;
        let interval_ns = (parameters.number("interval_s") * 1e9) as u64;
        let shares = team::run(threads, &cpus, |member| {
            let line = Timeline::new(runtime_ns, interval_ns);
            member.wait_for_start();
            measure(&variant, operands, line, stop)
        })?;
        Ok(reading(parameters, &variant, &cpus, &shares))
    }
}

/// The loop that was asked for; with `auto`, the fastest of those for this operation and precision.
fn choose(parameters: &Parameters, cpus: &[u64]) -> Result<Variant, Error> {
    let (operation, precision) = (parameters.text("operation"), parameters.text("precision"));
    let fitting: Vec<_> = compute::available()
        .into_iter()
        .filter(|variant| variant.operation.word() == operation && variant.precision.word() == precision)
        .collect();
    let isa = parameters.text("isa");
    if isa != "auto" {
        return fitting.iter().find(|variant| variant.isa == isa).copied().ok_or_else(|| {
            let here: Vec<_> = fitting.iter().map(|variant| variant.isa).collect();
            let here = if here.is_empty() { "none".into() } else { here.join(", ") };
            Error::usage(format!("{operation} in {precision} has no {isa} instruction here; there are: {here}"))
        });
    }
    let best = team::run(1, &cpus[..cpus.len().min(1)], |member| {
        member.wait_for_start();
        let candidates = RefCell::new(
            fitting.iter().map(|variant| (variant, variant.bank(Operands::Nonzero), 0.0)).collect::<Vec<_>>(),
        );
        for _ in 0..5 {
            for (variant, bank, best) in candidates.borrow_mut().iter_mut() {
                let begun = now_ns();
                variant.slice(bank, variant.turns());
                let rate = variant.operations_of(variant.turns()) as f64 / (now_ns() - begun).max(1) as f64;
                *best = rate.max(*best);
            }
        }
        candidates.into_inner().into_iter().max_by(|one, other| one.2.total_cmp(&other.2)).map(|best| *best.0)
    })?
    .remove(0);
    best.ok_or_else(|| Error::usage(format!("{operation} in {precision} has no instruction on this processor")))
}

fn measure(variant: &Variant, operands: Operands, mut line: Timeline, stop: &Stop) -> Share {
    let turns = variant.turns();
    let (expected, operations) = (variant.expected(turns, operands), variant.operations_of(turns));
    let (mut bank, mut proof) = (variant.bank(operands), variant.bank(Operands::Nonzero));
    let bank = &mut *bank;
    let mut clocks = [Chain::new(PAIRS), Chain::new(PAIRS), Chain::new(PAIRS)];
    let (mut slices, mut busy_ns, mut best_ns) = (0, 0, u64::MAX);
    let mut beside = vec![0_u32; PAIRS];
    beside.clear();
    let mut verdict = Verdict::default();
    let cpu = cpu_time::of_this_thread();
    clocks[0].run(CLOCK_NS);
    // A sum of zeros does not tell a turn that was left out, so the same loop is proved on other numbers first.
    variant.slice(&mut proof, turns);
    verdict.checked += variant.accumulators;
    verdict.wrong += variant.wrong(&proof, &variant.expected(turns, Operands::Nonzero));
    // Wide units wake up and the clock settles for them before anything is counted.
    for _ in 0..SLICES {
        variant.slice(bank, turns);
    }
    let mut now = line.start(now_ns());
    while now < line.deadline() && !stop.is_set() {
        let mut ns = 0;
        for _ in 0..SLICES {
            let begun = now_ns();
            variant.slice(bank, turns);
            ns = now_ns() - begun;
            slices += 1;
            busy_ns += ns;
            best_ns = best_ns.min(ns);
            verdict.checked += variant.accumulators;
            verdict.wrong += variant.wrong(bank, &expected);
        }
        now = clocks[1].slice(|turns| variant.beat(turns));
        if beside.len() < PAIRS {
            beside.push(u32::try_from(ns.max(1)).unwrap_or(u32::MAX));
        }
        line.add(now, SLICES * operations);
    }
    let stopped = now < line.deadline();
    clocks[2].run(CLOCK_NS);
    let cpu = cpu_time::of_this_thread().since(cpu);
    Share { slices, busy_ns, best_ns, beside, clocks, line, cpu, verdict, stopped }
}

/// Arithmetic held against the clock of the same moment: each slice against the chain's right after it.
struct Cycles {
    /// Operations a cycle in the median pair, which is one that nobody cut into.
    median: f64,
    /// In the third quarter: what the units can do, but not what a clock that moved within a pair feigns.
    best: f64,
    /// The share of the slices' time beyond that of as many median ones.
    preempted: f64,
}

impl Cycles {
    /// None where there is no chain.
    fn of(each: f64, shares: &[Share]) -> Option<Self> {
        let mut pairs: Vec<_> = shares
            .iter()
            .flat_map(|share| share.beside.iter().zip(share.clocks[1].slices()))
            .map(|(&ns, &chain_ns)| (f64::from(ns), f64::from(chain_ns)))
            .collect();
        let ns = crew::median(pairs.iter().map(|pair| pair.0).collect())?;
        let chain_ns = crew::median(pairs.iter().map(|pair| pair.1).collect())?;
        // Where either side was cut into, their ratio says nothing; a clock or a neighbour moves it by less.
        pairs.retain(|pair| pair.0 < 1.5 * ns && pair.1 < 1.2 * chain_ns);
        let mut ratios: Vec<_> =
            pairs.iter().map(|(ns, chain_ns)| each / ns * chain_ns / Chain::SLICE as f64).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| ratios.get(((ratios.len() - 1) as f64 * share).round() as usize).copied();
        let slices: u64 = shares.iter().map(|share| share.slices).sum();
        let busy: u64 = shares.iter().map(|share| share.busy_ns).sum();
        Some(Self {
            median: at(0.5)?,
            best: at(0.75)?,
            preempted: (1.0 - ns * slices as f64 / busy.max(1) as f64).max(0.0),
        })
    }
}

fn reading(parameters: &Parameters, variant: &Variant, cpus: &[u64], shares: &[Share]) -> Reading {
    let each = variant.operations_of(variant.turns());
    let done: Vec<_> = shares.iter().map(|share| share.slices * each).collect();
    let total: u64 = done.iter().sum();
    let lines: Vec<_> = shares.iter().map(|share| &share.line).collect();
    // What the slices took, without the clock's chain between them.
    let busy: u64 = shares.iter().map(|share| share.busy_ns).sum();
    let spent: f64 = lines.iter().map(|line| line.elapsed_s()).sum::<f64>() * 1e9;
    let elapsed_s = crew::elapsed_s(&lines, &done, shares.len(), cpus) * (busy as f64 / spent.max(1.0)).min(1.0);
    let mut reading = Reading {
        kernel: "compute_flops".into(),
        parameters: parameters.as_json(),
        elapsed_s: elapsed_s.max(1e-9),
        concurrency_asked: shares.len() as f64,
        interrupted: shares.iter().any(|share| share.stopped),
        streams: vec![Stream {
            name: variant.operation.word().into(),
            operations: total / variant.operations,
            flops: total,
            ..Stream::default()
        }],
        ..Reading::default()
    };
    let intervals = crew::intervals(&lines);
    reading.samples = Samples {
        interval_s: parameters.number("interval_s"),
        operations: vec![intervals.iter().map(|flops| flops / variant.operations).collect()],
        bytes: vec![vec![]],
    };
    for share in shares {
        reading.cpu += share.cpu;
    }
    let clock = |at: usize| crew::median(shares.iter().map(|share| share.clocks[at].hz()).collect()).unwrap_or(0.0);
    let best_rate = shares.iter().map(|share| each as f64 * 1e9 / share.best_ns.max(1) as f64).fold(0.0, f64::max);
    let cycles = Cycles::of(each as f64, shares);
    let details = &mut reading.details;
    details.insert("isa".into(), json!(variant.isa));
    details.insert("flops_s".into(), json!(total as f64 / elapsed_s.max(1e-9)));
    details.insert("flops_s_best_slice".into(), json!(best_rate));
    for (at, name) in ["clock_hz_before", "clock_hz_during", "clock_hz_after"].into_iter().enumerate() {
        details.insert(name.into(), json!(clock(at)));
    }
    if let Some(cycles) = cycles {
        let pipes = (cycles.best / variant.operations as f64).round().max(1.0);
        let chains = shares.iter().flat_map(|share| &share.clocks).map(Chain::best_hz).fold(0.0, f64::max);
        // Whole units cannot do more than one instruction a cycle each, so what was done is a clock as well.
        let told = best_rate / (pipes * variant.operations as f64);
        let whole = (cycles.best / variant.operations as f64 / pipes - 1.0).abs() < WHOLE;
        details.insert("clock_hz_best".into(), json!(if whole { chains.max(told) } else { chains }));
        details.insert("flop_per_cycle".into(), json!(cycles.median));
        details.insert("flop_per_cycle_best_slice".into(), json!(cycles.best));
        details.insert("flop_per_instruction".into(), json!(variant.operations));
        details.insert("instructions_per_cycle".into(), json!(cycles.best / variant.operations as f64));
        // A tile instruction takes many cycles, and its pipe is one.
        details.insert("pipes".into(), json!(pipes));
        // What the slices took beyond their median: time in which others had the processor.
        details.insert("preempted_share".into(), json!(cycles.preempted));
    } else {
        details.insert("clock_hz_best".into(), json!(0.0));
    }
    let verdicts: Vec<_> = shares.iter().map(|share| share.verdict).collect();
    crew::verified(&mut reading, &verdicts);
    crew::oversubscribed(&mut reading, shares.len(), cpus);
    reading
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("compute_flops", &parameters, &Stop::new())
    }

    #[test]
    fn operations_are_instructions_times_lanes_and_all_is_verified() {
        for variant in compute::available() {
            for operands in Operands::WORDS {
                let reading = run(json!({"operation": variant.operation.word(), "precision": variant.precision.word(),
                    "isa": variant.isa, "operands": operands, "runtime": 0.001}))
                .unwrap();
                let stream = &reading.streams[0];
                assert_eq!(stream.flops, stream.operations * variant.operations);
                assert!(stream.flops > 0 && reading.elapsed_s > 0.0);
                assert_eq!(reading.details["verification"], "passed", "{} {:?}", variant.isa, variant.precision);
            }
        }
    }

    #[test]
    fn auto_takes_an_instruction_set_that_is_here() {
        let reading = run(json!({"runtime": 0.001})).unwrap();
        let isa = reading.details["isa"].as_str().unwrap();
        assert!(compute::available().iter().any(|variant| variant.isa == isa));
    }

    #[test]
    fn what_no_processor_has_is_refused_with_what_there_is() {
        let says = run(json!({"operation": "fma", "precision": "int8"})).unwrap_err().to_string();
        assert!(says.contains("no instruction"), "{says}");
        let says = run(json!({"operation": "add", "precision": "int8", "isa": "amx"})).unwrap_err().to_string();
        assert!(says.contains("there are:"), "{says}");
    }
}
