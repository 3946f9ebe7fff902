//! Files as the storage kernels need them: direct opens, transfers by address, extents, cache residency.

use std::ffi::c_int;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{fadvise, fallocate, seek, FallocateFlags, SeekFrom};
use rustix::io::{retry_on_intr, Errno};

use super::memory::Region;
use super::pages::page_size;
use crate::words;

/// What the system can be advised about later accesses.
pub use rustix::fs::Advice;

/// What one read or write system call moves at most: 2 GiB less a page (read(2), `MAX_RW_COUNT`).
pub const LARGEST_CALL: u64 = 0x7FFF_F000;

words! {
    /// How durable a write is when its call returns.
    pub enum Durable {
        /// Some time later, when the system decides.
        Later = "none",
        /// So is all that describes the file (`O_SYNC`).
        Whole = "sync",
        /// Its data is (`O_DSYNC`).
        Data = "dsync",
    }
}

/// How `open(2)` is called for a file past the page cache, and for writes that are `durable`.
#[must_use]
pub fn flags(direct: bool, durable: Durable) -> i32 {
    let direct = if direct { libc::O_DIRECT } else { 0 };
    direct
        | match durable {
            Durable::Later => 0,
            Durable::Data => libc::O_DSYNC,
            Durable::Whole => libc::O_SYNC,
        }
}

/// Opens a file to read, with more flags of `open(2)`.
pub fn open_to_read(path: &Path, flags: i32) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// The same, past the page cache if `direct`.
pub fn open(path: &Path, direct: bool) -> io::Result<File> {
    open_to_read(path, flags(direct, Durable::Later))
}

/// Reads a part of the file once, so that it is in the page cache; what cannot be read is not there.
pub fn read_ahead(file: &File, offset: u64, length: u64) {
    let mut buffer = vec![0; 1 << 20];
    let mut at = offset;
    while at < offset + length {
        let wanted = buffer.len().min((offset + length - at) as usize);
        match file.read_at(&mut buffer[..wanted], at) {
            Ok(moved) if moved > 0 => at += moved as u64,
            _ => return,
        }
    }
}

/// Reads `length` bytes at `offset` of the file to `at` in the region: the bytes moved, or minus the errno.
#[inline]
#[must_use]
pub fn read_at(file: &File, region: &Region, at: usize, length: usize, offset: u64) -> i64 {
    let to = region.address(at, length).cast();
    // SAFETY: `address` checked that the range is inside the region.
    uninterrupted(|| unsafe { libc::pread(file.as_raw_fd(), to, length, offset as libc::off_t) } as i64)
}

/// Writes likewise.
#[inline]
#[must_use]
pub fn write_at(file: &File, region: &Region, at: usize, length: usize, offset: u64) -> i64 {
    let from = region.address(at, length).cast();
    // SAFETY: as in `read_at`.
    uninterrupted(|| unsafe { libc::pwrite(file.as_raw_fd(), from, length, offset as libc::off_t) } as i64)
}

/// The call's answer, or minus the errno; one that a signal cut before it moved anything is made again.
#[inline]
fn uninterrupted(call: impl Fn() -> i64) -> i64 {
    loop {
        let moved = answer(call());
        if moved != -i64::from(libc::EINTR) {
            return moved;
        }
    }
}

