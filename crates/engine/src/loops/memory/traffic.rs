//! The memory traffic of one thread: its arrays, the loop over them, the count of what was moved, and
//! the proof afterwards that it was.

// Arrays are aligned to 64 bytes.
#![allow(clippy::cast_ptr_alignment)]

use std::io;

use crate::loops::memory::paced::Paced;
use crate::loops::memory::places::Places;
use crate::loops::memory::primitive::{Job, Loop, Primitive, SCALAR};
use crate::loops::memory::route::{Route, Taken, TURNS};

use super::loops::find_loop;
use super::operation::Choice;
use super::work::Work;
use crate::contract::reading::Verdict;
use crate::sys::pages::Mapping;

/// A dense walk goes by pieces of this size: a multiple of every mix's pattern (6 and 4 lines) and of
/// the period of the values.
const PIECE: u64 = 768 << 10;
/// What one batch moves, about: 20 µs and more, so that a look at the clock costs nothing.
const BATCH_BYTES: u64 = 256 << 10;
/// Words after which the arrays' values repeat.
const PERIOD: usize = 64;
/// Arrays begin this much further into their pages, one after the other, so that a load does not wait
/// for an older store to the same offset of another page (4 KiB aliasing).
const SKEW: u64 = 17 * 64;

/// One thread's arrays and its place in them. Everything is allocated and touched by [`Traffic::new`].
pub struct Traffic {
    work: Work,
    mapping: Mapping,
    job: Job,
    whole: Loop,
    /// The loops of mixes by turns: (loop for reads, loop for updates).
    turns: Option<(Loop, Loop)>,
    places: Places,
    /// Bytes at each place in one call, and between places.
    block: u64,
    stride: u64,
    /// The period of a mix by turns, in turns, and how many of them only read.
    period: (u64, u64),
    /// The pauses between lines; none at full speed.
    paced: Option<Paced>,
    turns_a_call: u64,
    calls_a_batch: u64,
    taken: Taken,
    /// Blocks that were read only, or in a mix of any kind visited; and blocks that were updated.
    visited: u64,
    updated: u64,
}

/// What was moved so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Bytes loaded, as the loop's source has them.
    pub read: u64,
    /// Bytes stored.
    pub written: u64,
    /// Bytes that the hardware must move for a set beyond its caches: whole lines, and a read of each
    /// line that is stored through the caches without having been loaded (write-allocate).
    pub line: u64,
    /// Floating-point operations.
    pub flops: u64,
}

impl Moved {
    /// What was moved after `before` was taken.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            read: self.read - before.read,
            written: self.written - before.written,
            line: self.line - before.line,
            flops: self.flops - before.flops,
        }
    }

    /// What both moved.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            read: self.read + other.read,
            written: self.written + other.written,
            line: self.line + other.line,
            flops: self.flops + other.flops,
        }
    }
}

fn source(number: usize, word: usize) -> f64 {
    (1 + number + ((word * (2 * number + 1)) % PERIOD)) as f64
}

fn first(word: usize) -> u64 {
    (-((1 + word % PERIOD) as f64)).to_bits()
}

/// Bytes at each place in one call, and from one place to the next: of a dense walk pieces.
fn block_and_stride(work: &Work) -> (u64, u64) {
    if !work.dense() {
        return (work.block, work.stride);
    }
    let array_bytes = work.array_bytes();
    let unit = if work.primitive.mixed().is_some() { 64 * work.primitive.unrolled_lines() } else { 64 };
    let piece = if array_bytes >= PIECE { PIECE } else { (array_bytes / unit * unit).max(64) };
    (piece, piece)
}

/// The words of an array over one period, before the first visit.
fn pattern_of(array: usize, touches_a: bool) -> [u64; PERIOD] {
    std::array::from_fn(|word| match (touches_a, array) {
        (true, 0) => first(word),
        (true, _) => source(array - 1, word).to_bits(),
        (false, _) => source(array, word).to_bits(),
    })
}

/// What verification compares with, over one period.
struct Expected {
    /// The words of `a` before and after a visit.
    before: [u64; PERIOD],
    after: [u64; PERIOD],
    /// What a visit of each word adds to the sum of all words read.
    summed: [u64; PERIOD],
    period_sum: u64,
}

impl Expected {
    fn of(primitive: Primitive) -> Self {
        let from = |word| [0, 1, 2].map(|number| source(number, word));
        let summed = std::array::from_fn(|word| primitive.summed(from(word).map(f64::to_bits)));
        Self {
            before: std::array::from_fn(first),
            after: std::array::from_fn(|word| primitive.written(from(word), SCALAR).to_bits()),
            summed,
            period_sum: summed.iter().fold(0, |total, &value| total.wrapping_add(value)),
        }
    }

