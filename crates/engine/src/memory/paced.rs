//! Traffic at a set rate: after every two lines a pause, so that a thread moves 128 bytes in the pause and 15 cycles,
//! whatever the accesses themselves cost, until the memory gives no more.
//!
//! Intel's Memory Latency Checker injects its load by this law (its published tables of bandwidth by delay fit it), so
//! curves over the same delays compare. One chain of additions runs through all pauses and is the only thing that a
//! pause waits for; lines are fetched ahead of their use, so that no miss stalls the chain.

use super::lane;
use super::operation::{Isa, Job, Loop, Primitive};
use crate::sys::clock_chain::Pause;

/// The instructions of the loops.
pub const ISA: Isa = if cfg!(target_arch = "x86_64") { Isa::Sse } else { Isa::Scalar };
/// Cycles for two lines beyond the pause.
const BASE_CYCLES: u64 = 15;
/// Lines between two pauses.
const LINES: u64 = 2;
const LINE: u64 = 64;
/// What is fetched ahead, about: far enough for any latency, and within a second-level cache.
const AHEAD_BYTES: u64 = 4 << 10;
/// Places fetched ahead at least, and at most.
const AHEAD_PLACES: (u64, u64) = (4, 64);
/// Blocks from this size on are fetched ahead within themselves.
const LONG: u64 = 4096;
/// Lines fetched ahead within a long block.
const AHEAD_LINES: u64 = 32;

/// Places of one call, those that are only read and those that are updated.
#[derive(Debug, Default, Clone)]
pub struct Places {
    pub reads: Vec<u64>,
    pub updates: Vec<u64>,
}

impl Places {
    /// Forgets them.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.updates.clear();
    }
}

/// The state of paced traffic.
pub struct Paced {
    pause: Pause,
    /// The last value of the chain.
    chain: u64,
    /// Lines since the last pause.
    lines: u64,
    /// What comes next, which is fetched while the present places are worked on.
    pub next: Places,
    pub now: Places,
}

impl Paced {
    /// With a pause of `delay` cycles and the law's own after every two lines.
    #[must_use]
    pub fn new(delay: u64) -> Self {
        let room = AHEAD_PLACES.1 as usize;
        let empty = || Places { reads: Vec::with_capacity(room), updates: Vec::with_capacity(room) };
        Self { pause: Pause::new(delay + BASE_CYCLES), chain: 0, lines: 0, next: empty(), now: empty() }
    }

    /// How many places of `block` bytes to take at once.
    #[must_use]
    pub fn places(block: u64) -> u64 {
        (AHEAD_BYTES / block).clamp(AHEAD_PLACES.0, AHEAD_PLACES.1)
    }

    /// Does the work at the present places: `kinds.0` where they are only read, `kinds.1` where they are updated.
    ///
    /// # Safety
    /// As [`Loop`] says, for all places.
    pub unsafe fn work(&mut self, job: &mut Job, kinds: (Primitive, Primitive), loops: (Loop, Loop)) {
        let (now, next) = (std::mem::take(&mut self.now), std::mem::take(&mut self.next));
        // SAFETY: the caller vouches for the places.
        unsafe {
            self.list(job, kinds.0, loops.0, &now.reads, &next.reads);
            self.list(job, kinds.1, loops.1, &now.updates, &next.updates);
        }
        (self.now, self.next) = (now, next);
    }

