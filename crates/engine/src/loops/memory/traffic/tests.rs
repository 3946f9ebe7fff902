//! Tests of the traffic of threads.

use super::*;
use crate::loops::memory::loops;
use crate::loops::memory::operation::{Isa, Way};
use crate::sys::pages::Pages;

fn work(primitive: Primitive, random: bool, stride: u64, block: u64, working_set: u64) -> Work {
    Work { primitive, isa: None, random, working_set, stride, block, delay: None, pages: Pages::Base, node: None }
}

fn sets() -> Vec<Isa> {
    let mut sets = loops::wide();
    sets.push(Isa::Scalar);
    sets
}

/// (random, stride, block, working set): dense, within a piece and over several; gaps; blocks
/// shorter than a line, of lines, longer than a mix's pattern; counts that are no power of two.
const SHAPES: [(bool, u64, u64, u64); 9] = [
    (false, 64, 64, 20 << 10),
    (false, 8, 8, 5 << 20),
    (false, 256, 64, 300_000),
    (false, 32, 32, 64 << 10),
    (true, 64, 64, 100_000),
    (true, 8, 8, 50_000),
    (true, 256, 256, 200_000),
    (true, 512, 64, 200_000),
    (true, 6400, 6400, 500_000),
];

#[test]
fn every_loop_leaves_what_it_must_in_every_shape() {
    for &primitive in Primitive::ALL {
        for isa in sets() {
            if find_loop(primitive, isa.into(), 64).is_none() {
                continue;
            }
            for (random, stride, block, bytes) in SHAPES {
                let mut traffic = Traffic::new(work(primitive, random, stride, block, bytes), isa, 3).unwrap();
                for batches in [1, 2, 3] {
                    (0..batches).for_each(|_| traffic.calls(1));
                    let verdict = traffic.verify();
                    assert!(verdict.checked > 1);
                    assert_eq!(verdict.wrong, 0, "{primitive:?} {isa:?} {random} {stride} {block} {bytes}");
                }
            }
        }
    }
}

#[test]
fn every_way_through_a_block_leaves_the_same() {
    let mut taken = 0;
    for &primitive in Primitive::ALL {
        for isa in loops::wide() {
            for (way, bytes) in [(Way::Ahead, 300_000), (Way::Pages, 5 << 20), (Way::Ahead, 5 << 20)] {
                let mut traffic = Traffic::new(work(primitive, false, 64, 64, bytes), isa, 3).unwrap();
                if traffic.take(Choice { isa, way }) {
                    taken += 1;
                    for batches in [1, 2, 5] {
                        (0..batches).for_each(|_| traffic.calls(1));
                        assert_eq!(traffic.verify().wrong, 0, "{primitive:?} {isa:?} {way:?}");
                    }
                }
            }
        }
    }
    assert!(taken > 0 || cfg!(not(target_arch = "x86_64")));
}

#[test]
fn a_corrupted_word_is_found() {
    for &primitive in Primitive::ALL {
        let mut traffic = Traffic::new(work(primitive, true, 64, 64, 100_000), sets()[0], 3).unwrap();
        traffic.batch();
        // SAFETY: the third word of the first array.
        unsafe { *traffic.job.a.cast::<u64>().add(2) ^= 1 << 40 };
        assert!(traffic.verify().wrong > 0, "{primitive:?}");
    }
}

#[test]
fn a_read_that_was_left_out_is_found() {
    for primitive in [Primitive::Read, Primitive::NtMix21, Primitive::Mix31] {
        let mut traffic = Traffic::new(work(primitive, false, 64, 64, 100_000), sets()[0], 3).unwrap();
        traffic.batch();
        traffic.job.sum = traffic.job.sum.wrapping_sub(source(0, 5).to_bits());
        assert_eq!(traffic.verify().wrong, 1, "{primitive:?}");
    }
}

#[test]
fn bytes_are_counted_as_stream_counts_and_as_the_hardware_moves() {
    // Ten calls over one piece of 4 KiB an array.
    let count = |primitive: Primitive, random, stride, block| {
        let bytes = 4096 * primitive.arrays() as u64;
        let mut traffic = Traffic::new(work(primitive, random, stride, block, bytes), Isa::Scalar, 3).unwrap();
        while traffic.visits() < 4096 / stride {
            traffic.calls(1);
        }
        let (moved, passes) = (traffic.moved(), traffic.visits() as f64 / (4096 / stride) as f64);
        [moved.read, moved.written, moved.line, moved.flops].map(|value| (value as f64 / passes).round() as u64)
    };
    assert_eq!(count(Primitive::Read, false, 64, 64), [4096, 0, 4096, 0]);
    assert_eq!(count(Primitive::Copy, false, 64, 64), [4096, 4096, 12288, 0]);
    assert_eq!(count(Primitive::Triad, false, 64, 64), [8192, 4096, 16384, 1024]);
    assert_eq!(count(Primitive::NtTriad, false, 64, 64), [8192, 4096, 12288, 1024]);
    assert_eq!(count(Primitive::Update, false, 64, 64), [4096, 4096, 8192, 0]);
    assert_eq!(count(Primitive::Mix21, true, 64, 64), [4096, 2048, 6144, 0]);
    assert_eq!(count(Primitive::Mix41, true, 64, 64), [4096, 1024, 5120, 0]);
    assert_eq!(count(Primitive::NtMix21, false, 64, 64), [8192, 4096, 12288, 0]);
    assert_eq!(count(Primitive::Read, true, 8, 8), [4096, 0, 32768, 0]);
    assert_eq!(count(Primitive::Read, false, 256, 64), [1024, 0, 1024, 0]);
}

#[test]
fn pauses_change_no_result() {
    for &primitive in Primitive::ALL {
        for (random, stride, block, bytes) in SHAPES {
            for delay in [0, 50, 3000] {
                let mut slow = work(primitive, random, stride, block, bytes);
                slow.delay = Some(delay);
                let mut traffic = Traffic::new(slow, Isa::Scalar, 3).unwrap();
                traffic.batch();
                traffic.finish();
                let verdict = traffic.verify();
                assert!(verdict.checked > 1 && traffic.visits() > 0);
                assert_eq!(verdict.wrong, 0, "{primitive:?} {random} {stride} {block} {bytes} {delay}");
            }
        }
    }
}
