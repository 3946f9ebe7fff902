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

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    #[test]
    fn every_addition_of_the_chain_is_done() {
        assert_eq!(super::chain(1000), 1000 * super::TURN * 3);
    }

    #[test]
    fn a_clock_is_found() {
        assert!(super::hertz().is_some_and(|hertz| hertz > 0));
    }
}
