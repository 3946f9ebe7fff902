//! The control connection of iperf3: a cookie, one byte a state, and JSON behind its length.
//!
//! Facts: esnet/iperf `src/iperf.h` (states), `iperf_api.c` (`JSON_read`, `JSON_write`, order of states).

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::contract::kernel::Stop;
use crate::network::waiting::{passing, LOOK};

/// The test is about to start.
pub const TEST_START: i8 = 1;
/// Data flows.
pub const TEST_RUNNING: i8 = 2;
/// The client has ended.
pub const TEST_END: i8 = 4;
/// The client sends its parameters now.
pub const PARAM_EXCHANGE: i8 = 9;
/// The client opens its streams now.
pub const CREATE_STREAMS: i8 = 10;
/// The server gave up.
pub const SERVER_TERMINATE: i8 = 11;
/// The client gave up.
pub const CLIENT_TERMINATE: i8 = 12;
/// The client sends its results, then the server.
pub const EXCHANGE_RESULTS: i8 = 13;
/// Both may show them.
pub const DISPLAY_RESULTS: i8 = 14;
/// The client is done.
pub const IPERF_DONE: i8 = 16;
/// The server is busy with someone else.
pub const ACCESS_DENIED: i8 = -1;
/// The server failed: two numbers follow.
pub const SERVER_ERROR: i8 = -2;

/// 36 characters and a zero.
pub const COOKIE_BYTES: usize = 37;
/// A client's parameters are at most this long.
pub const MAX_PARAMETERS: usize = 8 << 10;
/// Results are at most this long; a server's may hold its whole output.
pub const MAX_RESULTS: usize = 4 << 20;
/// What the client of a UDP stream sends first (its `UDP_CONNECT_MSG`).
pub const HELLO: &[u8; 4] = b"9876";
/// What the server answers (its `UDP_CONNECT_REPLY`).
pub const WELCOME: &[u8; 4] = b"6789";

/// What names a test: the client's random word.
pub type Cookie = [u8; COOKIE_BYTES];

/// A new cookie, from the clock and the process: it need not be secret, only unlike others.
#[must_use]
pub fn new_cookie() -> Cookie {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut state = crate::timing::clock::now_ns() ^ (u64::from(std::process::id()) << 40);
    let mut cookie = [0; COOKIE_BYTES];
    for letter in &mut cookie[..COOKIE_BYTES - 1] {
        // splitmix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        *letter = LETTERS[((mixed ^ (mixed >> 31)) & 31) as usize];
    }
    cookie
}

/// The control connection; every wait on it has an end.
pub struct Control {
    stream: TcpStream,
    stop: Stop,
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the other end closed the control connection")
}

fn late(waited_for: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, format!("the other end did not send {waited_for} in time"))
}

fn nonsense(says: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, says.into())
}

impl Control {
    /// Takes a connection over; `stop` ends every wait.
    pub fn new(stream: TcpStream, stop: Stop) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(Self { stream, stop })
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a state.
    pub fn send_state(&mut self, state: i8) -> io::Result<()> {
        self.stream.write_all(&state.to_ne_bytes())
    }

    /// The state that came, or none when nothing came within `timeout`.
    pub fn poll_state(&mut self, timeout: Duration) -> io::Result<Option<i8>> {
        if !crate::sys::net::wait(&self.stream, false, timeout)? {
            return Ok(None);
        }
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(0) => Err(closed()),
            Ok(_) => Ok(Some(i8::from_ne_bytes(byte))),
            Err(error) if passing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for a state until `timeout` is over.
    pub fn read_state(&mut self, waited_for: &str, timeout: Duration) -> io::Result<i8> {
        let mut byte = [0];
        self.read_all(&mut byte, waited_for, Instant::now() + timeout)?;
        Ok(i8::from_ne_bytes(byte))
    }

    fn read_all(&mut self, bytes: &mut [u8], waited_for: &str, until: Instant) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.stream.read(&mut bytes[filled..]) {
                Ok(0) => return Err(closed()),
                Ok(count) => filled += count,
                Err(error) if passing(&error) => {}
                Err(error) => return Err(error),
            }
            if filled < bytes.len() && (Instant::now() >= until || self.stop.is_set()) {
                return Err(late(waited_for));
            }
        }
        Ok(())
    }

    /// Sends JSON behind its length.
    pub fn send_json(&mut self, value: &Value) -> io::Result<()> {
        let text = value.to_string();
        let mut framed = (text.len() as u32).to_be_bytes().to_vec();
        framed.extend_from_slice(text.as_bytes());
        self.stream.write_all(&framed)
    }

    /// Reads JSON of at most `most` bytes; its content is not trusted.
    pub fn read_json(&mut self, waited_for: &str, most: usize, timeout: Duration) -> io::Result<Value> {
        let until = Instant::now() + timeout;
        let mut length = [0; 4];
        self.read_all(&mut length, waited_for, until)?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 || length > most {
            return Err(nonsense(format!("the other end announced {length} bytes for {waited_for}")));
        }
        let mut text = vec![0; length];
        self.read_all(&mut text, waited_for, until)?;
        // iperf3 before 3.17 may count a closing zero in.
        let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        match serde_json::from_slice(&text[..end]) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            _ => Err(nonsense(format!("the other end's {waited_for} is not a JSON object"))),
        }
    }

    /// The two numbers that follow [`SERVER_ERROR`], as a sentence.
    pub fn read_error(&mut self) -> String {
        let mut numbers = [0; 8];
        let until = Instant::now() + Duration::from_secs(1);
        if self.read_all(&mut numbers, "its error", until).is_err() {
            return "the server reported an error".into();
        }
        let number = |at: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&numbers[at..at + 4]);
            i32::from_be_bytes(bytes)
        };
        let (code, errno) = (number(0), number(4));
        let cause = if errno > 0 { format!(": {}", io::Error::from_raw_os_error(errno)) } else { String::new() };
        format!("the server reported its error {code}{cause}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair() -> (Control, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (theirs, _) = listener.accept().unwrap();
        (Control::new(ours, Stop::new()).unwrap(), theirs)
    }

    #[test]
    fn a_silent_peer_ends_the_wait() {
        let (mut control, _peer) = pair();
        let error = control.read_state("a state", Duration::from_millis(50)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_length_that_is_too_great_is_refused_before_anything_is_allocated() {
        let (mut control, mut peer) = pair();
        peer.write_all(&u32::MAX.to_be_bytes()).unwrap();
        let error = control.read_json("parameters", MAX_PARAMETERS, Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn json_that_is_no_object_is_refused() {
        let (mut control, mut peer) = pair();
        for text in ["[1]", "{", "\u{fffd}", "nul"] {
            peer.write_all(&(text.len() as u32).to_be_bytes()).unwrap();
            peer.write_all(text.as_bytes()).unwrap();
            assert!(control.read_json("parameters", 100, Duration::from_secs(1)).is_err(), "{text}");
        }
    }

    #[test]
    fn cookies_are_of_iperf3s_letters_and_unlike() {
        let (one, other) = (new_cookie(), new_cookie());
        assert_ne!(one, other);
        assert!(one[..36].iter().all(|c| c.is_ascii_lowercase() || (b'2'..=b'7').contains(c)));
        assert_eq!(one[36], 0);
    }
}
