//! The loops for x86-64, each a row of one instruction on registers that do not wait for each other:
//! 24 of 32 with AVX-512, 12 of 16 with AVX2 and SSE, 10 general ones; two pipes of four cycles need 8.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use super::amx;
use super::variant::{Bank, Beat, Operation, Precision, Variant};

// The instruction on accumulator $n: with x and y, with itself and y, with itself and x; two-operand
// forms for SSE.
macro_rules! instruction {
    (rxy $op:literal, $r:literal, $n:literal, $x:literal, $y:literal) => {
        concat!($op, " ", $r, $n, ", ", $r, $x, ", ", $r, $y, "\n")
    };
    (rry $op:literal, $r:literal, $n:literal, $x:literal, $y:literal) => {
        concat!($op, " ", $r, $n, ", ", $r, $n, ", ", $r, $y, "\n")
    };
    (rrx $op:literal, $r:literal, $n:literal, $x:literal, $y:literal) => {
        concat!($op, " ", $r, $n, ", ", $r, $n, ", ", $r, $x, "\n")
    };
    (ry $op:literal, $r:literal, $n:literal, $x:literal, $y:literal) => {
        concat!($op, " ", $r, $n, ", ", $r, $y, "\n")
    };
    (rx $op:literal, $r:literal, $n:literal, $x:literal, $y:literal) => {
        concat!($op, " ", $r, $n, ", ", $r, $x, "\n")
    };
}

macro_rules! vector_loop {
    ($name:ident, $form:ident $op:literal, $move:literal, $clear:literal, $r:literal, $x:literal, $y:literal, [$($n:literal)*]) => {
        /// A loop over vectors by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        pub unsafe fn $name(bank: &mut Bank, turns: u64) {
            // SAFETY: only the bank is read and written, within its fields; every register is declared.
            unsafe {
                asm!(
                    concat!($move, " ", $r, $x, ", [{x}]"),
                    concat!($move, " ", $r, $y, ", [{y}]"),
                    concat!($($move, " ", $r, $n, ", [{start}]\n"),*),
                    ".p2align 5",
                    "2:",
                    concat!($(instruction!($form $op, $r, $n, $x, $y)),*),
                    "sub {turns}, 1",
                    "jnz 2b",
                    concat!($($move, " [{out}+64*", $n, "], ", $r, $n, "\n"),*),
                    $clear,
                    x = in(reg) bank.x.as_ptr(),
                    y = in(reg) bank.y.as_ptr(),
                    start = in(reg) bank.start.as_ptr(),
                    out = in(reg) bank.out.as_mut_ptr(),
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    out("xmm16") _, out("xmm17") _, out("xmm18") _, out("xmm19") _,
                    out("xmm20") _, out("xmm21") _, out("xmm22") _, out("xmm23") _,
                    out("xmm30") _, out("xmm31") _,
                    options(nostack),
                );
            }
        }
    };
}

