//! Names in directories by their system calls: made, looked up, listed, changed and removed, by ready-made paths.

use std::ffi::{c_int, CStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

fn answer(result: c_int) -> Result<c_int, i32> {
    if result >= 0 {
        Ok(result)
    } else {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

fn opened(path: &CStr, flags: c_int) -> Result<File, i32> {
    // SAFETY: the path ends with a zero byte; flags and mode are plain numbers.
    let descriptor = answer(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600) })?;
    // SAFETY: the call handed us a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}

/// Makes a file that was not there, writes `content`, and syncs it if `sync`.
///
/// # Errors
/// The system's number.
pub fn create(path: &CStr, content: &[u8], sync: bool) -> Result<(), i32> {
    let file = opened(path, libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY)?;
    let mut done = 0;
    while done < content.len() {
        let rest = &content[done..];
        // SAFETY: the range is a slice's own.
        let moved = unsafe { libc::write(file.as_raw_fd(), rest.as_ptr().cast(), rest.len()) };
        match moved {
            moved if moved > 0 => done += moved as usize,
            0 => return Err(libc::ENOSPC),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
            },
        }
    }
    if sync {
        // SAFETY: takes an open descriptor.
        answer(unsafe { libc::fsync(file.as_raw_fd()) })?;
    }
    Ok(())
}

/// Asks what describes a file.
///
/// # Errors
/// The system's number.
pub fn stat(path: &CStr) -> Result<(), i32> {
    // SAFETY: stat is plain data for which all zeroes is a valid value.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path ends with a zero byte and `about` is a valid stat that the call fills.
    answer(unsafe { libc::stat(path.as_ptr(), &raw mut about) }).map(|_| ())
}

/// Opens a file to read, and closes it.
///
/// # Errors
/// The system's number.
pub fn open(path: &CStr) -> Result<(), i32> {
    opened(path, libc::O_RDONLY).map(drop)
}

/// Lists a directory: how many names it has besides `.` and `..`.
///
/// # Errors
/// The system's number.
pub fn list(path: &CStr) -> Result<u64, i32> {
    // SAFETY: the path ends with a zero byte.
    let directory = unsafe { libc::opendir(path.as_ptr()) };
    if directory.is_null() {
        return Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO));
    }
    let mut names = 0;
    // SAFETY: the stream is open and read by this thread alone.
    while !unsafe { libc::readdir(directory) }.is_null() {
        names += 1;
    }
    // SAFETY: the stream is ours, and not used any more.
    unsafe { libc::closedir(directory) };
    Ok(u64::saturating_sub(names, 2))
}

/// Gives a file another name.
///
/// # Errors
/// The system's number.
pub fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    // SAFETY: both paths end with a zero byte.
    answer(unsafe { libc::rename(from.as_ptr(), to.as_ptr()) }).map(|_| ())
}

/// Removes a file.
///
/// # Errors
/// The system's number.
pub fn unlink(path: &CStr) -> Result<(), i32> {
    // SAFETY: the path ends with a zero byte.
    answer(unsafe { libc::unlink(path.as_ptr()) }).map(|_| ())
}

/// Makes a directory's names durable.
///
/// # Errors
/// The system's number.
pub fn sync_directory(path: &CStr) -> Result<(), i32> {
    let directory = opened(path, libc::O_RDONLY | libc::O_DIRECTORY)?;
    // SAFETY: takes an open descriptor.
    answer(unsafe { libc::fsync(directory.as_raw_fd()) }).map(|_| ())
}
