//! Which write of each block was submitted last, which was acknowledged, and which a sync has covered.
//!
//! A block has one word: the generation submitted (31 bits), the one acknowledged (32 bits), and whether an
//! operation is in flight. Where syncs count it has a second one: the generation that a sync has covered, and the
//! number of syncs before the last acknowledgement. A write is covered by a sync that began after its
//! acknowledgement; with nothing in flight during a sync, as here, that is the next one that ends well.
//! Only the job whose blocks they are writes them, in an order that leaves them true after each store: a process
//! that is killed at any moment leaves at worst a write that was acknowledged and is not yet marked so.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::sys::words::Words;

const BUSY: u64 = 1 << 63;

/// What is known of one block; generations are 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// The last write submitted.
    pub begun: u32,
    /// The last one that was acknowledged whole.
    pub acknowledged: u32,
    /// The last one that a sync has covered; only known where syncs count.
    pub covered: u32,
    /// An operation is in flight.
    pub busy: bool,
}

impl Entry {
    /// The one generation that the block must be of; none while no one can know.
    #[must_use]
    pub fn certain(&self) -> Option<u32> {
        (self.acknowledged > 0 && self.acknowledged == self.begun && !self.busy).then_some(self.acknowledged)
    }
}

/// One job's blocks.
#[derive(Debug, Clone)]
pub struct Ledger {
    words: Arc<Words>,
    entries: Range<usize>,
    /// The second word of each block, and the word that counts the job's syncs; none where syncs do not count.
    covers: Option<(usize, usize)>,
}

impl Ledger {
    /// A ledger in memory, which ignores syncs.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        let words = Arc::new(Words::new(blocks as usize));
        Self { entries: 0..words.len(), words, covers: None }
    }

    /// A ledger in `words`: blocks at `entries`, their second words from `covers` on, and the count of syncs at `syncs`.
    #[must_use]
    pub fn within(words: Arc<Words>, entries: Range<usize>, covers: usize, syncs: usize) -> Self {
        Self { words, entries, covers: Some((covers, syncs)) }
    }

    /// How many blocks it has.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn word(&self, number: usize) -> &AtomicU64 {
        &self.words[self.entries.start + number]
    }

    /// What is known of the block `number`.
    #[must_use]
    pub fn entry(&self, number: usize) -> Entry {
        let word = self.word(number).load(Ordering::Acquire);
        let mut entry = unpacked(word);
        if let Some((covers, syncs)) = self.covers {
            let cover = self.words[covers + number].load(Ordering::Acquire);
            let is_covered = (cover >> 32) < self.words[syncs].load(Ordering::Acquire);
            entry.covered = if is_covered { entry.acknowledged } else { cover as u32 };
        }
        entry
    }

    /// The one generation that the block must be of; none while no one can know.
    #[inline]
    #[must_use]
    pub fn certain(&self, number: usize) -> Option<u32> {
        unpacked(self.word(number).load(Ordering::Relaxed)).certain()
    }

    /// Whether an operation on the block is in flight.
    #[inline]
    #[must_use]
    pub fn is_busy(&self, number: usize) -> bool {
        self.word(number).load(Ordering::Relaxed) & BUSY != 0
    }

    /// Marks a submitted read of the block.
    #[inline]
    pub fn begin_read(&self, number: usize) {
        let word = self.word(number);
        word.store(word.load(Ordering::Relaxed) | BUSY, Ordering::Release);
    }

    /// Marks a submitted write of the block; returns its generation, `first` for the first one.
    #[inline]
    #[must_use]
    pub fn begin_write(&self, number: usize, first: u32) -> u32 {
        let word = self.word(number);
        let entry = unpacked(word.load(Ordering::Relaxed));
        let next = if entry.begun == 0 { first } else { entry.begun + 1 };
        word.store(BUSY | (u64::from(next) << 32) | u64::from(entry.acknowledged), Ordering::Release);
        next
    }

    /// The operation on the block has ended; `acknowledged` if it was a write, and whole.
    #[inline]
    pub fn end(&self, number: usize, acknowledged: bool) {
        let word = self.word(number);
        let was = word.load(Ordering::Relaxed) & !BUSY;
        if !acknowledged {
            return word.store(was, Ordering::Release);
        }
        if let Some((covers, syncs)) = self.covers {
            let (cover, now) = (&self.words[covers + number], self.words[syncs].load(Ordering::Relaxed));
            if cover.load(Ordering::Relaxed) >> 32 != now {
                // What was acknowledged before the last sync is covered by it.
                cover.store((now << 32) | (was & u64::from(u32::MAX)), Ordering::Release);
            }
        }
        let begun = was >> 32;
        word.store((begun << 32) | begun, Ordering::Release);
    }

    /// A sync has ended well, with none of the job's operations in flight.
    pub fn synced(&self) {
        if let Some((_, syncs)) = self.covers {
            self.words[syncs].fetch_add(1, Ordering::AcqRel);
        }
    }
}

