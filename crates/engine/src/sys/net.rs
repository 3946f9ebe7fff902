//! Sockets beyond what the standard library offers: their options, connections with a deadline, sends without a copy.

use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

pub(super) fn result(answer: libc::ssize_t) -> io::Result<usize> {
    if answer < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(answer as usize)
    }
}

/// An address as the system takes it, with its length.
fn raw_address(address: &SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: sockaddr_storage is plain data for which all zeroes is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            // SAFETY: sockaddr_storage is larger than and aligned for every kind of address.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: as above.
            unsafe { std::ptr::write((&raw mut storage).cast(), raw) };
            size_of::<libc::sockaddr_in6>()
        }
    };
    (storage, length as libc::socklen_t)
}

/// A new socket of the address' family; `protocol` 0 is the usual one of its kind.
pub(super) fn socket(address: &SocketAddr, kind: libc::c_int, protocol: libc::c_int) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes three numbers and gives a new descriptor or -1.
    let fd = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is a descriptor that was just made and that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a whole-number option of a socket.
pub(super) fn set(fd: RawFd, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the option's value is a c_int that lives through the call, of the length given.
    result(unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), length) } as libc::ssize_t).map(drop)
}

fn get(fd: RawFd, level: libc::c_int, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is a c_int of the length given, which the call fills.
    let answer = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    (answer == 0).then_some(value)
}

/// Ends each wait for something to read after `time` (`SO_RCVTIMEO`).
pub(super) fn set_receive_timeout(socket: &impl AsRawFd, time: Duration) -> io::Result<()> {
    let value = libc::timeval { tv_sec: time.as_secs() as _, tv_usec: time.subsec_micros().into() };
    let length = size_of::<libc::timeval>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
    // SAFETY: the option's value is a timeval that lives through the call, of the length given.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    result(answer as libc::ssize_t).map(drop)
}

/// Sets a datagram or raw socket's only partner.
pub(super) fn connect_datagrams(socket: &impl AsRawFd, address: &SocketAddr) -> io::Result<()> {
    let (raw, length) = raw_address(address);
    // SAFETY: `raw` holds an address of `length` bytes that lives through the call.
    let answer = unsafe { libc::connect(socket.as_raw_fd(), (&raw const raw).cast(), length) };
    result(answer as libc::ssize_t).map(drop)
}

/// Sends one datagram to the socket's partner.
pub(super) fn send(socket: &impl AsRawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the bytes live through the call and are as many as said.
    result(unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) })
}

/// Takes one datagram.
pub(super) fn receive(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the buffer is this caller's alone and has the length given, which the call fills up to.
    result(unsafe { libc::recv(socket.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) })
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
    pub fn apply_tcp(&self, socket: &impl AsRawFd) -> io::Result<()> {
        let fd = socket.as_raw_fd();
        self.apply(fd)?;
        if self.nodelay {
            set(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)?;
        }
        if self.mss > 0 {
            set(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, self.mss as libc::c_int)?;
        }
        if !self.congestion.is_empty() {
            let (name, length) = (self.congestion.as_ptr(), self.congestion.len() as libc::socklen_t);
            // SAFETY: the name's bytes live through the call and are as many as said.
            let answer = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, name.cast(), length) };
            result(answer as libc::ssize_t)?;
        }
        Ok(())
    }

    fn apply(&self, fd: RawFd) -> io::Result<()> {
        if self.window > 0 {
            set_buffers(fd, self.window)?;
        }
        if self.tos > 0 {
            // Of the two families only the socket's own takes it; a dual-stack socket takes both.
            let v4 = set(fd, libc::IPPROTO_IP, libc::IP_TOS, libc::c_int::from(self.tos));
            v4.or(set(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::c_int::from(self.tos)))?;
        }
        Ok(())
    }
}

fn set_buffers(fd: RawFd, bytes: usize) -> io::Result<()> {
    set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, bytes as libc::c_int)?;
    set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes as libc::c_int)
}

/// The congestion control that a TCP socket uses.
#[must_use]
pub fn congestion(socket: &impl AsRawFd) -> Option<String> {
    let mut name = [0_u8; 16];
    let mut length = name.len() as libc::socklen_t;
    // SAFETY: `name` has the length given, which the call fills up to.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let used = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    (answer == 0).then(|| String::from_utf8_lossy(&name[..used]).into_owned())
}

