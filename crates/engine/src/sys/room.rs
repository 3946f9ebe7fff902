//! How much room a filesystem has.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Bytes that an unprivileged user may still write on the filesystem that holds `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statvfs is plain data for which all zeroes is a valid value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `text` is a terminated string and `answer` a valid statvfs that the call fills.
    if unsafe { libc::statvfs(text.as_ptr(), &raw mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[allow(clippy::unnecessary_cast, reason = "the field's width differs between targets")]
    Ok(answer.f_bavail as u64 * answer.f_frsize as u64)
}
