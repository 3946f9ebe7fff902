//! Traffic at a set rate: after every two lines a pause, so that a thread moves 128 bytes in the pause and 15 cycles,
//! independent of the accesses' own cost, until the memory gives no more.
//!
//! Intel's Memory Latency Checker injects its load by this law (its published tables of bandwidth by delay fit it), so
//! curves over the same delays compare. One chain of arithmetic runs through all pauses and is the only thing that
//! anything waits for: lines are fetched ahead of their use, so that no miss stalls the core, and the order of places
//! is computed a few at a time between two pauses, so that it costs nothing beside them.

// Parts of a timed loop, no matter what the optimiser thinks of their length.
#![allow(clippy::inline_always)]

use std::ptr;
use std::sync::OnceLock;

use super::lane;
use super::places::Places;
use super::portable::find_loop;
use super::primitive::{memory_operations, Job, Primitive};
use super::route::Route;
use crate::sys::clock_chain::Pause;
use crate::sys::time::monotonic_ns;

// A line that is read, or read in order to be written; one that is written past the caches is not.
macro_rules! fetch {
    (Store, $job:ident, $at:ident) => {
        lane::fetch($job.a.wrapping_add($at))
    };
    (Stream, $job:ident, $at:ident) => {};
    ($array:ident, $job:ident, $at:ident) => {
        lane::fetch($job.$array.wrapping_add($at))
    };
}

/// Cycles for two lines beyond the pause.
const BASE_CYCLES: u64 = 15;
/// Lines between two pauses.
const LINES: u64 = 2;
const LINE: u64 = 64;
/// What the loop's own time is read from.
const TIMED_LINES: u64 = 64;
const TIMED_DELAY: u64 = 200;
const TIMES: u32 = 60;
/// Places that are computed at once.
const STEP: u64 = 4;
/// What a batch takes, in cycles: long against a look at the clock.
const BATCH_CYCLES: u64 = 100_000;
/// How far ahead lines are fetched, in cycles: beyond any latency of a memory that is not full.
const AHEAD_CYCLES: u64 = 2000;
/// The same in lines: within a first-level cache.
const MAX_AHEAD: u64 = 128;
/// A power of two above all that a ring holds.
const ROOM: usize = 256;

/// Places in the order in which they were taken.
#[derive(Debug, Clone)]
struct Ring {
    places: Box<[u64; ROOM]>,
    first: usize,
    end: usize,
}

impl Ring {
    fn new() -> Self {
        Self { places: Box::new([0; ROOM]), first: 0, end: 0 }
    }

    /// Adds a place if it exists; one that is none is overwritten by the next, so that no branch is mispredicted.
    #[inline(always)]
    fn push(&mut self, place: u64, exists: bool) {
        self.places[self.end % ROOM] = place;
        self.end += usize::from(exists);
    }

    #[inline(always)]
    fn pop(&mut self) -> u64 {
        let place = self.places[self.first % ROOM];
        self.first += 1;
        place
    }

    #[inline(always)]
    fn len(&self) -> usize {
        self.end - self.first
    }
}

/// The state of paced traffic.
pub struct Paced {
    pause: Pause,
    /// Groups of places in a batch.
    groups: u64,
    /// Places that are fetched ahead.
    ahead: usize,
    /// The last value of the chain.
    chain: u64,
    /// Lines since the last pause.
    lines: u64,
    reads: Ring,
    updates: Ring,
}

impl Paced {
    /// Pauses of `delay` cycles and the law's own after every two lines, for blocks of `block` bytes in turn or at
    /// random.
    #[must_use]
    pub fn new(delay: u64, block: u64, random: bool) -> Self {
        let mut made = Self::uncorrected(delay, block);
        made.pause = Pause::new(delay + BASE_CYCLES - extra_cycles(block.div_ceil(LINE), random));
        made
    }

    /// The same with a chain as long as the law has it, no matter what the loop takes beside it.
    fn uncorrected(delay: u64, block: u64) -> Self {
        let (cycles, in_block) = (delay + BASE_CYCLES, block.div_ceil(LINE));
        let lines_ahead = (AHEAD_CYCLES * LINES / cycles).clamp(LINES, MAX_AHEAD);
        Self {
            pause: Pause::new(cycles),
            groups: (BATCH_CYCLES * LINES / (STEP * in_block * cycles)).clamp(1, 4000),
            ahead: lines_ahead.div_ceil(in_block) as usize,
            chain: 0,
            lines: 0,
            reads: Ring::new(),
            updates: Ring::new(),
        }
    }

    /// Does one batch; gives the number of places that were only read, and of those that were updated.
    ///
    /// # Safety
    /// As [`Loop`] says, for all places of the route.
    pub unsafe fn batch(&mut self, job: &mut Job, route: &mut Route<'_>) -> (u64, u64) {
        // SAFETY: the caller vouches for the places.
        unsafe { self.work(job, route, self.groups, self.ahead) }
    }

