//! Which block comes next, and in which direction: O(1) in time and memory, from a seed.

use crate::timing::rng::mix;

/// Visits each of `0..blocks` exactly once, in a random order that its key decides.
///
/// A bijection of `0..2^k`, the least power of two that holds `blocks`, is applied to a counter, and
/// results beyond `blocks` are left out (cycle walking, Black & Rogaway 2002): fewer than two steps a
/// block on average, no memory. The bijection is three rounds of an odd multiplication, an addition and a xor with
/// the upper half, each of which can be undone modulo 2^k.
#[derive(Debug, Clone)]
pub struct Permutation {
    blocks: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 3],
    terms: [u64; 3],
    counter: u64,
}

impl Permutation {
    /// The order of `blocks` (at least 1) that `key` decides.
    #[must_use]
    pub fn new(blocks: u64, key: u64) -> Self {
        let bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        let part = |number: u64| mix(mix(key).wrapping_add(number));
        Self {
            blocks,
            mask: if bits == 64 { u64::MAX } else { (1 << bits) - 1 },
            shift: (bits / 2).max(1),
            factors: [part(1) | 1, part(2) | 1, part(3) | 1],
            terms: [part(4), part(5), part(6)],
            counter: 0,
        }
    }

    /// The next block; none when all were given.
    #[inline]
    pub fn next_block(&mut self) -> Option<u64> {
        while self.counter <= self.mask {
            let mut value = self.counter;
            self.counter += 1;
            for round in 0..3 {
                value = value.wrapping_mul(self.factors[round]).wrapping_add(self.terms[round]) & self.mask;
                value ^= value >> self.shift;
            }
            if value < self.blocks {
                return Some(value);
            }
        }
        None
    }
}

/// The part of a file that one job covers, in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Where the first block begins, B.
    pub offset: u64,
    /// How many blocks.
    pub blocks: u64,
    /// Length of a block, B.
    pub block: u64,
}

impl Span {
    /// The part of job `number` of `jobs` when they share the blocks out among them, whole blocks each.
    #[must_use]
    pub fn part(self, number: u64, jobs: u64) -> Self {
        let edge = |n: u64| (u128::from(self.blocks) * u128::from(n) / u128::from(jobs)) as u64;
        let (from, to) = (edge(number), edge(number + 1));
        Self { offset: self.offset + from * self.block, blocks: to - from, block: self.block }
    }
}

/// Gives a job its operations, one after the other.
#[derive(Debug, Clone)]
pub struct Order {
    span: Span,
    /// Some in random order, none in sequence.
    random: Option<Permutation>,
    next: u64,
    /// A draw of 32 bits below this is a read.
    read_below: u64,
    draw: u64,
    seed: u64,
    pass: u64,
    endless: bool,
}

impl Order {
    /// Blocks of `span`, `random` or in sequence, of which `read_percent` are reads; for ever, each pass in a different
    /// order, if `endless`, else one pass.
    #[must_use]
    pub fn new(span: Span, random: bool, read_percent: u64, endless: bool, seed: u64) -> Self {
        let mut order = Self {
            span,
            random: random.then(|| Permutation::new(span.blocks, seed)),
            next: 0,
            read_below: (read_percent << 32) / 100,
            draw: mix(seed ^ 0x5EED),
            seed,
            pass: 0,
            endless,
        };
        order.restart();
        order
    }

    /// The seed that decides everything about it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Begins a new pass.
    pub fn restart(&mut self) {
        self.next = 0;
        self.pass += 1;
        if self.random.is_some() {
            self.random = Some(Permutation::new(self.span.blocks, mix(self.seed ^ self.pass)));
        }
    }

    /// The next operation: its offset in the file, and whether it writes. None at the end of the one pass.
    pub fn next_operation(&mut self) -> Option<(u64, bool)> {
        let block = loop {
            let block = match &mut self.random {
                Some(permutation) => permutation.next_block(),
                None => (self.next < self.span.blocks).then(|| {
                    self.next += 1;
                    self.next - 1
                }),
            };
            match block {
                Some(block) => break block,
                None if self.endless => self.restart(),
                None => return None,
            }
        };
        Some((self.span.offset + block * self.span.block, self.next_direction()))
    }

