//! The buffers of one thread: one for every operation in flight, and enough different bytes to write.

use std::io;

use super::content::Content;
use crate::sys::memory::Region;

/// A writing job has at least this much to write from, so that blocks that land side by side in the file
/// come from unlike bytes (filesystems compress records of up to 1 MiB).
const MIN_WRITE_BUFFER: usize = 4 << 20;

/// Slots of `pieces` blocks each; a slot's next operation uses its next piece.
pub struct BufferPool {
    region: Region,
    slots: usize,
    pieces: usize,
    stride: usize,
    block: usize,
    /// Blocks are made unlike each other as they are written.
    stamped: bool,
}

impl BufferPool {
    /// Bytes that a job needs for `slots` operations of `block` bytes at once.
    #[must_use]
    pub fn bytes(slots: usize, block: usize, write: bool, jobs: usize) -> usize {
        let stride = Self::stride(block);
        slots * stride * Self::pieces(slots, stride, write, jobs)
    }

    fn stride(block: usize) -> usize {
        block.next_multiple_of(4096)
    }

    fn pieces(slots: usize, stride: usize, write: bool, jobs: usize) -> usize {
        if write {
            (MIN_WRITE_BUFFER / jobs.div_ceil(16) / (slots * stride)).max(1)
        } else {
            1
        }
    }

    /// The memory for `slots` operations of `block` bytes at once, filled with `content` if they are to
    /// be written; in huge pages if `huge`.
    pub fn new(
        slots: usize,
        block: usize,
        write: bool,
        jobs: usize,
        huge: bool,
        content: &Content,
        seed: u64,
    ) -> io::Result<Self> {
        let stride = Self::stride(block);
        let region = Region::paged(Self::bytes(slots, block, write, jobs), huge)?;
        if write {
            content.fill(&region, block, stride, seed);
        }
        let pieces = Self::pieces(slots, stride, write, jobs);
        Ok(Self { region, slots, pieces, stride, block, stamped: content.is_unique() })
    }

    /// The memory itself.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Makes the block at `at` unique, unless all are to be the same.
    #[inline]
    pub fn stamp(&self, at: usize, length: usize, offset: u64, serial: u64) {
        if self.stamped {
            self.region.stamp(at, length, offset, serial);
        }
    }

    /// How many operations have a place.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes from one slot to the next.
    #[must_use]
    pub fn slot_length(&self) -> usize {
        self.stride * self.pieces
    }

    /// Length of a block, B.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// The offset of the block of a slot's `turn`-th operation.
    #[inline]
    #[must_use]
    pub fn place(&self, slot: usize, turn: u32) -> usize {
        if self.pieces == 1 {
            slot * self.stride
        } else {
            (slot * self.pieces + turn as usize % self.pieces) * self.stride
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_slots_share_a_byte_and_a_slot_rotates() {
        let pool = BufferPool::new(3, 1000, true, 1, true, &Content::default(), 1).unwrap();
        let mut places: Vec<usize> = (0..3)
            .flat_map(|slot| (0..pool.pieces as u32).map(move |turn| (slot, turn)))
            .map(|(s, t)| pool.place(s, t))
            .collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 1000));
        assert!(places.last().unwrap() + 1000 <= pool.region().length());
        assert_eq!(pool.place(2, 0), pool.place(2, pool.pieces as u32));
        assert_ne!(pool.place(2, 0), pool.place(2, 1));
    }

    #[test]
    fn readers_and_large_blocks_get_what_they_need_and_no_more() {
        assert_eq!(BufferPool::bytes(32, 4096, false, 1), 32 * 4096);
        assert_eq!(BufferPool::bytes(2, 8 << 20, true, 1), 16 << 20);
        assert!(BufferPool::bytes(1, 512, true, 1024) <= 64 << 10);
    }
}
