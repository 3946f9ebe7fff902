//! The loops for x86-64 in its own instructions, so that no compiler turns a copy into `memcpy`, drops
//! a read, or spoils the order of accesses. Each line of 64 bytes is one 64-byte, two 32-byte or four
//! 16-byte accesses.

use std::arch::asm;
use std::arch::x86_64::__cpuid;

use crate::loops::memory::primitive::{memory_operations, Job, Loop, Primitive, CONSTANTS};

use super::operation::{Choice, Isa, Way};

/// Those with wide loops that this machine has, widest last.
#[must_use]
pub fn available() -> Vec<Isa> {
    let mut sets = vec![Isa::Sse];
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        sets.push(Isa::Avx2);
    }
    if is_x86_feature_detected!("avx512f") {
        sets.push(Isa::Avx512);
    }
    sets
}

// What a step does to one line at displacement $d. Registers: 0 to 3 hold the value x, 4 to 7 the sums (number
// $k), 13 whole ones, 14 the scalar, 15 the constant w.
macro_rules! register {
    (x) => {
        "0"
    };
    (w) => {
        "15"
    };
}

macro_rules! z {
    (Sum $p:ident, $d:literal, $k:literal) => {
        concat!("vpaddq zmm", $k, ", zmm", $k, ", [{", stringify!($p), "}+{i}+", $d, "]\n")
    };
    (Load $p:ident, $d:literal, $k:literal) => {
        concat!("vmovapd zmm0, [{", stringify!($p), "}+{i}+", $d, "]\n")
    };
    (Scale $p:ident, $d:literal, $k:literal) => {
        concat!("vmulpd zmm0, zmm14, [{", stringify!($p), "}+{i}+", $d, "]\n")
    };
    (Plus $p:ident, $d:literal, $k:literal) => {
        concat!("vaddpd zmm0, zmm0, [{", stringify!($p), "}+{i}+", $d, "]\n")
    };
    (Axpy $p:ident $q:ident, $d:literal, $k:literal) => {
        concat!("vmovapd zmm0, [{", stringify!($q), "}+{i}+", $d, "]\nvfmadd213pd zmm0, zmm14, [{", stringify!($p), "}+{i}+", $d, "]\n")
    };
    (Bump $p:ident, $d:literal, $k:literal) => {
        concat!("vpaddq zmm0, zmm13, [{", stringify!($p), "}+{i}+", $d, "]\n", z!(Store x, $d))
    };
    (Store $value:ident, $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], zmm", register!($value), "\n")
    };
    (Stream $value:ident, $d:literal) => {
        concat!("vmovntpd [{a}+{i}+", $d, "], zmm", register!($value), "\n")
    };
    (setup) => {
        "vbroadcastsd zmm14, [{k}]\nvbroadcastsd zmm15, [{k}+8]\nvpbroadcastq zmm13, [{k}+16]\n\
        vpxorq zmm4, zmm4, zmm4\nvpxorq zmm5, zmm5, zmm5\nvpxorq zmm6, zmm6, zmm6\nvpxorq zmm7, zmm7, zmm7\n"
    };
    (finish) => {
        "vpaddq zmm4, zmm4, zmm5\nvpaddq zmm6, zmm6, zmm7\nvpaddq zmm4, zmm4, zmm6\n\
        vmovdqu64 [{sum}], zmm4\nsfence\nvzeroupper\n"
    };
}