    /// Whether the next operation writes, where its block is chosen elsewhere.
    pub fn next_direction(&mut self) -> bool {
        // One step of a linear congruential generator (Knuth's MMIX); its upper bits are good enough to mix.
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 32) >= self.read_below
    }

    /// Whether the one pass is complete.
    #[must_use]
    pub fn is_over(&self) -> bool {
        !self.endless
            && match &self.random {
                Some(permutation) => permutation.counter > permutation.mask,
                None => self.next >= self.span.blocks,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_gives_every_block_once() {
        for blocks in (1..=70).chain([127, 128, 129, 1000, 4095, 4097, 65_536, 100_003]) {
            for key in 0..4 {
                let mut permutation = Permutation::new(blocks, key);
                let mut seen = vec![false; blocks as usize];
                for _ in 0..blocks {
                    let block = permutation.next_block().unwrap() as usize;
                    assert!(!std::mem::replace(&mut seen[block], true), "{block} of {blocks} twice");
                }
                assert_eq!(permutation.next_block(), None);
            }
        }
    }

    #[test]
    fn a_permutation_looks_random() {
        let blocks = 50_000_u64;
        let mut permutation = Permutation::new(blocks, 42);
        let order: Vec<u64> = std::iter::from_fn(|| permutation.next_block()).collect();
        // Of independent draws, about two in n follow their predecessor, and the mean distance is n / 3.
        let neighbours = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) <= 1).count();
        assert!(neighbours < 20, "{neighbours} neighbours");
        let distance = order.windows(2).map(|pair| pair[0].abs_diff(pair[1])).sum::<u64>() / (blocks - 1);
        assert!((blocks * 3 / 10..blocks * 37 / 100).contains(&distance), "mean distance {distance}");
        // Every tenth of the pass covers every tenth of the file about evenly: 500 +- 21 expected.
        for tenth in order.chunks(5000) {
            let mut counts = [0_u64; 10];
            for block in tenth {
                counts[(block / 5000) as usize] += 1;
            }
            assert!(counts.iter().all(|count| count.abs_diff(500) < 120), "{counts:?}");
        }
    }

    #[test]
    fn huge_files_need_no_memory() {
        let mut permutation = Permutation::new((1 << 52) + 1, 1);
        assert!((0..1000).all(|_| permutation.next_block().is_some_and(|block| block <= 1 << 52)));
    }

    #[test]
    fn parts_cover_the_whole_without_overlap() {
        let whole = Span { offset: 512, blocks: 1003, block: 512 };
        let mut next = 512;
        for number in 0..7 {
            let part = whole.part(number, 7);
            assert_eq!(part.offset, next);
            next += part.blocks * part.block;
        }
        assert_eq!(next, 512 + 1003 * 512);
    }

    #[test]
    fn the_mix_is_what_was_asked_and_passes_differ() {
        let span = Span { offset: 0, blocks: 1000, block: 512 };
        for percent in [0, 30, 70, 100] {
            let mut order = Order::new(span, true, percent, true, 5);
            let reads = (0..100_000).filter(|_| !order.next_operation().unwrap().1).count() as f64;
            let expected = percent as f64 * 1000.0;
            assert!((reads - expected).abs() <= expected * 0.02, "{percent}%: {reads}");
        }
        let mut order = Order::new(span, true, 100, true, 5);
        let mut pass = || (0..1000).map(|_| order.next_operation().unwrap().0).collect::<Vec<_>>();
        assert_ne!(pass(), pass());
    }

    #[test]
    fn one_pass_in_sequence_ends() {
        let mut order = Order::new(Span { offset: 4096, blocks: 3, block: 512 }, false, 100, false, 5);
        let pass: Vec<_> = std::iter::from_fn(|| order.next_operation()).collect();
        assert_eq!(pass, [(4096, false), (4608, false), (5120, false)]);
    }
}
