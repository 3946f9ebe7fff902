//! The pointer chase: a single cycle through a working set, in which each load needs the one before.

// Rings are aligned to 64 bytes, and places are multiples of 8 bytes apart.
#![allow(clippy::cast_ptr_alignment)]

use std::io;

use crate::loops::memory::places::Mix;

use crate::contract::reading::Verdict;
use crate::sys::pages::{Mapping, Pages};
use crate::timing::clock::now_ns;
use crate::timing::histogram::Histogram;
use crate::words;

words! {
    /// The order in which the cycle goes through its places.
    pub enum Locality {
        /// Random over the whole set: neither a prefetcher nor the TLB can help.
        Random = "random",
        /// Random within one neighbourhood after the other, neighbourhoods in random order: caches are
        /// as cold as before, but the TLB holds.
        Local = "local",
        /// Consecutive places, as prefetchers like them.
        Sequential = "sequential",
    }
}

/// What a chase goes through.
#[derive(Debug, Clone, Copy)]
pub struct Ring {
    /// Bytes in all.
    pub working_set: u64,
    /// Bytes from one place to the next: a multiple of 8.
    pub stride: u64,
    /// The order.
    pub locality: Locality,
    /// Bytes of a neighbourhood, for [`Locality::Local`].
    pub local_size: u64,
    /// The pages of the memory.
    pub pages: Pages,
    /// The NUMA node of the memory; none for where its thread runs.
    pub node: Option<usize>,
}

/// Rings up to this many places are walked once round afterwards; in larger ones every link is compared with the order
/// that it was made from, which is one cycle by construction.
const WALKED: u64 = 1 << 18;
/// Loads in one turn of the loop.
const UNROLLED: u64 = 16;

/// A ring in memory, and the chase's position in it.
pub struct Chase {
    order: Order,
    stride: u64,
    mapping: Mapping,
    at: *const u8,
}

// SAFETY: `at` points into the mapping, which the value owns.
unsafe impl Send for Chase {}

#[derive(Debug, Clone, Copy)]
enum Order {
    Random {
        n: u64,
        mix: Mix,
    },
    /// `blocks` neighbourhoods in the order of `outer`, each of `lines` places (a power of two).
    Local {
        outer_n: u64,
        outer: Mix,
        lines: u64,
        inner: Mix,
    },
    Sequential {
        n: u64,
    },
}

fn after(n: u64, mix: &Mix, place: u64) -> u64 {
    let mut turn = mix.index_at(place);
    loop {
        turn = (turn + 1) & (mix.period() - 1);
        let next = mix.at(turn);
        if next < n {
            return next;
        }
    }
}

impl Order {
    fn of(ring: &Ring) -> Self {
        let n = (ring.working_set / ring.stride).max(2);
        match ring.locality {
            Locality::Sequential => Self::Sequential { n },
            Locality::Local => {
                let lines = (ring.local_size / ring.stride).max(2).next_power_of_two();
                if n < 2 * lines {
                    return Self::Random { n, mix: Mix::new(n, 9) };
                }
                let outer_n = n / lines;
                Self::Local { outer_n, outer: Mix::new(outer_n, 9), lines, inner: Mix::new(lines, 5) }
            }
            Locality::Random => Self::Random { n, mix: Mix::new(n, 9) },
        }
    }

    fn count(&self) -> u64 {
        match *self {
            Self::Random { n, .. } | Self::Sequential { n } => n,
            Self::Local { outer_n, lines, .. } => outer_n * lines,
        }
    }

    /// The place after `place`: computed from the place alone, so that a ring is written from its
    /// first byte to its last, however random its order.
    fn next(&self, place: u64) -> u64 {
        match self {
            Self::Sequential { n } => (place + 1) % n,
            Self::Random { n, mix } => after(*n, mix, place),
            Self::Local { outer_n, outer, lines, inner } => {
                let (block, line) = (place / lines, place % lines);
                // Each neighbourhood has the order of the first, moved by its own number.
                let twist = |block: u64| block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32 & (lines - 1);
                let turn = inner.index_at(line ^ twist(block));
                if turn + 1 < *lines {
                    return block * lines + (inner.at(turn + 1) ^ twist(block));
                }
                let block = after(*outer_n, outer, block);
                block * lines + (inner.at(0) ^ twist(block))
            }
        }
    }
}

impl Chase {
    /// Maps, links and so first touches the ring, in time linear in its length.
    ///
    /// # Errors
    /// What the system says when memory, pages or node are refused.
    pub fn new(ring: &Ring) -> io::Result<Self> {
        let order = Order::of(ring);
        let mapping = Mapping::new((order.count() * ring.stride).max(64) as usize, ring.pages, ring.node)?;
        let start = mapping.start();
        for place in 0..order.count() {
            let next = start.wrapping_add((order.next(place) * ring.stride) as usize);
            // SAFETY: every place below `count` is in the mapping, at a multiple of 8 bytes.
            unsafe { start.add((place * ring.stride) as usize).cast::<*const u8>().write(next) };
        }
        Ok(Self { order, stride: ring.stride, at: start, mapping })
    }

