//! The loops for aarch64 in its own instructions (NEON, in pairs of 16 bytes), for the reasons that the
//! x86-64 ones have. Stores past the caches are STNP, which is a hint that a core may ignore.

use std::arch::asm;

use crate::loops::memory::primitive::{memory_operations, Job, Loop, Primitive, CONSTANTS};

use super::operation::{Choice, Isa, Way};
use super::sve;

/// Those with wide loops that this machine has.
#[must_use]
pub fn available() -> Vec<Isa> {
    let mut sets = vec![Isa::Neon];
    if sve::here() {
        sets.push(Isa::Sve);
    }
    sets
}

// What a step does to one line at displacement $d of the pointers {pa} to {pd}. v0-v3 hold the value x, v20-v23
// more data, v4-v7 the sums, v17 the scalar, v18 the constant w, v19 whole ones.
macro_rules! n {
    (Sum $p:ident, $d:literal) => {
        concat!(n!(Load $p, $d),
            "add v4.2d, v4.2d, v0.2d\nadd v5.2d, v5.2d, v1.2d\nadd v6.2d, v6.2d, v2.2d\nadd v7.2d, v7.2d, v3.2d\n")
    };
    (Load $p:ident, $d:literal) => {
        concat!("ldp q0, q1, [{p", stringify!($p), "}, #", $d, "]\nldp q2, q3, [{p", stringify!($p), "}, #", $d, "+32]\n")
    };
    (Scale $p:ident, $d:literal) => { concat!(n!(Load $p, $d), n!(times)) };
    (Plus $p:ident, $d:literal) => { concat!(n!(more $p, $d), n!(plus)) };
    (Axpy $p:ident $q:ident, $d:literal) => { concat!(n!(Load $p, $d), n!(more $q, $d), n!(axpy)) };
    (Bump $p:ident, $d:literal) => { concat!(n!(Load $p, $d), n!(one), n!(Store x, $d)) };
    (more $p:ident, $d:literal) => {
        concat!("ldp q20, q21, [{p", stringify!($p), "}, #", $d, "]\nldp q22, q23, [{p", stringify!($p), "}, #", $d, "+32]\n")
    };
    (Store x, $d:literal) => { concat!("stp q0, q1, [{pa}, #", $d, "]\nstp q2, q3, [{pa}, #", $d, "+32]\n") };
    (Stream x, $d:literal) => { concat!("stnp q0, q1, [{pa}, #", $d, "]\nstnp q2, q3, [{pa}, #", $d, "+32]\n") };
    (Store w, $d:literal) => { concat!("stp q18, q18, [{pa}, #", $d, "]\nstp q18, q18, [{pa}, #", $d, "+32]\n") };
    (Stream w, $d:literal) => { concat!("stnp q18, q18, [{pa}, #", $d, "]\nstnp q18, q18, [{pa}, #", $d, "+32]\n") };
    (times) => {
        "fmul v0.2d, v0.2d, v17.2d\nfmul v1.2d, v1.2d, v17.2d\nfmul v2.2d, v2.2d, v17.2d\nfmul v3.2d, v3.2d, v17.2d\n"
    };
    (plus) => {
        "fadd v0.2d, v0.2d, v20.2d\nfadd v1.2d, v1.2d, v21.2d\nfadd v2.2d, v2.2d, v22.2d\nfadd v3.2d, v3.2d, v23.2d\n"
    };
    (axpy) => {
        "fmla v0.2d, v20.2d, v17.2d\nfmla v1.2d, v21.2d, v17.2d\nfmla v2.2d, v22.2d, v17.2d\nfmla v3.2d, v23.2d, v17.2d\n"
    };
    (one) => {
        "add v0.2d, v0.2d, v19.2d\nadd v1.2d, v1.2d, v19.2d\nadd v2.2d, v2.2d, v19.2d\nadd v3.2d, v3.2d, v19.2d\n"
    };
}

// What is done to one line.
macro_rules! line {
    ([$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?], $d:literal) => {
        concat!($(n!($step $($array)*, $d),)* $(n!($target $value, $d))?)
    };
}

macro_rules! four {
    ($l0:tt $l1:tt $l2:tt $l3:tt) => {
        concat!(line!($l0, "0"), line!($l1, "64"), line!($l2, "128"), line!($l3, "192"))
    };
}

macro_rules! six {
    ($l0:tt $l1:tt $l2:tt $l3:tt $l4:tt $l5:tt) => {
        concat!(four!($l0 $l1 $l2 $l3), line!($l4, "256"), line!($l5, "320"))
    };
}

