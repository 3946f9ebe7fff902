//! Tests of the loop of operations.

use super::*;
use crate::storage::data::content::Content;
use crate::storage::io::null::Null;
use crate::storage::order::blocks::Span;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// The null engine with a fault planted: from the `first`-th transfer on, `count` of them end in `result`.
struct Faulty {
    inner: Null,
    first: u64,
    count: u64,
    result: i64,
    seen: u64,
    lengths: Vec<(u64, usize)>,
}

impl Faulty {
    fn new(first: u64, count: u64, result: i64) -> Self {
        Self { inner: Null::new(64), first, count, result, seen: 0, lengths: Vec::new() }
    }
}

impl Access for Faulty {
    const SYNCHRONOUS: bool = false;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.lengths.push((transfer.offset, transfer.length));
        self.inner.prepare(slot, transfer);
    }
    fn submit(&mut self) -> io::Result<()> {
        self.inner.submit()
    }
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.inner.wait(at_least)
    }
    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        let (first, count, result, seen) = (self.first, self.count, self.result, &mut self.seen);
        self.inner.completions(|slot, moved| {
            *seen += 1;
            done(slot, if (first..first + count).contains(seen) { result } else { moved });
        });
    }
}

fn one_pass(access: &mut impl Access, blocks: u64, block: u64, depth: usize) -> (Metrics, Ending) {
    let pool = BufferPool::new(depth, block as usize, false, 1, true, &Content::default(), 1).unwrap();
    let mut order = Order::new(Span { offset: 0, blocks, block }, true, 100, false, 1);
    let mut metrics = Metrics::new(1_000_000);
    let schedule =
        Schedule { clock: Clock::best(), count_from_ns: 0, runtime_ns: None, reap_at_least: 1, sync_at_end: false };
    let controls = &mut Controls::default();
    let ending =
        drive::<_, false>(access, &mut order, controls, &pool, &schedule, &Stop::new(), &mut metrics, |_, _, _| ());
    (metrics, ending)
}

/// The null engine that ends one transfer at a time, the oldest, so that all others stay in flight.
struct OneByOne(VecDeque<(usize, usize)>);

impl Access for OneByOne {
    const SYNCHRONOUS: bool = false;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.0.push_back((slot, transfer.length));
    }
    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn wait(&mut self, _at_least: usize) -> io::Result<()> {
        Ok(())
    }
    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        if let Some((slot, length)) = self.0.pop_front() {
            done(slot, length as i64);
        }
    }
}

#[test]
fn counters_read_as_the_window_opens_are_in_no_latency_and_in_no_depth() {
    const DEPTH: usize = 64;
    let pool = BufferPool::new(DEPTH, 512, false, 1, true, &Content::default(), 1).unwrap();
    let mut order = Order::new(Span { offset: 0, blocks: 1 << 20, block: 512 }, true, 100, true, 1);
    let mut metrics = Metrics::new(1_000_000);
    let clock = Clock::best();
    let schedule = Schedule {
        clock,
        count_from_ns: clock.now() + 5_000_000,
        runtime_ns: Some(20_000_000),
        reap_at_least: 1,
        sync_at_end: false,
    };
    let slow = Duration::from_millis(400);
    let mut straddling = 0;
    let edge = |_: &OneByOne, begins: bool, in_flight| {
        if begins {
            straddling = in_flight;
            std::thread::sleep(slow);
        }
    };
    let (access, controls) = (&mut OneByOne(VecDeque::new()), &mut Controls::default());
    drive::<_, false>(access, &mut order, controls, &pool, &schedule, &Stop::new(), &mut metrics, edge);
    assert_eq!(straddling, (DEPTH as u64 - 1) * 512);
    assert!(metrics.directions[0].total.quantile(1.0) < slow.as_nanos() as u64);
    let in_flight = metrics.in_flight_ns() as f64 / (metrics.ended_ns - metrics.began_ns) as f64;
    // One is over between being taken as complete and being issued again.
    assert!((DEPTH as f64 - 1.5..=DEPTH as f64).contains(&in_flight), "{in_flight}");
}

