//! The processor's clock, by timing a chain of additions that each wait for the one before.

use std::hint::black_box;
use std::sync::OnceLock;

use super::time::monotonic_ns;

/// Additions in one turn of the chain's loop.
pub const TURN: u64 = 32;
/// Turns a try: about 0.2 ms at 4 GHz, long against the clock's own 20 ns and shorter than the time that a busy system
/// leaves a thread in one piece.
const TURNS: u64 = 25_000;
/// Tries; the fastest counts, since all that disturbs a try only makes it slower.
const TRIES: usize = 100;

/// Clock cycles per second, by the fastest of some tries of together about 20 ms.
///
/// An addition of two registers takes one cycle on every x86-64 and arm64 core, and no core removes
/// it (newer ones remove additions of constants, which is why none is used here). None on another architecture.
#[must_use]
pub fn hertz() -> Option<u64> {
    (0..TRIES)
        .filter_map(|_| {
            let start = monotonic_ns();
            let done = chain(TURNS) > 0;
            done.then(|| monotonic_ns().saturating_sub(start).max(1))
        })
        .min()
        .map(|ns| (TURNS * TURN) as f64 * 1e9 / ns as f64)
        .map(|hertz| hertz as u64)
}

/// What the two architectures call the parts of a chain: `sum`, `step` and what is tested are registers of its block.
#[cfg(target_arch = "x86_64")]
mod words {
    macro_rules! addition {
        () => {
            "add {sum}, {step}"
        };
    }
    macro_rules! step {
        () => {
            "imul {sum}, {step}"
        };
    }
    macro_rules! next_turn {
        () => {
            "dec {turns}\njnz 2b"
        };
    }
    macro_rules! unless_any {
        ($label:literal) => {
            concat!("test {turns}, {turns}\njz ", $label)
        };
    }
    macro_rules! unless_turn {
        ($label:literal) => {
            concat!("dec {turns}\njz ", $label)
        };
    }
    macro_rules! unless_bit {
        ($bit:literal, $label:literal) => {
            concat!("test {rest:e}, 1 << ", $bit, "\njz ", $label)
        };
    }
    macro_rules! enter {
        () => {
            "movq {wide}, {sum}\nandps {wide}, {none}\norps {wide}, {one}"
        };
    }
    macro_rules! division {
        () => {
            "divsd {wide}, {one}"
        };
    }
    macro_rules! leave {
        () => {
            "xorps {wide}, {one}\nmovq {turns}, {wide}\nadd {sum}, {turns}"
        };
    }
    pub(super) use {addition, division, enter, leave, next_turn, step, unless_any, unless_bit, unless_turn};
}

#[cfg(target_arch = "aarch64")]
mod words {
    macro_rules! addition {
        () => {
            "add {sum}, {sum}, {step}"
        };
    }
    macro_rules! next_turn {
        () => {
            "subs {turns}, {turns}, #1\nb.ne 2b"
        };
    }
    macro_rules! unless_any {
        ($label:literal) => {
            concat!("cbz {turns}, ", $label)
        };
    }
    macro_rules! unless_turn {
        ($label:literal) => {
            concat!("subs {turns}, {turns}, #1\nb.eq ", $label)
        };
    }
    macro_rules! unless_bit {
        ($bit:literal, $label:literal) => {
            concat!("tbz {rest}, #", $bit, ", ", $label)
        };
    }
    macro_rules! enter {
        () => {
            "fmov {wide:d}, {sum}\nand {wide:v}.8b, {wide:v}.8b, {none:v}.8b\norr {wide:v}.8b, {wide:v}.8b, {one:v}.8b"
        };
    }
    macro_rules! division {
        () => {
            "fdiv {wide:d}, {wide:d}, {one:d}"
        };
    }
    macro_rules! leave {
        () => {
            "eor {wide:v}.8b, {wide:v}.8b, {one:v}.8b\nfmov {turns}, {wide:d}\nadd {sum}, {sum}, {turns}"
        };
    }
    pub(super) use {
        addition, addition as step, division, enter, leave, next_turn, unless_any, unless_bit, unless_turn,
    };
}

/// Does `turns` turns of additions, one a cycle, and returns their sum; 0 on another architecture.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[must_use]
pub fn chain(turns: u64) -> u64 {
    let sum: u64;
    // SAFETY: only the three named registers and the flags change; no memory is touched.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 32",
            words::addition!(),
            ".endr",
            words::next_turn!(),
            sum = inout(reg) 0_u64 => sum,
            step = in(reg) 3_u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    sum
}

/// Does nothing on this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[must_use]
pub fn chain(_turns: u64) -> u64 {
    0
}