macro_rules! y {
    (Sum $p:ident, $d:literal, $k:literal) => {
        concat!(
            "vpaddq ymm",
            $k,
            ", ymm",
            $k,
            ", [{",
            stringify!($p),
            "}+{i}+",
            $d,
            "]\n",
            "vpaddq ymm",
            $k,
            ", ymm",
            $k,
            ", [{",
            stringify!($p),
            "}+{i}+32+",
            $d,
            "]\n"
        )
    };
    (Load $p:ident, $d:literal, $k:literal) => {
        concat!("vmovapd ymm0, [{", stringify!($p), "}+{i}+", $d, "]\nvmovapd ymm1, [{", stringify!($p), "}+{i}+32+", $d, "]\n")
    };
    (Scale $p:ident, $d:literal, $k:literal) => {
        concat!("vmulpd ymm0, ymm14, [{", stringify!($p), "}+{i}+", $d, "]\nvmulpd ymm1, ymm14, [{", stringify!($p), "}+{i}+32+", $d, "]\n")
    };
    (Plus $p:ident, $d:literal, $k:literal) => {
        concat!("vaddpd ymm0, ymm0, [{", stringify!($p), "}+{i}+", $d, "]\nvaddpd ymm1, ymm1, [{", stringify!($p), "}+{i}+32+", $d, "]\n")
    };
    (Axpy $p:ident $q:ident, $d:literal, $k:literal) => {
        concat!(
            y!(Load $q, $d, $k),
            "vfmadd213pd ymm0, ymm14, [{",
            stringify!($p),
            "}+{i}+",
            $d,
            "]\nvfmadd213pd ymm1, ymm14, [{",
            stringify!($p),
            "}+{i}+32+",
            $d,
            "]\n"
        )
    };
    (Bump $p:ident, $d:literal, $k:literal) => {
        concat!(
            "vpaddq ymm0, ymm13, [{",
            stringify!($p),
            "}+{i}+",
            $d,
            "]\nvpaddq ymm1, ymm13, [{",
            stringify!($p),
            "}+{i}+32+",
            $d,
            "]\n",
            y!(Store x, $d)
        )
    };
    (Store x, $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], ymm0\nvmovapd [{a}+{i}+32+", $d, "], ymm1\n")
    };
    (Store w, $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], ymm15\nvmovapd [{a}+{i}+32+", $d, "], ymm15\n")
    };
    (Stream x, $d:literal) => {
        concat!("vmovntpd [{a}+{i}+", $d, "], ymm0\nvmovntpd [{a}+{i}+32+", $d, "], ymm1\n")
    };
    (Stream w, $d:literal) => {
        concat!("vmovntpd [{a}+{i}+", $d, "], ymm15\nvmovntpd [{a}+{i}+32+", $d, "], ymm15\n")
    };
    (setup) => {
        "vbroadcastsd ymm14, [{k}]\nvbroadcastsd ymm15, [{k}+8]\nvpbroadcastq ymm13, [{k}+16]\n\
        vpxor ymm4, ymm4, ymm4\nvpxor ymm5, ymm5, ymm5\nvpxor ymm6, ymm6, ymm6\nvpxor ymm7, ymm7, ymm7\n"
    };
    (finish) => {
        "vpaddq ymm4, ymm4, ymm5\nvpaddq ymm6, ymm6, ymm7\nvpaddq ymm4, ymm4, ymm6\n\
        vmovdqu [{sum}], ymm4\nsfence\nvzeroupper\n"
    };
}

macro_rules! quarters {
    ($operation:literal, $p:ident, $d:literal) => {
        concat!(
            $operation,
            " xmm0, [{",
            stringify!($p),
            "}+{i}+",
            $d,
            "]\n",
            $operation,
            " xmm1, [{",
            stringify!($p),
            "}+{i}+16+",
            $d,
            "]\n",
            $operation,
            " xmm2, [{",
            stringify!($p),
            "}+{i}+32+",
            $d,
            "]\n",
            $operation,
            " xmm3, [{",
            stringify!($p),
            "}+{i}+48+",
            $d,
            "]\n"
        )
    };
}

macro_rules! put_quarters {
    ($operation:literal, $r0:literal, $r1:literal, $r2:literal, $r3:literal, $d:literal) => {
        concat!(
            $operation,
            " [{a}+{i}+",
            $d,
            "], xmm",
            $r0,
            "\n",
            $operation,
            " [{a}+{i}+16+",
            $d,
            "], xmm",
            $r1,
            "\n",
            $operation,
            " [{a}+{i}+32+",
            $d,
            "], xmm",
            $r2,
            "\n",
            $operation,
            " [{a}+{i}+48+",
            $d,
            "], xmm",
            $r3,
            "\n"
        )
    };
}

macro_rules! x {
    (Sum $p:ident, $d:literal, $k:literal) => { concat!("paddq xmm4, [{", stringify!($p), "}+{i}+", $d, "]\npaddq xmm5, [{", stringify!($p), "}+{i}+16+", $d, "]\n",
        "paddq xmm6, [{", stringify!($p), "}+{i}+32+", $d, "]\npaddq xmm7, [{", stringify!($p), "}+{i}+48+", $d, "]\n") };
    (Load $p:ident, $d:literal, $k:literal) => { quarters!("movapd", $p, $d) };
    (Scale $p:ident, $d:literal, $k:literal) => { concat!(quarters!("movapd", $p, $d),
        "mulpd xmm0, xmm14\nmulpd xmm1, xmm14\nmulpd xmm2, xmm14\nmulpd xmm3, xmm14\n") };
    (Plus $p:ident, $d:literal, $k:literal) => { quarters!("addpd", $p, $d) };
    (Axpy $p:ident $q:ident, $d:literal, $k:literal) => { concat!(x!(Scale $q, $d, $k), quarters!("addpd", $p, $d)) };
    (Bump $p:ident, $d:literal, $k:literal) => { concat!(quarters!("movdqa", $p, $d),
        "paddq xmm0, xmm13\npaddq xmm1, xmm13\npaddq xmm2, xmm13\npaddq xmm3, xmm13\n", x!(Store x, $d)) };
    (Store x, $d:literal) => { put_quarters!("movapd", "0", "1", "2", "3", $d) };
    (Store w, $d:literal) => { put_quarters!("movapd", "15", "15", "15", "15", $d) };
    (Stream x, $d:literal) => { put_quarters!("movntpd", "0", "1", "2", "3", $d) };
    (Stream w, $d:literal) => { put_quarters!("movntpd", "15", "15", "15", "15", $d) };
    (setup) => { "movsd xmm14, [{k}]\nunpcklpd xmm14, xmm14\nmovsd xmm15, [{k}+8]\nunpcklpd xmm15, xmm15\n\
        movq xmm13, [{k}+16]\npunpcklqdq xmm13, xmm13\n\
        pxor xmm4, xmm4\npxor xmm5, xmm5\npxor xmm6, xmm6\npxor xmm7, xmm7\n" };
    (finish) => { "paddq xmm4, xmm5\npaddq xmm6, xmm7\npaddq xmm4, xmm6\nmovdqu [{sum}], xmm4\nsfence\n" };
}

