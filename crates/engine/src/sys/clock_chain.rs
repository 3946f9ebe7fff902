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

/// Does `turns` turns of additions, one a cycle, and hands back their sum; 0 on another architecture.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn chain(turns: u64) -> u64 {
    let sum: u64;
    // SAFETY: only the three named registers and the flags change; no memory is touched.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 32",
            "add {sum}, {step}",
            ".endr",
            "dec {turns}",
            "jnz 2b",
            sum = inout(reg) 0_u64 => sum,
            step = in(reg) 3_u64,
            turns = inout(reg) turns => _,
            options(nomem, nostack),
        );
    }
    sum
}

/// Does `turns` turns of additions, one a cycle, and hands back their sum; 0 on another architecture.
#[cfg(target_arch = "aarch64")]
#[must_use]
pub fn chain(turns: u64) -> u64 {
    let sum: u64;
    // SAFETY: only the three named registers and the flags change; no memory is touched.
    unsafe {
        std::arch::asm!(
            "2:",
            ".rept 32",
            "add {sum}, {sum}, {step}",
            ".endr",
            "subs {turns}, {turns}, #1",
            "b.ne 2b",
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
/// Cycles of a step, and its bytes: on x86-64 a multiplication (3 cycles on every core of today), which takes a third of
/// the places in the core's queues that additions would; elsewhere an addition.
const STEP: (u64, u64) = if cfg!(target_arch = "x86_64") { (3, 4) } else { (1, 4) };

/// A pause of a number of cycles: a chain of steps, each of which waits for the one before.
///
/// It has no branch that a processor could mispredict below some thousand cycles: whole turns of 64 steps, then a jump
/// to as many before the end of 63 as are left, and on x86-64 another to the additions for a third of a step.
#[derive(Debug, Clone, Copy)]
pub struct Pause {
    turns: u64,
    /// Bytes of the steps that are left.
    rest: u64,
    /// Bytes of the additions that are left then, 3 each.
    single: u64,
}

impl Pause {
    /// Of `cycles` cycles.
    #[must_use]
    pub fn new(cycles: u64) -> Self {
        let steps = cycles / STEP.0;
        Self { turns: steps / STEPS, rest: steps % STEPS * STEP.1, single: cycles % STEP.0 * 3 }
    }

    /// Goes on with the chain from its last value, and gives the next one: a pause begins when the one before ended.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    #[must_use]
    pub fn wait(self, chain: u64) -> u64 {
        let sum: u64;
        // SAFETY: only the named registers and the flags change; the jumps lead to one of the steps, or behind them.
        unsafe {
            std::arch::asm!(
                "test {turns}, {turns}",
                "jz 3f",
                "2:",
                ".rept 64",
                "imul {sum}, {step}",
                ".endr",
                "dec {turns}",
                "jnz 2b",
                "3:",
                "lea {at}, [rip + 4f]",
                "sub {at}, {rest}",
                "jmp {at}",
                ".rept 63",
                "imul {sum}, {step}",
                ".endr",
                "4:",
                "lea {at}, [rip + 5f]",
                "sub {at}, {single}",
                "jmp {at}",
                "add {sum}, {step}",
                "add {sum}, {step}",
                "5:",
                sum = inout(reg) chain => sum,
                step = in(reg) 3_u64,
                turns = inout(reg) self.turns => _,
                rest = in(reg) self.rest,
                single = in(reg) self.single,
                at = out(reg) _,
                options(nomem, nostack),
            );
        }
        sum
    }

    /// Goes on with the chain from its last value, and gives the next one: a pause begins when the one before ended.
    #[cfg(target_arch = "aarch64")]
    #[inline(always)]
    #[must_use]
    pub fn wait(self, chain: u64) -> u64 {
        let sum: u64;
        // SAFETY: as on x86-64.
        unsafe {
            std::arch::asm!(
                "cbz {turns}, 3f",
                "2:",
                ".rept 64",
                "add {sum}, {sum}, {step}",
                ".endr",
                "subs {turns}, {turns}, #1",
                "b.ne 2b",
                "3:",
                "adr {at}, 4f",
                "sub {at}, {at}, {rest}",
                "br {at}",
                ".rept 63",
                "add {sum}, {sum}, {step}",
                ".endr",
                "4:",
                sum = inout(reg) chain => sum,
                step = in(reg) 3_u64,
                turns = inout(reg) self.turns => _,
                rest = in(reg) self.rest,
                at = out(reg) _,
                options(nomem, nostack),
            );
        }
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
