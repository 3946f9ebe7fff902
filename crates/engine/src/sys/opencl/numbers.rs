//! The numbers of `OpenCL` that are used here, by name, and its statuses in words.

use std::ffi::c_int;

/// A number or text that a device states of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fact {
    /// `CL_DEVICE_TYPE`, bits.
    Type = 0x1000,
    /// Compute units.
    ComputeUnits = 0x1002,
    /// Work items of a group at most.
    GroupItems = 0x1004,
    /// Clock at most, MHz.
    ClockMhz = 0x100C,
    /// Global memory's cache, bytes.
    CacheBytes = 0x101E,
    /// Global memory, bytes.
    GlobalBytes = 0x101F,
    /// Largest allocation, bytes.
    AllocationBytes = 0x1010,
    /// Local memory, bytes.
    LocalBytes = 0x1023,
    /// Whether host and device share memory.
    Unified = 0x1035,
    /// Its name.
    Name = 0x102B,
    /// Its vendor.
    Vendor = 0x102C,
    /// Its driver's version.
    Driver = 0x102D,
    /// Its version of `OpenCL`.
    Version = 0x102F,
    /// Its extensions, by blanks.
    Extensions = 0x1030,
    /// Lanes of a vector of `float` that its instructions take.
    FloatLanes = 0x103A,
}

/// A status in words.
pub fn meaning(status: c_int) -> String {
    let says = match status {
        -2 => "the device is not available",
        -3 => "the driver has no compiler",
        -4 => "the device is out of memory for this; fill for less",
        -5 => "the device is out of resources; another program may use it, or it was lost: see dmesg",
        -6 => "the host is out of memory",
        -11 => "the program could not be built",
        -36 => "the device was lost: see dmesg",
        -54 => "this group size is not possible",
        -61 => "the device allows no buffer of this size; fill for less",
        -9999 => "the driver reports an illegal access",
        _ => return format!("OpenCL error {status}"),
    };
    format!("{says} (OpenCL error {status})")
}
