//! A file mapped into memory, and copies that survive a file cut short under them.
//!
//! Touching a mapped page behind the end of its file raises SIGBUS, which by default kills the process. The
//! handler here puts an empty anonymous page where the touch failed, and counts: the copy goes on with
//! zeroes, and whoever copied asks the counter and reports an I/O error. A SIGBUS anywhere else goes to
//! whichever handler was there before.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::Once;

use super::memory::Region;
use super::pages::page_size;

/// Mappings that are guarded at once, as many as a run may have jobs.
const GUARDED: usize = 1024;
/// A free place starts at the top and ends at 0, so that it contains no address.
static STARTS: [AtomicUsize; GUARDED] = [const { AtomicUsize::new(usize::MAX) }; GUARDED];
static ENDS: [AtomicUsize; GUARDED] = [const { AtomicUsize::new(0) }; GUARDED];
/// Touches that failed, a mapping each: what fails in one is no fault of another.
static FAILED: [AtomicU64; GUARDED] = [const { AtomicU64::new(0) }; GUARDED];
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
static INSTALL: Once = Once::new();

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a SA_SIGINFO handler a valid siginfo, which for SIGBUS holds an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let ours = STARTS
        .iter()
        .zip(&ENDS)
        .position(|(start, end)| (start.load(Ordering::Acquire)..end.load(Ordering::Acquire)).contains(&address));
    if let Some(at) = ours {
        let page = address & !4095;
        // SAFETY: replaces one page of a mapping that is ours, where no data can be; mmap is a bare system
        // call and safe in a handler. (With pages over 4 KiB the call is refused, and the default follows.)
        let patched = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if patched != libc::MAP_FAILED {
            FAILED[at].fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
    let before = BEFORE.load(Ordering::Acquire);
    // SAFETY: BEFORE points at a leaked sigaction, or is null; a handler stored there has the type that its
    // flags say; restoring the default makes the fault fatal when the instruction runs again.
    unsafe {
        match before.as_ref() {
            Some(action) if action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN => {
                if action.sa_flags & libc::SA_SIGINFO == 0 {
                    let handler: extern "C" fn(libc::c_int) = std::mem::transmute(action.sa_sigaction);
                    handler(signal);
                } else {
                    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(action.sa_sigaction);
                    handler(signal, info, context);
                }
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

fn install() {
    INSTALL.call_once(|| {
        // SAFETY: sigaction is plain data for which all zeroes is a valid value; the handler has the type
        // that SA_SIGINFO asks for; the old action is leaked so that the handler can always reach it.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let before = Box::into_raw(Box::new(std::mem::zeroed::<libc::sigaction>()));
            BEFORE.store(before, Ordering::Release);
            libc::sigaction(libc::SIGBUS, &raw const action, before);
        }
    });
}

/// A part of a file in memory.
pub struct FileMapping {
    base: NonNull<u8>,
    length: usize,
    guard: Option<usize>,
}

// SAFETY: a FileMapping owns its mapping, which is reached by raw copies only.
unsafe impl Send for FileMapping {}

impl FileMapping {
    /// Maps `length` bytes from `offset`, a multiple of the page size.
    pub fn new(file: &File, offset: u64, length: usize, write: bool) -> io::Result<Self> {
        let protection = if write { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        // SAFETY: a fresh mapping touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length.max(1),
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(base) = NonNull::new(base.cast::<u8>()) else { return Err(io::ErrorKind::OutOfMemory.into()) };
        Ok(Self { base, length: length.max(1), guard: None })
    }

    /// Has accesses behind the end of the file counted instead of killing the process.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        install();
        let start = self.base.as_ptr() as usize;
        self.guard = (0..GUARDED)
            .find(|&at| STARTS[at].compare_exchange(usize::MAX, start, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        if let Some(at) = self.guard {
            ENDS[at].store(start + self.length, Ordering::Release);
        }
        self
    }

    /// Where it begins: a page.
    #[must_use]
    pub fn start(&self) -> *const u8 {
        self.base.as_ptr()
    }

    /// Tells the system in which order the pages will be touched; a refusal changes nothing.
    pub fn advise(&self, random: bool) {
        let advice = if random { libc::MADV_RANDOM } else { libc::MADV_SEQUENTIAL };
        // SAFETY: advice on a mapping of our own.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.length, advice) };
    }

    /// Copies `length` bytes from `at` in the mapping to `to` in the region: the length, or minus EIO.
    #[inline]
    #[must_use]
    pub fn read(&self, at: usize, region: &Region, to: usize, length: usize) -> i64 {
        let target = region.address(to, length);
        self.copy(at, length, |mapped| {
            // SAFETY: both ranges were checked, and a region never overlaps a mapping.
            unsafe { std::ptr::copy_nonoverlapping(mapped.cast_const(), target, length) };
        })
    }

    /// Copies from `at` in the mapping over all of `to`: its length, or minus EIO.
    #[must_use]
    pub fn read_to(&self, at: usize, to: &mut [u8]) -> i64 {
        self.copy(at, to.len(), |mapped| {
            // SAFETY: `copy` checked the range of the mapping, which no slice overlaps.
            unsafe { std::ptr::copy_nonoverlapping(mapped.cast_const(), to.as_mut_ptr(), to.len()) };
        })
    }

    /// Copies `length` bytes from `from` in the region to `at` in the mapping, likewise.
    #[inline]
    #[must_use]
    pub fn write(&self, at: usize, region: &Region, from: usize, length: usize) -> i64 {
        let source = region.address(from, length);
        self.copy(at, length, |mapped| {
            // SAFETY: as in `read`.
            unsafe { std::ptr::copy_nonoverlapping(source.cast_const(), mapped, length) };
        })
    }

    #[inline]
    fn failed(&self) -> u64 {
        self.guard.map_or(0, |at| FAILED[at].load(Ordering::Relaxed))
    }

    #[inline]
    fn copy(&self, at: usize, length: usize, copy: impl FnOnce(*mut u8)) -> i64 {
        assert!(at <= self.length && length <= self.length - at, "a copy outside of its mapping");
        let failed = self.failed();
        // SAFETY: the assertion keeps the address inside the mapping.
        copy(unsafe { self.base.as_ptr().add(at) });
        if self.failed() == failed {
            length as i64
        } else {
            -i64::from(libc::EIO)
        }
    }

    /// Writes changed pages back and waits for it.
    pub fn sync(&self) -> io::Result<()> {
        // SAFETY: the range is the mapping itself.
        match unsafe { libc::msync(self.base.as_ptr().cast(), self.length, libc::MS_SYNC) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// How many of its pages are in the page cache, and how many it has; none if the system does not report it.
    #[must_use]
    pub fn resident(&self) -> Option<(u64, u64)> {
        let pages = self.length.div_ceil(page_size() as usize);
        let mut map = vec![0_u8; pages];
        // SAFETY: `map` has a byte for every page of the mapping.
        let answer = unsafe { libc::mincore(self.base.as_ptr().cast(), self.length, map.as_mut_ptr()) };
        (answer == 0).then(|| (map.iter().filter(|&&page| page & 1 == 1).count() as u64, pages as u64))
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing else points into it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
        if let Some(at) = self.guard {
            ENDS[at].store(0, Ordering::Release);
            STARTS[at].store(usize::MAX, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_cut_short_under_one_mapping_is_no_fault_of_another() {
        let path = std::env::temp_dir().join(format!("hwdyno-mapping-{}", std::process::id()));
        std::fs::write(&path, [1_u8; 16384]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let whole = FileMapping::new(&file, 0, 4096, false).unwrap().guarded();
        let cut = FileMapping::new(&file, 8192, 4096, false).unwrap().guarded();
        file.set_len(4096).unwrap();
        let region = Region::new(4096).unwrap();
        let before = whole.failed();
        assert_eq!(cut.read(0, &region, 0, 4096), -i64::from(libc::EIO));
        assert_eq!(whole.failed(), before);
        assert_eq!(whole.read(0, &region, 0, 4096), 4096);
        std::fs::remove_file(&path).unwrap();
    }
}
