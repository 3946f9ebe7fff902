//! The processor's clock, by timing a chain of additions that each wait for the one before.

use super::time::monotonic_ns;

/// Additions in one turn of the chain's loop.
pub const TURN: u64 = 32;
/// Turns a try: about 2 ms at 4 GHz, long against the clock's own 20 ns and short against a time slice.
const TURNS: u64 = 250_000;
/// Tries; the fastest counts, since all that disturbs a try only makes it slower.
const TRIES: usize = 10;

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
    macro_rules! unless_bit {
        ($bit:literal, $label:literal) => {
            concat!("test {rest:e}, 1 << ", $bit, "\njz ", $label)
        };
    }
    pub(super) use {addition, next_turn, step, unless_any, unless_bit};
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
    macro_rules! unless_bit {
        ($bit:literal, $label:literal) => {
            concat!("tbz {rest}, #", $bit, ", ", $label)
        };
    }
    pub(super) use {addition, addition as step, next_turn, unless_any, unless_bit};
}

/// Does `turns` turns of additions, one a cycle, and hands back their sum; 0 on another architecture.
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

/// Steps in a turn of a long pause.
const STEPS: u64 = 64;
/// Cycles of a step: on x86-64 a multiplication (3 cycles on every core of today), which takes a third of the places in
/// the core's queues that additions would; elsewhere an addition.
const STEP_CYCLES: u64 = if cfg!(target_arch = "x86_64") { 3 } else { 1 };

/// A pause of a number of cycles: a chain of steps, each of which waits for the one before.
///
/// Whole turns of 64 steps, then 32, 16 … 1 of them by the bits of what is left, and on x86-64 up to two additions. Every
/// branch goes the same way each time, so that below some thousand cycles none is mispredicted; an indirect jump into a
/// row of steps would be, where a system forbids their prediction.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    turns: u64,
    /// Steps that are left.
    rest: u64,
    /// Additions that are left then.
    single: u64,
}

/// The block of a pause; what only x86-64 has ends it, where steps are of 3 cycles.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! steps {
    ($pause:expr, $chain:expr => $sum:ident, [$($last:tt)*], [$($operand:tt)*]) => {
        std::arch::asm!(
            words::unless_any!("3f"),
            "2:",
            ".rept 64",
            words::step!(),
            ".endr",
            words::next_turn!(),
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
            $($operand)*
            options(nomem, nostack),
        )
    };
}

impl Pause {
    /// Of `cycles` cycles.
    #[must_use]
    pub fn new(cycles: u64) -> Self {
        let steps = cycles / STEP_CYCLES;
        Self { turns: steps / STEPS, rest: steps % STEPS, single: cycles % STEP_CYCLES }
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
            steps!(self, chain => sum, [
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
            steps!(self, chain => sum, [], []);
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
    #[test]
    fn every_addition_of_the_chain_is_done() {
        assert_eq!(super::chain(1000), 1000 * super::TURN * 3);
    }

    #[test]
    fn a_pause_has_as_many_steps_as_cycles() {
        for cycles in [0, 1, 2, 3, 15, 63, 64, 65, 127, 128, 189, 192, 193, 1000, 20_015] {
            let mut expected = 7_u64;
            let (steps, single) = if cfg!(target_arch = "x86_64") { (cycles / 3, cycles % 3) } else { (0, cycles) };
            (0..steps).for_each(|_| expected = expected.wrapping_mul(3));
            expected = expected.wrapping_add(3 * single);
            assert_eq!(super::Pause::new(cycles).wait(7), expected, "{cycles}");
        }
    }

    #[test]
    fn a_clock_is_found() {
        assert!(super::hertz().is_some_and(|hertz| hertz > 0));
    }
}
