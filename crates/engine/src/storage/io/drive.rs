//! The measuring loop: keeps a number of operations in flight, times them by the batch, records all.
//!
//! An operation has two phases: until the call that submitted it returned (*submit*), and until it was reaped as
//! complete (*complete*). It begins when its slot came free, so that at a fixed depth
//! the latencies of all operations fill the elapsed time without a gap (Little's law holds by construction,
//! unless the requested depth was not reached). The clock is read twice a batch, once for a
//! synchronous engine.

use super::access::{Access, Transfer};
use super::controls::{Controls, LoopAction};
use crate::contract::kernel::Stop;
use crate::storage::data::buffers::BufferPool;
use crate::storage::order::blocks::Order;
use crate::storage::results::metrics::Metrics;
use crate::sys::files::LARGEST_CALL;
use crate::timing::clock::Clock;

/// Consecutive faults after which going on measures nothing.
const FAULTS_IN_A_ROW: u32 = 1000;

/// When a job begins and ends.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// The clock that the other two are read on.
    pub clock: Clock,
    /// Operations complete before this moment are not counted.
    pub count_from_ns: u64,
    /// The timed region ends with the first batch complete this long after it began; none for no limit.
    pub runtime_ns: Option<u64>,
    /// Waits for this many completions at a time.
    pub reap_at_least: usize,
    /// The timed region includes making durable what was written.
    pub sync_at_end: bool,
}

/// Why a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The time was over.
    Time,
    /// Every block was visited.
    Pass,
    /// Every block was visited before anything was to be counted; all of it was.
    Ramp,
    /// A stop was requested.
    Stopped,
    /// Too many faults in a row.
    Faults,
}

/// One operation's place.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    issued_ns: u64,
    submitted_ns: u64,
    /// The piece of it that is in flight.
    transfer: Transfer,
    /// Bytes left after that piece.
    rest: u64,
    turn: u32,
    /// Length of the whole operation, B.
    length: u64,
}

/// Operations that began and ended together.
#[derive(Default)]
struct CompletionGroup {
    write: bool,
    issued_ns: u64,
    submitted_ns: u64,
    operations: u32,
    bytes: u64,
}