    /// Does what was only fetched so far.
    ///
    /// # Safety
    /// As of [`Paced::batch`].
    pub unsafe fn finish(&mut self, job: &mut Job, route: &mut Route<'_>) -> (u64, u64) {
        // SAFETY: the caller vouches for the places.
        unsafe { self.work(job, route, 0, 0) }
    }

    unsafe fn work(&mut self, job: &mut Job, route: &mut Route<'_>, groups: u64, ahead: usize) -> (u64, u64) {
        if job.bytes < LINE {
            // SAFETY: as of `batch`.
            return unsafe { self.parts(job, route, groups, ahead) };
        }
        macro_rules! walks {
            ({} { $($(#[$about:meta])* $name:ident $line:ident
                    [$($step:ident $($array:ident)*),* $(-> $target:ident $value:ident)?];)* } $mixes:tt) => {
                match route.kinds.0 {
                    $(Primitive::$name => {
                        let fetch = |_job: &Job, _at: usize| {
                            $(fetch!($target, _job, _at);)?
                            $($(fetch!($array, _job, _at);)*)*
                        };
                        // SAFETY: the caller vouches for the places; a block of whole lines is aligned to them.
                        let line = |job: &Job, at, _, sum: &mut lane::Sum| unsafe { lane::$line(job, at, sum) };
                        self.walk(job, route, (groups, ahead), count_lines(Primitive::$name), None, fetch, line)
                    })*
                    kind => {
                        let in_block = job.bytes / LINE;
                        let fetch = |job: &Job, at: usize| lane::fetch(job.a.wrapping_add(at));
                        self.walk(job, route, (groups, ahead), 1, Some(kind), fetch, |job, at, number, sum| {
                            // SAFETY: as above.
                            unsafe {
                                if kind.updates_line(number, in_block) {
                                    lane::update(job, at, sum);
                                } else {
                                    lane::read_a(job, at, sum);
                                }
                            }
                        })
                    }
                }
            };
        }
        memory_operations!(walks)
    }

    /// Goes through blocks of whole lines, each of which counts as `each`, and where a mix updates it as one more.
    #[allow(clippy::too_many_arguments, reason = "each is a part of the loop that is made of them")]
    #[inline(always)]
    fn walk(
        &mut self,
        job: &mut Job,
        route: &mut Route<'_>,
        (groups, ahead): (u64, usize),
        each: u64,
        mix: Option<Primitive>,
        fetch: impl Fn(&Job, usize),
        line: impl Fn(&Job, usize, u64, &mut lane::Sum),
    ) -> (u64, u64) {
        let mut sum = lane::Sum::zero();
        let in_block = job.bytes / LINE;
        // In registers, so that the chain never waits for memory.
        let (pause, mut chain, mut moved) = (self.pause, self.chain, self.lines);
        let (mut read, mut updated) = (0, 0);
        // Lines of a long block are fetched ahead within it.
        let within = (ahead as u64 * in_block).clamp(LINES, MAX_AHEAD);
        let at_once = in_block.min(within);
        for group in 0..groups.max(1) {
            if group < groups {
                take(route, &mut self.reads, &mut self.updates, |place| {
                    (0..at_once).for_each(|number| fetch(job, (place + number * LINE) as usize));
                });
            }
            // Most traffic: two places of a line each, and a pause.
            while in_block == 1 && each == 1 && self.reads.len() > ahead + 1 {
                let pair = [self.reads.pop(), self.reads.pop()];
                read += LINES;
                for place in pair {
                    line(job, place as usize, 0, &mut sum);
                }
                chain = pause.wait(chain);
            }
            while self.reads.len() > ahead && (in_block > 1 || each > 1 || groups == 0) {
                let place = self.reads.pop();
                read += 1;
                for number in 0..in_block {
                    if number + at_once < in_block {
                        fetch(job, (place + (number + at_once) * LINE) as usize);
                    }
                    line(job, (place + number * LINE) as usize, number, &mut sum);
                    moved += each + mix.map_or(0, |kind| u64::from(kind.updates_line(number, in_block)));
                    while moved >= LINES {
                        moved -= LINES;
                        chain = pause.wait(chain);
                    }
                }
            }
            if self.updates.len() > ahead {
                // SAFETY: as of `batch`: these are places like the others.
                (chain, updated) = unsafe { self.update(job, ahead, (chain, updated)) };
            }
        }
        (self.chain, self.lines) = (chain, moved);
        job.sum = job.sum.wrapping_add(sum.total());
        (read, updated)
    }

    /// Updates the places that are due, one pause a line; the same code for all kinds that go along with it.
    unsafe fn update(&mut self, job: &mut Job, ahead: usize, (mut chain, mut updated): (u64, u64)) -> (u64, u64) {
        // Its own, so that the caller's stays in registers.
        let mut sum = lane::Sum::zero();
        while self.updates.len() > ahead {
            let place = self.updates.pop();
            updated += 1;
            for number in 0..job.bytes / LINE {
                // SAFETY: the caller vouches for the places.
                unsafe { lane::update(job, (place + number * LINE) as usize, &mut sum) };
                // A line that is read and written is two.
                chain = self.pause.wait(chain);
            }
        }
        job.sum = job.sum.wrapping_add(sum.total());
        (chain, updated)
    }

    /// Goes through blocks that are parts of a line, up to two at a time.
    unsafe fn parts(&mut self, job: &mut Job, route: &mut Route<'_>, groups: u64, ahead: usize) -> (u64, u64) {
        let array = if route.kinds.0.touches_a() { job.a.cast_const() } else { job.b };
        let mut done = [0, 0];
        for group in 0..groups.max(1) {
            if group < groups {
                take(route, &mut self.reads, &mut self.updates, |place| {
                    lane::fetch(array.wrapping_add(place as usize));
                });
            }
            let both =
                [(&mut self.reads, route.kinds.0, route.loops.0), (&mut self.updates, route.kinds.1, route.loops.1)];
            for (which, (ring, kind, portable)) in both.into_iter().enumerate() {
                while ring.len() > ahead {
                    let mut pair = [0; LINES as usize];
                    let count = LINES.min((ring.len() - ahead) as u64);
                    pair.iter_mut().take(count as usize).for_each(|place| *place = ring.pop());
                    (job.offsets, job.count) = (pair.as_ptr(), count);
                    // SAFETY: as of `batch`.
                    unsafe { portable(job) };
                    done[which] += count;
                    self.lines += count * count_lines(kind);
                    while self.lines >= LINES {
                        self.lines -= LINES;
                        self.chain = self.pause.wait(self.chain);
                    }
                }
            }
        }
        (done[0], done[1])
    }
}

/// Cycles that two lines take beside the chain of a pause: what of the loop a core cannot do meanwhile, most of which is
/// computing a random order, once a block. Timed once.
fn extra_cycles(in_block: u64, random: bool) -> u64 {
    static FOUND: OnceLock<(f64, f64)> = OnceLock::new();
    let &(in_turn, at_random) = FOUND.get_or_init(|| (timed_cycles(false), timed_cycles(true)));
    let order = if random { (at_random - in_turn).max(0.0) / in_block as f64 } else { 0.0 };
    (in_turn + order).round().clamp(0.0, BASE_CYCLES as f64) as u64
}

/// The same of blocks of one line, in memory that any cache holds; the fastest of some batches counts, since all that
/// disturbs one makes it slower.
fn timed_cycles(random: bool) -> f64 {
    let portable = find_loop(Primitive::Read);
    let mut lines = vec![[0_u64; 8]; TIMED_LINES as usize + 1];
    let start = lines.as_mut_ptr().cast::<u8>();
    let base = start.wrapping_add(start.align_offset(LINE as usize));
    let mut job = Job { a: base, b: base, c: base, d: base, offsets: ptr::null(), count: 0, bytes: LINE, sum: 0 };
    let mut places = Places::new(TIMED_LINES, random, 1);
    let mut paced = Paced::uncorrected(TIMED_DELAY, LINE);
    // The chain alone is timed in turn, so that a change of the clock affects both.
    let (mut with, mut alone) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let mut route = Route {
            places: &mut places,
            stride: LINE,
            period: 1,
            only_read: 1,
            kinds: (Primitive::Read, Primitive::Update),
            loops: (portable, portable),
        };
        let begun = monotonic_ns();
        // SAFETY: all places are lines of the vector, which no one else uses.
        let (read, _) = unsafe { paced.batch(&mut job, &mut route) };
        let middle = monotonic_ns();
        let pauses = (read / LINES).max(1);
        for _ in 0..pauses {
            paced.chain = paced.pause.wait(paced.chain);
        }
        with = with.min((middle - begun) as f64 / pauses as f64);
        alone = alone.min((monotonic_ns() - middle) as f64 / pauses as f64);
    }
    (TIMED_DELAY + BASE_CYCLES) as f64 * (with / alone - 1.0)
}

/// Takes the next few places, and fetches them.
#[inline(always)]
fn take(route: &mut Route<'_>, reads: &mut Ring, updates: &mut Ring, fetch: impl Fn(u64)) {
    let (count, stride, period, only_read) = (route.places.count(), route.stride, route.period, route.only_read);
    route.places.take(STEP, |turn, place| {
        let (exists, offset) = (place < count, place * stride);
        // A place that is none may be fetched as well: it is an address, no access.
        fetch(offset);
        if period == 1 || turn % period < only_read {
            reads.push(offset, exists);
        } else {
            updates.push(offset, exists);
        }
    });
}

/// Lines that are loaded and stored at each place, as the traffic is counted; of a mix, where it only reads.
fn count_lines(kind: Primitive) -> u64 {
    kind.per_element().arrays()
}
