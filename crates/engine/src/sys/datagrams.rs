//! Batches of datagrams: many a call, or one buffer that the kernel cuts up and puts together again.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use crate::sys::net::{result, set};

/// Largest payload of a datagram over IPv4.
pub const LARGEST_DATAGRAM: usize = 65_507;
/// The kernel cuts one buffer into at most this many datagrams (`UDP_MAX_SEGMENTS` before Linux 6.7).
pub const MAX_SEGMENTS: usize = 64;

const UDP_SEGMENT: libc::c_int = 103;
const UDP_GRO: libc::c_int = 104;
const SOL_UDP: libc::c_int = 17;

/// Lets the kernel hand over several datagrams of one peer as one buffer.
pub fn allow_coalescing(socket: &UdpSocket) -> io::Result<()> {
    set(socket.as_raw_fd(), SOL_UDP, UDP_GRO, 1)
}

/// Lets the kernel cut each buffer that is sent into datagrams of `bytes`.
pub fn allow_segmenting(socket: &UdpSocket, bytes: usize) -> io::Result<()> {
    set(socket.as_raw_fd(), SOL_UDP, UDP_SEGMENT, bytes as libc::c_int)
}

/// Room for control messages of one buffer, aligned as they must be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

/// Several buffers that one call sends or receives (`sendmmsg`, `recvmmsg`).
pub struct Batch {
    buffers: Vec<Box<[u8]>>,
    vectors: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    ancillary: Vec<Ancillary>,
}

// SAFETY: the pointers inside lead only to heap memory that the batch itself owns and never moves.
unsafe impl Send for Batch {}

impl Batch {
    /// `count` buffers of `bytes` each; allocates all that it will ever need.
    #[must_use]
    pub fn new(count: usize, bytes: usize) -> Self {
        let mut buffers: Vec<Box<[u8]>> = (0..count).map(|_| vec![0; bytes].into_boxed_slice()).collect();
        let mut vectors: Vec<libc::iovec> = buffers
            .iter_mut()
            .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
            .collect();
        let headers = vectors
            .iter_mut()
            .map(|vector| {
                // SAFETY: mmsghdr is plain data for which all zeroes is a valid value.
                let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
                header.msg_hdr.msg_iov = vector;
                header.msg_hdr.msg_iovlen = 1;
                header
            })
            .collect();
        Self { buffers, vectors, headers, ancillary: vec![Ancillary([0; 64]); count] }
    }

    /// The buffer at `index`, to fill or to read.
    pub fn buffer(&mut self, index: usize) -> &mut [u8] {
        &mut self.buffers[index]
    }

    /// Sends the first `count` buffers; gives how many went.
    pub fn send(&mut self, socket: &UdpSocket, count: usize) -> io::Result<usize> {
        let count = count.min(self.headers.len());
        if count == 1 {
            return self.send_one(socket);
        }
        // SAFETY: the first `count` headers lead to vectors and buffers that this batch owns.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as libc::c_uint, 0) };
        result(sent as libc::ssize_t)
    }

    /// Sends the first buffer by the call with the least to copy and to check.
    fn send_one(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let buffer = &self.buffers[0];
        // SAFETY: the buffer is this batch's.
        let sent = unsafe { libc::send(socket.as_raw_fd(), buffer.as_ptr().cast(), buffer.len(), 0) };
        result(sent).map(|_| 1)
    }

    /// Takes one datagram into the first buffer; gives 1.
    fn receive_one(&mut self, socket: &UdpSocket, flags: libc::c_int) -> io::Result<usize> {
        let buffer = &mut self.buffers[0];
        // SAFETY: the buffer is this batch's.
        let came = unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
        self.headers[0].msg_len = result(came)? as libc::c_uint;
        Ok(1)
    }

    /// Waits for one buffer and takes what else is there; gives how many came.
    ///
    /// A batch of one takes no control messages, and so nothing that was coalesced.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.receive_by(socket, libc::MSG_WAITFORONE)
    }

    /// Takes what is there, as [`receive`](Self::receive) does, but fails with `WouldBlock` where nothing is.
    pub fn receive_what_is_there(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        self.receive_by(socket, libc::MSG_DONTWAIT)
    }

    fn receive_by(&mut self, socket: &UdpSocket, flags: libc::c_int) -> io::Result<usize> {
        if self.headers.len() == 1 {
            // One datagram is waited for or not; the other flag is for batches alone.
            return self.receive_one(socket, flags & libc::MSG_DONTWAIT);
        }
        for ((header, vector), (buffer, ancillary)) in
            self.headers.iter_mut().zip(&mut self.vectors).zip(self.buffers.iter_mut().zip(&mut self.ancillary))
        {
            vector.iov_len = buffer.len();
            header.msg_hdr.msg_control = (&raw mut ancillary.0).cast();
            header.msg_hdr.msg_controllen = size_of::<Ancillary>() as _;
        }
        let count = self.headers.len() as libc::c_uint;
        // SAFETY: every header leads to a vector, a buffer and room for control that this batch owns; no time limit.
        let came = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count, flags as _, std::ptr::null_mut())
        };
        result(came as libc::ssize_t)
    }

    /// What came in buffer `index`: its bytes, and the length of each datagram in it.
    #[must_use]
    pub fn received(&self, index: usize) -> (&[u8], usize) {
        let header = &self.headers[index];
        let length = (header.msg_len as usize).min(self.buffers[index].len());
        let mut segment = length;
        // SAFETY: the header's control area was filled by the call; the macros stay within it.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header.msg_hdr) };
        if !first.is_null() {
            // SAFETY: `first` leads to a control message of at least its header's length, checked before its data is read.
            unsafe {
                if (*first).cmsg_level == SOL_UDP
                    && (*first).cmsg_type == UDP_GRO
                    && (*first).cmsg_len as usize >= libc::CMSG_LEN(4) as usize
                {
                    segment = std::ptr::read_unaligned(libc::CMSG_DATA(first).cast::<libc::c_int>()) as usize;
                }
            }
        }
        (&self.buffers[index][..length], segment.clamp(1, length.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use super::*;
    use crate::sys::net::{udp_socket, Options};

    #[test]
    fn one_buffer_travels_as_many_datagrams_and_comes_back_whole() {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        let (from, to) =
            (udp_socket(&any, &Options::default()).unwrap(), udp_socket(&any, &Options::default()).unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        allow_segmenting(&from, 100).unwrap();
        let mut batch = Batch::new(1, 1000);
        for (at, byte) in batch.buffer(0).iter_mut().enumerate() {
            *byte = (at / 100) as u8;
        }
        assert_eq!(batch.send(&from, 1).unwrap(), 1);
        let mut incoming = Batch::new(16, 2000);
        let mut seen = Vec::new();
        while seen.len() < 10 {
            let count = incoming.receive(&to).unwrap();
            for index in 0..count {
                let (bytes, segment) = incoming.received(index);
                assert_eq!(segment, 100);
                seen.extend(bytes.chunks(segment).map(|datagram| datagram[0]));
            }
        }
        assert_eq!(seen, (0..10).collect::<Vec<u8>>());
    }
}
