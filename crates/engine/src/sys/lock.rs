//! A lock on a whole file that ends with its process, however that ends.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the lock for this open file, without waiting.
///
/// # Errors
/// `EWOULDBLOCK` where another open file has it.
pub fn try_exclusive(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open for as long as `file` is borrowed, and the call touches no memory of ours.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
