//! Page-aligned memory that transfers go to and come from, with marks that tell blocks apart.

use std::io;
use std::ptr::NonNull;

use crate::timing::rng::mix;

/// Every sector of this length carries its own mark, so that no two blocks are alike.
pub const SECTOR: usize = 512;
/// Smallest mapping that is worth huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// Anonymous memory, mapped, aligned to pages and backed by real pages from the start.
///
/// The system writes into it behind the compiler's back, so it is reached by raw pointers only.
pub struct Region {
    base: NonNull<u8>,
    length: usize,
    huge: bool,
}

// SAFETY: a Region is plain memory that it alone owns; whoever shares one keeps to disjoint parts.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `length` bytes (rounded up to pages), in huge pages if it can, and touches every page.
    pub fn new(length: usize) -> io::Result<Self> {
        Self::paged(length, true)
    }

    /// The same, in huge pages only if `huge`; otherwise a large block is of many pieces for a device.
    pub fn paged(length: usize, huge: bool) -> io::Result<Self> {
        let length = length.max(1).next_multiple_of(4096);
        // SAFETY: a fresh anonymous mapping touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if length >= HUGE_PAGE || !huge {
            let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
            // SAFETY: advice on a mapping of our own; a refusal changes nothing.
            unsafe { libc::madvise(base, length, advice) };
        }
        let Some(base) = NonNull::new(base.cast::<u8>()) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        for at in (0..length).step_by(4096) {
            // SAFETY: `at` is inside the mapping; volatile, so that the touch is not optimised away.
            unsafe { base.as_ptr().add(at).write_volatile(0) };
        }
        Ok(Self { base, length, huge })
    }

    /// Whether huge pages were requested.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The address of the byte `at`, for a transfer of `length` bytes.
    ///
    /// # Panics
    /// If the transfer would leave the region: the caller's arithmetic is then wrong, and memory at stake.
    #[inline]
    #[must_use]
    pub fn address(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at <= self.length && length <= self.length - at, "a transfer outside of its memory");
        // SAFETY: the assertion keeps the result inside the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Fills all of it with bytes that do not compress.
    #[allow(clippy::cast_ptr_alignment, reason = "mappings are aligned to pages")]
    pub fn fill_random(&self, seed: u64) {
        // Four independent xorshift64* lanes keep the multiplier busy: about 8 GB/s a core.
        let mut lanes = [1_u64, 2, 3, 4].map(|lane| mix(seed.wrapping_add(lane)) | 1);
        let words = self.base.as_ptr().cast::<u64>();
        for group in 0..self.length / 32 {
            for (lane, state) in lanes.iter_mut().enumerate() {
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                let word = state.wrapping_mul(0x2545_F491_4F6C_DD1D);
                // SAFETY: group * 4 + lane is below length / 8, and mappings are aligned to pages.
                unsafe { words.add(group * 4 + lane).write(word) };
            }
        }
    }

    /// Marks every sector of the block of `length` bytes at `at`, which is to go to `offset` in its file:
    /// where it belongs (see [`mark`]), then `serial`.
    #[inline]
    #[allow(clippy::cast_ptr_alignment, reason = "written unaligned")]
    pub fn stamp(&self, at: usize, length: usize, offset: u64, serial: u64) {
        let block = self.address(at, length);
        let mut sector = 0;
        while sector + 16 <= length {
            // SAFETY: sector + 16 <= length, which `address` has checked to be inside.
            unsafe {
                let place = block.add(sector).cast::<u64>();
                place.write_unaligned(mark(offset + sector as u64));
                place.add(1).write_unaligned(serial);
            }
            sector += SECTOR;
        }
    }

    /// Makes the `length` bytes at `to` the same as those at `from`; only where no transfer into either is in flight.
    pub fn repeat(&self, from: usize, to: usize, length: usize) {
        let (from, to) = (self.address(from, length), self.address(to, length));
        // SAFETY: both ranges were checked by `address`; they may be one and the same, and `copy` allows that.
        unsafe { std::ptr::copy(from, to, length) };
    }

    /// Lends `length` bytes from `at` to `work`; only for memory with no transfer in flight.
    pub fn lend<T>(&self, at: usize, length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
        let from = self.address(at, length);
        // SAFETY: the range was checked by `address` and is initialised; it is a job's own, and no transfer is
        // in flight there (the caller's promise), so that no one else looks at it until `work` returns.
        work(unsafe { std::slice::from_raw_parts_mut(from, length) })
    }

    /// Copies out `length` bytes from `at`; only for memory with no transfer in flight.
    #[cfg(test)]
    #[must_use]
    pub fn copy(&self, at: usize, length: usize) -> Vec<u8> {
        let from = self.address(at, length);
        // SAFETY: the range was checked by `address`, is initialised (mapped zeroes) and is copied at once.
        unsafe { std::slice::from_raw_parts(from, length) }.to_vec()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the engines drain their transfers before they let go of it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// The mark of the sector that belongs at `offset` in its file: unlike for unlike offsets, and as
/// incompressible as the bytes around it.
#[inline]
#[must_use]
pub fn mark(offset: u64) -> u64 {
    (offset ^ 0x6877_6479_6E6F_2121).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_says_where_it_belongs() {
        let region = Region::new(8192).unwrap();
        region.fill_random(7);
        region.stamp(4096, 2048, 1 << 40, 9);
        let block = region.copy(4096, 2048);
        for sector in 0..4 {
            let words: Vec<u64> = block[sector * SECTOR..][..16]
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
                .collect();
            assert_eq!(words, [mark((1 << 40) + (sector * SECTOR) as u64), 9]);
        }
    }

    #[test]
    fn filling_leaves_no_byte_more_common_than_another() {
        let region = Region::new(1 << 20).unwrap();
        region.fill_random(3);
        let mut counts = [0_u32; 256];
        region.copy(0, 1 << 20).iter().for_each(|&byte| counts[byte as usize] += 1);
        // 4096 expected each, standard deviation 64: eight of them is beyond chance.
        assert!(counts.iter().all(|&count| count.abs_diff(4096) < 512), "{counts:?}");
    }

    #[test]
    #[should_panic(expected = "outside of its memory")]
    fn a_transfer_cannot_leave_its_memory() {
        let _ = Region::new(4096).unwrap().address(4000, 97);
    }
}
