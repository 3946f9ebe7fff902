//! Blocks that identify themselves, so that a read distinguishes a good one from a torn, stale, misplaced, flipped or
//! lost one.
//!
//! Every sector of 512 bytes begins with where it belongs (see [`mark`]) and which write it is part of; the
//! first one goes on with a magic word, the block's length, and the CRC-32C of the whole block (that field
//! zeroed). The rest are bytes that do not compress.

use std::io;

use crate::timing::rng::mix;
use serde_json::{json, Map, Value};

use super::ledger::Ledger;
use crate::contract::reading::Fault;
use crate::storage::data::file_set::FileSet;
use crate::storage::order::blocks::Span;
use crate::sys::files::{self, Advice};
use crate::sys::memory::{mark, Region, SECTOR};

const MAGIC: u64 = u64::from_le_bytes(*b"hwdynoV1");
const CRC_AT: usize = 28;
/// The least block that holds all of it.
pub const MIN_BLOCK: u64 = 512;
/// Blocks are read back this many bytes at a time.
const CHUNK: u64 = 1 << 20;
/// Damaged blocks that are reported by offset, at most.
const MAX_LISTED: usize = 16;

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Its sectors are of different writes.
    Torn,
    /// It is whole, and of an earlier write than the last one.
    Stale,
    /// It is whole, and belongs elsewhere.
    Misplaced,
    /// Its sectors are of one write, and its checksum is wrong.
    Flipped,
    /// It was never a block of this kind.
    Lost,
}

/// Every damage with its name, in the order of [`DamageReport::counts`].
pub const DAMAGES: [(Damage, &str); 5] = [
    (Damage::Torn, "torn"),
    (Damage::Stale, "stale"),
    (Damage::Misplaced, "misplaced"),
    (Damage::Flipped, "flipped"),
    (Damage::Lost, "lost"),
];

/// Damaged blocks, by kind.
#[derive(Debug, Clone, Default)]
pub struct DamageReport {
    /// Blocks that were checked.
    pub checked: u64,
    /// Damaged blocks, by kind.
    pub counts: [u64; 5],
    /// The first of them: offset and kind.
    pub first: Vec<(u64, &'static str)>,
    /// Blocks that could not be read back.
    pub unreadable: u64,
}

impl DamageReport {
    /// A report with room for all that it may list, so that nothing is allocated in the timed region.
    #[must_use]
    pub fn roomy() -> Self {
        Self { first: Vec::with_capacity(MAX_LISTED), ..Self::default() }
    }

    /// Counts a damaged block.
    pub fn count(&mut self, offset: u64, damage: Damage) {
        for (at, (kind, name)) in DAMAGES.iter().enumerate() {
            if *kind == damage {
                self.counts[at] += 1;
                if self.first.len() < MAX_LISTED {
                    self.first.push((offset, name));
                }
            }
        }
    }

    /// Adds another job's.
    pub fn merge(&mut self, other: &Self) {
        self.checked += other.checked;
        self.unreadable += other.unreadable;
        self.counts.iter_mut().zip(other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.first.extend(&other.first);
        self.first.truncate(MAX_LISTED);
    }

    /// Adds it to a reading: `details`, and a fault for each kind of damage, of blocks that `which` describes.
    pub fn write(&self, which: &str, details: &mut Map<String, Value>, faults: &mut Vec<Fault>) {
        details.insert("verify_checked_blocks".into(), json!(self.checked));
        for (&count, (_, name)) in self.counts.iter().zip(DAMAGES) {
            details.insert(format!("verify_{name}_blocks"), json!(count));
            if count > 0 {
                let at = self.first.iter().find(|first| first.1 == name).map_or(0, |first| first.0);
                let says = format!("{name} block{which}, the first at offset {at}");
                faults.push(Fault { operation: "verify".into(), errno: 0, says, count });
            }
        }
        if self.unreadable > 0 {
            let says = "could not be read back".into();
            faults.push(Fault { operation: "verify".into(), errno: libc::EIO, says, count: self.unreadable });
        }
        if !self.first.is_empty() {
            let first: Vec<_> = self.first.iter().map(|(at, kind)| json!({"offset": at, "damage": kind})).collect();
            details.insert("verify_first_damaged".into(), json!(first));
        }
    }
}

/// The half of a serial that identifies the run.
#[must_use]
pub fn nonce(seed: u64) -> u32 {
    (mix(seed ^ 0x5EA1) >> 32) as u32
}

fn word(block: &[u8], at: usize) -> u64 {
    block.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn checksum(block: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&block[..CRC_AT]), &[0; 4]), &block[CRC_AT + 4..])
}

