//! How much room a filesystem has.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `statfs(2)`: filesystems whose files are memory.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;

/// Bytes that an unprivileged user may still write on the filesystem that holds `path`; where files are
/// memory, no more than is available of that, whatever the filesystem was promised.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let text = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statvfs is plain data for which all zeroes is a valid value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `text` is a terminated string and `answer` a valid statvfs that the call fills.
    if unsafe { libc::statvfs(text.as_ptr(), &raw mut answer) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[allow(clippy::unnecessary_cast, reason = "the field's width differs between targets")]
    let free = answer.f_bavail as u64 * answer.f_frsize as u64;
    Ok(if is_memory(&text) { free.min(available_memory().unwrap_or(u64::MAX)) } else { free })
}

fn is_memory(text: &CString) -> bool {
    // SAFETY: statfs is plain data for which all zeroes is a valid value.
    let mut answer: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `text` is a terminated string and `answer` a valid statfs that the call fills.
    let told = unsafe { libc::statfs(text.as_ptr(), &raw mut answer) } == 0;
    #[allow(clippy::unnecessary_cast, reason = "the field's width differs between targets")]
    let kind = answer.f_type as u64 & 0xffff_ffff;
    told && matches!(kind, TMPFS | RAMFS)
}

/// `MemAvailable` of `/proc/meminfo`, bytes.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_have_no_more_room_than_memory_has() {
        let available = available_memory().unwrap();
        assert!(available > 0);
        let place = Path::new("/dev/shm");
        if place.exists() && is_memory(&CString::new("/dev/shm").unwrap()) {
            // what others take and give back meanwhile is far below this
            assert!(free_bytes(place).unwrap() < available + available / 4 + (1 << 30));
        }
        assert!(!is_memory(&CString::new("/proc").unwrap()));
    }
}
