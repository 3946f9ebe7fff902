//! Pieces of a stream with the kernel's stamp of when it received them, and another process's or language's epoll.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use crate::sys::net::result;

/// Room for the control message of a stamp, aligned as it must be.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

/// A descriptor of the same open file, which closes by itself.
pub fn duplicate_fd(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes any number, and says EBADF for one that is no open file.
    let copy = result(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) } as libc::ssize_t)?;
    // SAFETY: the call made this descriptor, and no one else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

/// Reads a socket once without waiting: the bytes read, and the kernel's stamp (`SO_TIMESTAMPNS`), ns of the system's clock.
pub fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<i64>)> {
    let mut ancillary = Ancillary([0; 64]);
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is plain data for which all zeroes is a valid value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut vector, 1);
    (header.msg_control, header.msg_controllen) = (ancillary.0.as_mut_ptr().cast(), ancillary.0.len() as _);
    // SAFETY: the header leads to one vector, the buffer and the ancillary room, all of which outlive the call.
    let bytes = result(unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC) })?;
    // SAFETY: the kernel filled the header, whose control room is still there.
    let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
    if first.is_null() {
        return Ok((bytes, None));
    }
    // SAFETY: a first control message is whole within the room, its head and as much data as its length says.
    let stamp = unsafe {
        let is_stamp = (*first).cmsg_level == libc::SOL_SOCKET
            && (*first).cmsg_type == libc::SCM_TIMESTAMPNS
            && (*first).cmsg_len as usize >= libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as usize;
        is_stamp.then(|| std::ptr::read_unaligned(libc::CMSG_DATA(first).cast::<libc::timespec>()))
    };
    Ok((bytes, stamp.map(|time| time.tv_sec * 1_000_000_000 + time.tv_nsec)))
}
