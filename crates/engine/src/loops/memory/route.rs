//! Traffic at full speed: a few places of the order are taken at once, and the loops do the rest.

use super::places::Places;
use super::primitive::{Job, Loop, Primitive};

/// What the traffic goes through.
pub struct Route<'a> {
    /// The order of its places.
    pub places: &'a mut Places,
    /// Bytes from one place to the next.
    pub stride: u64,
    /// How turns are dealt: of each this many, the first `only_read` are only read.
    pub period: u64,
    /// Turns of each period that are only read.
    pub only_read: u64,
    /// What is done where places are only read, and where they are updated.
    pub kinds: (Primitive, Primitive),
    /// The loops of both for parts of a line.
    pub loops: (Loop, Loop),
}

/// Turns that are taken at once at most; a multiple of every mix's pattern.
pub const TURNS: usize = 240;

/// Offsets of the places that were taken last: those that are only read, and those that are updated.
#[derive(Debug, Clone)]
pub struct Taken {
    reads: Box<[u64; TURNS]>,
    updates: Box<[u64; TURNS]>,
    reading: usize,
    updating: usize,
}

impl Default for Taken {
    fn default() -> Self {
        Self { reads: Box::new([0; TURNS]), updates: Box::new([0; TURNS]), reading: 0, updating: 0 }
    }
}

impl Taken {
    /// Takes the next `turns` turns, at most [`TURNS`], of places that are `stride` bytes apart; of each `period` of
    /// them the first `only_read` are only read.
    pub fn take(&mut self, places: &mut Places, turns: u64, stride: u64, (period, only_read): (u64, u64)) {
        let count = places.count();
        let (mut reading, mut updating, mut left) = (0, 0, turns);
        while left > 0 {
            let mut taken = 0;
            let (reads, updates) = (&mut self.reads, &mut self.updates);
            // A place that is none is written and overwritten by the next, so that no branch is mispredicted.
            if period == 1 {
                places.take(left, |_, place| {
                    reads[reading] = place * stride;
                    reading += usize::from(place < count);
                    taken += 1;
                });
            } else {
                places.take(left, |turn, place| {
                    let exists = usize::from(place < count);
                    if turn % period < only_read {
                        reads[reading] = place * stride;
                        reading += exists;
                    } else {
                        updates[updating] = place * stride;
                        updating += exists;
                    }
                    taken += 1;
                });
            }
            left -= taken;
        }
        (self.reading, self.updating) = (reading, updating);
    }

    /// Takes `turns` turns of a route, `calls` times, and lets its loops do the rest; gives the number of places that were
    /// only read, and of those that were updated.
    ///
    /// # Safety
    /// As [`Loop`] says, for all places of the route.
    pub unsafe fn visit(&mut self, job: &mut Job, route: &mut Route<'_>, turns: u64, calls: u64) -> (u64, u64) {
        let (mut read, mut updated) = (0, 0);
        for _ in 0..calls {
            self.take(route.places, turns, route.stride, (route.period, route.only_read));
            for (which, offsets) in [(route.loops.0, self.reads()), (route.loops.1, self.updates())] {
                if !offsets.is_empty() {
                    job.offsets = offsets.as_ptr();
                    job.count = offsets.len() as u64;
                    // SAFETY: the caller vouches for the places.
                    unsafe { which(job) };
                }
            }
            read += self.reading as u64;
            updated += self.updating as u64;
        }
        (read, updated)
    }

    /// Those that are only read.
    #[must_use]
    pub fn reads(&self) -> &[u64] {
        &self.reads[..self.reading]
    }

    /// Those that are updated.
    #[must_use]
    pub fn updates(&self) -> &[u64] {
        &self.updates[..self.updating]
    }
}
