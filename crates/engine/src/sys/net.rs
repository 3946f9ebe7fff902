//! Sockets beyond what the standard library offers: their options, connections with a deadline, sends without a copy.

use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::fs::{memfd_create, sendfile, MemfdFlags};
use rustix::io::Errno;
use socket2::{Domain, SockRef, Socket, Type};

pub(super) fn result(answer: libc::ssize_t) -> io::Result<usize> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as usize)
    }
}

/// Sets a whole-number option of a socket.
pub(super) fn set(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is a c_int that lives through the call, of the length given.
    result(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) } as libc::ssize_t).map(drop)
}

/// What to set on a stream's socket before it connects.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// `SO_SNDBUF` and `SO_RCVBUF`, bytes; 0 leaves them to the system.
    pub window: usize,
    /// `TCP_CONGESTION`; empty leaves it to the system.
    pub congestion: String,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// `TCP_MAXSEG`, bytes; 0 leaves it to the system.
    pub mss: usize,
    /// `IP_TOS`.
    pub tos: u8,
}

impl Options {
    /// Sets all of them on a TCP socket.
    pub fn apply_tcp(&self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        self.apply(&socket)?;
        if self.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        if self.mss > 0 {
            socket.set_tcp_mss(self.mss as u32)?;
        }
        if !self.congestion.is_empty() {
            socket.set_tcp_congestion(self.congestion.as_bytes())?;
        }
        Ok(())
    }

    fn apply(&self, socket: &Socket) -> io::Result<()> {
        if self.window > 0 {
            set_buffers(socket, self.window)?;
        }
        if self.tos > 0 {
            // Of the two families only the socket's own takes it; a dual-stack socket takes both.
            let v4 = socket.set_tos_v4(self.tos.into());
            v4.or(socket.set_tclass_v6(self.tos.into()))?;
        }
        Ok(())
    }
}

fn set_buffers(socket: &Socket, bytes: usize) -> io::Result<()> {
    socket.set_send_buffer_size(bytes)?;
    socket.set_recv_buffer_size(bytes)
}

/// The congestion control that a TCP socket uses.
#[must_use]
pub fn congestion(socket: &impl AsFd) -> Option<String> {
    let name = SockRef::from(socket).tcp_congestion().ok()?;
    let used = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    Some(String::from_utf8_lossy(&name[..used]).into_owned())
}

/// `SO_SNDBUF` and `SO_RCVBUF` as the system keeps them (twice what was requested), bytes.
#[must_use]
pub fn buffers(socket: &impl AsFd) -> (u64, u64) {
    let socket = SockRef::from(socket);
    (socket.send_buffer_size().unwrap_or(0) as u64, socket.recv_buffer_size().unwrap_or(0) as u64)
}

/// The maximum segment size of a TCP socket, bytes.
#[must_use]
pub fn mss(socket: &impl AsFd) -> u64 {
    SockRef::from(socket).tcp_mss().map_or(0, u64::from)
}

/// Waits until a descriptor can be read (or written, with `write`), or the time is over: false then.
pub fn wait(fd: &impl AsFd, write: bool, time: Duration) -> io::Result<bool> {
    let events = if write { PollFlags::OUT } else { PollFlags::IN };
    let time = Timespec { tv_sec: time.as_secs().min(1 << 30) as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(fd, events)], Some(&time)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Connects a TCP socket that has its options set before, so that the window's scale is agreed with them.
pub fn connect(address: &SocketAddr, options: &Options, timeout: Duration) -> io::Result<TcpStream> {
    loop {
        let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
        options.apply_tcp(&socket)?;
        return match socket.connect_timeout(&(*address).into(), timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
            connected => connected.map(|()| socket.into()),
        };
    }
}

/// A UDP socket that shares its port with others of this process, each connected to its own peer.
pub fn udp_socket(address: &SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(*address), Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    // What the system allows at most is taken silently where this is more.
    set_buffers(&socket, 4 << 20)?;
    options.apply(&socket)?;
    socket.bind(&(*address).into())?;
    Ok(socket.into())
}

/// Sends a datagram to the address that the socket is connected to; a call that a signal cut is made again.
pub fn send(socket: &UdpSocket, datagram: &[u8]) -> io::Result<usize> {
    loop {
        match socket.send(datagram) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            sent => return sent,
        }
    }
}

/// Takes up to `length` bytes that arrived without copying them anywhere (`MSG_TRUNC`, tcp(7)).
pub fn skip(stream: &TcpStream, length: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, which may then be null (tcp(7)).
    result(unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), length, libc::MSG_TRUNC) })
}

/// Wakes the reader of a TCP socket only when this many bytes are there (`SO_RCVLOWAT`).
pub fn wake_at(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    set(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as libc::c_int)
}

/// A file in memory that `sendfile` sends from, so that the sender copies nothing.
pub fn memory_file(content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"hwdyno", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file)
}

/// Sends the first `length` bytes of `file`, page by page without a copy.
pub fn send_file(stream: &TcpStream, file: &File, length: usize) -> io::Result<usize> {
    Ok(sendfile(stream, file, Some(&mut 0), length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_tells_its_figures() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let options = Options { nodelay: true, window: 65536, ..Options::default() };
        let stream = connect(&listener.local_addr().unwrap(), &options, Duration::from_secs(5)).unwrap();
        let info = crate::sys::tcp_info::of(&stream).unwrap();
        assert!(info.pmtu >= 1280 && info.cwnd_bytes > 0, "{info:?}");
        assert!(congestion(&stream).is_some_and(|name| !name.is_empty()));
        assert_eq!(buffers(&stream).0, 2 * 65536);
    }
}