macro_rules! z {
    ($name:ident, $form:ident $op:literal) => {
        vector_loop!($name, $form $op, "vmovups", "vzeroupper", "zmm", "30", "31",
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11" "12" "13" "14" "15" "16" "17" "18" "19" "20" "21" "22" "23"]);
    };
}

macro_rules! y {
    ($name:ident, $form:ident $op:literal) => {
        vector_loop!($name, $form $op, "vmovups", "vzeroupper", "ymm", "14", "15",
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11"]);
    };
}

macro_rules! x {
    ($name:ident, $form:ident $op:literal) => {
        vector_loop!($name, $form $op, "movups", "", "xmm", "14", "15",
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11"]);
    };
}

// VEX forms on 16-byte registers.
macro_rules! v {
    ($name:ident, $form:ident $op:literal) => {
        vector_loop!($name, $form $op, "vmovups", "vzeroupper", "xmm", "14", "15",
            ["0" "1" "2" "3" "4" "5" "6" "7" "8" "9" "10" "11"]);
    };
}

// The instruction on each of ten general registers, of the width that modifier $m names.
macro_rules! row {
    ($op:literal, $m:literal) => {
        concat!(
            $op, " {r0:", $m, "}, {k:", $m, "}\n", $op, " {r1:", $m, "}, {k:", $m, "}\n", $op, " {r2:", $m, "}, {k:",
            $m, "}\n", $op, " {r3:", $m, "}, {k:", $m, "}\n", $op, " {r4:", $m, "}, {k:", $m, "}\n", $op, " {r5:", $m,
            "}, {k:", $m, "}\n", $op, " {r6:", $m, "}, {k:", $m, "}\n", $op, " {r7:", $m, "}, {k:", $m, "}\n", $op,
            " {r8:", $m, "}, {k:", $m, "}\n", $op, " {r9:", $m, "}, {k:", $m, "}\n"
        )
    };
}

// On general registers, of the width that modifier $m names, with operand $k (x or y).
macro_rules! general {
    ($name:ident, $op:literal, $m:literal, $k:literal, $operand:ident) => {
        /// A loop over general registers by one instruction.
        ///
        /// # Safety
        /// As `variant::Loop` says.
        unsafe fn $name(bank: &mut Bank, turns: u64) {
            let (mut r, operand) = bank.words(&bank.$operand);
            // SAFETY: only registers change, all of them declared.
            unsafe {
                asm!(
                    // Four turns at once, since the branch takes the place of an addition.
                    "sub {turns}, 4",
                    "jl 3f",
                    ".p2align 5",
                    "2:",
                    row!($op, $m),
                    row!($op, $m),
                    row!($op, $m),
                    row!($op, $m),
                    "sub {turns}, 4",
                    "jge 2b",
                    "3:",
                    "add {turns}, 4",
                    "jz 5f",
                    "4:",
                    row!($op, $m),
                    "sub {turns}, 1",
                    "jnz 4b",
                    "5:",
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

z!(z_fma_pd, rxy "vfmadd213pd");
z!(z_fma_ps, rxy "vfmadd213ps");
z!(z_fma_ph, rxy "vfmadd213ph");
z!(z_add_pd, rry "vaddpd");
z!(z_add_ps, rry "vaddps");
z!(z_add_ph, rry "vaddph");
z!(z_mul_pd, rrx "vmulpd");
z!(z_mul_ps, rrx "vmulps");
z!(z_mul_ph, rrx "vmulph");
z!(z_add_b, rry "vpaddb");
z!(z_add_w, rry "vpaddw");
z!(z_add_d, rry "vpaddd");
z!(z_add_q, rry "vpaddq");
z!(z_mul_w, rrx "vpmullw");
z!(z_mul_d, rrx "vpmulld");
z!(z_mul_q, rrx "vpmullq");
z!(z_dot_b, rxy "vpdpbusd");
z!(z_dot_w, rxy "vpdpwssd");
z!(z_dot_bf, rxy "vdpbf16ps");
y!(y_fma_pd, rxy "vfmadd213pd");
y!(y_fma_ps, rxy "vfmadd213ps");
y!(y_add_pd, rry "vaddpd");
y!(y_add_ps, rry "vaddps");
y!(y_mul_pd, rrx "vmulpd");
y!(y_mul_ps, rrx "vmulps");
y!(y_add_b, rry "vpaddb");
y!(y_add_w, rry "vpaddw");
y!(y_add_d, rry "vpaddd");
y!(y_add_q, rry "vpaddq");
y!(y_mul_w, rrx "vpmullw");
y!(y_mul_d, rrx "vpmulld");
v!(s_fma_sd, rxy "vfmadd213sd");
v!(s_fma_ss, rxy "vfmadd213ss");
v!(x_fma_pd, rxy "vfmadd213pd");
v!(x_fma_ps, rxy "vfmadd213ps");
x!(s_add_sd, ry "addsd");
x!(s_add_ss, ry "addss");
x!(s_mul_sd, rx "mulsd");
x!(s_mul_ss, rx "mulss");
x!(x_add_pd, ry "addpd");
x!(x_add_ps, ry "addps");
x!(x_mul_pd, rx "mulpd");
x!(x_mul_ps, rx "mulps");
x!(x_add_b, ry "paddb");
x!(x_add_w, ry "paddw");
x!(x_add_d, ry "paddd");
x!(x_add_q, ry "paddq");
x!(x_mul_w, rx "pmullw");
x!(x_mul_d, rx "pmulld");
general!(g_add_b, "add", "l", "y", y);
general!(g_add_w, "add", "x", "y", y);
general!(g_add_d, "add", "e", "y", y);
general!(g_add_q, "add", "r", "y", y);
general!(g_mul_w, "imul", "x", "x", x);
general!(g_mul_d, "imul", "e", "x", x);
general!(g_mul_q, "imul", "r", "x", x);

// A chain with $op on every register between its additions, at half of the rate of the loop itself.
macro_rules! beat {
    ($name:ident, $op:literal, $r:literal, $x:literal, $y:literal, [$($n:literal)*]) => {
        /// A chain that keeps the clock of the loops of this width.
        ///
        /// # Safety
        /// As `variant::Beat` says.
        unsafe fn $name(turns: u64) -> u64 {
            let sum: u64;
            // SAFETY: only registers change, all of them declared.
            unsafe {
                asm!(
                    concat!($("vpxor xmm", $n, ", xmm", $n, ", xmm", $n, "\n"),*),
                    concat!("vpxor xmm", $x, ", xmm", $x, ", xmm", $x),
                    concat!("vpxor xmm", $y, ", xmm", $y, ", xmm", $y),
                    "2:",
                    ".rept 4",
                    concat!($("add {sum}, {step}\n", $op, " ", $r, $n, ", ", $r, $x, ", ", $r, $y, "\n"),*),
                    ".endr",
                    "dec {turns}",
                    "jnz 2b",
                    "vzeroupper",
                    sum = inout(reg) 0_u64 => sum,
                    step = in(reg) 3_u64,
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack),
                );
            }
            sum
        }
    };
}

beat!(z_beat, "vfmadd213pd", "zmm", "14", "15", ["0" "1" "2" "3" "4" "5" "6" "7"]);
beat!(z_beat_light, "vpaddd", "zmm", "14", "15", ["0" "1" "2" "3" "4" "5" "6" "7"]);
beat!(y_beat, "vfmadd213pd", "ymm", "14", "15", ["0" "1" "2" "3" "4" "5" "6" "7"]);

/// The chain for a loop: additions of whole numbers cost less current, and so clock, than products.
fn find_beat(width: usize, operation: Operation, precision: Precision, fma: bool) -> Option<Beat> {
    let light = operation == Operation::Add
        && matches!(precision, Precision::Int8 | Precision::Int16 | Precision::Int32 | Precision::Int64);
    match width {
        64 if light => Some(z_beat_light),
        64 => Some(z_beat),
        32 if fma && !light => Some(y_beat),
        _ => None,
    }
}

/// Every loop whose instructions this processor and system have.
#[must_use]
pub fn available() -> Vec<Variant> {
    use Operation::{Add, Dot, Fma, Multiply};
    use Precision::{Double, Half, Int16, Int32, Int64, Int8, Single};
    let mut all = Vec::new();
    let fma = is_x86_feature_detected!("fma");
    let mut put = |isa, width: usize, operation, precision: Precision, run| {
        // A scalar instruction works on one lane.
        let active = if width == 0 { precision.bytes() } else { width };
        let lanes = (active / precision.bytes()) as u64;
        let accumulators = match (isa, width, precision) {
            ("avx512", ..) => 24,
            ("scalar", _, Int8 | Int16 | Int32 | Int64) => 10,
            _ => 12,
        };
        let operations = if matches!(operation, Fma | Dot) { 2 * lanes } else { lanes };
        all.push(Variant {
            isa,
            operation,
            precision,
            accumulators,
            active,
            operations,
            rows: 1,
            run,
            beat: find_beat(width, operation, precision, fma),
        });
    };
    put("scalar", 0, Add, Double, s_add_sd as super::variant::Loop);
    put("scalar", 0, Add, Single, s_add_ss);
    put("scalar", 0, Multiply, Double, s_mul_sd);
    put("scalar", 0, Multiply, Single, s_mul_ss);
    put("scalar", 0, Add, Int8, g_add_b);
    put("scalar", 0, Add, Int16, g_add_w);
    put("scalar", 0, Add, Int32, g_add_d);
    put("scalar", 0, Add, Int64, g_add_q);
    put("scalar", 0, Multiply, Int16, g_mul_w);
    put("scalar", 0, Multiply, Int32, g_mul_d);
    put("scalar", 0, Multiply, Int64, g_mul_q);
    put("sse", 16, Add, Double, x_add_pd);
    put("sse", 16, Add, Single, x_add_ps);
    put("sse", 16, Multiply, Double, x_mul_pd);
    put("sse", 16, Multiply, Single, x_mul_ps);
    put("sse", 16, Add, Int8, x_add_b);
    put("sse", 16, Add, Int16, x_add_w);
    put("sse", 16, Add, Int32, x_add_d);
    put("sse", 16, Add, Int64, x_add_q);
    put("sse", 16, Multiply, Int16, x_mul_w);
    if is_x86_feature_detected!("sse4.1") {
        put("sse", 16, Multiply, Int32, x_mul_d);
    }
    if is_x86_feature_detected!("fma") {
        put("scalar", 0, Fma, Double, s_fma_sd);
        put("scalar", 0, Fma, Single, s_fma_ss);
        put("sse", 16, Fma, Double, x_fma_pd);
        put("sse", 16, Fma, Single, x_fma_ps);
        put("avx2", 32, Fma, Double, y_fma_pd);
        put("avx2", 32, Fma, Single, y_fma_ps);
    }
    if is_x86_feature_detected!("avx2") {
        put("avx2", 32, Add, Double, y_add_pd);
        put("avx2", 32, Add, Single, y_add_ps);
        put("avx2", 32, Multiply, Double, y_mul_pd);
        put("avx2", 32, Multiply, Single, y_mul_ps);
        put("avx2", 32, Add, Int8, y_add_b);
        put("avx2", 32, Add, Int16, y_add_w);
        put("avx2", 32, Add, Int32, y_add_d);
        put("avx2", 32, Add, Int64, y_add_q);
        put("avx2", 32, Multiply, Int16, y_mul_w);
        put("avx2", 32, Multiply, Int32, y_mul_d);
    }
    if is_x86_feature_detected!("avx512f") {
        put("avx512", 64, Fma, Double, z_fma_pd);
        put("avx512", 64, Fma, Single, z_fma_ps);
        put("avx512", 64, Add, Double, z_add_pd);
        put("avx512", 64, Add, Single, z_add_ps);
        put("avx512", 64, Multiply, Double, z_mul_pd);
        put("avx512", 64, Multiply, Single, z_mul_ps);
        put("avx512", 64, Add, Int32, z_add_d);
        put("avx512", 64, Add, Int64, z_add_q);
        put("avx512", 64, Multiply, Int32, z_mul_d);
        if is_x86_feature_detected!("avx512bw") {
            put("avx512", 64, Add, Int8, z_add_b);
            put("avx512", 64, Add, Int16, z_add_w);
            put("avx512", 64, Multiply, Int16, z_mul_w);
        }
        if is_x86_feature_detected!("avx512dq") {
            put("avx512", 64, Multiply, Int64, z_mul_q);
        }
        for (precision, run) in dot_products() {
            put("avx512", 64, Dot, precision, run);
        }
        // CPUID 7.0, EDX bit 23: AVX512-FP16 (Intel SDM, volume 2A, CPUID).
        if __cpuid_count(7, 0).edx >> 23 & 1 == 1 {
            put("avx512", 64, Fma, Half, z_fma_ph);
            put("avx512", 64, Add, Half, z_add_ph);
            put("avx512", 64, Multiply, Half, z_mul_ph);
        }
    }
    all.extend(amx::available());
    all
}

/// Dot products, each with the precision of its operands.
fn dot_products() -> Vec<(Precision, super::variant::Loop)> {
    let mut all: Vec<(Precision, super::variant::Loop)> = Vec::new();
    if is_x86_feature_detected!("avx512vnni") {
        all.extend([(Precision::Int8, z_dot_b as super::variant::Loop), (Precision::Int16, z_dot_w)]);
    }
    if is_x86_feature_detected!("avx512bf16") {
        all.push((Precision::Bfloat16, z_dot_bf));
    }
    all
}
