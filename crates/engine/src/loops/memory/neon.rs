//! The loops for aarch64 in its own instructions (NEON, in pairs of 16 bytes), for the reasons that the
//! x86-64 ones have. Stores past the caches are STNP, which is a hint that a core may ignore.

use std::arch::asm;

use crate::loops::memory::primitive::{Job, Loop, Primitive, CONSTANTS};

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

// What is done to one line at displacement $d of the pointers {pa} to {pd}. v0-v3 and v20-v23 hold
// data, v4-v7 the sums, v17 the scalar, v18 what is written, v19 whole ones.
macro_rules! n {
    (read $p:literal, $d:literal) => {
        concat!(n!(load $p, $d),
            "add v4.2d, v4.2d, v0.2d\nadd v5.2d, v5.2d, v1.2d\nadd v6.2d, v6.2d, v2.2d\nadd v7.2d, v7.2d, v3.2d\n")
    };
    (load $p:literal, $d:literal) => {
        concat!("ldp q0, q1, [{", $p, "}, #", $d, "]\nldp q2, q3, [{", $p, "}, #", $d, "+32]\n")
    };
    (more $p:literal, $d:literal) => {
        concat!("ldp q20, q21, [{", $p, "}, #", $d, "]\nldp q22, q23, [{", $p, "}, #", $d, "+32]\n")
    };
    (store $d:literal) => { concat!("stp q0, q1, [{pa}, #", $d, "]\nstp q2, q3, [{pa}, #", $d, "+32]\n") };
    (stream $d:literal) => { concat!("stnp q0, q1, [{pa}, #", $d, "]\nstnp q2, q3, [{pa}, #", $d, "+32]\n") };
    (fill $d:literal) => { concat!("stp q18, q18, [{pa}, #", $d, "]\nstp q18, q18, [{pa}, #", $d, "+32]\n") };
    (flow $d:literal) => { concat!("stnp q18, q18, [{pa}, #", $d, "]\nstnp q18, q18, [{pa}, #", $d, "+32]\n") };
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

macro_rules! line {
    (Read, $d:literal) => { n!(read "pb", $d) };
    (ReadA, $d:literal) => { n!(read "pa", $d) };
    (Write, $d:literal) => { n!(fill $d) };
    (NtWrite, $d:literal) => { n!(flow $d) };
    (Copy, $d:literal) => { concat!(n!(load "pb", $d), n!(store $d)) };
    (NtCopy, $d:literal) => { concat!(n!(load "pb", $d), n!(stream $d)) };
    (Scale, $d:literal) => { concat!(n!(load "pb", $d), n!(times), n!(store $d)) };
    (NtScale, $d:literal) => { concat!(n!(load "pb", $d), n!(times), n!(stream $d)) };
    (Add, $d:literal) => { concat!(n!(load "pb", $d), n!(more "pc", $d), n!(plus), n!(store $d)) };
    (NtAdd, $d:literal) => { concat!(n!(load "pb", $d), n!(more "pc", $d), n!(plus), n!(stream $d)) };
    (Triad, $d:literal) => { concat!(n!(load "pb", $d), n!(more "pc", $d), n!(axpy), n!(store $d)) };
    (NtTriad, $d:literal) => { concat!(n!(load "pb", $d), n!(more "pc", $d), n!(axpy), n!(stream $d)) };
    (Update, $d:literal) => { concat!(n!(load "pa", $d), n!(one), n!(store $d)) };
    (NtMix11, $d:literal) => { concat!(n!(read "pb", $d), n!(flow $d)) };
    (NtMix21, $d:literal) => { concat!(n!(read "pb", $d), n!(read "pc", $d), n!(flow $d)) };
    (NtMix31, $d:literal) => { concat!(n!(read "pb", $d), n!(read "pc", $d), n!(read "pd", $d), n!(flow $d)) };
}

macro_rules! four {
    ($l0:ident $l1:ident $l2:ident $l3:ident) => {
        concat!(line!($l0, "0"), line!($l1, "64"), line!($l2, "128"), line!($l3, "192"))
    };
}

macro_rules! six {
    ($l0:ident $l1:ident $l2:ident $l3:ident $l4:ident $l5:ident) => {
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
    ($name:ident, $unrolled:literal, $body:expr, $single:ident) => {
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

block_loop!(read, "256", four!(Read Read Read Read), Read);
block_loop!(write, "256", four!(Write Write Write Write), Write);
block_loop!(nt_write, "256", four!(NtWrite NtWrite NtWrite NtWrite), NtWrite);
block_loop!(copy, "256", four!(Copy Copy Copy Copy), Copy);
block_loop!(nt_copy, "256", four!(NtCopy NtCopy NtCopy NtCopy), NtCopy);
block_loop!(scale, "256", four!(Scale Scale Scale Scale), Scale);
block_loop!(nt_scale, "256", four!(NtScale NtScale NtScale NtScale), NtScale);
block_loop!(add, "256", four!(Add Add Add Add), Add);
block_loop!(nt_add, "256", four!(NtAdd NtAdd NtAdd NtAdd), NtAdd);
block_loop!(triad, "256", four!(Triad Triad Triad Triad), Triad);
block_loop!(nt_triad, "256", four!(NtTriad NtTriad NtTriad NtTriad), NtTriad);
block_loop!(update, "256", four!(Update Update Update Update), Update);
block_loop!(mix21, "256", four!(ReadA Update ReadA Update), ReadA);
block_loop!(mix31, "384", six!(ReadA ReadA Update ReadA ReadA Update), ReadA);
block_loop!(mix32, "384", six!(ReadA Update Update ReadA Update Update), ReadA);
block_loop!(mix41, "256", four!(ReadA ReadA ReadA Update), ReadA);
block_loop!(nt_mix11, "256", four!(NtMix11 NtMix11 NtMix11 NtMix11), NtMix11);
block_loop!(nt_mix21, "256", four!(NtMix21 NtMix21 NtMix21 NtMix21), NtMix21);
block_loop!(nt_mix31, "256", four!(NtMix31 NtMix31 NtMix31 NtMix31), NtMix31);

/// The loop for `primitive`; none for an instruction set of another architecture.
#[must_use]
pub fn loop_of(primitive: Primitive, choice: Choice) -> Option<Loop> {
    if choice.isa == Isa::Sve && choice.way == Way::Plain {
        return sve::loop_of(primitive);
    }
    if choice.isa != Isa::Neon || choice.way != Way::Plain {
        return None;
    }
    Some(match primitive {
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
    })
}
