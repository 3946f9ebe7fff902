//! The loops for aarch64 in SVE: multiply and add on 24 of 32 registers, which are as long as the machine made them.

use std::arch::{asm, is_aarch64_feature_detected};

use super::variant::{Bank, Operation, Precision, Variant, WIDTH};

macro_rules! vector_loop {
    ($name:ident, $t:literal, [$($n:literal)*]) => {
        /// A loop over vectors by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        unsafe fn $name(bank: &mut Bank, turns: u64) {
            // SAFETY: 8 bytes of each operand are read and spread over a register, of which at most 64
            // bytes are stored, within the bank; every register is declared.
            unsafe {
                asm!(
                    ".arch_extension sve",
                    "ptrue p1.b",
                    "mov {at}, #64",
                    "whilelo p0.b, xzr, {at}",
                    "ld1rd {{z30.d}}, p1/z, [{x}]",
                    "ld1rd {{z31.d}}, p1/z, [{y}]",
                    concat!($("ld1rd {{z", $n, ".d}}, p1/z, [{start}]\n"),*),
                    ".p2align 5",
                    "2:",
                    concat!($("fmla z", $n, ".", $t, ", p1/m, z30.", $t, ", z31.", $t, "\n"),*),
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    concat!($("st1b {{z", $n, ".b}}, p0, [{out}]\nadd {out}, {out}, #64\n"),*),
                    x = in(reg) bank.x.as_ptr(),
                    y = in(reg) bank.y.as_ptr(),
                    start = in(reg) bank.start.as_ptr(),
                    out = inout(reg) bank.out.as_mut_ptr() => _,
                    turns = inout(reg) turns => _,
                    at = out(reg) _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                    out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _,
                    out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    out("v30") _, out("v31") _, out("p0") _, out("p1") _,
                    options(nostack),
                );
            }
        }
    };
}

vector_loop!(fma_d, "d", ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22" "23"]);
vector_loop!(fma_s, "s", ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22" "23"]);

/// Bytes of a register; call it where there is SVE.
fn register_bytes() -> usize {
    let bytes: usize;
    // SAFETY: only called where the machine has SVE; one general register changes.
    unsafe { asm!(".arch_extension sve", "rdvl {bytes}, #1", bytes = out(reg) bytes, options(nomem, nostack)) };
    bytes
}

/// Those that this machine and system have (`HWCAP_SVE`).
#[must_use]
pub fn available() -> Vec<Variant> {
    if !is_aarch64_feature_detected!("sve") {
        return Vec::new();
    }
    let width = register_bytes();
    let of = |precision: Precision, run: super::variant::Loop| Variant {
        isa: "sve",
        operation: Operation::Fma,
        precision,
        accumulators: 24,
        // As much of a register as a bank holds is looked at afterwards.
        active: width.min(WIDTH),
        operations: 2 * (width / precision.bytes()) as u64,
        rows: 1,
        run,
        beat: None,
    };
    vec![of(Precision::Double, fma_d), of(Precision::Single, fma_s)]
}