    /// What a visit of `words` words from word `begin` on adds to the sum.
    fn sum(&self, begin: usize, words: usize) -> u64 {
        let whole = self.period_sum.wrapping_mul((words / PERIOD) as u64);
        (begin..begin + words % PERIOD).fold(whole, |total, word| total.wrapping_add(self.summed[word % PERIOD]))
    }
}

// SAFETY: its pointers lead into its own mapping and its own boxes, which move with it and are no one else's.
unsafe impl Send for Traffic {}

impl Traffic {
    /// Maps, fills and so first touches the arrays; `key` varies the random order between threads.
    ///
    /// # Errors
    /// The error of the system when memory, pages or node are refused.
    pub fn new(work: Work, choice: impl Into<Choice>, key: u64) -> io::Result<Self> {
        let choice = choice.into();
        let arrays = work.primitive.arrays();
        let array_bytes = work.array_bytes();
        let (block, stride) = block_and_stride(&work);
        let count = array_bytes / stride;
        let step = array_bytes + SKEW;
        let mapping = Mapping::new((step * arrays as u64) as usize, work.pages, work.node)?;
        let base = |number: usize| mapping.start().wrapping_add(number * step as usize);
        let touches_a = work.primitive.touches_a();
        let words = (array_bytes / 8) as usize;
        for number in 0..arrays {
            // SAFETY: array `number` begins inside the mapping, is aligned to 64 bytes and has `words` words.
            let array = unsafe { std::slice::from_raw_parts_mut(base(number).cast::<u64>(), words) };
            let pattern = pattern_of(number, touches_a);
            for chunk in array.chunks_mut(PERIOD) {
                chunk.copy_from_slice(&pattern[..chunk.len()]);
            }
        }
        let b = if touches_a { usize::from(work.primitive.sources() > 0) } else { 0 };
        let missing = || io::Error::from(io::ErrorKind::Unsupported);
        let whole = find_loop(work.primitive, choice, block).ok_or_else(missing)?;
        let turns = if work.by_turns() {
            find_loop(Primitive::Read, choice, block).zip(find_loop(Primitive::Update, choice, block))
        } else {
            None
        };
        let mut traffic = Self {
            work,
            job: Job {
                a: base(0),
                b: base(b),
                c: base((b + 1).min(arrays - 1)),
                d: base((b + 2).min(arrays - 1)),
                offsets: std::ptr::null(),
                count: 0,
                bytes: block,
                sum: 0,
            },
            mapping,
            whole,
            turns,
            places: Places::new(count, work.random, key),
            block,
            stride,
            period: match work.primitive.mixed() {
                Some((reads, updates)) if turns.is_some() => (reads + updates, reads),
                _ => (1, 1),
            },
            paced: None,
            turns_a_call: 1,
            calls_a_batch: 1,
            taken: Taken::default(),
            visited: 0,
            updated: 0,
        };
        traffic.wait(work.delay);
        Ok(traffic)
    }

    /// Pauses `delay` cycles after every two lines from now on; none for full speed.
    pub(super) fn wait(&mut self, delay: Option<u64>) {
        self.finish();
        self.paced = delay.map(|delay| Paced::new(delay, self.block, self.work.random));
        let turns = (BATCH_BYTES / self.block).clamp(1, TURNS as u64);
        (self.turns_a_call, self.calls_a_batch) =
            if delay.is_some() { (turns, 1) } else { (turns, (BATCH_BYTES / (self.block * turns)).max(1)) };
    }

    /// Does what was only fetched so far, so that every place that was taken was worked on.
    pub fn finish(&mut self) {
        // SAFETY: as of `calls`.
        self.visit(|paced, _, job, route| paced.map_or((0, 0), |paced| unsafe { paced.finish(job, route) }));
    }