/// Runs operations of `order` through `access`, as many at once as `pool` has slots, and records them
/// in `metrics`. `edge` is called when the timed region begins (`true`) and when it ends
/// (`false`), with the bytes that are in flight as it begins. `controls` are looked at only where `CONTROLLED` is set, so that a plain run does not pay for them.
// long because one loop shares all its state, and each call in it would cost every operation cycles
#[allow(clippy::too_many_lines, clippy::too_many_arguments, reason = "one loop whose parts share all their state")]
pub fn drive<A: Access, const CONTROLLED: bool>(
    access: &mut A,
    order: &mut Order,
    controls: &mut Controls,
    pool: &BufferPool,
    schedule: &Schedule,
    stop: &Stop,
    metrics: &mut Metrics,
    mut edge: impl FnMut(&A, bool, u64),
) -> Ending {
    let clock = schedule.clock;
    let depth = pool.slots();
    let block = pool.block() as u64;
    let piece = block.min(largest_piece(block));
    let mut slots = vec![Slot::default(); depth];
    let mut free: Vec<u32> = (0..depth as u32).rev().collect();
    let mut batch: Vec<u32> = Vec::with_capacity(depth);
    let mut again: Vec<u32> = Vec::with_capacity(depth);
    let mut in_flight = 0_usize;
    let mut faults_in_a_row = 0_u32;
    let mut serial = order.seed() | 1;

    let mut now = clock.now();
    if CONTROLLED {
        controls.restart(now);
    }
    let mut counting = now >= schedule.count_from_ns;
    // In the ramp, too: where all is done before it is over, that is what is measured.
    edge(access, true, 0);
    now = clock.now();
    if CONTROLLED {
        controls.restart(now);
    }
    metrics.begin(now);
    let end = |now: u64| schedule.runtime_ns.map_or(u64::MAX, |runtime| now.saturating_add(runtime));
    let mut next_event = if counting { end(now) } else { schedule.count_from_ns };
    let ending = loop {
        let mut writing = false;
        for slot in again.drain(..) {
            access.prepare(slot as usize, &slots[slot as usize].transfer);
            in_flight += 1;
        }
        while let Some(&number) = free.last() {
            let (offset, write, length, begins) = if CONTROLLED {
                let Some(next) = controls.next_operation(order, block, now) else { break };
                next
            } else {
                let Some((offset, write)) = order.next_operation() else { break };
                (offset, write, block, now)
            };
            let piece = if CONTROLLED { length.min(piece) } else { piece };
            free.pop();
            let slot = &mut slots[number as usize];
            let at = pool.place(number as usize, slot.turn);
            slot.turn = slot.turn.wrapping_add(1);
            if write && !(CONTROLLED && controls.duplicates(pool, at, length as usize)) {
                serial = serial.wrapping_add(0x9E37_79B9_7F4A_7C15);
                pool.stamp(at, length as usize, offset, serial);
            }
            if CONTROLLED {
                controls.begin(pool, at, offset, write);
            }
            slot.issued_ns = begins;
            slot.length = length;
            slot.rest = length - piece;
            slot.transfer = Transfer { write, offset, at, length: piece as usize };
            access.prepare(number as usize, &slot.transfer);
            batch.push(number);
            writing = write;
            in_flight += 1;
        }
        if in_flight == 0 && !(CONTROLLED && controls.has_more(order)) {
            break Ending::Pass;
        }
        if CONTROLLED && in_flight == 0 {
            controls.settle(access, clock, next_event, metrics);
            now = clock.now().max(now);
        }
        if let Err(error) = access.submit() {
            metrics.fault(writing, error.raw_os_error().unwrap_or(libc::EIO));
            break Ending::Faults;
        }
        let submitted = if A::SYNCHRONOUS { now } else { clock.now() };
        for number in batch.drain(..) {
            slots[number as usize].submitted_ns = submitted;
        }
        // At a rate, waiting for completions must not make the next beginning late.
        let at_least =
            if CONTROLLED && controls.is_paced() { usize::from(free.is_empty()) } else { schedule.reap_at_least };
        if let Err(error) = access.wait(at_least.min(in_flight)) {
            metrics.fault(writing, error.raw_os_error().unwrap_or(libc::EIO));
            break Ending::Faults;
        }
        now = clock.now().max(now);
        let mut group = CompletionGroup::default();
        access.completions(|number, moved| {
            in_flight -= 1;
            let slot = &mut slots[number];
            if moved == slot.transfer.length as i64 && slot.rest == 0 {
                faults_in_a_row = 0;
                free.push(number as u32);
                if CONTROLLED {
                    let begin = slot.length - slot.transfer.length as u64;
                    let at = slot.transfer.at - begin as usize;
                    controls.end(pool, at, slot.transfer.offset - begin, slot.transfer.write, true);
                }
                if slot.issued_ns != group.issued_ns || slot.transfer.write != group.write {
                    record_group::<A, CONTROLLED>(metrics, controls, &group, now);
                    group = CompletionGroup {
                        write: slot.transfer.write,
                        issued_ns: slot.issued_ns,
                        submitted_ns: slot.submitted_ns,
                        operations: 0,
                        bytes: 0,
                    };
                }
                group.operations += 1;
                if CONTROLLED {
                    group.bytes += slot.length;
                }
            } else if go_on(slot, moved, metrics) {
                again.push(number as u32);
            } else {
                faults_in_a_row += 1;
                free.push(number as u32);
                if CONTROLLED {
                    let begin = slot.length - slot.rest - slot.transfer.length as u64;
                    controls.end(pool, slot.transfer.at, slot.transfer.offset - begin, slot.transfer.write, false);
                }
            }
        });
        record_group::<A, CONTROLLED>(metrics, controls, &group, now);
        metrics.tick(now);
        if now >= next_event {
            if counting {
                break Ending::Time;
            }
            counting = true;
            order.restart();
            edge(access, true, in_flight as u64 * block);
            now = resume(&mut slots, clock, now);
            next_event = end(now);
            if CONTROLLED {
                controls.restart(now);
            }
            metrics.begin(now);
            metrics.carries_in(time_in_flight(&slots, &free, now));
        }
        if CONTROLLED && counting {
            match controls.next_action(now, metrics, block) {
                LoopAction::GoOn => {}
                LoopAction::End => break Ending::Time,
                LoopAction::Fault(errno) => {
                    metrics.fault(false, errno);
                    break Ending::Time;
                }
                LoopAction::Restart => {
                    edge(access, true, in_flight as u64 * block);
                    now = resume(&mut slots, clock, now);
                    metrics.begin(now);
                    metrics.carries_in(time_in_flight(&slots, &free, now));
                }
            }
        }
        if stop.is_set() {
            break Ending::Stopped;
        }
        if faults_in_a_row >= FAULTS_IN_A_ROW {
            break Ending::Faults;
        }
    };
    let ending = if counting || ending != Ending::Pass { ending } else { Ending::Ramp };
    if !counting && ending != Ending::Ramp {
        edge(access, true, in_flight as u64 * block);
        metrics.begin(now);
        metrics.carries_in(time_in_flight(&slots, &free, now));
    }
    metrics.carries_out(time_in_flight(&slots, &free, now));
    // What is in flight owns its buffer: wait for it before the buffer is freed.
    let mut drain = |access: &mut A| {
        while in_flight > 0 && access.wait(1).is_ok() {
            access.completions(|number, moved| {
                in_flight -= 1;
                if CONTROLLED {
                    let slot = &slots[number];
                    let begin = slot.length - slot.rest - slot.transfer.length as u64;
                    let whole = slot.rest == 0 && moved == slot.transfer.length as i64;
                    let at = slot.transfer.at - begin as usize;
                    controls.end(pool, at, slot.transfer.offset - begin, slot.transfer.write, whole);
                }
            });
        }
    };
    if schedule.sync_at_end {
        drain(access);
        match access.sync() {
            Ok(()) if CONTROLLED => controls.on_synced(),
            Ok(()) => {}
            Err(error) => metrics.fault(true, error.raw_os_error().unwrap_or(libc::EIO)),
        }
        metrics.end(clock.now().max(now));
        edge(access, false, 0);
    } else {
        if let Err(error) = access.finish() {
            metrics.fault(true, error.raw_os_error().unwrap_or(libc::EIO));
        }
        metrics.end(now);
        edge(access, false, 0);
        drain(access);
    }
    ending
}