#[inline]
fn answer(moved: i64) -> i64 {
    if moved >= 0 {
        return moved;
    }
    -i64::from(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// How blocks are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Give {
    /// BLKDISCARD of a block device.
    Discard,
    /// A hole in a file, whose length stays.
    Hole,
}

/// Gives back `length` bytes at `offset`: 0, or minus the errno.
#[must_use]
pub fn give_back(file: &File, how: Give, offset: u64, length: u64) -> i64 {
    const BLKDISCARD: u64 = 0x1277; // _IO(0x12, 119), linux/fs.h
    match how {
        Give::Discard => {
            let range = [offset, length];
            // SAFETY: the request reads two numbers, which outlive the call.
            answer(i64::from(unsafe { libc::ioctl(file.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) }))
        }
        Give::Hole => {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            match retry_on_intr(|| fallocate(file, how, offset, length)) {
                Ok(()) => 0,
                Err(errno) => -i64::from(errno.raw_os_error()),
            }
        }
    }
}

/// Advises the system about a part of the file, to its end for length 0; advice that is refused changes nothing.
pub fn advise(file: &File, offset: u64, length: u64, advice: Advice) {
    let _ = fadvise(file, offset, NonZeroU64::new(length), advice);
}

/// Starts writing back a part of the file (`wait` false), or waits until it is written back.
pub fn write_back(file: &File, offset: u64, length: u64, wait: bool) -> io::Result<()> {
    let mut flags = libc::SYNC_FILE_RANGE_WRITE;
    if wait {
        flags |= libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    }
    // SAFETY: takes a descriptor and plain numbers.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), offset as i64, length as i64, flags) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            // Not on this kind of file (or not under this emulator): the fsync at the end does it all.
            error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::ESPIPE | libc::EINVAL)) => Ok(()),
            error => Err(error),
        },
    }
}

/// The holes in the first `end` bytes of a file, each as its beginning and end; empty where the
/// filesystem keeps none.
pub fn holes(file: &File, end: u64) -> io::Result<Vec<(u64, u64)>> {
    let seek_to = |place: SeekFrom| match seek(file, place) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None), // none up to the file's end
        Err(errno) => Err(errno),
    };
    let mut found = Vec::new();
    let mut at = 0;
    while at < end {
        let Some(from) = seek_to(SeekFrom::Hole(at))?.filter(|&from| from < end) else { break };
        let to = seek_to(SeekFrom::Data(from))?.unwrap_or(end).min(end);
        found.push((from, to));
        at = to;
    }
    Ok(found)
}

/// Bytes of a region of a file by what is under them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extents {
    /// Data was written.
    pub written: u64,
    /// Allocated, but never written: reads cost no device access.
    pub unwritten: u64,
    /// Not even allocated: likewise.
    pub hole: u64,
    /// Written bytes that are stored compressed or encrypted: other bytes than were written.
    pub encoded: u64,
}

impl std::ops::Add for Extents {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            unwritten: self.unwritten + other.unwritten,
            hole: self.hole + other.hole,
            encoded: self.encoded + other.encoded,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_after: [u32; 3],
}

const EXTENTS_A_CALL: usize = 128;

#[repr(C)]
struct ExtentMap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS_A_CALL],
}

/// The extents under `[offset, offset + length)` by FIEMAP; none where the filesystem does not report them.
#[must_use]
pub fn extents(file: &File, offset: u64, length: u64) -> Option<Extents> {
    const FIEMAP: u64 = 0xC020_660B; // FS_IOC_FIEMAP = _IOWR('f', 11, struct fiemap)
    const LAST: u32 = 0x1;
    const ENCODED: u32 = 0x8;
    const UNWRITTEN: u32 = 0x800;
    let end = offset + length;
    let mut found = Extents::default();
    let mut at = offset;
    while at < end {
        let mut map = ExtentMap {
            start: at,
            length: end - at,
            flags: 0,
            mapped: 0,
            count: EXTENTS_A_CALL as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS_A_CALL],
        };
        // SAFETY: `map` is a valid fiemap with room for `count` extents behind it.
        if unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut map) } < 0 {
            return None;
        }
        let extents = &map.extents[..(map.mapped as usize).min(EXTENTS_A_CALL)];
        for extent in extents {
            let (from, to) = (extent.logical.max(at), (extent.logical + extent.length).min(end));
            if extent.flags & ENCODED != 0 {
                found.encoded += to.saturating_sub(from);
            }
            if extent.flags & UNWRITTEN == 0 {
                found.written += to.saturating_sub(from);
            } else {
                found.unwritten += to.saturating_sub(from);
            }
        }
        match extents.last() {
            Some(last) if last.flags & LAST == 0 && last.logical + last.length > at => {
                at = last.logical + last.length;
            }
            _ => break,
        }
    }
    found.hole = length.saturating_sub(found.written + found.unwritten);
    Some(found)
}