/// Divisions in a turn of a long pause.
const DIVISIONS: u64 = 8;
/// Where the bits of those beside whole turns begin.
const SINGLE_DIVISIONS: u32 = 8;
/// Cycles of a step: on x86-64 a multiplication (3 cycles on every core of today), elsewhere an addition.
const STEP_CYCLES: u64 = if cfg!(target_arch = "x86_64") { 3 } else { 1 };
/// The most steps that a pause has beside its divisions.
const MAX_STEPS: u64 = (1 << SINGLE_DIVISIONS) - 1;
/// Turns and tries by which divisions are timed: pieces of about 0.1 ms, in together about 20 ms.
const TIMED: u64 = 1 << 10;

/// A pause of a number of cycles: a chain of instructions, each of which waits for the one before.
///
/// Whole turns of divisions, then 4, 2 and 1 of them and 128, 64 … 1 steps by the bits of what is left, and on x86-64 up
/// to two additions. A core holds a few hundred instructions that are not done: of divisions these are some thousand
/// cycles, so that the chain goes on while an access beside it waits for memory, where multiplications would run out.
/// Every branch goes the same way each time, so that below some thousand cycles none is mispredicted; an indirect jump
/// into a row of steps would be, where a system forbids their prediction.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    /// Whole turns of divisions and one; none without any division.
    turns: u64,
    /// Divisions and steps that are left then, as bits.
    rest: u64,
    /// Additions that are left at last.
    single: u64,
}

/// What divisions take on this core, in cycles.
#[derive(Debug, Clone, Copy)]
struct Division {
    /// One of them.
    each: f64,
    /// Cycles on the way to them and back.
    way: f64,
}

impl Division {
    /// Timed once: cores differ (10 to 20 cycles each, <https://agner.org/optimize/instruction_tables.pdf>).
    fn of_this_core() -> Self {
        static FOUND: OnceLock<Division> = OnceLock::new();
        *FOUND.get_or_init(Self::timed)
    }

    /// The costs, timed in turn with the chain of additions; the fastest try of each counts.
    fn timed() -> Self {
        let mut least = [f64::INFINITY; 3];
        for _ in 0..TRIES {
            for (turns, least) in [0, 1, 5].into_iter().zip(&mut least) {
                let pause = Pause::made(turns * DIVISIONS, 0, 0);
                let start = monotonic_ns();
                if turns == 0 {
                    black_box(chain(TIMED));
                } else {
                    black_box((0..TIMED).fold(0, |sum, _| pause.wait(sum)));
                }
                *least = least.min(monotonic_ns().saturating_sub(start).max(1) as f64);
            }
        }
        let [additions, one, five] = least;
        let cycles = |ns: f64| ns / additions * TURN as f64;
        let each = (cycles(five - one) / (4 * DIVISIONS) as f64).max(1.0);
        Self { each, way: (cycles(one) - each * DIVISIONS as f64).max(0.0) }
    }
}

/// The block of a pause; what only x86-64 has ends it, where steps are of 3 cycles.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! steps {
    ($pause:expr, $wide:ident, $chain:expr => $sum:ident, [$($last:tt)*], [$($operand:tt)*]) => {
        std::arch::asm!(
            words::unless_any!("3f"),
            words::enter!(),
            words::unless_turn!("4f"),
            "2:",
            ".rept 8",
            words::division!(),
            ".endr",
            words::next_turn!(),
            "4:",
            words::unless_bit!(10, "5f"),
            ".rept 4",
            words::division!(),
            ".endr",
            "5:",
            words::unless_bit!(9, "6f"),
            ".rept 2",
            words::division!(),
            ".endr",
            "6:",
            words::unless_bit!(8, "7f"),
            words::division!(),
            "7:",
            words::leave!(),
            "3:",
            words::unless_bit!(7, "2f"),
            ".rept 128",
            words::step!(),
            ".endr",
            "2:",
            words::unless_bit!(6, "3f"),
            ".rept 64",
            words::step!(),
            ".endr",
            "3:",
            words::unless_bit!(5, "4f"),
            ".rept 32",
            words::step!(),
            ".endr",
            "4:",
            words::unless_bit!(4, "5f"),
            ".rept 16",
            words::step!(),
            ".endr",
            "5:",
            words::unless_bit!(3, "6f"),
            ".rept 8",
            words::step!(),
            ".endr",
            "6:",
            words::unless_bit!(2, "7f"),
            ".rept 4",
            words::step!(),
            ".endr",
            "7:",
            words::unless_bit!(1, "8f"),
            ".rept 2",
            words::step!(),
            ".endr",
            "8:",
            words::unless_bit!(0, "9f"),
            ".rept 1",
            words::step!(),
            ".endr",
            "9:",
            $($last)*
            sum = inout(reg) $chain => $sum,
            step = in(reg) 3_u64,
            turns = inout(reg) $pause.turns => _,
            rest = in(reg) $pause.rest,
            wide = out($wide) _,
            one = in($wide) 1.0_f64,
            none = in($wide) 0.0_f64,
            $($operand)*
            options(nomem, nostack),
        )
    };
}