// What is done to one line.
macro_rules! line {
    ($v:ident, [$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?], $d:literal, $k:literal) => {
        concat!($($v!($step $($array)*, $d, $k),)* $($v!($target $value, $d))?)
    };
}

macro_rules! four {
    ($v:ident, $l0:tt $l1:tt $l2:tt $l3:tt) => {
        concat!(
            line!($v, $l0, "0", "4"),
            line!($v, $l1, "64", "5"),
            line!($v, $l2, "128", "6"),
            line!($v, $l3, "192", "7")
        )
    };
}

macro_rules! six {
    ($v:ident, $l0:tt $l1:tt $l2:tt $l3:tt $l4:tt $l5:tt) => {
        concat!(four!($v, $l0 $l1 $l2 $l3), line!($v, $l4, "256", "4"), line!($v, $l5, "320", "5"))
    };
}

// Asks for the four lines that are stored 1 KiB further on.
macro_rules! ahead {
    () => {
        "prefetchw [{a}+{i}+1024]\nprefetchw [{a}+{i}+1088]\nprefetchw [{a}+{i}+1152]\nprefetchw [{a}+{i}+1216]\n"
    };
}

// Two lines of each of eight pages.
macro_rules! pages {
    ($v:ident, $l:tt) => {
        concat!(
            line!($v, $l, "0", "4"),
            line!($v, $l, "64", "5"),
            line!($v, $l, "4096", "6"),
            line!($v, $l, "4160", "7"),
            line!($v, $l, "8192", "4"),
            line!($v, $l, "8256", "5"),
            line!($v, $l, "12288", "6"),
            line!($v, $l, "12352", "7"),
            line!($v, $l, "16384", "4"),
            line!($v, $l, "16448", "5"),
            line!($v, $l, "20480", "6"),
            line!($v, $l, "20544", "7"),
            line!($v, $l, "24576", "4"),
            line!($v, $l, "24640", "5"),
            line!($v, $l, "28672", "6"),
            line!($v, $l, "28736", "7"),
        )
    };
}

macro_rules! block_loop {
    ($v:ident, $name:ident, $unrolled:literal, $body:expr, $single:tt) => {
        /// A loop over blocks for one primitive.
        ///
        /// # Safety
        /// As [`Loop`] says.
        unsafe fn $name(job: &mut Job) {
            let mut sum = [0_u64; 8];
            // SAFETY: the loop touches the blocks that the caller vouches for, `offsets`, the constants
            // and `sum`; every register that it changes is declared.
            unsafe {
                asm!(
                    $v!(setup),
                    "2:",
                    "mov {i}, [{offsets}]",
                    "add {offsets}, 8",
                    "lea {end}, [{i} + {bytes}]",
                    concat!("lea {last}, [{end} - ", $unrolled, "]"),
                    "cmp {i}, {last}",
                    "jg 4f",
                    ".p2align 4",
                    "3:",
                    $body,
                    concat!("add {i}, ", $unrolled),
                    "cmp {i}, {last}",
                    "jle 3b",
                    "4:",
                    "cmp {i}, {end}",
                    "jge 6f",
                    "5:",
                    line!($v, $single, "0", "4"),
                    "add {i}, 64",
                    "cmp {i}, {end}",
                    "jl 5b",
                    "6:",
                    "dec {count}",
                    "jnz 2b",
                    $v!(finish),
                    "# {a} {b} {c} {d}",
                    a = in(reg) job.a,
                    b = in(reg) job.b,
                    c = in(reg) job.c,
                    d = in(reg) job.d,
                    offsets = inout(reg) job.offsets => _,
                    count = inout(reg) job.count => _,
                    bytes = in(reg) job.bytes,
                    // Used before the loop alone, and after it alone, so that one register does for both.
                    k = in(reg) CONSTANTS.as_ptr(),
                    sum = in(reg) sum.as_mut_ptr(),
                    i = out(reg) _,
                    end = out(reg) _,
                    last = out(reg) _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack),
                );
            }
            job.sum = sum.iter().fold(job.sum, |total, &part| total.wrapping_add(part));
        }
    };
}

