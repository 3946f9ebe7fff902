//! Names in a directory by their system calls: made, looked up, listed, changed and removed, by ready-made paths in it.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{fsync, openat, renameat, statat, unlinkat, AtFlags, Mode, OFlags, RawDir};
use rustix::io::{retry_on_intr, write, Errno};

/// What one call lists at most, as the C library's `readdir` has it.
const LISTED_BYTES: usize = 32 << 10;

fn number(errno: Errno) -> i32 {
    errno.raw_os_error()
}

fn opened(at: &OwnedFd, path: &CStr, flags: OFlags) -> Result<OwnedFd, i32> {
    retry_on_intr(|| openat(at, path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)).map_err(number)
}

/// Makes a file that was not there, writes `content`, and syncs it if `sync`.
///
/// # Errors
/// The system's number.
pub fn create(at: &OwnedFd, path: &CStr, content: &[u8], sync: bool) -> Result<(), i32> {
    let file = opened(at, path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
    let mut rest = content;
    while !rest.is_empty() {
        match write(&file, rest) {
            Ok(0) => return Err(libc::ENOSPC),
            Ok(moved) => rest = &rest[moved..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(number(errno)),
        }
    }
    if sync {
        retry_on_intr(|| fsync(&file)).map_err(number)?;
    }
    Ok(())
}

/// Asks what describes a file.
///
/// # Errors
/// The system's number.
pub fn stat(at: &OwnedFd, path: &CStr) -> Result<(), i32> {
    statat(at, path, AtFlags::empty()).map(drop).map_err(number)
}

/// Opens a file to read, and closes it.
///
/// # Errors
/// The system's number.
pub fn open(at: &OwnedFd, path: &CStr) -> Result<(), i32> {
    opened(at, path, OFlags::RDONLY).map(drop)
}

/// Lists a directory: how many names it has besides `.` and `..`.
///
/// # Errors
/// The system's number.
pub fn list(at: &OwnedFd, path: &CStr) -> Result<u64, i32> {
    let directory = opened(at, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = Vec::with_capacity(LISTED_BYTES);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut names = 0;
    while let Some(entry) = entries.next() {
        entry.map_err(number)?;
        names += 1;
    }
    Ok(u64::saturating_sub(names, 2))
}

/// Gives a file another name.
///
/// # Errors
/// The system's number.
pub fn rename(at: &OwnedFd, from: &CStr, to: &CStr) -> Result<(), i32> {
    renameat(at, from, at, to).map_err(number)
}

/// Removes a file.
///
/// # Errors
/// The system's number.
pub fn unlink(at: &OwnedFd, path: &CStr) -> Result<(), i32> {
    unlinkat(at, path, AtFlags::empty()).map_err(number)
}

/// Makes a directory's names durable.
///
/// # Errors
/// The system's number.
pub fn sync_directory(at: &OwnedFd, path: &CStr) -> Result<(), i32> {
    let directory = opened(at, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    retry_on_intr(|| fsync(&directory)).map_err(number)
}
