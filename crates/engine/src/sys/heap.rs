//! Free memory of the C library's allocator, which it keeps for each thread that ever ran.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::address_space;

/// Kernels that run now.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Lets all threads share one arena where this process's memory is limited: each other one would take 64 MiB of it.
#[cfg(target_env = "gnu")]
pub fn spare_address_space() {
    if address_space::left_bytes().is_some() {
        // SAFETY: mallopt(3) takes two numbers and the allocator's own locks.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}

/// Other C libraries have no arenas.
#[cfg(not(target_env = "gnu"))]
pub fn spare_address_space() {}

/// One kernel's use of the heap; when the last one ends, the system gets back what is free.
///
/// The threads of a team get arenas of their own, and glibc keeps what they freed: a process that measures for an hour
/// would grow by all that its kernels ever held at once. No one's timed region is cut by this, because no other runs.
pub struct Use;

impl Use {
    /// A kernel begins.
    pub fn new() -> Self {
        RUNNING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if RUNNING.fetch_sub(1, Ordering::SeqCst) == 1 {
            return_what_is_free();
        }
    }
}

#[cfg(target_env = "gnu")]
fn return_what_is_free() {
    // SAFETY: malloc_trim(3) takes the allocator's own locks and touches free memory alone.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn return_what_is_free() {}