    unsafe fn list(&mut self, job: &mut Job, kind: Primitive, portable: Loop, now: &[u64], next: &[u64]) {
        macro_rules! each {
            ($line:ident: $($array:ident)*) => {{
                let fetch = |_job: &Job, _at: usize| {
                    $(lane::fetch(_job.$array.wrapping_add(_at));)*
                };
                // SAFETY: the caller vouches for the places; a block of whole lines is aligned to them.
                self.blocks(job, kind, now, next, fetch, |job, at, _, sum| unsafe { lane::$line(job, at, sum) });
            }};
        }
        if now.is_empty() {
            return;
        }
        if job.bytes < LINE {
            // SAFETY: as of `work`.
            return unsafe { self.parts(job, kind, portable, now, next) };
        }
        // Behind the colon: the arrays whose lines are read, or read in order to be written.
        match kind {
            Primitive::Read => each!(read: b),
            Primitive::Write => each!(write: a),
            Primitive::NtWrite => each!(nt_write:),
            Primitive::Copy => each!(copy: a b),
            Primitive::Scale => each!(scale: a b),
            Primitive::Add => each!(add: a b c),
            Primitive::Triad => each!(triad: a b c),
            Primitive::NtCopy => each!(nt_copy: b),
            Primitive::NtScale => each!(nt_scale: b),
            Primitive::NtAdd => each!(nt_add: b c),
            Primitive::NtTriad => each!(nt_triad: b c),
            Primitive::Update => each!(update: a),
            Primitive::NtMix11 => each!(nt_mix11: b),
            Primitive::NtMix21 => each!(nt_mix21: b c),
            Primitive::NtMix31 => each!(nt_mix31: b c d),
            Primitive::Mix21 | Primitive::Mix31 | Primitive::Mix32 | Primitive::Mix41 => {
                let in_block = job.bytes / LINE;
                let fetch = |job: &Job, at: usize| lane::fetch(job.a.wrapping_add(at));
                self.blocks(job, kind, now, next, fetch, |job, at, number, sum| {
                    // SAFETY: as above.
                    unsafe {
                        if kind.updates_line(number, in_block) {
                            lane::update(job, at, sum);
                        } else {
                            lane::read_a(job, at, sum);
                        }
                    }
                });
            }
        }
    }

    /// Goes through blocks of whole lines.
    #[inline(always)]
    fn blocks(
        &mut self,
        job: &mut Job,
        kind: Primitive,
        now: &[u64],
        next: &[u64],
        fetch: impl Fn(&Job, usize),
        line: impl Fn(&Job, usize, u64, &mut lane::Sum),
    ) {
        let mut sum = lane::Sum::zero();
        let (in_block, each) = (job.bytes / LINE, lines_of(kind));
        let long = job.bytes >= LONG;
        // In registers, so that the chain never waits for memory.
        let (pause, mut chain, mut moved) = (self.pause, self.chain, self.lines);
        for (at, &place) in now.iter().enumerate() {
            let ahead = next.get(at).copied().unwrap_or(place);
            for number in 0..in_block {
                let fetched = match long {
                    false => ahead + number * LINE,
                    true if number + AHEAD_LINES < in_block => place + (number + AHEAD_LINES) * LINE,
                    true => ahead + (number + AHEAD_LINES - in_block) * LINE,
                };
                fetch(job, fetched as usize);
                line(job, (place + number * LINE) as usize, number, &mut sum);
                moved += each + u64::from(kind.mixed().is_some() && kind.updates_line(number, in_block));
                while moved >= LINES {
                    moved -= LINES;
                    chain = pause.wait(chain);
                }
            }
        }
        (self.chain, self.lines) = (chain, moved);
        job.sum = job.sum.wrapping_add(sum.total());
    }

    /// Goes through blocks that are parts of a line, two at a time.
    unsafe fn parts(&mut self, job: &mut Job, kind: Primitive, portable: Loop, now: &[u64], next: &[u64]) {
        let array = if kind == Primitive::Read { job.b } else { job.a.cast_const() };
        for (at, pair) in now.chunks(LINES as usize).enumerate() {
            for &ahead in next.iter().skip(at * LINES as usize).take(pair.len()) {
                lane::fetch(array.wrapping_add(ahead as usize));
            }
            (job.offsets, job.count) = (pair.as_ptr(), pair.len() as u64);
            // SAFETY: as of `work`.
            unsafe { portable(job) };
            self.moved(pair.len() as u64 * lines_of(kind));
        }
    }

    fn moved(&mut self, lines: u64) {
        self.lines += lines;
        while self.lines >= LINES {
            self.lines -= LINES;
            self.chain = self.pause.wait(self.chain);
        }
    }
}

/// Lines that are loaded and stored at each place, as the traffic is counted; of a mix, where it only reads.
fn lines_of(kind: Primitive) -> u64 {
    match kind {
        Primitive::Read | Primitive::Mix21 | Primitive::Mix31 | Primitive::Mix32 | Primitive::Mix41 => 1,
        Primitive::Update => 2,
        _ => kind.sources() as u64 + 1,
    }
}
