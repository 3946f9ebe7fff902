//! What the system says of a filesystem, a path's device, available memory, and the hypervisor.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{fstatfs, major, minor, statfs, statvfs};
use rustix::io::retry_on_intr;

// linux/magic.h: filesystems whose files are memory.
const TMPFS: u32 = 0x0102_1994;
const RAMFS: u32 = 0x8584_58F6;

/// Size and room in bytes, the room as a user without privileges has it; none if the system does not say.
#[must_use]
pub fn size_and_free_bytes(path: &Path) -> Option<(u64, u64)> {
    let found = retry_on_intr(|| statvfs(path)).ok()?;
    Some((found.f_frsize.saturating_mul(found.f_blocks), found.f_frsize.saturating_mul(found.f_bavail)))
}

/// Bytes that an unprivileged user may still write on the filesystem that contains `path`; where files are memory, at
/// most the available memory, even if the filesystem may grow beyond it.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = retry_on_intr(|| statvfs(path))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    Ok(if is_memory(path) { free.min(available_memory().unwrap_or(u64::MAX)) } else { free })
}

/// Files and directories that a user without privileges may still create on the filesystem that contains `path`; none
/// where it does not count them, as FAT and btrfs do not.
#[must_use]
pub fn free_inodes(path: &Path) -> Option<u64> {
    let found = retry_on_intr(|| statvfs(path)).ok()?;
    (found.f_files > 0).then_some(found.f_favail)
}

fn is_memory(path: &Path) -> bool {
    retry_on_intr(|| statfs(path)).is_ok_and(|found| matches!(found.f_type as u32, TMPFS | RAMFS))
}

/// Whether the file is on a filesystem that is nothing but page cache (tmpfs, ramfs): it may take `O_DIRECT` (tmpfs
/// does since Linux 6.6) but has no device below.
#[must_use]
pub fn in_memory_only(file: impl AsFd) -> bool {
    retry_on_intr(|| fstatfs(file.as_fd())).is_ok_and(|found| matches!(found.f_type as u32, TMPFS | RAMFS))
}

/// `MemAvailable` of `/proc/meminfo`, bytes.
#[must_use]
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Major and minor number of a device.
#[must_use]
pub fn major_minor(device: u64) -> (u32, u32) {
    (major(device), minor(device))
}

/// The signature that the hypervisor gives of itself, such as `KVMKVMKVM`; none on bare metal or another architecture.
#[must_use]
// the intrinsic is safe to call in newer compilers, and not yet in the oldest that builds this
#[allow(unused_unsafe)]
pub fn hypervisor_signature() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the cpuid instruction.
        let features = unsafe { std::arch::x86_64::__cpuid(1) };
        // bit 31 of ECX is reserved for hypervisors to set; Intel SDM vol. 2, CPUID leaf 1
        if features.ecx >> 31 == 0 {
            return None;
        }
        // SAFETY: as above; leaf 0x40000000 is defined where the bit above is set.
        let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
        let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let text = String::from_utf8_lossy(&bytes).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_string();
        Some(text)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_memory_have_no_more_room_than_memory_has() {
        let available = available_memory().unwrap();
        assert!(available > 0);
        let place = Path::new("/dev/shm");
        if place.exists() && is_memory(place) {
            // what others take and give back meanwhile is far below this
            assert!(free_bytes(place).unwrap() < available + available / 4 + (1 << 30));
        }
        assert!(!is_memory(Path::new("/proc")));
    }
}