/// What began before `before` goes on from now on: no one looked for completions since, so that time is no latency.
/// Returns the present.
#[cold]
fn resume(slots: &mut [Slot], clock: Clock, before: u64) -> u64 {
    let now = clock.now().max(before);
    for slot in slots {
        slot.issued_ns += now - before;
        slot.submitted_ns += now - before;
    }
    now
}

/// How long the operations that are in flight have been so, all added up, ns.
#[cold]
fn time_in_flight(slots: &[Slot], free: &[u32], now: u64) -> u64 {
    let since = |slot: &Slot| now.saturating_sub(slot.issued_ns);
    let all: u64 = slots.iter().map(since).sum();
    all - free.iter().map(|&number| since(&slots[number as usize])).sum::<u64>()
}

#[inline]
fn record_group<A: Access, const CONTROLLED: bool>(
    metrics: &mut Metrics,
    controls: &mut Controls,
    group: &CompletionGroup,
    now: u64,
) {
    if group.operations == 0 {
        return;
    }
    if CONTROLLED {
        metrics.moved(group.write, group.bytes);
        controls.on_completed(now.saturating_sub(group.issued_ns), group.operations, now);
    }
    let complete = now.saturating_sub(group.submitted_ns);
    metrics.completed(group.write, complete, now.saturating_sub(group.issued_ns), group.operations);
    if !A::SYNCHRONOUS {
        let submit = group.submitted_ns.saturating_sub(group.issued_ns);
        metrics.submitted(group.write, submit, group.operations);
    }
}

/// The longest piece of a block that one system call carries: whole pages, so that direct access stays aligned.
#[must_use]
pub fn largest_piece(block: u64) -> u64 {
    if block <= LARGEST_CALL {
        block
    } else {
        LARGEST_CALL
    }
}

/// What follows on a piece that did not end its operation: true if there is a next piece to move, false
/// if the operation failed.
#[cold]
fn go_on(slot: &mut Slot, moved: i64, metrics: &mut Metrics) -> bool {
    let transfer = &mut slot.transfer;
    let length = transfer.length as u64;
    if moved <= 0 {
        metrics.fault(transfer.write, (-moved) as i32);
        return false;
    }
    let moved = (moved as u64).min(length);
    if moved < length {
        metrics.fault(transfer.write, 0);
    }
    let left = length - moved + slot.rest;
    transfer.offset += moved;
    transfer.at += moved as usize;
    transfer.length = largest_piece(left) as usize;
    slot.rest = left - transfer.length as u64;
    left > 0
}

#[cfg(test)]
mod tests {
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
}
