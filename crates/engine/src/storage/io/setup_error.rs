//! Why an access engine could not be set up, and what helps.

use std::io;

use crate::contract::kernel::Error;

/// Why `io_uring` could not be set up, and what mends it.
#[must_use]
pub fn uring_refused(error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring: use ioengine libaio or psync",
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is forbidden here (sysctl kernel.io_uring_disabled, or a container's filter): use ioengine \
            libaio or psync"
        }
        Some(libc::ENOMEM) => "the limit on locked memory is too low for this iodepth (ulimit -l)",
        _ => "set up io_uring",
    };
    Error::machine(remedy, error)
}

/// Why libaio could not be set up, and what mends it.
#[must_use]
pub fn aio_refused(error: &io::Error) -> Error {
    let remedy = match error.raw_os_error() {
        Some(libc::EAGAIN) => "iodepth x numjobs exceeds /proc/sys/fs/aio-max-nr: raise that limit or lower iodepth",
        Some(libc::ENOSYS) => "this kernel has no libaio calls: use ioengine io_uring or psync",
        _ => "set up libaio",
    };
    Error::machine(remedy, error)
}