macro_rules! advance {
    ($by:literal) => {
        concat!(
            "add {pa}, {pa}, #",
            $by,
            "\nadd {pb}, {pb}, #",
            $by,
            "\nadd {pc}, {pc}, #",
            $by,
            "\nadd {pd}, {pd}, #",
            $by,
            "\nsub {left}, {left}, #",
            $by,
            "\n"
        )
    };
}

macro_rules! block_loop {
    ($name:ident, $unrolled:literal, $body:expr, $single:tt) => {
        /// A loop over blocks for one primitive.
        ///
        /// # Safety
        /// As [`Loop`] says.
        unsafe fn $name(job: &mut Job) {
            let mut sum = [0_u64; 2];
            // SAFETY: the loop touches the blocks that the caller vouches for, `offsets`, the constants
            // and `sum`; every register that it changes is declared.
            unsafe {
                asm!(
                    "ld1r {{v17.2d}}, [{k}], #8",
                    "ld1r {{v18.2d}}, [{k}], #8",
                    "ld1r {{v19.2d}}, [{k}]",
                    "movi v4.2d, #0",
                    "movi v5.2d, #0",
                    "movi v6.2d, #0",
                    "movi v7.2d, #0",
                    "2:",
                    "ldr {pd}, [{offsets}], #8",
                    "add {pa}, {a}, {pd}",
                    "add {pb}, {b}, {pd}",
                    "add {pc}, {c}, {pd}",
                    "add {pd}, {d}, {pd}",
                    "mov {left}, {bytes}",
                    "3:",
                    concat!("cmp {left}, #", $unrolled),
                    "b.lt 4f",
                    $body,
                    advance!($unrolled),
                    "b 3b",
                    "4:",
                    "cbz {left}, 6f",
                    line!($single, "0"),
                    advance!("64"),
                    "b 4b",
                    "6:",
                    "subs {count}, {count}, #1",
                    "b.ne 2b",
                    "add v4.2d, v4.2d, v5.2d",
                    "add v6.2d, v6.2d, v7.2d",
                    "add v4.2d, v4.2d, v6.2d",
                    "str q4, [{sum}]",
                    a = in(reg) job.a,
                    b = in(reg) job.b,
                    c = in(reg) job.c,
                    d = in(reg) job.d,
                    offsets = inout(reg) job.offsets => _,
                    count = inout(reg) job.count => _,
                    bytes = in(reg) job.bytes,
                    k = inout(reg) CONSTANTS.as_ptr() => _,
                    sum = in(reg) sum.as_mut_ptr(),
                    pa = out(reg) _,
                    pb = out(reg) _,
                    pc = out(reg) _,
                    pd = out(reg) _,
                    left = out(reg) _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _,
                    out("v6") _, out("v7") _, out("v17") _, out("v18") _, out("v19") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    options(nostack),
                );
            }
            job.sum = sum.iter().fold(job.sum, |total, &part| total.wrapping_add(part));
        }
    };
}

// The loop of a mix, of which a part that is left at the end is only read.
macro_rules! mix_loop {
    ($name:ident, $l0:tt $l1:tt $l2:tt $l3:tt) => {
        block_loop!($name, "256", four!($l0 $l1 $l2 $l3), $l0);
    };
    ($name:ident, $l0:tt $l1:tt $l2:tt $l3:tt $l4:tt $l5:tt) => {
        block_loop!($name, "384", six!($l0 $l1 $l2 $l3 $l4 $l5), $l0);
    };
}

macro_rules! loops {
    ({} { $($(#[$about:meta])* $name:ident $loop:ident $line:tt;)* }
        { $($(#[$mix:meta])* $mixed:ident $mixed_loop:ident $([$($lines:tt)*])+;)* }) => {
        $(block_loop!($loop, "256", four!($line $line $line $line), $line);)*
        $(mix_loop!($mixed_loop, $([$($lines)*])+);)*

        fn neon(primitive: Primitive) -> Loop {
            match primitive {
                $(Primitive::$name => $loop,)*
                $(Primitive::$mixed => $mixed_loop,)*
            }
        }
    };
}
memory_operations!(loops);

/// The loop for `primitive`; none for an instruction set of another architecture.
#[must_use]
pub fn find_loop(primitive: Primitive, choice: Choice) -> Option<Loop> {
    if choice.isa == Isa::Sve && choice.way == Way::Plain {
        return sve::find_loop(primitive);
    }
    (choice.isa == Isa::Neon && choice.way == Way::Plain).then(|| neon(primitive))
}
