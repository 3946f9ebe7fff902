//! A connection's bytes to and from a store: over plain TCP, or through a TLS session.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;

use rustls::CipherSuite;
use socket2::{Domain, Socket, Type};

use crate::object::address::Place;
use crate::object::paths::Paths;
use crate::object::tls::{Security, Session};
use crate::sys::{net, tcp_info};

/// A long body wakes its reader when this much of it is there at least: each wake costs about what a copy of 50 kB does.
pub const MIN_WAKE: u64 = 256 << 10;

/// One connection.
pub struct Transport {
    stream: TcpStream,
    session: Option<Session>,
    /// How much of a body wakes its reader.
    wake_bytes: u64,
}

impl Transport {
    /// A connection over this socket, by TLS where there is a security.
    ///
    /// # Errors
    /// Other: rustls refuses its configuration.
    pub fn new(stream: TcpStream, security: Option<&Security>) -> io::Result<Self> {
        Ok(Self { stream, session: security.map(Session::new).transpose()?, wake_bytes: 1 })
    }

    /// Begins to connect; the socket can be written when it is connected.
    ///
    /// # Errors
    /// Other: the system refuses.
    pub fn connect(place: &Place) -> io::Result<Self> {
        let address = place.address;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        loop {
            match socket.connect(&address.into()).map_err(|error| (error.raw_os_error(), error)) {
                Ok(()) | Err((Some(libc::EINPROGRESS | libc::EALREADY | libc::EISCONN), _)) => break,
                Err((Some(libc::EINTR), _)) => {}
                Err((_, error)) => return Err(error),
            }
        }
        Self::new(socket.into(), place.security.as_ref())
    }

    /// Its socket.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Goes on with the handshake by one read at most; over plain TCP there is none. The buffer is longer than `tls::GAP`.
    ///
    /// # Errors
    /// `WouldBlock`: it is not over yet. Other: it failed.
    pub fn shake(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        self.session.as_mut().map_or(Ok(()), |session| session.shake(&mut self.stream, buffer))
    }

    /// Receives into the beginning of a buffer that is longer than `tls::GAP`; 0 bytes at the end.
    ///
    /// # Errors
    /// `WouldBlock`: nothing has come.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.receive(&mut self.stream, buffer),
            None => self.stream.read(buffer),
        }
    }

    /// Sends parts of a text in their order; gives how many bytes were taken.
    ///
    /// # Errors
    /// `WouldBlock`: none can be taken now.
    pub fn write(&mut self, parts: [&[u8]; 3]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.send(&mut self.stream, &parts),
            None => self.stream.write_vectored(&parts.map(IoSlice::new)),
        }
    }

    /// Whether bytes that were taken wait until they may be sent.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_sending)
    }

    /// Has the system wake this connection's reader when `wake_bytes` of a long body have come, or all that is left of it.
    /// A TLS session takes a record at a time, so it gains nothing from more than the least.
    pub fn wake_at(&mut self, left: u64, wake_bytes: u64) {
        let wake_bytes = if self.session.is_some() { MIN_WAKE } else { wake_bytes };
        // What is left of a record that has come in part is already out of the socket.
        let left = left.saturating_sub(self.session.as_ref().map_or(0, Session::partial_bytes));
        let is_long = left >= MIN_WAKE || self.wake_bytes > 1;
        let wanted = if is_long { left.clamp(1, wake_bytes) } else { 1 };
        if wanted != self.wake_bytes && net::wake_at(&self.stream, wanted as usize).is_ok() {
            self.wake_bytes = wanted;
        }
    }

    /// Adds what TCP knows of it.
    pub fn look(&self, paths: &mut Paths) {
        if let Some(info) = tcp_info::of(&self.stream) {
            paths.look(&info);
        }
    }

    /// What TLS encrypts it by, once the handshake is over.
    #[must_use]
    pub fn suite(&self) -> Option<CipherSuite> {
        self.session.as_ref().and_then(Session::suite)
    }

    /// What is wrong with its TLS.
    #[must_use]
    pub fn fault(&self) -> Option<&rustls::Error> {
        self.session.as_ref()?.fault.as_ref()
    }
}

/// Whether an error is over when more has come, or can be sent.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