#[test]
fn what_is_done_before_the_ramp_is_over_is_counted() {
    let pool = BufferPool::new(4, 512, false, 1, true, &Content::default(), 1).unwrap();
    let mut order = Order::new(Span { offset: 0, blocks: 100, block: 512 }, true, 100, false, 1);
    let mut metrics = Metrics::new(1_000_000);
    let clock = Clock::best();
    let count_from_ns = clock.now() + 60_000_000_000;
    let schedule = Schedule { clock, count_from_ns, runtime_ns: None, reap_at_least: 1, sync_at_end: false };
    let (mut begins, controls, stop) = (0, &mut Controls::default(), &Stop::new());
    let edge = |_: &OneByOne, is_begin, _| begins += u32::from(is_begin);
    let access = &mut OneByOne(VecDeque::new());
    let ending = drive::<_, false>(access, &mut order, controls, &pool, &schedule, stop, &mut metrics, edge);
    assert_eq!((ending, metrics.directions[0].total.count(), begins), (Ending::Ramp, 100, 1));
    assert!(metrics.ended_ns > metrics.began_ns);
}

#[test]
fn whichever_operation_fails_it_is_counted_and_the_rest_goes_on() {
    for nth in 1..=40 {
        let (metrics, ending) = one_pass(&mut Faulty::new(nth, 1, -5), 40, 4096, 8);
        assert_eq!(ending, Ending::Pass);
        assert_eq!(metrics.directions[0].total.count(), 39, "the {nth}th failed");
        assert_eq!((metrics.faults[0].errno, metrics.faults[0].count), (5, 1));
    }
}

#[test]
fn a_short_transfer_is_finished_and_told() {
    for nth in 1..=20 {
        let mut access = Faulty::new(nth, 1, 512);
        let (metrics, ending) = one_pass(&mut access, 20, 4096, 4);
        assert_eq!((ending, metrics.directions[0].total.count()), (Ending::Pass, 20));
        assert_eq!((metrics.faults[0].errno, metrics.faults[0].count), (0, 1));
        assert_eq!(access.lengths.iter().filter(|(_, length)| *length == 4096 - 512).count(), 1);
    }
}

#[test]
fn the_end_of_the_file_is_a_fault_and_no_endless_loop() {
    let (metrics, ending) = one_pass(&mut Faulty::new(1, u64::MAX - 1, 0), 100, 4096, 4);
    assert_eq!((ending, metrics.directions[0].total.count(), metrics.faults[0].count), (Ending::Pass, 0, 100));
}

#[test]
fn a_file_that_only_fails_ends_the_run_early() {
    let (metrics, ending) = one_pass(&mut Faulty::new(500, u64::MAX - 500, -5), 1 << 40, 512, 16);
    assert_eq!((ending, metrics.directions[0].total.count()), (Ending::Faults, 499));
    assert!(metrics.faults[0].count < u64::from(FAULTS_IN_A_ROW) + 16);
}

#[test]
fn a_block_beyond_one_system_call_goes_in_pieces_that_stay_aligned() {
    for block in [4096, LARGEST_CALL, LARGEST_CALL + 4096, 5 << 30] {
        let (mut slot, mut metrics) = (Slot::default(), Metrics::new(1));
        let piece = largest_piece(block);
        slot.transfer = Transfer { length: piece as usize, ..Transfer::default() };
        slot.rest = block - piece;
        let mut moved = piece;
        while {
            let all = slot.transfer.length as i64;
            go_on(&mut slot, all, &mut metrics)
        } {
            assert_eq!((slot.transfer.offset, slot.transfer.at as u64), (moved, moved));
            assert!(slot.transfer.offset % 4096 == 0 && slot.transfer.length as u64 <= LARGEST_CALL);
            moved += slot.transfer.length as u64;
        }
        assert_eq!((moved, metrics.faults.len()), (block, 0));
    }
}
