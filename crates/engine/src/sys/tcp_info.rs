//! TCP's own figures of a connection: retransmits, windows, round trips, and what it waited for.

use std::os::fd::AsRawFd;

/// TCP's own figures of a connection (`TCP_INFO`, linux/tcp.h).
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpInfo {
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Congestion window, bytes.
    pub cwnd_bytes: u64,
    /// Window that this end grants the peer, bytes.
    pub granted_window_bytes: u64,
    /// Window that the receiver grants, bytes; 0 where the kernel does not tell (before 5.4).
    pub receive_window_bytes: u64,
    /// Smoothed round trip, µs.
    pub rtt_us: u64,
    /// Its mean deviation, µs.
    pub rttvar_us: u64,
    /// Least round trip seen, µs.
    pub min_rtt_us: u64,
    /// Path MTU, bytes.
    pub pmtu: u64,
    /// Payload of a full segment, bytes.
    pub mss_bytes: u64,
    /// Segments by which the path is taken to reorder.
    pub reordering: u64,
    /// Bytes that the peer has acknowledged.
    pub acked_bytes: u64,
    /// Time with data to send, µs.
    pub busy_us: u64,
    /// Part of that spent waiting for the receiver's window, µs.
    pub receiver_limited_us: u64,
    /// Part of that spent waiting for room in the send buffer, µs.
    pub buffer_limited_us: u64,
}

/// Asks a TCP socket for its figures; none if it is gone.
#[must_use]
pub fn of(socket: &impl AsRawFd) -> Option<TcpInfo> {
    let mut raw = [0_u8; 256];
    let mut length = raw.len() as libc::socklen_t;
    // SAFETY: `raw` has the length given, which the call fills up to.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            raw.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return None;
    }
    let word = |at: usize| raw.get(at..at + 4).map_or(0, |b| u64::from(u32::from_ne_bytes([b[0], b[1], b[2], b[3]])));
    let long = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&raw[at..at + 8]);
        u64::from_ne_bytes(bytes)
    };
    let mss = word(16);
    Some(TcpInfo {
        retransmits: word(100),
        cwnd_bytes: word(80) * mss,
        granted_window_bytes: word(64),
        receive_window_bytes: word(228),
        rtt_us: word(68),
        rttvar_us: word(72),
        min_rtt_us: word(148),
        pmtu: word(60),
        mss_bytes: mss,
        reordering: word(88),
        acked_bytes: long(120),
        busy_us: long(168),
        receiver_limited_us: long(176),
        buffer_limited_us: long(184),
    })
}
