//! What the system says of a filesystem, a path's device, and the hypervisor.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Size and room in bytes, the room as a user without privileges has it; none if the system does not say.
#[must_use]
pub fn size_and_free_bytes(path: &Path) -> Option<(u64, u64)> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: statvfs is plain data for which all zeroes is a valid value.
    let mut answer: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends with a zero byte and `answer` is a valid statvfs that the call fills.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut answer) } != 0 {
        return None;
    }
    Some((answer.f_frsize.saturating_mul(answer.f_blocks), answer.f_frsize.saturating_mul(answer.f_bavail)))
}

/// Major and minor number of a device.
#[must_use]
pub fn major_minor(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
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
