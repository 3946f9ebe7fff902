//! What is written: bytes that never repeat or compress, unless options request zeroes, a pattern, or a share of both.

use crate::timing::rng::Rng;

use crate::sys::memory::Region;

/// What buffers hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    /// This many of 100 bytes of every chunk are zeroes; fio's `buffer_compress_percentage`.
    pub compress_percent: u64,
    /// Length of a chunk, B; 0 for the block's.
    pub compress_chunk: u64,
    /// This many of 100 blocks are the one written before once more; fio's `dedupe_percentage`.
    pub duplicate_percent: u64,
    /// These bytes over and over, in place of all else; empty for none. Zeroes are a pattern of one zero.
    pub pattern: Vec<u8>,
}

impl Content {
    /// Whether every block is unlike every other.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.pattern.is_empty()
    }

    /// Fills the buffers of blocks of `block` bytes that begin at whole multiples of `stride`.
    pub fn fill(&self, region: &Region, block: usize, stride: usize, seed: u64) {
        if self.pattern.is_empty() {
            region.fill_random(seed);
        }
        if self.pattern.is_empty() && self.compress_percent == 0 {
            return;
        }
        let chunk = if self.compress_chunk == 0 { block } else { self.compress_chunk as usize };
        let random = chunk - (chunk as u64 * self.compress_percent.min(100) / 100) as usize;
        for begin in (0..region.length()).step_by(stride) {
            region.lend(begin, block.min(region.length() - begin), |bytes| {
                if self.pattern.is_empty() {
                    bytes.chunks_mut(chunk).for_each(|part| part.iter_mut().skip(random).for_each(|byte| *byte = 0));
                } else {
                    bytes.iter_mut().zip(self.pattern.iter().cycle()).for_each(|(byte, &of)| *byte = of);
                }
            });
        }
    }
}

/// Draws which blocks repeat the one before.
#[derive(Debug, Clone)]
pub struct Duplicates {
    percent: u64,
    rng: Rng,
    last: Option<(usize, usize)>,
}

impl Duplicates {
    /// This many of 100; none for 0.
    #[must_use]
    pub fn new(percent: u64, seed: u64) -> Option<Self> {
        (percent > 0).then(|| Self { percent, rng: Rng::new(seed ^ 0xD0B1E), last: None })
    }

    /// Makes the block at `at` the same as the one before it, or says that it is to be a new one.
    pub fn repeat(&mut self, region: &Region, at: usize, length: usize) -> bool {
        let same = self.rng.below(100) < self.percent;
        let Some((from, _)) = self.last.filter(|&(_, before)| same && before >= length) else {
            self.last = Some((at, length));
            return false;
        };
        region.repeat(from, at, length);
        // From now on this is the newest place of those bytes; the older one may be written over sooner.
        self.last = Some((at, length));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::data::buffers::BufferPool;

    #[test]
    fn each_chunk_holds_its_share_of_zeroes() {
        let region = Region::new(16384).unwrap();
        let content = Content { compress_percent: 75, compress_chunk: 512, ..Content::default() };
        content.fill(&region, 4096, 4096, 1);
        let zeroes = 16384 - region.copy(0, 16384).into_iter().filter(|&byte| byte > 0).count();
        // Of the random bytes one in 256 is zero.
        assert!((12288..12288 + 64).contains(&zeroes), "{zeroes}");
        let pattern = Content { pattern: vec![0xAA, 0x55, 0x01], ..Content::default() };
        pattern.fill(&region, 4000, 4096, 1);
        assert_eq!(region.copy(4096, 4), [0xAA, 0x55, 0x01, 0xAA]);
    }

    #[test]
    fn as_many_blocks_repeat_as_asked() {
        let pool = BufferPool::new(1, 4096, true, 1, true, &Content::default(), 1).unwrap();
        let mut duplicates = Duplicates::new(40, 7).unwrap();
        let mut same = 0_u32;
        for turn in 0..10_000_u32 {
            let at = pool.place(0, turn);
            if duplicates.repeat(pool.region(), at, 4096) {
                same += 1;
                assert_eq!(pool.region().copy(at, 4096), pool.region().copy(pool.place(0, turn - 1), 4096));
            } else {
                pool.region().stamp(at, 4096, 0, u64::from(turn));
            }
        }
        assert!(same.abs_diff(4000) < 250, "{same}");
    }
}
