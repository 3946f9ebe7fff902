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
mod tests;