/// The sectors that have marks: each one's place in the block, its mark and its serial.
fn sectors(block: &[u8]) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    let places = (0..block.len()).step_by(SECTOR).filter(|at| at + 16 <= block.len());
    places.map(|at| (at as u64, word(block, at), word(block, at + 8)))
}

/// Makes of `block` the one that belongs at `offset`, in its `generation`-th write by the run of `nonce`.
pub fn seal(block: &mut [u8], offset: u64, nonce: u32, generation: u32) {
    let serial = (u64::from(nonce) << 32) | u64::from(generation);
    for sector in (0..block.len()).step_by(SECTOR) {
        if sector + 16 <= block.len() {
            block[sector..sector + 8].copy_from_slice(&mark(offset.wrapping_add(sector as u64)).to_le_bytes());
            block[sector + 8..sector + 16].copy_from_slice(&serial.to_le_bytes());
        }
    }
    block[16..24].copy_from_slice(&MAGIC.to_le_bytes());
    let length = block.len() as u32;
    block[24..28].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// The generation of the whole block that belongs at `offset`, written by the run of `nonce`; else its damage.
///
/// # Errors
/// What is wrong with it.
pub fn inspect(block: &[u8], offset: u64, nonce: u32) -> Result<u32, Damage> {
    let stored_sum = u32::from_le_bytes([block[CRC_AT], block[CRC_AT + 1], block[CRC_AT + 2], block[CRC_AT + 3]]);
    let first = word(block, 8);
    let headed = word(block, 16) == MAGIC && word(block, 24) as u32 == block.len() as u32;
    if headed && stored_sum == checksum(block) {
        return if word(block, 0) != mark(offset) {
            Err(Damage::Misplaced)
        } else if (first >> 32) as u32 != nonce {
            Err(Damage::Stale)
        } else if sectors(block).all(|(at, place, serial)| place == mark(offset.wrapping_add(at)) && serial == first) {
            Ok(first as u32)
        } else {
            // Its sum is right by chance, once in four thousand million.
            Err(Damage::Torn)
        };
    }
    let serials = || sectors(block).map(|(_, _, serial)| serial);
    if !headed && !serials().any(|serial| (serial >> 32) as u32 == nonce) {
        return Err(Damage::Lost);
    }
    // One sector that differs from all others by one bit was flipped there, and not written at another time.
    let common = if block.len() > 2 * SECTOR && serials().skip(1).all(|s| s == word(block, SECTOR + 8)) {
        word(block, SECTOR + 8)
    } else {
        first
    };
    let mut unlike = serials().filter(|&serial| serial != common);
    match (unlike.next(), unlike.next()) {
        (None, _) => Err(Damage::Flipped),
        (Some(one), None) if (one ^ common).is_power_of_two() => Err(Damage::Flipped),
        _ => Err(Damage::Torn),
    }
}

/// The blocks of one job, sealed as they are written and judged as they are read.
#[derive(Debug)]
pub struct Verify {
    span: Span,
    nonce: u32,
    generation: u32,
    /// Which write of each block was the last.
    ledger: Ledger,
    /// Blocks that this job did not write are checked against `generation` too.
    reads_only: bool,
    /// What was found so far.
    pub found: DamageReport,
}

impl Verify {
    /// A check of the blocks of `span`, identified by `nonce`; the first write of each has `generation`.
    #[must_use]
    pub fn new(span: Span, ledger: Ledger, nonce: u32, generation: u32, reads_only: bool) -> Self {
        Self { span, nonce, generation, ledger, reads_only, found: DamageReport::roomy() }
    }

    #[inline]
    fn number(&self, offset: u64) -> usize {
        ((offset - self.span.offset) / self.span.block) as usize
    }

    /// Whether an operation on the block at `offset` is in flight.
    #[must_use]
    pub fn is_busy(&self, offset: u64) -> bool {
        self.ledger.is_busy(self.number(offset))
    }

    /// An operation on a block begins; what is to be written is made the block that it should be.
    pub fn begin(&mut self, region: &Region, at: usize, offset: u64, write: bool) {
        let number = self.number(offset);
        if write {
            let generation = self.ledger.begin_write(number, self.generation);
            region.lend(at, self.span.block as usize, |block| seal(block, offset, self.nonce, generation));
        } else {
            self.ledger.begin_read(number);
        }
    }

    /// An operation on a block has ended.
    pub fn end(&mut self, region: &Region, at: usize, offset: u64, write: bool, whole: bool) {
        let number = self.number(offset);
        self.ledger.end(number, write && whole);
        if write || !whole {
            return;
        }
        let last = self.ledger.certain(number);
        if last.is_some() || self.reads_only {
            let nonce = self.nonce;
            let seen = region.lend(at, self.span.block as usize, |block| inspect(block, offset, nonce));
            self.judge(offset, seen, last);
        }
    }

    /// A sync has ended well, with nothing in flight.
    pub fn synced(&self) {
        self.ledger.synced();
    }

    fn judge(&mut self, offset: u64, seen: Result<u32, Damage>, last: Option<u32>) {
        self.found.checked += 1;
        match (seen, last) {
            (Ok(generation), Some(last)) if generation != last => self.found.count(offset, Damage::Stale),
            (Ok(generation), None) if generation < self.generation => self.found.count(offset, Damage::Stale),
            (Ok(_), _) => {}
            (Err(damage), _) => self.found.count(offset, damage),
        }
    }

    /// Reads back every block that was written, from the device where the file is direct or can be dropped
    /// from the cache.
    ///
    /// # Errors
    /// Where the memory to read into cannot be had.
    pub fn read_back(&mut self, file_set: FileSet<'_>, is_stopped: &dyn Fn() -> bool) -> io::Result<()> {
        let (ledger, nonce) = (self.ledger.clone(), self.nonce);
        let wanted = |number: usize| ledger.certain(number).is_some();
        each_block(file_set, self.span, wanted, is_stopped, |number, offset, bytes| match bytes {
            Some(bytes) => self.judge(offset, inspect(bytes, offset, nonce), ledger.certain(number)),
            None => self.found.unreadable += 1,
        })
    }
}

/// Reads those blocks of `span` that are `wanted`, many at a time, and hands each to `see` with its number and
/// offset; without bytes where it cannot be read.
///
/// # Errors
/// Where the memory to read into cannot be had.
pub fn each_block(
    file_set: FileSet<'_>,
    span: Span,
    wanted: impl Fn(usize) -> bool,
    is_stopped: &dyn Fn() -> bool,
    mut see: impl FnMut(usize, u64, Option<&[u8]>),
) -> io::Result<()> {
    let block = span.block as usize;
    let (blocks, step) = (span.blocks as usize, (CHUNK / span.block).max(1) as usize);
    let region = Region::new(step * block)?;
    for file in file_set.files() {
        files::advise(file, 0, 0, Advice::DontNeed);
    }
    let a_file = (blocks / file_set.files().len().max(1)).max(1);
    let mut from = 0;
    while from < blocks && !is_stopped() {
        // A read ends with its file.
        let to = (from + step).min((from / a_file + 1) * a_file).min(blocks);
        if (from..to).any(&wanted) {
            let offset = span.offset + from as u64 * span.block;
            let (file, place) = file_set.place(offset);
            let length = (to - from) * block;
            let mut moved = 0;
            while moved < length {
                let rest = length - moved;
                match files::read_at(&file_set.files()[file], &region, moved, rest, place + moved as u64) {
                    more if more > 0 => moved += more as usize,
                    _ => break,
                }
            }
            for number in (from..to).filter(|&number| wanted(number)) {
                let at = (number - from) * block;
                let place = offset + at as u64;
                if moved < at + block {
                    see(number, place, None);
                } else {
                    region.lend(at, block, |bytes| see(number, place, Some(bytes)));
                }
            }
        }
        from = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(length: usize, offset: u64, generation: u32) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..length).map(|at| mix(at as u64) as u8).collect();
        seal(&mut bytes, offset, 77, generation);
        bytes
    }

    #[test]
    fn a_good_block_is_good() {
        for length in [512, 777, 4096, 1 << 20] {
            assert_eq!(inspect(&block(length, 8192, 5), 8192, 77), Ok(5), "{length}");
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let good = block(2048, 4096, 3);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(inspect(&bad, 4096, 77), Err(Damage::Flipped), "bit {bit}");
        }
    }

    #[test]
    fn a_write_cut_at_any_sector_is_torn() {
        let (old, new) = (block(4096, 4096, 3), block(4096, 4096, 6));
        let never: Vec<u8> = vec![0; 4096];
        for cut in (512..4096).step_by(512) {
            for (head, tail) in [(&new, &old), (&old, &new), (&new, &never), (&never, &new)] {
                let mixed = [&head[..cut], &tail[cut..]].concat();
                assert_eq!(inspect(&mixed, 4096, 77), Err(Damage::Torn), "cut at {cut}");
            }
        }
    }

    #[test]
    fn whole_blocks_of_another_place_or_run_and_none_at_all_are_told_apart() {
        assert_eq!(inspect(&block(4096, 4096, 3), 8192, 77), Err(Damage::Misplaced));
        assert_eq!(inspect(&block(4096, 4096, 3), 4096, 78), Err(Damage::Stale));
        assert_eq!(inspect(&[0; 4096], 4096, 77), Err(Damage::Lost));
        assert_eq!(inspect(&[0xFF; 512], 4096, 77), Err(Damage::Lost));
    }
}
