//! How many arithmetic operations a second the processors do, by operation, precision and instruction
//! set, with the clock at which they did them.

use std::cell::RefCell;

use serde_json::{json, Value};

use crate::contract::declare::{choice, word, CPUS, INTERVAL_S, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::loops::compute;
use crate::loops::compute::chain::Chain;
use crate::loops::compute::variant::{Bank, Operands, Operation, Precision, Variant, WIDTH};
use crate::parameters;
use crate::timing::clock::now_ns;
use crate::timing::crew::{processors, Crew, Outcome};
use crate::timing::histogram::median;
use crate::timing::team::{self, Member};

/// The kernel `compute_flops`.
pub struct ComputeFlops;

const ISAS: [&str; 8] = ["auto", "scalar", "sse", "avx2", "avx512", "amx", "neon", "sve"];
/// Slices of arithmetic between two slices of the clock's chain: the chain takes under 5% of the time,
/// and the clock is that of the arithmetic, since a core keeps it for far longer than a slice.
const SLICES: u64 = 8;
/// Instructions a cycle this near a whole number are those of that many units.
const WHOLE: f64 = 0.04;
/// Slices that are recorded, each with one of the chain: those of the first half minute.
const PAIRS: usize = 1 << 16;
/// How long the clock is measured before and after.
const CLOCK_NS: u64 = 2_000_000;

parameters! {
    /// What `compute_flops` takes.
    pub struct Parameters {
        operation: Operation = choice("operation; fma counts as 2 per lane, dot counts each product and each addition"),
        precision: Precision = choice("data type of the operands"),
        isa: &'static str = word("instruction set; auto selects the fastest in a short test", &ISAS),
        operands: Operands = choice("operand values; with zeros a core uses less power and may clock higher"),
        threads: usize = THREADS,
        runtime: f64 = RUNTIME.default(0.2),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS,
    }
}

impl Kernel for ComputeFlops {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("compute_flops", "independent arithmetic operations on registers, and the clock", "operation");

    fn possible() -> Vec<Value> {
        let of = |one: &Variant, isa| json!({"operation": one.operation.word(), "precision": one.precision.word(), "isa": isa});
        let mut all = Vec::new();
        for one in compute::available() {
            let auto = of(&one, "auto");
            if !all.contains(&auto) {
                all.push(auto);
            }
            all.push(of(&one, one.isa));
        }
        all
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, runtime, interval_s, operands, .. } = *parameters;
        let cpus = processors(&parameters.cpus);
        let variant = choose(parameters, &cpus)?;
        let outcome = Crew::new(threads, &cpus, runtime, interval_s, stop).run(
            |member| Ok(Share::ready(member, &variant, operands)),
            |share, _| share.pass(&variant),
            |mut share| {
                share.clocks[2].run(CLOCK_NS);
                share
            },
        )?;
        Ok(reading(&variant, &outcome))
    }
}

/// The loop for these parameters; with `auto`, the fastest of those for this operation and precision.
fn choose(parameters: &Parameters, cpus: &[u64]) -> Result<Variant, Error> {
    let Parameters { operation, precision, isa, .. } = *parameters;
    let fitting: Vec<_> = compute::available()
        .into_iter()
        .filter(|variant| variant.operation == operation && variant.precision == precision)
        .collect();
    let (operation, precision) = (operation.word(), precision.word());
    if isa != "auto" {
        return fitting.iter().find(|variant| variant.isa == isa).copied().ok_or_else(|| {
            let here: Vec<_> = fitting.iter().map(|variant| variant.isa).collect();
            let here = if here.is_empty() { "none".into() } else { here.join(", ") };
            Error::usage(format!("{operation} in {precision} has no {isa} instruction here; available: {here}"))
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
                let rate = variant.count_operations(variant.turns()) as f64 / (now_ns() - begun).max(1) as f64;
                *best = rate.max(*best);
            }
        }
        candidates.into_inner().into_iter().max_by(|one, other| one.2.total_cmp(&other.2)).map(|best| *best.0)
    })?
    .remove(0);
    best.ok_or_else(|| Error::usage(format!("{operation} in {precision} has no instruction on this processor")))
}

/// One thread's arithmetic and the clocks around it.
struct Share {
    turns: u64,
    operations: u64,
    bank: Box<Bank>,
    expected: [u8; WIDTH],
    slices: u64,
    busy_ns: u64,
    best_ns: u64,
    /// The slice before each of the chain's during the run, ns, as long as there was room.
    paired_ns: Vec<u32>,
    /// The clock before, during and after the run.
    clocks: [Chain; 3],
    verdict: Verdict,
}

impl Share {
    /// Makes the numbers, waits for the others, takes the clock, and wakes the units up.
    fn ready(member: &Member<'_>, variant: &Variant, operands: Operands) -> Self {
        let turns = variant.turns();
        let mut proof = variant.bank(Operands::Nonzero);
        let mut paired_ns = vec![0_u32; PAIRS];
        paired_ns.clear();
        let mut share = Self {
            turns,
            operations: SLICES * variant.count_operations(turns),
            bank: variant.bank(operands),
            expected: variant.expected(turns, operands),
            slices: 0,
            busy_ns: 0,
            best_ns: u64::MAX,
            paired_ns,
            clocks: [Chain::new(PAIRS), Chain::new(PAIRS), Chain::new(PAIRS)],
            verdict: Verdict::default(),
        };
        member.wait_for_start();
        share.clocks[0].run(CLOCK_NS);
        // A sum of zeros does not reveal a turn that was left out, so the same loop is proved on other numbers first.
        variant.slice(&mut proof, turns);
        share.verdict.checked += variant.accumulators;
        share.verdict.wrong += variant.wrong(&proof, &variant.expected(turns, Operands::Nonzero));
        // Wide units wake up and the clock settles for them before anything is counted.
        for _ in 0..SLICES {
            variant.slice(&mut share.bank, turns);
        }
        share
    }