/// How many divisions this many cycles have room for, and the cycles that are left.
fn parts(cycles: u64, division: Division) -> (u64, u64) {
    let divisions = ((cycles as f64 - division.way) / division.each).max(0.0) as u64;
    let there = if divisions == 0 { 0.0 } else { division.way + divisions as f64 * division.each };
    (divisions, (cycles as f64 - there).round() as u64)
}

impl Pause {
    /// A pause of this many cycles.
    #[must_use]
    pub fn new(cycles: u64) -> Self {
        Self::of(cycles, Division::of_this_core())
    }

    fn of(cycles: u64, division: Division) -> Self {
        let (divisions, left) = parts(cycles, division);
        Self::made(divisions, (left / STEP_CYCLES).min(MAX_STEPS), left % STEP_CYCLES)
    }

    fn made(divisions: u64, steps: u64, single: u64) -> Self {
        Self {
            turns: if divisions == 0 { 0 } else { divisions / DIVISIONS + 1 },
            rest: ((divisions % DIVISIONS) << SINGLE_DIVISIONS) | steps,
            single,
        }
    }

    /// Goes on with the chain from its last value, and gives the next one: a pause begins when the one before ended.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[allow(clippy::inline_always, reason = "a call would be part of the pause")]
    #[inline(always)]
    #[must_use]
    pub fn wait(self, chain: u64) -> u64 {
        let sum: u64;
        // SAFETY: only the named registers and the flags change.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            steps!(self, xmm_reg, chain => sum, [
                "test {single:e}, {single:e}",
                "jz 3f",
                words::addition!(),
                "test {single:e}, 2",
                "jz 3f",
                words::addition!(),
                "3:",
            ], [single = in(reg) self.single,]);
            // A step is an addition there, and none is left.
            #[cfg(target_arch = "aarch64")]
            steps!(self, vreg, chain => sum, [], []);
        }
        let _ = self.single;
        sum
    }

    /// Does not wait on this architecture.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    #[must_use]
    pub fn wait(self, chain: u64) -> u64 {
        chain
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;

    #[test]
    fn every_addition_of_the_chain_is_done() {
        assert_eq!(chain(1000), 1000 * TURN * 3);
    }

    #[test]
    fn a_pause_takes_its_cycles_whatever_a_division_takes() {
        for (each, way) in [(13.0, 11.7), (10.0, 9.0), (14.6, 0.0), (20.0, 20.0)] {
            for cycles in [0, 1, 2, 3, 15, 63, 64, 65, 115, 116, 127, 189, 193, 1000, 20_015] {
                let division = Division { each, way };
                let (divisions, left) = parts(cycles, division);
                let divided = if divisions == 0 { 0.0 } else { way + divisions as f64 * each };
                assert!((divided + left as f64 - cycles as f64).abs() <= 0.5, "{cycles} of {each} and {way}");
                // Few steps, so that those of many pauses are in the core at once.
                assert!(left as f64 <= each + way + 0.5, "{left} of {cycles} without a division");
                let (turns, rest) = (divisions / DIVISIONS, ((divisions % DIVISIONS) << 8) | (left / STEP_CYCLES));
                let pause = Pause::of(cycles, division);
                assert_eq!((pause.rest, pause.single), (rest, left % STEP_CYCLES));
                assert_eq!(pause.turns, turns + u64::from(divisions > 0));
            }
        }
    }

    #[test]
    fn a_pause_does_all_its_steps() {
        for (divisions, steps) in
            [(0, 0), (0, 1), (0, 255), (1, 0), (2, 3), (4, 1), (7, 2), (8, 0), (27, 85), (8000, 170)]
        {
            for single in 0..STEP_CYCLES {
                let mut expected = 7_u64;
                for _ in 0..steps {
                    expected = if cfg!(target_arch = "x86_64") { expected.wrapping_mul(3) } else { expected + 3 };
                }
                // A division by one changes nothing, or the chain would differ.
                let pause = Pause::made(divisions, steps, single);
                assert_eq!(pause.wait(7), expected + 3 * single, "{divisions} {steps} {single}");
            }
        }
    }

    #[test]
    fn divisions_are_timed() {
        let found = Division::timed();
        assert!(found.each.is_finite() && found.each >= 1.0 && found.way >= 0.0, "{found:?}");
    }

    #[test]
    fn a_clock_is_found() {
        assert!(hertz().is_some_and(|hertz| hertz > 0));
    }
}