/// `SO_SNDBUF` and `SO_RCVBUF` as the system keeps them (twice what was asked for), bytes.
#[must_use]
pub fn buffers(socket: &impl AsRawFd) -> (u64, u64) {
    let of = |name| get(socket.as_raw_fd(), libc::SOL_SOCKET, name).map_or(0, |bytes| bytes as u64);
    (of(libc::SO_SNDBUF), of(libc::SO_RCVBUF))
}

/// The maximum segment size of a TCP socket, bytes.
#[must_use]
pub fn mss(socket: &impl AsRawFd) -> u64 {
    get(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_MAXSEG).map_or(0, |bytes| bytes as u64)
}

/// Waits until a descriptor can be read (or written, with `write`), or the time is over: false then.
pub fn wait(fd: &impl AsRawFd, write: bool, time: Duration) -> io::Result<bool> {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
    let millis = time.as_millis().clamp(0, 1 << 30) as libc::c_int;
    // SAFETY: `entry` is one valid pollfd that lives through the call.
    match result(unsafe { libc::poll(&raw mut entry, 1, millis) } as libc::ssize_t) {
        Ok(ready) => Ok(ready > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// Connects a TCP socket that has its options set before, so that the window's scale is agreed with them.
pub fn connect(address: &SocketAddr, options: &Options, patience: Duration) -> io::Result<TcpStream> {
    let fd = socket(address, libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    options.apply_tcp(&fd)?;
    let (raw, length) = raw_address(address);
    // SAFETY: `raw` holds an address of `length` bytes that lives through the call.
    let answer = unsafe { libc::connect(fd.as_raw_fd(), (&raw const raw).cast(), length) };
    if answer < 0 {
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINPROGRESS) {
            return Err(error);
        }
        let until = Instant::now() + patience;
        while !wait(&fd, true, until.saturating_duration_since(Instant::now()).min(Duration::from_millis(100)))? {
            if Instant::now() >= until {
                return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT));
            }
        }
        match get(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ERROR) {
            Some(0) | None => {}
            Some(errno) => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
    let stream = TcpStream::from(fd);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A UDP socket that shares its port with others of this process, each connected to its own peer.
pub fn udp_socket(address: &SocketAddr, options: &Options) -> io::Result<UdpSocket> {
    let fd = socket(address, libc::SOCK_DGRAM, 0)?;
    set(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // What the system allows at most is taken silently where this is more.
    set_buffers(fd.as_raw_fd(), 4 << 20)?;
    options.apply(fd.as_raw_fd())?;
    let (raw, length) = raw_address(address);
    // SAFETY: `raw` holds an address of `length` bytes that lives through the call.
    result(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw).cast(), length) } as libc::ssize_t)?;
    Ok(UdpSocket::from(fd))
}

/// Takes up to `length` bytes that arrived without copying them anywhere (`MSG_TRUNC`, tcp(7)).
pub fn skip(stream: &TcpStream, length: usize) -> io::Result<usize> {
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer, which may then be null (tcp(7)).
    result(unsafe { libc::recv(stream.as_raw_fd(), std::ptr::null_mut(), length, libc::MSG_TRUNC) })
}

/// Wakes the reader of a TCP socket only when so many bytes are there (`SO_RCVLOWAT`).
pub fn wake_at(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    set(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as libc::c_int)
}

/// A file in memory that `sendfile` sends from, so that the sender copies nothing.
pub fn memory_file(content: &[u8]) -> io::Result<std::fs::File> {
    // SAFETY: the name is a C string that lives through the call.
    let fd = unsafe { libc::memfd_create(c"hwdyno".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` is a descriptor that was just made and that nobody else owns.
    let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    io::Write::write_all(&mut file, content)?;
    Ok(file)
}

/// Sends the first `length` bytes of `file`, page by page without a copy.
pub fn send_file(stream: &TcpStream, file: &std::fs::File, length: usize) -> io::Result<usize> {
    let mut from: libc::off_t = 0;
    // SAFETY: both descriptors are open and `from` is an off_t that the call may change.
    result(unsafe { libc::sendfile(stream.as_raw_fd(), file.as_raw_fd(), &raw mut from, length) })
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