/// The share (0 to 1) of `[offset, offset + length)` that is in the page cache, by cachestat(2), or by mincore(2) over
/// at most 64 samples of 1 MiB; none where neither answers.
#[must_use]
pub fn cached_share(file: &File, offset: u64, length: u64) -> Option<f64> {
    if length == 0 {
        return None;
    }
    match cachestat(file, offset, length) {
        Some([cached, ..]) => Some(cached),
        None => sampled_share(file, offset, length),
    }
}

/// The share of `[offset, offset + length)` that was written to the page cache and not yet to the device, by
/// cachestat(2); none where that does not answer (before Linux 6.5).
#[must_use]
pub fn dirty_share(file: &File, offset: u64, length: u64) -> Option<f64> {
    cachestat(file, offset, length).map(|[_, dirty, on_the_way]| (dirty + on_the_way).min(1.0))
}

/// The shares of the pages of a range that are cached, dirty and under write-back.
fn cachestat(file: &File, offset: u64, length: u64) -> Option<[f64; 3]> {
    const SYS_CACHESTAT: libc::c_long = 451; // one number on all architectures, as every call since 424
    if length == 0 {
        return None;
    }
    let range = [offset, length];
    let mut counts = [0_u64; 5]; // cached, dirty, under writeback, evicted, recently evicted: pages
                                 // SAFETY: `range` is a cachestat_range and `counts` has the size of a cachestat.
    let answer = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    let pages = (offset + length).div_ceil(page_size()) - offset / page_size();
    (answer == 0).then(|| [counts[0], counts[1], counts[2]].map(|count| (count as f64 / pages as f64).min(1.0)))
}

/// Bytes of the first `length` of a file that are in the page cache, likewise.
#[must_use]
pub fn cached_bytes(file: &File, length: u64) -> Option<u64> {
    if length == 0 {
        return Some(0);
    }
    cached_share(file, 0, length).map(|share| (share * length as f64).round() as u64)
}

/// Asks the system to drop the clean pages of a whole file from the page cache; it may decline.
pub fn forget(file: &File) {
    advise(file, 0, 0, Advice::DontNeed); // length 0 is to the end
}

fn sampled_share(file: &File, offset: u64, length: u64) -> Option<f64> {
    const SAMPLE: u64 = 1 << 20;
    let samples = length.div_ceil(SAMPLE).min(64);
    let (mut cached, mut pages) = (0_u64, 0_u64);
    for sample in 0..samples {
        let from = (offset + sample * (length / samples)) / page_size() * page_size();
        let map =
            super::mapping::FileMapping::new(file, from, SAMPLE.min(offset + length - from) as usize, false).ok()?;
        let (inside, of) = map.resident()?;
        cached += inside;
        pages += of;
    }
    (pages > 0).then(|| cached as f64 / pages as f64)
}

/// The size of a block device; none if the file is none.
#[must_use]
pub fn device_size(file: &File) -> Option<u64> {
    const BLKGETSIZE64: u64 = 0x8008_1272; // _IOR(0x12, 114, size_t) on 64-bit systems
    let mut size = 0_u64;
    // SAFETY: `size` is where the call puts eight bytes.
    let answer: c_int = unsafe { libc::ioctl(file.as_raw_fd(), BLKGETSIZE64 as _, &raw mut size) };
    (answer == 0).then_some(size)
}

/// Tells a block device that nothing on it is needed any more, from its beginning to its end.
///
/// # Errors
/// Not every device supports it: `EOPNOTSUPP`.
pub fn discard(device: &File, length: u64) -> io::Result<()> {
    match give_back(device, Give::Discard, 0, length) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error((-errno) as i32)),
    }
}
