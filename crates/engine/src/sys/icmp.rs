//! ICMP echo sockets: unprivileged where the system lets this group ping, raw where this process may.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Type, code, checksum, identifier and number.
pub const HEADER_BYTES: usize = 8;
/// The longest header that IPv4 puts before it on a raw socket.
const LONGEST_IPV4_HEADER: usize = 60;
// RFC 792 and RFC 4443.
const REQUEST: [u8; 2] = [8, 128];
const REPLY: [u8; 2] = [0, 129];

/// A socket that sends echo requests to one address.
#[derive(Debug)]
pub struct EchoSocket {
    socket: Socket,
    raw: bool,
    v6: bool,
    identifier: u16,
    /// Checksum of the payload, which is the same each time: adding up 64 kB takes longer than the echo itself.
    payload_sum: u64,
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl EchoSocket {
    /// Opens one: a datagram socket, which `net.ipv4.ping_group_range` allows, or a raw one, which takes `CAP_NET_RAW`.
    pub fn open(address: IpAddr, timeout: Duration, payload: &[u8]) -> io::Result<Self> {
        let v6 = address.is_ipv6();
        let protocol = if v6 { Protocol::ICMPV6 } else { Protocol::ICMPV4 };
        let to = SocketAddr::new(address, 0);
        let domain = Domain::for_address(to);
        let (socket, raw) = match Socket::new(domain, Type::DGRAM, Some(protocol)) {
            Ok(socket) => (socket, false),
            Err(_) => (Socket::new(domain, Type::RAW, Some(protocol))?, true),
        };
        if raw {
            hear_replies_alone(&socket, v6)?;
        }
        socket.set_read_timeout(Some(timeout))?;
        while let Err(error) = socket.connect(&to.into()) {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        // The kernel gives datagram sockets an identifier; a raw one recognizes its answers by this.
        let identifier = (std::process::id() as u16).rotate_left(3) ^ socket.as_raw_fd() as u16;
        Ok(Self { socket, raw, v6, identifier, payload_sum: sum(payload) })
    }

    /// Whether it took a privilege.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.raw
    }

    /// Sends `packet` as an echo request: [`HEADER_BYTES`] that are filled in here, then the payload given to `open`.
    pub fn send(&self, packet: &mut [u8], number: u16) -> io::Result<()> {
        packet[..HEADER_BYTES].fill(0);
        packet[0] = REQUEST[usize::from(self.v6)];
        packet[4..6].copy_from_slice(&self.identifier.to_be_bytes());
        packet[6..8].copy_from_slice(&number.to_be_bytes());
        if !self.v6 {
            let checksum = folded(sum(&packet[..HEADER_BYTES]) + self.payload_sum);
            packet[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        self.socket.send(packet).map(drop)
    }

    /// The number and payload length of the next answer; none for what is someone else's.
    pub fn answer(&self, buffer: &mut [u8]) -> io::Result<Option<(u16, usize)>> {
        let length = (&self.socket).read(buffer)?.min(buffer.len());
        let start = if self.raw && !self.v6 { usize::from(buffer[0] & 15) * 4 } else { 0 };
        let Some(packet) = buffer.get(start..length).filter(|packet| packet.len() >= HEADER_BYTES) else {
            return Ok(None);
        };
        let identifier = u16::from_be_bytes([packet[4], packet[5]]);
        let ours = packet[0] == REPLY[usize::from(self.v6)] && (!self.raw || identifier == self.identifier);
        Ok(ours.then(|| (u16::from_be_bytes([packet[6], packet[7]]), packet.len() - HEADER_BYTES)))
    }

    /// Bytes to make room for, so that an answer of this much payload fits.
    #[must_use]
    pub fn room(payload: usize) -> usize {
        LONGEST_IPV4_HEADER + HEADER_BYTES + payload
    }
}

/// A raw socket is given a copy of all that comes, requests over loopback too: this leaves the replies.
fn hear_replies_alone(socket: &Socket, v6: bool) -> io::Result<()> {
    // linux/icmp.h: ICMP_FILTER of SOL_RAW; linux/icmpv6.h: ICMPV6_FILTER. A bit that is set blocks its type.
    const SOL_RAW: libc::c_int = 255;
    const FILTER: libc::c_int = 1;
    let reply = usize::from(REPLY[usize::from(v6)]);
    let mut blocked = [u32::MAX; 8];
    blocked[reply / 32] &= !(1 << (reply % 32));
    let (level, words) = if v6 { (libc::IPPROTO_ICMPV6, 8) } else { (SOL_RAW, 1) };
    let length = (words * size_of::<u32>()) as libc::socklen_t;
    // SAFETY: the option's value is at least `length` bytes long and lives through the call.
    let answer = unsafe { libc::setsockopt(socket.as_raw_fd(), level, FILTER, blocked.as_ptr().cast(), length) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The words of bytes that begin at an even place, added up.
fn sum(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    bytes.chunks(2).map(word).sum()
}

/// The Internet checksum of such a sum (RFC 1071).
fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_rfc_1071s() {
        // Its example: 0001 f203 f4f5 f6f7 add up to ddf2.
        assert_eq!(folded(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
        assert_eq!(folded(sum(&[0x00, 0x01, 0xf2, 0x03]) + sum(&[0xf4, 0xf5, 0xf6, 0xf7])), !0xddf2);
        assert_eq!(folded(sum(&[0xFF])), !0xFF00);
    }
}