    /// Lets the traffic go on by `work`, which gives how many places it only read, and how many it updated.
    #[inline]
    fn visit(&mut self, work: impl FnOnce(Option<&mut Paced>, &mut Taken, &mut Job, &mut Route<'_>) -> (u64, u64)) {
        let (period, only_read) = self.period;
        let kinds = if self.turns.is_some() {
            (Primitive::Read, Primitive::Update)
        } else {
            (self.work.primitive, Primitive::Update)
        };
        let loops = self.turns.unwrap_or((self.whole, self.whole));
        let mut route = Route { places: &mut self.places, stride: self.stride, period, only_read, kinds, loops };
        let (read, updated) = work(self.paced.as_mut(), &mut self.taken, &mut self.job, &mut route);
        self.visited += read;
        self.updated += updated;
    }

    /// Whether two loops take turns, as in a mix of short blocks.
    pub(super) fn by_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// Goes on with another loop over the same arrays, where there is one for them.
    pub(super) fn take(&mut self, choice: Choice) -> bool {
        let found = find_loop(self.work.primitive, choice, self.block);
        self.whole = found.unwrap_or(self.whole);
        found.is_some()
    }

    /// The memory that it works on.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Does one batch: some 20 µs of traffic or more, without a look at the clock.
    #[inline]
    pub fn batch(&mut self) {
        self.calls(self.calls_a_batch);
    }

    #[inline]
    fn calls(&mut self, calls: u64) {
        let turns = self.turns_a_call;
        // SAFETY: every place is below `count`, and a block is no longer than the stride, so that all blocks are in the
        // arrays; `new` took loops that are here.
        self.visit(|paced, taken, job, route| unsafe {
            match paced {
                Some(paced) => paced.batch(job, route),
                None => taken.visit(job, route, turns, calls),
            }
        });
    }

    /// Visits of a block of the given size.
    #[must_use]
    pub fn visits(&self) -> u64 {
        (self.visited + self.updated) * (self.block / self.work.block.min(self.block))
    }

    /// What was moved so far.
    #[must_use]
    pub fn moved(&self) -> Moved {
        let primitive = self.work.primitive;
        // In a gapless walk a line is fetched once for all its blocks; else each visit fetches whole lines.
        let rounded = if self.stride < 64 && !self.work.random { self.block } else { self.block.max(64) };
        if self.turns.is_some() {
            return Moved {
                read: (self.visited + self.updated) * self.block,
                written: self.updated * self.block,
                line: (self.visited + 2 * self.updated) * rounded,
                flops: 0,
            };
        }
        if primitive.mixed().is_some() {
            let lines = self.block / 64;
            let updated = (0..lines).filter(|&line| primitive.updates_line(line, lines)).count() as u64 * 64;
            let (read, written) = (self.visited * self.block, self.visited * updated);
            return Moved { read, written, line: read + written, flops: 0 };
        }
        let each = primitive.per_element();
        Moved {
            read: self.visited * self.block * each.reads,
            written: self.visited * self.block * each.writes,
            line: self.visited * rounded * (each.arrays() + each.allocates),
            flops: self.visited * self.block / 8 * each.flops,
        }
    }

    /// Holds every word of `a`, and the sum of all words read, against what the visits must have left.
    #[must_use]
    pub fn verify(&self) -> Verdict {
        let primitive = self.work.primitive;
        let mut verdict = Verdict::default();
        let mut sum = 0_u64;
        let block_words = (self.block / 8) as usize;
        let stride_words = (self.stride / 8) as usize;
        let lines = self.block / 64;
        let expected = Expected::of(primitive);
        let words = (self.work.array_bytes() / 8) as usize;
        // SAFETY: `a` (or, for a read, `b` under the same address) has this many words.
        let array = unsafe { std::slice::from_raw_parts(self.job.a.cast::<u64>(), words) };
        let mut hold = |at: usize, value: u64| {
            verdict.checked += 1;
            verdict.wrong += u64::from(array[at] != value);
        };
        for place in 0..self.places.count() {
            let visits = self.places.visits(place);
            let begin = place as usize * stride_words;
            if !primitive.touches_a() {
                for word in begin..begin + block_words {
                    hold(word, source(0, word).to_bits());
                }
            } else if primitive.mixed().is_some() || primitive.updates() {
                let turn_updates = self.turns.is_some() && {
                    let (reads, updates) = primitive.mixed().unwrap_or((0, 1));
                    self.places.turn_at(place) % (reads + updates) >= reads
                };
                for word in begin..begin + block_words {
                    let updated = match self.turns {
                        Some(_) => turn_updates,
                        None => primitive.updates_line((word - begin) as u64 / 8, lines),
                    };
                    if updated {
                        hold(word, first(word).wrapping_add(visits));
                    } else {
                        hold(word, first(word));
                        sum = sum.wrapping_add(first(word).wrapping_mul(visits));
                    }
                }
            } else {
                let pattern = if visits > 0 { &expected.after } else { &expected.before };
                for word in begin..begin + block_words {
                    hold(word, pattern[word % PERIOD]);
                }
            }
            if expected.period_sum != 0 {
                sum = sum.wrapping_add(expected.sum(begin, block_words).wrapping_mul(visits));
            }
            for word in begin + block_words..begin + stride_words {
                hold(word, if primitive.touches_a() { first(word) } else { source(0, word).to_bits() });
            }
        }
        verdict.checked += 1;
        verdict.wrong += u64::from(sum != self.job.sum);
        verdict
    }
}

#[cfg(test)]
mod tests;