    /// How many places the cycle has.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.order.count()
    }

    /// The ring's memory.
    #[must_use]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Brings the line at `offset` bytes into this processor's cache, clean or modified.
    pub fn take_line(&mut self, offset: usize, modified: bool) {
        self.mapping.take_line(offset, modified);
    }

    /// Follows the cycle for `loads` loads, a multiple of 16.
    #[inline]
    pub fn follow(&mut self, loads: u64) {
        let mut at = self.at;
        for _ in 0..loads / UNROLLED {
            // SAFETY: every link was made by `new` and leads to another link in the mapping.
            unsafe {
                for _ in 0..UNROLLED {
                    at = at.cast::<*const u8>().read_volatile();
                }
            }
        }
        self.at = std::hint::black_box(at);
    }

    /// How many loads make a batch that a look at the clock (some 25 ns) does not lengthen: `loads`
    /// (rounded to 16), or for 0 as many as take 8 µs, and 64 at least.
    pub fn batch(&mut self, loads: u64) -> u64 {
        if loads > 0 {
            return loads.next_multiple_of(UNROLLED);
        }
        let mut loads = 64;
        loop {
            let begun = now_ns();
            self.follow(loads);
            if now_ns() - begun >= 8_000 || loads >= 1 << 20 {
                return loads;
            }
            loads *= 2;
        }
    }

    /// Goes once round, or for `max_ns`, so that the set is in what caches hold it.
    pub fn warm(&mut self, max_ns: u64) {
        let (begun, mut left) = (now_ns(), self.length());
        while left > 0 && now_ns() - begun < max_ns {
            let loads = left.min(1024).next_multiple_of(UNROLLED);
            self.follow(loads);
            left = left.saturating_sub(loads);
        }
    }

    /// Whether the ring is still one cycle through all its places, and the chase still on it.
    #[must_use]
    pub fn verify(&self) -> Verdict {
        let mut verdict = Verdict { checked: 1, wrong: 0 };
        let start = self.mapping.start().cast_const();
        let link = |place: u64| {
            // SAFETY: callers give places below `count`, which are in the mapping.
            unsafe { start.add((place * self.stride) as usize).cast::<*const u8>().read() as u64 }
        };
        let find_place = |address: u64| {
            let offset = address.wrapping_sub(start as u64);
            (offset % self.stride == 0 && offset / self.stride < self.length()).then_some(offset / self.stride)
        };
        verdict.wrong += u64::from(find_place(self.at as u64).is_none());
        for place in 0..self.length() {
            verdict.checked += 1;
            verdict.wrong += u64::from(link(place) != start as u64 + self.order.next(place) * self.stride);
        }
        if self.length() <= WALKED {
            let (mut place, mut steps) = (0, 0);
            loop {
                match find_place(link(place)) {
                    Some(next) if steps < self.length() => (place, steps) = (next, steps + 1),
                    _ => break,
                }
                if place == 0 {
                    break;
                }
            }
            verdict.wrong += u64::from(steps != self.length());
        }
        verdict
    }
}

/// Latencies of a load, taken a batch at a time. A batch's mean is counted in whole ns, and what
/// rounding drops is carried to the next, so that the mean of all is exact.
#[derive(Debug, Default)]
pub struct Meter {
    /// Means of batches, ns.
    pub histogram: Histogram,
    carry: f64,
    /// Loads in all.
    pub loads: u64,
    /// Their time in all, ns.
    pub elapsed_ns: u64,
}

impl Meter {
    /// Adds another thread's.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.merge(&other.histogram);
        self.loads += other.loads;
        self.elapsed_ns += other.elapsed_ns;
    }

    /// Counts a batch.
    #[inline]
    pub fn record(&mut self, ns: u64, loads: u64) {
        let exact = ns as f64 / loads as f64 + self.carry;
        let whole = exact as u64;
        self.carry = exact - whole as f64;
        self.histogram.record(whole);
        self.loads += loads;
        self.elapsed_ns += ns;
    }

    /// Mean time of a load, ns.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.elapsed_ns as f64 / self.loads.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(working_set: u64, stride: u64, locality: Locality) -> Ring {
        Ring { working_set, stride, locality, local_size: 4096, pages: Pages::Base, node: None }
    }

    const LOCALITIES: [Locality; 3] = [Locality::Random, Locality::Local, Locality::Sequential];

    #[test]
    fn every_ring_is_one_cycle_through_all_its_places() {
        for locality in LOCALITIES {
            for (bytes, stride) in [(128, 64), (4096, 64), (100_000, 64), (300_000, 256), (1 << 20, 4160), (5000, 8)] {
                let mut chase = Chase::new(&ring(bytes, stride, locality)).unwrap();
                chase.follow(48);
                let verdict = chase.verify();
                assert_eq!(verdict.wrong, 0, "{locality:?} {bytes} {stride}");
                assert!(chase.length() * stride <= bytes && chase.length() >= 2);
            }
        }
    }

    #[test]
    fn a_short_cut_in_the_ring_is_found() {
        for locality in LOCALITIES {
            let chase = Chase::new(&ring(64 << 10, 64, locality)).unwrap();
            let start = chase.mapping.start();
            // SAFETY: the first two places of the ring.
            unsafe { start.cast::<*const u8>().write(start) };
            assert!(chase.verify().wrong > 0);
        }
    }

    #[test]
    fn a_local_walk_stays_in_its_neighbourhood() {
        let chase = Chase::new(&ring(1 << 20, 64, Locality::Local)).unwrap();
        let far = (0..chase.length()).filter(|&place| chase.order.next(place) / 64 != place / 64).count();
        assert_eq!(far, 256, "one step out of each of the 256 pages");
    }

    #[test]
    fn the_mean_of_the_histogram_is_exact() {
        let mut meter = Meter::default();
        (0..1000).for_each(|_| meter.record(89, 64));
        assert!((meter.histogram.mean() - 89.0 / 64.0).abs() < 0.002);
        assert!((meter.mean_ns() - 89.0 / 64.0).abs() < 1e-9);
    }
}
