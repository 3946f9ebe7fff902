//! Whether paced traffic moves what the law of its pauses says.

use crate::loops::memory::primitive::Primitive;
use crate::sys::clock_chain::hertz;

use super::operation::Isa;
use super::traffic::Traffic;
use super::work::Work;
use crate::sys::pages::Pages;
use crate::timing::clock::now_ns;

/// Cycles for 128 bytes that were counted, in the fastest of some batches: what disturbs one makes it slower.
fn cycles(primitive: Primitive, random: bool, block: u64, delay: u64) -> f64 {
    let bytes = (16 << 10) * primitive.arrays() as u64;
    let slow = Work {
        primitive,
        isa: None,
        random,
        working_set: bytes,
        stride: block,
        block,
        delay: Some(delay),
        pages: Pages::Base,
        node: None,
    };
    let mut traffic = Traffic::new(slow, Isa::Scalar, 3).unwrap();
    traffic.batch();
    let mut least = f64::INFINITY;
    for _ in 0..400 {
        let (begun, before) = (now_ns(), traffic.moved());
        traffic.batch();
        let (took, moved) = ((now_ns() - begun) as f64, traffic.moved().since(before));
        least = least.min(took / ((moved.read + moved.written) as f64 / 128.0));
    }
    let clock = hertz().unwrap_or(0) as f64 / 1e9;
    least * clock
}

#[test]
#[cfg(target_arch = "x86_64")]
#[ignore = "it compares two times, so it is run by hand: cargo test -p hwdyno-engine --release -- --ignored law"]
fn two_lines_take_the_pause_and_fifteen_cycles_as_the_law_has_it() {
    for primitive in [Primitive::Read, Primitive::NtWrite, Primitive::Mix21, Primitive::Update, Primitive::Triad] {
        for (random, block) in [(true, 64), (false, 64), (true, 256)] {
            for delay in [0, 2, 8, 15, 50, 100, 200, 500, 1000, 5000] {
                let (found, law) = (cycles(primitive, random, block, delay), (delay + 15) as f64);
                println!("{primitive:?} {random} {block} delay {delay}: {found:.1} of {law}: {:.3}", found / law);
                assert!(delay < 50 || (found / law - 1.0).abs() < 0.05, "{primitive:?} {random} {block} {delay}");
            }
        }
    }
}