// The loop of a mix, of which a part that is left at the end is only read.
macro_rules! mix_loop {
    ($v:ident, $name:ident, $l0:tt $l1:tt $l2:tt $l3:tt) => {
        block_loop!($v, $name, 256, four!($v, $l0 $l1 $l2 $l3), $l0);
    };
    ($v:ident, $name:ident, $l0:tt $l1:tt $l2:tt $l3:tt $l4:tt $l5:tt) => {
        block_loop!($v, $name, 384, six!($v, $l0 $l1 $l2 $l3 $l4 $l5), $l0);
    };
}

// The loop that prefetches, for what is stored through the caches without having been loaded.
macro_rules! ahead_loop {
    ($v:ident, $name:ident, [$($step:ident $($array:ident)*),* -> Store $value:ident]) => {{
        ahead_loop!(@ $v, $name, [$($step $($array)*),* -> Store $value]);
        Some($name as Loop)
    }};
    (@ $v:ident, $name:ident, $line:tt) => {
        block_loop!($v, $name, 256, concat!(ahead!(), four!($v, $line $line $line $line)), $line);
    };
    ($v:ident, $name:ident, $other:tt) => { None };
}

// The loop by pages, for what only reads or only writes past the caches, but no mix of both.
macro_rules! pages_loop {
    ($v:ident, $name:ident, [Sum $array:ident]) => {{
        pages_loop!(@ $v, $name, [Sum $array]);
        Some($name as Loop)
    }};
    ($v:ident, $name:ident, [Sum $($more:tt)+]) => { None };
    ($v:ident, $name:ident, [$($step:ident $($array:ident)*),* -> Stream $value:ident]) => {{
        pages_loop!(@ $v, $name, [$($step $($array)*),* -> Stream $value]);
        Some($name as Loop)
    }};
    // Blocks and their offsets are multiples of eight pages, so the offset itself says where a page ends.
    (@ $v:ident, $name:ident, $line:tt) => {
        block_loop!(
            $v,
            $name,
            128,
            concat!(
                pages!($v, $line),
                "lea {last}, [{i} + 28800]\ntest {last:e}, 4095\njnz 7f\nmov {i}, {last}\nsub {i}, 128\n7:\n",
                "lea {last}, [{end} - 128]\n"
            ),
            $line
        );
    };
    ($v:ident, $name:ident, $other:tt) => { None };
}

macro_rules! family {
    ({ $v:ident } { $($(#[$about:meta])* $name:ident $loop:ident $line:tt;)* }
        { $($(#[$mix:meta])* $mixed:ident $mixed_loop:ident $([$($lines:tt)*])+;)* }) => {
        $(block_loop!($v, $loop, 256, four!($v, $line $line $line $line), $line);)*
        $(mix_loop!($v, $mixed_loop, $([$($lines)*])+);)*

        pub fn find_loop(primitive: Primitive, way: Way) -> Option<Loop> {
            match primitive {
                $(Primitive::$name => match way {
                    Way::Plain => Some($loop),
                    Way::Ahead => ahead_loop!($v, $loop, $line),
                    Way::Pages => pages_loop!($v, $loop, $line),
                },)*
                $(Primitive::$mixed => (way == Way::Plain).then_some($mixed_loop),)*
            }
        }
    };
}

mod sse {
    use super::{asm, memory_operations, Job, Loop, Primitive, Way, CONSTANTS};
    memory_operations!(family x);
}
mod avx2 {
    use super::{asm, memory_operations, Job, Loop, Primitive, Way, CONSTANTS};
    memory_operations!(family y);
}
mod avx512 {
    use super::{asm, memory_operations, Job, Loop, Primitive, Way, CONSTANTS};
    memory_operations!(family z);
}

/// The loop for `primitive`; none for an instruction set of another architecture, or a way that it has not.
#[must_use]
pub fn find_loop(primitive: Primitive, choice: Choice) -> Option<Loop> {
    // CPUID 8000_0001, ECX bit 8: PREFETCHW (Intel SDM, volume 2A, CPUID).
    if choice.way == Way::Ahead && __cpuid(0x8000_0001).ecx >> 8 & 1 == 0 {
        return None;
    }
    match choice.isa {
        Isa::Sse => sse::find_loop(primitive, choice.way),
        Isa::Avx2 => avx2::find_loop(primitive, choice.way),
        Isa::Avx512 => avx512::find_loop(primitive, choice.way),
        _ => None,
    }
}
