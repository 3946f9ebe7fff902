//! Tests of the order of accesses.

#![allow(clippy::cast_precision_loss, reason = "counts of a test are small")]

use super::super::distribution::tests::chi_square_is_likely;
use super::*;

#[test]
fn lengths_come_as_often_as_asked_and_stay_inside() {
    let split = lengths("4k/25:16k/25:64k").unwrap();
    for traversal in [Traversal::Random, Traversal::Up { step: 0 }, Traversal::Down { step: 0 }] {
        let pattern = AccessPattern { lengths: [split.clone(), split.clone()], traversal, ..AccessPattern::default() };
        let mut order = PatternOrder::new(8192, 1 << 20, 65536, &pattern, 7);
        let mut counts = [0_u64; 3];
        for _ in 0..200_000 {
            let (offset, length) = order.next_access(true);
            assert!(offset >= 8192 && offset + length <= 8192 + (1 << 20) && offset % 4096 == 0, "{offset} {length}");
            counts[[4096, 16384, 65536].iter().position(|&l| l == length).unwrap()] += 1;
        }
        chi_square_is_likely(&counts, &[0.25, 0.25, 0.5]);
    }
}

#[test]
fn backward_and_stride_visit_what_they_should() {
    let plan = |traversal, accesses| {
        let mut order = PatternOrder::new(0, 8 * 512, 512, &AccessPattern { traversal, ..AccessPattern::default() }, 1);
        (0..accesses).map(|_| order.next_access(false).0 / 512).collect::<Vec<_>>()
    };
    assert_eq!(plan(Traversal::Down { step: 0 }, 9), [7, 6, 5, 4, 3, 2, 1, 0, 7]);
    assert_eq!(plan(Traversal::Up { step: 3 * 512 }, 8), [0, 3, 6, 1, 4, 7, 2, 5]);
    assert_eq!(plan(Traversal::Down { step: 4 * 512 }, 4), [7, 3, 6, 2]);
}

#[test]
fn what_cannot_be_is_refused_with_what_would_do() {
    for text in ["zipf:x", "zipf:-1", "pareto:1", "zoned:50/50", "zoned:50/0:50/100", "zoned:1", "cauchy:1"] {
        assert!(Distribution::parse(text).unwrap_err().starts_with("random_distribution"), "{text}");
    }
    for text in ["4k/50", "4q/100", "4k/120", "0/100", "/", "4k/60:8k/60"] {
        assert!(lengths(text).unwrap_err().starts_with("bssplit"), "{text}");
    }
    assert!(lengths("").unwrap().is_empty());
}

fn blocks(pattern: &AccessPattern, ways: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut order = PatternOrder::new(0, 8 * 512, 512, pattern, 1);
    ways.map(|write| order.next_access(write).0 / 512).collect()
}

#[test]
fn reads_and_writes_apart_each_go_on_where_they_were() {
    let pattern = AccessPattern { traversal: Traversal::Up { step: 0 }, apart: true, ..AccessPattern::default() };
    let ways = [false, false, true, false, true, true];
    assert_eq!(blocks(&pattern, ways.into_iter()), [0, 1, 0, 2, 1, 2]);
}

#[test]
fn gaps_lie_where_fio_leaves_them() {
    // Blocks of the first visits of `fio --rw=read:8k` and `read:-8k`, of 4 KiB in 64 KiB, by its iolog.
    let accesses = |by| {
        let pattern = AccessPattern { traversal: Traversal::Gap { by }, ..AccessPattern::default() };
        let mut order = PatternOrder::new(0, 16 * 4096, 4096, &pattern, 1);
        (0..8).map(|_| (order.is_over(), order.next_access(false).0 / 4096)).collect::<Vec<_>>()
    };
    let blocks = |by| accesses(by).into_iter().map(|(_, at)| at).collect::<Vec<_>>();
    assert_eq!(blocks(8192), [0, 3, 6, 9, 12, 15, 0, 3]);
    assert_eq!(blocks(-8192), [0, 14, 13, 12, 11, 10, 9, 8]);
    assert_eq!(accesses(8192).iter().position(|(over, _)| *over), Some(6));
}

