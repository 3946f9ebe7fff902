//! The loops on AMX tiles: six accumulators of 16 x 16 numbers, one tile for each side of the product.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use super::variant::{Bank, Operation, Precision, Variant};
use crate::sys::tiles;

/// How the eight tiles are laid out: palette 1, each 16 rows of 64 bytes (Intel SDM, LDTILECFG).
#[repr(C, align(64))]
struct Layout([u8; 64]);

static LAYOUT: Layout = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Layout(bytes)
};

macro_rules! tile_loop {
    ($name:ident, $op:literal) => {
        /// A loop over tiles by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        unsafe fn $name(bank: &mut Bank, turns: u64) {
            // SAFETY: a stride of 0 loads every row from the same 64 bytes of the bank; six tiles of
            // 1 KiB are stored to its 96 registers; tiles hold nothing of the compiler's.
            unsafe {
                asm!(
                    "ldtilecfg [{layout}]",
                    "tileloadd tmm6, [{x} + {zero}*1]",
                    "tileloadd tmm7, [{y} + {zero}*1]",
                    "tileloadd tmm0, [{start} + {zero}*1]",
                    "tileloadd tmm1, [{start} + {zero}*1]",
                    "tileloadd tmm2, [{start} + {zero}*1]",
                    "tileloadd tmm3, [{start} + {zero}*1]",
                    "tileloadd tmm4, [{start} + {zero}*1]",
                    "tileloadd tmm5, [{start} + {zero}*1]",
                    ".p2align 5",
                    "2:",
                    concat!($op, " tmm0, tmm6, tmm7"),
                    concat!($op, " tmm1, tmm6, tmm7"),
                    concat!($op, " tmm2, tmm6, tmm7"),
                    concat!($op, " tmm3, tmm6, tmm7"),
                    concat!($op, " tmm4, tmm6, tmm7"),
                    concat!($op, " tmm5, tmm6, tmm7"),
                    "sub {turns}, 1",
                    "jnz 2b",
                    "tilestored [{out} + {line}*1], tmm0",
                    "tilestored [{out} + {line}*1 + 1024], tmm1",
                    "tilestored [{out} + {line}*1 + 2048], tmm2",
                    "tilestored [{out} + {line}*1 + 3072], tmm3",
                    "tilestored [{out} + {line}*1 + 4096], tmm4",
                    "tilestored [{out} + {line}*1 + 5120], tmm5",
                    "tilerelease",
                    layout = in(reg) LAYOUT.0.as_ptr(),
                    x = in(reg) bank.x.as_ptr(),
                    y = in(reg) bank.y.as_ptr(),
                    start = in(reg) bank.start.as_ptr(),
                    out = in(reg) bank.out.as_mut_ptr(),
                    zero = in(reg) 0_u64,
                    line = in(reg) 64_u64,
                    turns = inout(reg) turns => _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! tile_beat {
    ($name:ident, $op:literal) => {
        /// A chain that measures the clock of tile loops: two turns at once, with a product on each of two tiles, so
        /// that neither waits for its own last sum.
        ///
        /// # Safety
        /// As `variant::Beat` says.
        unsafe fn $name(turns: u64) -> u64 {
            let sum: u64;
            // SAFETY: registers and tiles change, which hold nothing of the compiler's.
            unsafe {
                asm!(
                    "ldtilecfg [{layout}]",
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm6",
                    "tilezero tmm7",
                    "2:",
                    ".rept 32",
                    "add {sum}, {step}",
                    ".endr",
                    concat!($op, " tmm0, tmm6, tmm7"),
                    ".rept 32",
                    "add {sum}, {step}",
                    ".endr",
                    concat!($op, " tmm1, tmm6, tmm7"),
                    "sub {turns}, 2",
                    "ja 2b",
                    "tilerelease",
                    layout = in(reg) LAYOUT.0.as_ptr(),
                    sum = inout(reg) 0_u64 => sum,
                    step = in(reg) 3_u64,
                    turns = inout(reg) turns => _,
                    options(nostack, readonly),
                );
            }
            sum
        }
    };
}

tile_beat!(int8_beat, "tdpbssd");
tile_beat!(bfloat16_beat, "tdpbf16ps");
tile_beat!(half_beat, "tdpfp16ps");
tile_loop!(int8, "tdpbssd");
tile_loop!(bfloat16, "tdpbf16ps");
tile_loop!(half, "tdpfp16ps");

/// Those that the processor has (CPUID 7.0 EDX bits 22, 24, 25; 7.1 EAX bit 21) and the system grants.
#[must_use]
pub fn available() -> Vec<Variant> {
    let (leaf, more) = (__cpuid_count(7, 0), __cpuid_count(7, 1));
    let bit = |register: u32, number: u32| register >> number & 1 == 1;
    if !bit(leaf.edx, 24) || !tiles::allow() {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut put = |precision: Precision, run: super::variant::Loop, beat: super::variant::Beat| {
        // 16 x 16 results, each of 64 bytes of products.
        let operations = 2 * 16 * 16 * (64 / precision.bytes() as u64);
        let operation = Operation::Dot;
        let beat = Some(beat);
        all.push(Variant {
            isa: "amx",
            operation,
            precision,
            accumulators: 6,
            active: 64,
            operations,
            rows: 16,
            run,
            beat,
        });
    };
    if bit(leaf.edx, 25) {
        put(Precision::Int8, int8, int8_beat);
    }
    if bit(leaf.edx, 22) {
        put(Precision::Bfloat16, bfloat16, bfloat16_beat);
    }
    if bit(more.eax, 21) {
        put(Precision::Half, half, half_beat);
    }
    all
}
