//! What the page cache holds of a file, and asking it to let go.

use std::fs::File;
use std::os::fd::AsRawFd;

/// The number of `cachestat(2)`, the same on every architecture; Linux 6.5 and newer have it.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Answer {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Bytes of `file` in the page cache, rounded to whole pages; none where neither `cachestat` nor
/// `mincore` answers.
#[must_use]
pub fn cached_bytes(file: &File, length: u64) -> Option<u64> {
    let page = page_bytes();
    let range = Range { offset: 0, length: 0 };
    let mut answer = Answer::default();
    // SAFETY: both structures have the layout of the system call and live through it; flags are 0.
    let result = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut answer, 0_u32) };
    if result == 0 {
        return Some((answer.cached * page).min(length));
    }
    resident(file, length, page)
}

/// `mincore` over a mapping, for kernels without `cachestat`.
fn resident(file: &File, length: u64, page: u64) -> Option<u64> {
    if length == 0 {
        return Some(0);
    }
    let mut pages = vec![0_u8; length.div_ceil(page) as usize];
    // SAFETY: a fresh read-only shared mapping of an open file; nothing is read through it.
    let map = unsafe {
        libc::mmap(std::ptr::null_mut(), length as usize, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if map == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is `length` long and `pages` holds one byte a page of it.
    let result = unsafe { libc::mincore(map, length as usize, pages.as_mut_ptr().cast()) };
    // SAFETY: unmaps exactly what was mapped above.
    unsafe { libc::munmap(map, length as usize) };
    (result == 0).then(|| (pages.iter().filter(|&&p| p & 1 == 1).count() as u64 * page).min(length))
}

/// Asks the system to drop the clean pages of `file` from the page cache; it may decline.
pub fn forget(file: &File) {
    // SAFETY: only advice on an open descriptor.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant of the system.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}