fn unpacked(word: u64) -> Entry {
    Entry { begun: ((word & !BUSY) >> 32) as u32, acknowledged: word as u32, covered: 0, busy: word & BUSY != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_syncs(blocks: usize) -> Ledger {
        Ledger::within(Arc::new(Words::new(2 * blocks + 1)), 0..blocks, blocks, 2 * blocks)
    }

    fn state(ledger: &Ledger, number: usize) -> (u32, u32, u32) {
        let entry = ledger.entry(number);
        (entry.begun, entry.acknowledged, entry.covered)
    }

    #[test]
    fn a_write_is_handed_over_then_acknowledged_then_covered_by_the_next_sync() {
        let ledger = with_syncs(2);
        assert_eq!(state(&ledger, 0), (0, 0, 0));
        assert_eq!((ledger.begin_write(0, 5), state(&ledger, 0), ledger.is_busy(0)), (5, (5, 0, 0), true));
        ledger.end(0, true);
        assert_eq!((state(&ledger, 0), ledger.entry(0).certain()), ((5, 5, 0), Some(5)));
        ledger.synced();
        assert_eq!(state(&ledger, 0), (5, 5, 5));
        assert_eq!(ledger.begin_write(0, 5), 6);
        assert_eq!((state(&ledger, 0), ledger.entry(0).certain()), ((6, 5, 5), None));
        ledger.end(0, true);
        assert_eq!(state(&ledger, 0), (6, 6, 5));
        assert_eq!(ledger.begin_write(0, 5), 7);
        ledger.end(0, true);
        assert_eq!(state(&ledger, 0), (7, 7, 5), "no sync since the fifth");
        ledger.synced();
        assert_eq!((state(&ledger, 0), state(&ledger, 1)), ((7, 7, 7), (0, 0, 0)));
    }

    #[test]
    fn a_write_that_failed_leaves_the_block_unknown_until_the_next_whole_one() {
        let ledger = with_syncs(1);
        assert_eq!(ledger.begin_write(0, 1), 1);
        ledger.end(0, true);
        assert_eq!(ledger.begin_write(0, 1), 2);
        ledger.end(0, false);
        assert_eq!((state(&ledger, 0), ledger.entry(0).certain(), ledger.is_busy(0)), ((2, 1, 0), None, false));
        assert_eq!(ledger.begin_write(0, 1), 3);
        ledger.end(0, true);
        assert_eq!(ledger.entry(0).certain(), Some(3));
    }

    #[test]
    fn a_read_changes_nothing_but_that_it_is_in_flight() {
        let ledger = Ledger::new(1);
        ledger.begin_read(0);
        assert!(ledger.is_busy(0));
        ledger.end(0, false);
        assert_eq!(ledger.entry(0), Entry::default());
        ledger.synced();
    }
}