#[test]
fn every_block_once_unless_repeats_are_asked_for() {
    let sorted = |pattern: &AccessPattern| {
        let mut seen = blocks(pattern, [false; 8].into_iter());
        seen.sort_unstable();
        seen
    };
    assert_eq!(sorted(&AccessPattern::default()), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_ne!(sorted(&AccessPattern { revisits: true, ..AccessPattern::default() }), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_zone_is_left_when_enough_was_moved() {
    let zone = Some(Zone { size: 1024, range: 1024, skip: 512 });
    let pattern = AccessPattern { traversal: Traversal::Up { step: 0 }, zone, ..AccessPattern::default() };
    assert_eq!(blocks(&pattern, [false; 8].into_iter()), [0, 1, 3, 4, 6, 7, 0, 1]);
    // Twice as much as a zone holds: it is passed twice.
    let twice = AccessPattern { zone: Some(Zone { size: 2048, range: 1024, skip: 0 }), ..pattern };
    assert_eq!(blocks(&twice, [false; 6].into_iter()), [0, 1, 0, 1, 2, 3]);
    let random = AccessPattern { traversal: Traversal::Random, ..twice };
    let seen = blocks(&random, [false; 8].into_iter());
    assert!(seen[..4].iter().all(|&at| at < 2) && seen[4..].iter().all(|&at| (2..4).contains(&at)), "{seen:?}");
}

#[test]
fn a_share_of_a_random_order_goes_on_in_sequence() {
    let pattern = AccessPattern { sequential_percent: [70, 0], ..AccessPattern::default() };
    let mut order = PatternOrder::new(0, 1 << 40, 512, &pattern, 9);
    let seen: Vec<u64> = (0..10_000).map(|_| order.next_access(false).0).collect();
    let on = seen.windows(2).filter(|pair| pair[1] == pair[0] + 512).count();
    assert!(on.abs_diff(7000) < 250, "{on}");
    let every_fourth = AccessPattern { run: 4, ..AccessPattern::default() };
    let mut order = PatternOrder::new(0, 1 << 40, 512, &every_fourth, 9);
    let seen: Vec<u64> = (0..4000).map(|_| order.next_access(false).0).collect();
    assert_eq!(seen.windows(2).filter(|pair| pair[1] == pair[0] + 512).count(), 3000);
    let same = AccessPattern { identical: true, ..every_fourth };
    let mut order = PatternOrder::new(0, 1 << 40, 512, &same, 9);
    let seen: Vec<u64> = (0..4000).map(|_| order.next_access(false).0).collect();
    assert_eq!(seen.windows(2).filter(|pair| pair[1] == pair[0]).count(), 3000);
}

#[test]
fn random_visits_begin_at_multiples_and_lengths_may_be_any() {
    let pattern = AccessPattern {
        align: [4096, 4096],
        lengths: [lengths("512/50:3k/50").unwrap(), Vec::new()],
        ..AccessPattern::default()
    };
    let mut order = PatternOrder::new(0, 1 << 20, 3072, &pattern, 9);
    assert!((0..1000).all(|_| order.next_access(false).0 % 4096 == 0));
    let odd = AccessPattern {
        unaligned: true,
        revisits: true,
        lengths: [lengths("1k/50:3k/50").unwrap(), Vec::new()],
        ..AccessPattern::default()
    };
    let mut order = PatternOrder::new(0, 1 << 20, 3072, &odd, 9);
    let seen: Vec<u64> = (0..1000).map(|_| order.next_access(false).1).collect();
    assert!(seen.iter().all(|length| (1024..=3072).contains(length)) && seen.iter().any(|length| length % 512 != 0));
}
