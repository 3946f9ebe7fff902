//! The loops for aarch64, each a row of one instruction on registers that do not wait for each other:
//! 24 of 32 vectors, 10 general ones.

use std::arch::{asm, is_aarch64_feature_detected};

use super::variant::{Bank, Operation, Precision, Variant};

// The instruction on accumulator $n: adding a product of x and y, with y, with x, and the scalar forms.
macro_rules! instruction {
    (axy $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " v", $n, ".", $t, ", v30.", $s, ", v31.", $s, "\n")
    };
    (aay $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " v", $n, ".", $t, ", v", $n, ".", $t, ", v31.", $s, "\n")
    };
    (aax $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " v", $n, ".", $t, ", v", $n, ".", $t, ", v30.", $s, "\n")
    };
    (xya $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " ", $t, $n, ", ", $t, "30, ", $t, "31, ", $t, $n, "\n")
    };
    (say $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " ", $t, $n, ", ", $t, $n, ", ", $t, "31\n")
    };
    (sax $op:literal, $t:literal, $s:literal, $n:literal) => {
        concat!($op, " ", $t, $n, ", ", $t, $n, ", ", $t, "30\n")
    };
}

macro_rules! vector_loop {
    ($name:ident, $extension:literal, $form:ident $op:literal, $t:literal, $s:literal, [$($n:literal)*]) => {
        /// A loop over vectors by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        unsafe fn $name(bank: &mut Bank, turns: u64) {
            // SAFETY: only the bank is read and written, within its fields; every register is declared.
            unsafe {
                asm!(
                    $extension,
                    "ldr q30, [{x}]",
                    "ldr q31, [{y}]",
                    concat!($("ldr q", $n, ", [{start}]\n"),*),
                    ".p2align 5",
                    "2:",
                    concat!($(instruction!($form $op, $t, $s, $n)),*),
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    concat!($("str q", $n, ", [{out}, #64*", $n, "]\n"),*),
                    x = in(reg) bank.x.as_ptr(),
                    y = in(reg) bank.y.as_ptr(),
                    start = in(reg) bank.start.as_ptr(),
                    out = in(reg) bank.out.as_mut_ptr(),
                    turns = inout(reg) turns => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    out("v6") _, out("v7") _, out("v8") _, out("v9") _, out("v10") _, out("v11") _,
                    out("v12") _, out("v13") _, out("v14") _, out("v15") _, out("v16") _, out("v17") _,
                    out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    out("v30") _, out("v31") _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! n {
    ($name:ident, $extension:literal, $form:ident $op:literal, $t:literal, $s:literal) => {
        vector_loop!($name, $extension, $form $op, $t, $s,
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22" "23"]);
    };
}

// On general registers, of the width that modifier $m names, with operand $operand (x or y).
macro_rules! general {
    ($name:ident, $op:literal, $m:literal, $operand:ident) => {
        /// A loop over general registers by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        unsafe fn $name(bank: &mut Bank, turns: u64) {
            let (mut r, operand) = bank.words(&bank.$operand);
            // SAFETY: only registers change, all of them declared.
            unsafe {
                asm!(
                    ".p2align 5",
                    "2:",
                    concat!($op, " {r0:", $m, "}, {r0:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r1:", $m, "}, {r1:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r2:", $m, "}, {r2:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r3:", $m, "}, {r3:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r4:", $m, "}, {r4:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r5:", $m, "}, {r5:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r6:", $m, "}, {r6:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r7:", $m, "}, {r7:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r8:", $m, "}, {r8:", $m, "}, {k:", $m, "}"),
                    concat!($op, " {r9:", $m, "}, {r9:", $m, "}, {k:", $m, "}"),
                    "subs {turns}, {turns}, #1",
                    "b.ne 2b",
                    k = in(reg) operand,
                    turns = inout(reg) turns => _,
                    r0 = inout(reg) r[0], r1 = inout(reg) r[1], r2 = inout(reg) r[2], r3 = inout(reg) r[3],
                    r4 = inout(reg) r[4], r5 = inout(reg) r[5], r6 = inout(reg) r[6], r7 = inout(reg) r[7],
                    r8 = inout(reg) r[8], r9 = inout(reg) r[9],
                    options(nomem, nostack),
                );
            }
            bank.keep(r);
        }
    };
}

n!(fma_d, "", axy "fmla", "2d", "2d");
n!(fma_s, "", axy "fmla", "4s", "4s");
n!(fma_h, ".arch_extension fp16", axy "fmla", "8h", "8h");
n!(add_d, "", aay "fadd", "2d", "2d");
n!(add_s, "", aay "fadd", "4s", "4s");
n!(add_h, ".arch_extension fp16", aay "fadd", "8h", "8h");
n!(mul_d, "", aax "fmul", "2d", "2d");
n!(mul_s, "", aax "fmul", "4s", "4s");
n!(mul_h, ".arch_extension fp16", aax "fmul", "8h", "8h");
n!(add_i8, "", aay "add", "16b", "16b");
n!(add_i16, "", aay "add", "8h", "8h");
n!(add_i32, "", aay "add", "4s", "4s");
n!(add_i64, "", aay "add", "2d", "2d");
n!(mul_i8, "", aax "mul", "16b", "16b");
n!(mul_i16, "", aax "mul", "8h", "8h");
n!(mul_i32, "", aax "mul", "4s", "4s");
n!(dot_i8, ".arch_extension dotprod", axy "sdot", "4s", "16b");
n!(dot_bf, ".arch_extension bf16", axy "bfdot", "4s", "8h");
n!(scalar_fma_d, "", xya "fmadd", "d", "");
n!(scalar_fma_s, "", xya "fmadd", "s", "");
n!(scalar_add_d, "", say "fadd", "d", "");
n!(scalar_add_s, "", say "fadd", "s", "");
n!(scalar_mul_d, "", sax "fmul", "d", "");
n!(scalar_mul_s, "", sax "fmul", "s", "");
general!(general_add_w, "add", "w", y);
general!(general_add_x, "add", "x", y);
general!(general_mul_w, "mul", "w", x);
general!(general_mul_x, "mul", "x", x);

/// Every loop whose instructions this processor has.
#[must_use]
pub fn available() -> Vec<Variant> {
    use Operation::{Add, Dot, Fma, Multiply};
    use Precision::{Bfloat16, Double, Half, Int16, Int32, Int64, Int8, Single};
    let mut all = Vec::new();
    let mut put = |isa: &'static str, operation, precision: Precision, run| {
        let scalar = isa == "scalar";
        let active = if scalar { precision.bytes() } else { 16 };
        let lanes = (active / precision.bytes()) as u64;
        let accumulators = if scalar && matches!(precision, Int32 | Int64) { 10 } else { 24 };
        let operations = if matches!(operation, Fma | Dot) { 2 * lanes } else { lanes };
        all.push(Variant { isa, operation, precision, accumulators, active, operations, rows: 1, run, beat: None });
    };
    put("scalar", Fma, Double, scalar_fma_d as super::variant::Loop);
    put("scalar", Fma, Single, scalar_fma_s);
    put("scalar", Add, Double, scalar_add_d);
    put("scalar", Add, Single, scalar_add_s);
    put("scalar", Multiply, Double, scalar_mul_d);
    put("scalar", Multiply, Single, scalar_mul_s);
    put("scalar", Add, Int32, general_add_w);
    put("scalar", Add, Int64, general_add_x);
    put("scalar", Multiply, Int32, general_mul_w);
    put("scalar", Multiply, Int64, general_mul_x);
    put("neon", Fma, Double, fma_d);
    put("neon", Fma, Single, fma_s);
    put("neon", Add, Double, add_d);
    put("neon", Add, Single, add_s);
    put("neon", Multiply, Double, mul_d);
    put("neon", Multiply, Single, mul_s);
    put("neon", Add, Int8, add_i8);
    put("neon", Add, Int16, add_i16);
    put("neon", Add, Int32, add_i32);
    put("neon", Add, Int64, add_i64);
    put("neon", Multiply, Int8, mul_i8);
    put("neon", Multiply, Int16, mul_i16);
    put("neon", Multiply, Int32, mul_i32);
    if is_aarch64_feature_detected!("fp16") {
        put("neon", Fma, Half, fma_h);
        put("neon", Add, Half, add_h);
        put("neon", Multiply, Half, mul_h);
    }
    if is_aarch64_feature_detected!("dotprod") {
        put("neon", Dot, Int8, dot_i8);
    }
    if is_aarch64_feature_detected!("bf16") {
        put("neon", Dot, Bfloat16, dot_bf);
    }
    all.extend(super::sve::available());
    all
}