    /// Slices of arithmetic and one of the chain; when they ended, and their operations.
    #[inline]
    fn pass(&mut self, variant: &Variant) -> (u64, u64) {
        let mut ns = 0;
        for _ in 0..SLICES {
            let begun = now_ns();
            variant.slice(&mut self.bank, self.turns);
            ns = now_ns() - begun;
            self.slices += 1;
            self.busy_ns += ns;
            self.best_ns = self.best_ns.min(ns);
            self.verdict.checked += variant.accumulators;
            self.verdict.wrong += variant.wrong(&self.bank, &self.expected);
        }
        let now = self.clocks[1].slice(|turns| variant.beat(turns));
        if self.paired_ns.len() < PAIRS {
            self.paired_ns.push(u32::try_from(ns.max(1)).unwrap_or(u32::MAX));
        }
        (now, self.operations)
    }
}

/// Arithmetic compared with the clock of the same moment: each slice against the chain's right after it.
struct Cycles {
    /// Operations a cycle in the median pair, which is one that no one cut into.
    median: f64,
    /// Operations per cycle at the third quartile: what the units can do, without what a moving clock feigns.
    best: f64,
    /// The share of the slices' time beyond that of as many median ones.
    preempted: f64,
}

impl Cycles {
    /// None where there is no chain.
    fn of(each: f64, shares: &[&Share]) -> Option<Self> {
        let mut pairs: Vec<_> = shares
            .iter()
            .flat_map(|share| share.paired_ns.iter().zip(share.clocks[1].slices()))
            .map(|(&ns, &chain_ns)| (f64::from(ns), f64::from(chain_ns)))
            .collect();
        let ns = median(pairs.iter().map(|pair| pair.0).collect())?;
        let chain_ns = median(pairs.iter().map(|pair| pair.1).collect())?;
        // Where either side was cut into, their ratio means nothing; a clock or a neighbour moves it by less.
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

fn reading(variant: &Variant, outcome: &Outcome<Share>) -> Reading {
    let each = variant.count_operations(variant.turns());
    let shares: Vec<_> = outcome.results().collect();
    let total = shares.iter().map(|share| share.slices).sum::<u64>() * each;
    // What the slices took, without the clock's chain between them.
    let busy: u64 = shares.iter().map(|share| share.busy_ns).sum();
    let spent = outcome.lengths_s().sum::<f64>() * 1e9;
    let stream = Stream { flops: total, ..Stream::new(variant.operation.word(), total / variant.operations) };
    let mut reading = outcome.reading(vec![stream]);
    reading.elapsed_s = (reading.elapsed_s * (busy as f64 / spent.max(1.0)).min(1.0)).max(1e-9);
    let elapsed_s = reading.elapsed_s;
    let clock = |at: usize| median(shares.iter().map(|share| share.clocks[at].hz()).collect()).unwrap_or(0.0);
    let best_rate = shares.iter().map(|share| each as f64 * 1e9 / share.best_ns.max(1) as f64).fold(0.0, f64::max);
    let cycles = Cycles::of(each as f64, &shares);
    reading.detail("isa", variant.isa);
    reading.detail("flops_s", total as f64 / elapsed_s.max(1e-9));
    reading.detail("flops_s_best_slice", best_rate);
    for (at, name) in ["clock_hz_before", "clock_hz_during", "clock_hz_after"].into_iter().enumerate() {
        reading.detail(name, clock(at));
    }
    if let Some(cycles) = cycles {
        let pipes = (cycles.best / variant.operations as f64).round().max(1.0);
        let chains = shares.iter().flat_map(|share| &share.clocks).map(Chain::best_hz).fold(0.0, f64::max);
        // Whole units cannot do more than one instruction a cycle each, so what was done is a clock as well.
        let by_units = best_rate / (pipes * variant.operations as f64);
        let whole = (cycles.best / variant.operations as f64 / pipes - 1.0).abs() < WHOLE;
        reading.detail("clock_hz_best", if whole { chains.max(by_units) } else { chains });
        reading.detail("flop_per_cycle", cycles.median);
        reading.detail("flop_per_cycle_best_slice", cycles.best);
        reading.detail("flop_per_instruction", variant.operations);
        reading.detail("instructions_per_cycle", cycles.best / variant.operations as f64);
        // A tile instruction takes many cycles, and its pipe is one.
        reading.detail("pipes", pipes);
        // What the slices took beyond their median: time in which others had the processor.
        reading.detail("preempted_share", cycles.preempted);
    } else {
        reading.detail("clock_hz_best", 0.0);
    }
    reading.verified(shares.iter().map(|share| share.verdict));
    reading
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::declare::Words;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("compute_flops", &parameters, &Stop::new())
    }

    #[test]
    fn operations_are_instructions_times_lanes_and_all_is_verified() {
        for variant in compute::available() {
            for (_, operands, _) in Operands::ALL {
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
        assert!(says.contains("available:"), "{says}");
    }
}
