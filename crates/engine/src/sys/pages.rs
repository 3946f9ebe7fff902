//! Anonymous memory on pages of a chosen size, on a chosen NUMA node, not touched before its user does.

use std::fs;
use std::io;
use std::ptr::NonNull;

use crate::words;

/// The system's page size.
#[must_use]
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

words! {
    /// Which pages to ask for.
    pub enum Pages {
        /// The system's base pages (4 KiB on x86-64), with transparent huge pages refused.
        Base = "4k",
        /// 2 MiB: reserved ones where there are enough, else transparent ones.
        Huge2M = "2m",
        /// 1 GiB, reserved.
        Huge1G = "1g",
    }
}

const MIB2: usize = 2 << 20;
const GIB: usize = 1 << 30;

/// A private mapping; given back when dropped.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    whole: *mut libc::c_void,
    whole_length: usize,
    reserved: bool,
}

// SAFETY: the mapping is owned by this value alone and is ordinary memory of the process.
unsafe impl Send for Mapping {}
// SAFETY: shared references give out the address only; who writes through it answers for races.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `length` bytes, all zero, aligned to the page size (2 MiB for transparent huge pages).
    ///
    /// # Errors
    /// What the system answered; `ENOMEM` for reserved 1 GiB pages when there are not enough.
    pub fn new(length: usize, pages: Pages, node: Option<usize>) -> io::Result<Self> {
        let mapping = match pages {
            Pages::Base => {
                let mapping = Self::map(length, 4096, 0)?;
                mapping.advise(libc::MADV_NOHUGEPAGE);
                mapping
            }
            Pages::Huge2M => {
                let flags = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
                if let Ok(mapping) = Self::map(length.next_multiple_of(MIB2), 0, flags) {
                    mapping
                } else {
                    let mapping = Self::map(length.next_multiple_of(MIB2), MIB2, 0)?;
                    mapping.advise(libc::MADV_HUGEPAGE);
                    mapping
                }
            }
            Pages::Huge1G => Self::map(length.next_multiple_of(GIB), 0, libc::MAP_HUGETLB | libc::MAP_HUGE_1GB)?,
        };
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        Ok(mapping)
    }

    fn map(length: usize, align: usize, flags: i32) -> io::Result<Self> {
        let slack = if align > 4096 { align } else { 0 };
        let whole_length = length + slack;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags_all = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
        // SAFETY: a new anonymous mapping at an address of the system's choice touches no other memory.
        let whole = unsafe { libc::mmap(std::ptr::null_mut(), whole_length, protection, flags_all, -1, 0) };
        if whole == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let shift = if slack == 0 { 0 } else { whole.cast::<u8>().align_offset(align) };
        let start = NonNull::new(whole.cast::<u8>().wrapping_add(shift)).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length, whole, whole_length, reserved: flags & libc::MAP_HUGETLB != 0 })
    }

    fn advise(&self, advice: i32) {
        // SAFETY: the range is in our own mapping; advice changes no contents. A refusal only means that the system has
        // no huge pages, which `huge_bytes` reports.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.length, advice) };
    }

    fn bind(&self, node: usize) -> io::Result<()> {
        if node >= 1024 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let mut mask = [0_u64; 16];
        mask[node / 64] |= 1 << (node % 64);
        // SAFETY: `mask` holds the 1024 bits that are announced (the call reads one bit less), and the range is ours.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start.as_ptr(),
                self.length,
                libc::MPOL_BIND,
                mask.as_ptr(),
                mask.len() * 64 + 1,
                0,
            )
        };
        if answer == 0 {
            Ok(())
        } else {
            let error = io::Error::last_os_error();
            Err(io::Error::new(error.kind(), format!("NUMA node {node} gives none: {error}")))
        }
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// How many of its bytes are on huge pages now, by `/proc/self/smaps`; none where that is unknown.
    #[must_use]
    pub fn huge_bytes(&self) -> Option<u64> {
        if self.reserved {
            return Some(self.length as u64);
        }
        let (low, high) = (self.start() as u64, self.start() as u64 + self.length as u64);
        let text = fs::read_to_string("/proc/self/smaps").ok()?;
        let mut inside = false;
        let mut found = None;
        for line in text.lines() {
            if let Some((from, to)) = line.split(' ').next().and_then(range) {
                inside = from < high && to > low;
            } else if let (true, Some(rest)) = (inside, line.strip_prefix("AnonHugePages:")) {
                let kib: u64 = rest.trim().trim_end_matches(" kB").trim().parse().ok()?;
                found = Some(found.unwrap_or(0) + kib * 1024);
            }
        }
        found.map(|bytes: u64| bytes.min(self.length as u64))
    }
}

fn range(word: &str) -> Option<(u64, u64)> {
    let (from, to) = word.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and nothing borrows it any more.
        unsafe { libc::munmap(self.whole, self.whole_length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_zero_aligned_and_writable_to_its_end() {
        for pages in [Pages::Base, Pages::Huge2M] {
            let mapping = Mapping::new(3 << 20, pages, None).expect("3 MiB");
            assert!(mapping.length() >= 3 << 20);
            assert_eq!(mapping.start() as usize % if pages == Pages::Base { 4096 } else { MIB2 }, 0);
            // SAFETY: both addresses are in the mapping.
            unsafe {
                let last = mapping.start().add(mapping.length() - 1);
                assert_eq!(last.read(), 0);
                last.write(7);
                assert_eq!(last.read(), 7);
            }
        }
    }

    #[test]
    fn base_pages_are_not_huge() {
        let mapping = Mapping::new(8 << 20, Pages::Base, None).expect("8 MiB");
        // SAFETY: the whole range is ours.
        unsafe { mapping.start().write_bytes(1, mapping.length()) };
        assert_eq!(mapping.huge_bytes().unwrap_or(0), 0);
    }

    #[test]
    fn memory_of_a_node_is_bound_to_it() {
        let mapping = match Mapping::new(1 << 20, Pages::Base, Some(0)) {
            Ok(mapping) => mapping,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                return crate::here::absent("mbind(2), as a kernel without NUMA has not");
            }
        };
        // SAFETY: the whole range is ours.
        unsafe { mapping.start().write_bytes(1, mapping.length()) };
        let Ok(maps) = fs::read_to_string("/proc/self/numa_maps") else {
            return crate::here::absent("/proc/self/numa_maps");
        };
        let address = format!("{:x}", mapping.start() as usize);
        let line = maps.lines().find(|line| line.trim_start_matches('0').starts_with(&address)).unwrap_or_default();
        assert!(line.contains("bind:0") && line.contains("N0="), "{line}");
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        assert!(Mapping::new(4096, Pages::Base, Some(5000)).is_err());
    }
}
