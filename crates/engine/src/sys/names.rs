//! Names in directories by their system calls: made, looked up, listed, changed and removed, by ready-made paths.

use std::ffi::CStr;
use std::os::fd::OwnedFd;

use rustix::fs::{fsync, open as open_file, Mode, OFlags, RawDir};
use rustix::io::{write, Errno};

/// What one call lists at most, as the C library's `readdir` has it.
const LISTED_BYTES: usize = 32 << 10;

fn number(errno: Errno) -> i32 {
    errno.raw_os_error()
}

fn opened(path: &CStr, flags: OFlags) -> Result<OwnedFd, i32> {
    open_file(path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR).map_err(number)
}

/// Makes a file that was not there, writes `content`, and syncs it if `sync`.
///
/// # Errors
/// The system's number.
pub fn create(path: &CStr, content: &[u8], sync: bool) -> Result<(), i32> {
    let file = opened(path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY)?;
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
        fsync(&file).map_err(number)?;
    }
    Ok(())
}

/// Asks what describes a file.
///
/// # Errors
/// The system's number.
pub fn stat(path: &CStr) -> Result<(), i32> {
    rustix::fs::stat(path).map(drop).map_err(number)
}

/// Opens a file to read, and closes it.
///
/// # Errors
/// The system's number.
pub fn open(path: &CStr) -> Result<(), i32> {
    opened(path, OFlags::RDONLY).map(drop)
}

/// Lists a directory: how many names it has besides `.` and `..`.
///
/// # Errors
/// The system's number.
pub fn list(path: &CStr) -> Result<u64, i32> {
    let directory = opened(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
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
pub fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    rustix::fs::rename(from, to).map_err(number)
}

/// Removes a file.
///
/// # Errors
/// The system's number.
pub fn unlink(path: &CStr) -> Result<(), i32> {
    rustix::fs::unlink(path).map_err(number)
}

/// Makes a directory's names durable.
///
/// # Errors
/// The system's number.
pub fn sync_directory(path: &CStr) -> Result<(), i32> {
    fsync(&opened(path, OFlags::RDONLY | OFlags::DIRECTORY)?).map_err(number)
}
