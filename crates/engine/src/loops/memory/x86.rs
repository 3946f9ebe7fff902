//! The loops for x86-64 in its own instructions, so that no compiler turns a copy into `memcpy`, drops
//! a read, or spoils the order of accesses. Each line of 64 bytes is one 64-byte, two 32-byte or four
//! 16-byte accesses.

use std::arch::asm;
use std::arch::x86_64::__cpuid;

use crate::loops::memory::primitive::{Job, Loop, Primitive, CONSTANTS};

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

// What is done to one line at displacement $d. Registers: 0 and 1 hold data, 4 to 7 the sums (number
// $k), 13 whole ones, 14 the scalar, 15 what is written.
macro_rules! z {
    (read $p:literal, $d:literal, $k:literal) => {
        concat!("vpaddq zmm", $k, ", zmm", $k, ", [{", $p, "}+{i}+", $d, "]\n")
    };
    (load $p:literal, $d:literal) => {
        concat!("vmovapd zmm0, [{", $p, "}+{i}+", $d, "]\n")
    };
    (scale $p:literal, $d:literal) => {
        concat!("vmulpd zmm0, zmm14, [{", $p, "}+{i}+", $d, "]\n")
    };
    (plus $p:literal, $d:literal) => {
        concat!("vaddpd zmm0, zmm0, [{", $p, "}+{i}+", $d, "]\n")
    };
    (axpy $d:literal) => {
        concat!("vmovapd zmm0, [{c}+{i}+", $d, "]\nvfmadd213pd zmm0, zmm14, [{b}+{i}+", $d, "]\n")
    };
    (one $d:literal) => {
        concat!("vpaddq zmm0, zmm13, [{a}+{i}+", $d, "]\n")
    };
    (store $r:literal, $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], zmm", $r, "\n")
    };
    (stream $r:literal, $d:literal) => {
        concat!("vmovntpd [{a}+{i}+", $d, "], zmm", $r, "\n")
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
    (read $p:literal, $d:literal, $k:literal) => {
        concat!(
            "vpaddq ymm",
            $k,
            ", ymm",
            $k,
            ", [{",
            $p,
            "}+{i}+",
            $d,
            "]\n",
            "vpaddq ymm",
            $k,
            ", ymm",
            $k,
            ", [{",
            $p,
            "}+{i}+32+",
            $d,
            "]\n"
        )
    };
    (load $p:literal, $d:literal) => {
        concat!("vmovapd ymm0, [{", $p, "}+{i}+", $d, "]\nvmovapd ymm1, [{", $p, "}+{i}+32+", $d, "]\n")
    };
    (scale $p:literal, $d:literal) => {
        concat!("vmulpd ymm0, ymm14, [{", $p, "}+{i}+", $d, "]\nvmulpd ymm1, ymm14, [{", $p, "}+{i}+32+", $d, "]\n")
    };
    (plus $p:literal, $d:literal) => {
        concat!("vaddpd ymm0, ymm0, [{", $p, "}+{i}+", $d, "]\nvaddpd ymm1, ymm1, [{", $p, "}+{i}+32+", $d, "]\n")
    };
    (axpy $d:literal) => {
        concat!(
            "vmovapd ymm0, [{c}+{i}+",
            $d,
            "]\nvmovapd ymm1, [{c}+{i}+32+",
            $d,
            "]\n",
            "vfmadd213pd ymm0, ymm14, [{b}+{i}+",
            $d,
            "]\nvfmadd213pd ymm1, ymm14, [{b}+{i}+32+",
            $d,
            "]\n"
        )
    };
    (one $d:literal) => {
        concat!("vpaddq ymm0, ymm13, [{a}+{i}+", $d, "]\nvpaddq ymm1, ymm13, [{a}+{i}+32+", $d, "]\n")
    };
    (store "0", $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], ymm0\nvmovapd [{a}+{i}+32+", $d, "], ymm1\n")
    };
    (store "15", $d:literal) => {
        concat!("vmovapd [{a}+{i}+", $d, "], ymm15\nvmovapd [{a}+{i}+32+", $d, "], ymm15\n")
    };
    (stream "0", $d:literal) => {
        concat!("vmovntpd [{a}+{i}+", $d, "], ymm0\nvmovntpd [{a}+{i}+32+", $d, "], ymm1\n")
    };
    (stream "15", $d:literal) => {
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
    ($operation:literal, $p:literal, $d:literal) => {
        concat!(
            $operation,
            " xmm0, [{",
            $p,
            "}+{i}+",
            $d,
            "]\n",
            $operation,
            " xmm1, [{",
            $p,
            "}+{i}+16+",
            $d,
            "]\n",
            $operation,
            " xmm2, [{",
            $p,
            "}+{i}+32+",
            $d,
            "]\n",
            $operation,
            " xmm3, [{",
            $p,
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
    (read $p:literal, $d:literal, $k:literal) => { concat!("paddq xmm4, [{", $p, "}+{i}+", $d, "]\npaddq xmm5, [{", $p, "}+{i}+16+", $d, "]\n",
        "paddq xmm6, [{", $p, "}+{i}+32+", $d, "]\npaddq xmm7, [{", $p, "}+{i}+48+", $d, "]\n") };
    (load $p:literal, $d:literal) => { quarters!("movapd", $p, $d) };
    (scale $p:literal, $d:literal) => { concat!(quarters!("movapd", $p, $d),
        "mulpd xmm0, xmm14\nmulpd xmm1, xmm14\nmulpd xmm2, xmm14\nmulpd xmm3, xmm14\n") };
    (plus $p:literal, $d:literal) => { quarters!("addpd", $p, $d) };
    (axpy $d:literal) => { concat!(x!(scale "c", $d), quarters!("addpd", "b", $d)) };
    (one $d:literal) => { concat!(quarters!("movdqa", "a", $d),
        "paddq xmm0, xmm13\npaddq xmm1, xmm13\npaddq xmm2, xmm13\npaddq xmm3, xmm13\n") };
    (store "0", $d:literal) => { put_quarters!("movapd", "0", "1", "2", "3", $d) };
    (store "15", $d:literal) => { put_quarters!("movapd", "15", "15", "15", "15", $d) };
    (stream "0", $d:literal) => { put_quarters!("movntpd", "0", "1", "2", "3", $d) };
    (stream "15", $d:literal) => { put_quarters!("movntpd", "15", "15", "15", "15", $d) };
    (setup) => { "movsd xmm14, [{k}]\nunpcklpd xmm14, xmm14\nmovsd xmm15, [{k}+8]\nunpcklpd xmm15, xmm15\n\
        movq xmm13, [{k}+16]\npunpcklqdq xmm13, xmm13\n\
        pxor xmm4, xmm4\npxor xmm5, xmm5\npxor xmm6, xmm6\npxor xmm7, xmm7\n" };
    (finish) => { "paddq xmm4, xmm5\npaddq xmm6, xmm7\npaddq xmm4, xmm6\nmovdqu [{sum}], xmm4\nsfence\n" };
}

// What each primitive does to one line.
macro_rules! line {
    ($v:ident, Read, $d:literal, $k:literal) => { $v!(read "b", $d, $k) };
    ($v:ident, Write, $d:literal, $k:literal) => { $v!(store "15", $d) };
    ($v:ident, NtWrite, $d:literal, $k:literal) => { $v!(stream "15", $d) };
    ($v:ident, Copy, $d:literal, $k:literal) => { concat!($v!(load "b", $d), $v!(store "0", $d)) };
    ($v:ident, NtCopy, $d:literal, $k:literal) => { concat!($v!(load "b", $d), $v!(stream "0", $d)) };
    ($v:ident, Scale, $d:literal, $k:literal) => { concat!($v!(scale "b", $d), $v!(store "0", $d)) };
    ($v:ident, NtScale, $d:literal, $k:literal) => { concat!($v!(scale "b", $d), $v!(stream "0", $d)) };
    ($v:ident, Add, $d:literal, $k:literal) => { concat!($v!(load "b", $d), $v!(plus "c", $d), $v!(store "0", $d)) };
    ($v:ident, NtAdd, $d:literal, $k:literal) => { concat!($v!(load "b", $d), $v!(plus "c", $d), $v!(stream "0", $d)) };
    ($v:ident, Triad, $d:literal, $k:literal) => { concat!($v!(axpy $d), $v!(store "0", $d)) };
    ($v:ident, NtTriad, $d:literal, $k:literal) => { concat!($v!(axpy $d), $v!(stream "0", $d)) };
    ($v:ident, Update, $d:literal, $k:literal) => { concat!($v!(one $d), $v!(store "0", $d)) };
    ($v:ident, ReadA, $d:literal, $k:literal) => { $v!(read "a", $d, $k) };
    ($v:ident, NtMix11, $d:literal, $k:literal) => { concat!($v!(read "b", $d, $k), $v!(stream "15", $d)) };
    ($v:ident, NtMix21, $d:literal, $k:literal) => { concat!($v!(read "b", $d, $k), $v!(read "c", $d, $k), $v!(stream "15", $d)) };
    ($v:ident, NtMix31, $d:literal, $k:literal) => {
        concat!($v!(read "b", $d, $k), $v!(read "c", $d, $k), $v!(read "d", $d, $k), $v!(stream "15", $d)) };
}

macro_rules! four {
    ($v:ident, $l0:ident $l1:ident $l2:ident $l3:ident) => {
        concat!(
            line!($v, $l0, "0", "4"),
            line!($v, $l1, "64", "5"),
            line!($v, $l2, "128", "6"),
            line!($v, $l3, "192", "7")
        )
    };
}

macro_rules! six {
    ($v:ident, $l0:ident $l1:ident $l2:ident $l3:ident $l4:ident $l5:ident) => {
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
    ($v:ident, $l:ident) => {
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

// Blocks and their offsets are multiples of eight pages, so the offset itself says where a page ends.
macro_rules! pages_loop {
    ($v:ident, $name:ident, $line:ident) => {
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
}

macro_rules! block_loop {
    ($v:ident, $name:ident, $unrolled:literal, $body:expr, $single:ident) => {
        /// A loop over blocks for one primitive.
        ///
        /// # Safety
        /// As [`Loop`] says.
        pub unsafe fn $name(job: &mut Job) {
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

macro_rules! family {
    ($v:ident, $module:ident) => {
        mod $module {
            use super::*;
            block_loop!($v, read, 256, four!($v, Read Read Read Read), Read);
            block_loop!($v, write, 256, four!($v, Write Write Write Write), Write);
            block_loop!($v, nt_write, 256, four!($v, NtWrite NtWrite NtWrite NtWrite), NtWrite);
            block_loop!($v, copy, 256, four!($v, Copy Copy Copy Copy), Copy);
            block_loop!($v, nt_copy, 256, four!($v, NtCopy NtCopy NtCopy NtCopy), NtCopy);
            block_loop!($v, scale, 256, four!($v, Scale Scale Scale Scale), Scale);
            block_loop!($v, nt_scale, 256, four!($v, NtScale NtScale NtScale NtScale), NtScale);
            block_loop!($v, add, 256, four!($v, Add Add Add Add), Add);
            block_loop!($v, nt_add, 256, four!($v, NtAdd NtAdd NtAdd NtAdd), NtAdd);
            block_loop!($v, triad, 256, four!($v, Triad Triad Triad Triad), Triad);
            block_loop!($v, nt_triad, 256, four!($v, NtTriad NtTriad NtTriad NtTriad), NtTriad);
            block_loop!($v, update, 256, four!($v, Update Update Update Update), Update);
            block_loop!($v, mix21, 256, four!($v, ReadA Update ReadA Update), ReadA);
            block_loop!($v, mix31, 384, six!($v, ReadA ReadA Update ReadA ReadA Update), ReadA);
            block_loop!($v, mix32, 384, six!($v, ReadA Update Update ReadA Update Update), ReadA);
            block_loop!($v, mix41, 256, four!($v, ReadA ReadA ReadA Update), ReadA);
            block_loop!($v, nt_mix11, 256, four!($v, NtMix11 NtMix11 NtMix11 NtMix11), NtMix11);
            block_loop!($v, nt_mix21, 256, four!($v, NtMix21 NtMix21 NtMix21 NtMix21), NtMix21);
            block_loop!($v, nt_mix31, 256, four!($v, NtMix31 NtMix31 NtMix31 NtMix31), NtMix31);
            block_loop!($v, ahead_write, 256, concat!(ahead!(), four!($v, Write Write Write Write)), Write);
            block_loop!($v, ahead_copy, 256, concat!(ahead!(), four!($v, Copy Copy Copy Copy)), Copy);
            block_loop!($v, ahead_scale, 256, concat!(ahead!(), four!($v, Scale Scale Scale Scale)), Scale);
            block_loop!($v, ahead_add, 256, concat!(ahead!(), four!($v, Add Add Add Add)), Add);
            block_loop!($v, ahead_triad, 256, concat!(ahead!(), four!($v, Triad Triad Triad Triad)), Triad);
            pages_loop!($v, pages_read, Read);
            pages_loop!($v, pages_nt_write, NtWrite);
            pages_loop!($v, pages_nt_copy, NtCopy);
            pages_loop!($v, pages_nt_scale, NtScale);
            pages_loop!($v, pages_nt_add, NtAdd);
            pages_loop!($v, pages_nt_triad, NtTriad);

            pub fn loop_of(primitive: Primitive, way: Way) -> Option<Loop> {
                Some(match way {
                    Way::Plain => plain(primitive),
                    Way::Ahead => match primitive {
                        Primitive::Write => ahead_write,
                        Primitive::Copy => ahead_copy,
                        Primitive::Scale => ahead_scale,
                        Primitive::Add => ahead_add,
                        Primitive::Triad => ahead_triad,
                        _ => return None,
                    },
                    Way::Pages => match primitive {
                        Primitive::Read => pages_read,
                        Primitive::NtWrite => pages_nt_write,
                        Primitive::NtCopy => pages_nt_copy,
                        Primitive::NtScale => pages_nt_scale,
                        Primitive::NtAdd => pages_nt_add,
                        Primitive::NtTriad => pages_nt_triad,
                        _ => return None,
                    },
                })
            }

            fn plain(primitive: Primitive) -> Loop {
                match primitive {
                    Primitive::Read => read,
                    Primitive::Write => write,
                    Primitive::NtWrite => nt_write,
                    Primitive::Copy => copy,
                    Primitive::Scale => scale,
                    Primitive::Add => add,
                    Primitive::Triad => triad,
                    Primitive::NtCopy => nt_copy,
                    Primitive::NtScale => nt_scale,
                    Primitive::NtAdd => nt_add,
                    Primitive::NtTriad => nt_triad,
                    Primitive::Update => update,
                    Primitive::Mix21 => mix21,
                    Primitive::Mix31 => mix31,
                    Primitive::Mix32 => mix32,
                    Primitive::Mix41 => mix41,
                    Primitive::NtMix11 => nt_mix11,
                    Primitive::NtMix21 => nt_mix21,
                    Primitive::NtMix31 => nt_mix31,
                }
            }
        }
    };
}

family!(x, sse);
family!(y, avx2);
family!(z, avx512);

/// The loop for `primitive`; none for an instruction set of another architecture, or a way that it has not.
#[must_use]
pub fn loop_of(primitive: Primitive, choice: Choice) -> Option<Loop> {
    // CPUID 8000_0001, ECX bit 8: PREFETCHW (Intel SDM, volume 2A, CPUID).
    if choice.way == Way::Ahead && __cpuid(0x8000_0001).ecx >> 8 & 1 == 0 {
        return None;
    }
    match choice.isa {
        Isa::Sse => sse::loop_of(primitive, choice.way),
        Isa::Avx2 => avx2::loop_of(primitive, choice.way),
        Isa::Avx512 => avx512::loop_of(primitive, choice.way),
        _ => None,
    }
}
