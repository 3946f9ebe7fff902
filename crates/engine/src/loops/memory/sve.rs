//! The loops for aarch64 in SVE, whose registers are as long as the machine made them: four of them a turn,
//! and the rest of a block under a predicate.

use std::arch::{asm, is_aarch64_feature_detected};

use crate::loops::memory::primitive::{memory_operations, Job, Loop, Primitive, CONSTANTS};

/// Whether this machine and system have it (`HWCAP_SVE`).
#[must_use]
pub fn here() -> bool {
    is_aarch64_feature_detected!("sve")
}

// Vector $v of a turn at [{$array}] into register z$tens$v under predicate $p, where lanes outside of it become 0.
macro_rules! load {
    ($tens:literal $v:literal, $p:literal, $array:literal) => {
        concat!("ld1d {{z", $tens, $v, ".d}}, ", $p, "/z, [{", $array, "}, #", $v, ", mul vl]\n")
    };
}

// Register z$v to vector $v of a turn at [{pa}] under predicate $p.
macro_rules! store {
    ($v:literal, $p:literal) => {
        concat!("st1d {{z", $v, ".d}}, ", $p, ", [{pa}, #", $v, ", mul vl]\n")
    };
}

// What is done to one vector: number $v of a turn, at [{pa}] to [{pc}] + $v vectors, under predicate $p.
macro_rules! vector {
    ([Sum b], $v:literal, $p:literal) => {
        concat!(load!("" $v, $p, "pb"), "add z2", $v, ".d, z2", $v, ".d, z", $v, ".d\n")
    };
    ([Load b -> Store x], $v:literal, $p:literal) => {
        concat!(load!("" $v, $p, "pb"), store!($v, $p))
    };
    ([Axpy b c -> Store x], $v:literal, $p:literal) => {
        concat!(
            load!("" $v, $p, "pb"),
            load!("2" $v, $p, "pc"),
            "fmla z", $v, ".d, p1/m, z2", $v, ".d, z17.d\n",
            store!($v, $p)
        )
    };
}

macro_rules! advance {
    ($by:literal) => {
        concat!("addvl {pa}, {pa}, #", $by, "\naddvl {pb}, {pb}, #", $by, "\naddvl {pc}, {pc}, #", $by, "\n")
    };
}

macro_rules! block_loop {
    ($primitive:ident, $name:ident, $what:tt) => {
        /// A loop over blocks for one primitive.
        ///
        /// # Safety
        /// As [`Loop`] says.
        unsafe fn $name(job: &mut Job) {
            let mut sum = 0_u64;
            // SAFETY: the loop touches the blocks that the caller vouches for, `offsets`, the constants
            // and `sum`; every register that it changes is declared.
            unsafe {
                asm!(
                    ".arch_extension sve",
                    "ptrue p1.d",
                    "ld1rd {{z17.d}}, p1/z, [{k}]",
                    "mov z20.d, #0",
                    "mov z21.d, #0",
                    "mov z22.d, #0",
                    "mov z23.d, #0",
                    "2:",
                    "ldr {at}, [{offsets}], #8",
                    "add {pa}, {a}, {at}",
                    "add {pb}, {b}, {at}",
                    "add {pc}, {c}, {at}",
                    "mov {at}, #0",
                    "3:",
                    "incd {at}, all, mul #4",
                    "cmp {at}, {elements}",
                    "b.hi 4f",
                    vector!($what, "0", "p1"),
                    vector!($what, "1", "p1"),
                    vector!($what, "2", "p1"),
                    vector!($what, "3", "p1"),
                    advance!("4"),
                    "b 3b",
                    "4:",
                    "decd {at}, all, mul #4",
                    "5:",
                    "whilelo p0.d, {at}, {elements}",
                    "b.none 6f",
                    vector!($what, "0", "p0"),
                    advance!("1"),
                    "incd {at}",
                    "b 5b",
                    "6:",
                    "subs {count}, {count}, #1",
                    "b.ne 2b",
                    "add z20.d, z20.d, z21.d",
                    "add z22.d, z22.d, z23.d",
                    "add z20.d, z20.d, z22.d",
                    "uaddv d20, p1, z20.d",
                    "str d20, [{sum}]",
                    a = in(reg) job.a,
                    b = in(reg) job.b,
                    c = in(reg) job.c,
                    offsets = inout(reg) job.offsets => _,
                    count = inout(reg) job.count => _,
                    elements = in(reg) job.bytes / 8,
                    k = in(reg) CONSTANTS.as_ptr(),
                    sum = in(reg) &raw mut sum,
                    pa = out(reg) _,
                    pb = out(reg) _,
                    pc = out(reg) _,
                    at = out(reg) _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v17") _,
                    out("v20") _, out("v21") _, out("v22") _, out("v23") _,
                    out("p0") _, out("p1") _,
                    options(nostack),
                );
            }
            if !Primitive::$primitive.touches_a() {
                job.sum = job.sum.wrapping_add(sum);
            }
        }
    };
}

// The loop of a row, where its line is one of those above.
macro_rules! loop_of_row {
    ($primitive:ident, $name:ident, [Sum b]) => { loop_of_row!(@ $primitive, $name, [Sum b]) };
    ($primitive:ident, $name:ident, [Load b -> Store x]) => { loop_of_row!(@ $primitive, $name, [Load b -> Store x]) };
    ($primitive:ident, $name:ident, [Axpy b c -> Store x]) => {
        loop_of_row!(@ $primitive, $name, [Axpy b c -> Store x])
    };
    (@ $primitive:ident, $name:ident, $line:tt) => {{
        block_loop!($primitive, $name, $line);
        Some($name)
    }};
    ($primitive:ident, $name:ident, $other:tt) => { None };
}

macro_rules! loops {
    ({} { $($(#[$about:meta])* $name:ident $loop:ident $line:tt;)* } $mixes:tt) => {
        /// The loop for `primitive`, where it has one.
        #[must_use]
        pub fn find_loop(primitive: Primitive) -> Option<Loop> {
            match primitive {
                $(Primitive::$name => loop_of_row!($name, $loop, $line),)*
                _ => None,
            }
        }
    };
}
memory_operations!(loops);
