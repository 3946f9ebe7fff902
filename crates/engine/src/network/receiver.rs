//! Receives the answers of many connections: keeps their pieces, each with its moment, until one asks for a decision.
//!
//! A server that streams sends a piece a token. What costs an interpreter microseconds a token costs this loop little more than
//! the two system calls; it comes back where an answer is complete or has no chunks, where another connection is ready, and in
//! time.

use std::collections::HashMap;
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{epoll, poll, PollFd, PollFlags, Timespec};

use crate::network::chunks::{Chunks, Progress};
use crate::sys::receive::{duplicate_fd, receive};
use crate::timing::clock::now_ns;

/// Bytes read at once.
const PIECE: usize = 16 << 10;
/// How a head begins.
const FIRST: &[u8] = b"HTTP/1.";
/// And how it ends.
const LAST: &[u8] = b"\r\n\r\n";
/// Bytes of a head without an end that need a look.
const LONG: usize = 64 << 10;
/// The last part of a wait, which is not left to `epoll`: it counts in whole ms.
const FINE_NS: u64 = 2_000_000;
const MS: u64 = 1_000_000;
/// Connections served before the time is looked at again.
const MAX_AT_ONCE: usize = 64;
/// And of a fine wait whose time is over: even one that is always late must read what comes.
const MIN_AT_ONCE: usize = 8;
/// Fewer pieces than this, if they are stamped, are left to gather: a server sends the tokens of a step one after the
/// other, and to wake for each costs more than to read it.
const FEW: usize = 8;
/// Longest pause, ns; it is also limited to this part of the average time between two pieces of an answer.
const PAUSE_NS: u64 = 1_000_000;
const PART_OF_GAP: u64 = 16;
/// A longer gap counts as this.
const GAP_NS: u64 = 100_000_000;
/// A pause that saves less than it costs.
const SHORT_NS: u64 = 100_000;
/// How often the system's clock is looked at.
const LOOK_NS: u64 = 50_000_000;
/// A change of it against the monotonic one that is a step: slewing moves it by 25 µs meanwhile.
const STEP_NS: u64 = 100_000;

/// The system's clock minus the monotonic one, by the quickest of three looks, and when that was.
fn offset() -> (i64, u64) {
    let look = || {
        let before = now_ns();
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let after = now_ns();
        (after - before, (system as i64).wrapping_sub((before + (after - before) / 2) as i64), after)
    };
    let (_, offset_ns, looked_ns) = [look(), look(), look()].into_iter().min().unwrap_or_default();
    (offset_ns, looked_ns)
}

fn of(event: &epoll::Event) -> RawFd {
    { event.data }.u64() as u32 as RawFd
}

/// The pieces of an answer, one behind the other.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Pieces {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// The length of each.
    pub sizes: Vec<usize>,
    /// When each came, ns of the monotonic clock.
    pub times_ns: Vec<u64>,
    /// Why nothing more can be read; 0 where it can.
    pub errno: i32,
}

struct Answer {
    pieces: Pieces,
    last_ns: u64,
    room: usize,
    body: Body,
}

impl Answer {
    /// Takes the last piece, of this many bytes; whether the caller has to look at it.
    fn needs_look(&mut self, length: usize) -> bool {
        let bytes = &self.pieces.bytes;
        let before = bytes.len() - length;
        let progress = match &mut self.body {
            Body::Chunks(chunks) => chunks.take(&bytes[before..]),
            Body::Any => Progress::Wrong,
            Body::Unknown => {
                // The end may have begun in the piece before.
                let from = before.saturating_sub(LAST.len() - 1);
                match bytes[from..].windows(LAST.len()).position(|four| four == LAST) {
                    Some(at) => match chunks_after(&bytes[..from + at]) {
                        Some(mut chunks) => {
                            let progress = chunks.take(&bytes[from + at + LAST.len()..]);
                            self.body = Body::Chunks(chunks);
                            progress
                        }
                        None => Progress::Wrong,
                    },
                    None if is_begun(bytes) && bytes.len() < LONG => Progress::More,
                    None => Progress::Wrong,
                }
            }
        };
        length == 0 || progress != Progress::More || bytes.len() >= self.room
    }
}

/// What is known of an answer's body.
enum Body {
    /// Nothing, because the head is not whole.
    Unknown,
    Chunks(Chunks),
    /// It is another's to read.
    Any,
}

fn is_begun(bytes: &[u8]) -> bool {
    bytes.iter().zip(FIRST).all(|(byte, known)| byte == known)
}

/// The chunks that follow a head, where it says that such follow (RFC 9112, 6.1).
fn chunks_after(head: &[u8]) -> Option<Chunks> {
    let is_chunked = head.split(|byte| *byte == b'\n').any(|line| {
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':').unwrap_or(0));
        name.trim_ascii().eq_ignore_ascii_case(b"transfer-encoding")
            && value[1..].trim_ascii().eq_ignore_ascii_case(b"chunked")
    });
    (is_chunked && is_begun(head)).then(|| Chunks::new((head.len() + LAST.len()) as u64))
}

/// The offset between the monotonic clock and the system's, which made the stamps.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_field_names, reason = "each has its unit")]
struct Stamped {
    offset_ns: i64,
    /// Stamps from before are of another time, because the system's clock was set.
    since_ns: u64,
    looked_ns: u64,
}

impl Stamped {
    fn now() -> Self {
        let (offset_ns, looked_ns) = offset();
        Self { offset_ns, since_ns: 0, looked_ns }
    }

    /// The same by a later look.
    fn followed(self, (offset_ns, looked_ns): (i64, u64)) -> Self {
        let is_step = offset_ns.abs_diff(self.offset_ns) > STEP_NS;
        Self { offset_ns, since_ns: if is_step { looked_ns } else { self.since_ns }, looked_ns }
    }

    /// The moment of the kernel's stamp, where it can be right.
    fn moment(self, stamp: Option<i64>, min_ns: u64, now: u64) -> Option<u64> {
        let came = u64::try_from(stamp?.wrapping_sub(self.offset_ns)).ok()?;
        (min_ns <= came && came < now && came > self.since_ns).then_some(came)
    }
}

/// Waits at an epoll and keeps what the connections that it follows receive.
pub struct Receiver {
    poll: OwnedFd,
    stamped: Stamped,
    followed: HashMap<RawFd, Answer>,
    buffer: Box<[u8]>,
    /// Whether the last piece of a followed connection had a stamp that can be right.
    is_stamped: bool,
    /// The average time between two pieces of an answer, as a moving average.
    gap_ns: u64,
}

impl Receiver {
    /// A receiver at the epoll `poll`, whose events carry their descriptor. Fails where that is none.
    pub fn new(poll: RawFd) -> io::Result<Self> {
        Ok(Self {
            poll: duplicate_fd(poll)?,
            stamped: Stamped::now(),
            followed: HashMap::new(),
            buffer: vec![0; PIECE].into_boxed_slice(),
            is_stamped: false,
            gap_ns: 0,
        })
    }

    /// Keeps the pieces of a connection from now on, up to `room` bytes. The last one before came at `last_ns`; the next
    /// one is an answer's first or, where it `goes_on`, needs a look in any case.
    pub fn follow(&mut self, fd: RawFd, last_ns: u64, room: usize, goes_on: bool) {
        let body = if goes_on { Body::Any } else { Body::Unknown };
        self.followed.insert(fd, Answer { pieces: Pieces::default(), last_ns, room, body });
    }

    /// What a followed connection brought; from now on it is not followed.
    pub fn take(&mut self, fd: RawFd) -> Option<Pieces> {
        self.followed.remove(&fd).map(|answer| answer.pieces)
    }

    /// Waits until `until_ns`, or until there are connections to serve: those that are not followed, and those whose
    /// last piece completes an answer, is of one without chunks, is empty, or leaves no room. A signal ends the wait as
    /// well. The end of a `fine` wait is met within tens of microseconds.
    pub fn wait(&mut self, until_ns: u64, fine: bool) -> io::Result<Vec<RawFd>> {
        let (mut found, mut events) = (Vec::new(), Vec::with_capacity(MAX_AT_ONCE));
        loop {
            events.clear();
            let left = until_ns.saturating_sub(now_ns());
            match self.ready(left, fine, &mut events) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(found),
                Err(error) => return Err(error),
            }
            let pause_ns = self.pause_ns(&events).min(until_ns.saturating_sub(now_ns()));
            if pause_ns > SHORT_NS {
                thread::sleep(Duration::from_nanos(pause_ns));
                events.clear();
                self.ready(0, false, &mut events)?;
            }
            self.follow_clock();
            for (at, event) in events.iter().enumerate() {
                // What is due goes before the rest, which the next poll finds again.
                if fine && at >= MIN_AT_ONCE && now_ns() >= until_ns {
                    return Ok(found);
                }
                let fd = of(event);
                if self.keep(fd) {
                    found.push(fd);
                }
            }
            if !found.is_empty() || left == 0 {
                return Ok(found);
            }
        }
    }

    /// Looks at the system's clock where the last look is long ago.
    fn follow_clock(&mut self) {
        if now_ns().saturating_sub(self.stamped.looked_ns) > LOOK_NS {
            self.stamped = self.stamped.followed(offset());
        }
    }

    /// How long to wait for others of the same step; what is stamped loses nothing by that.
    fn pause_ns(&self, events: &[epoll::Event]) -> u64 {
        let few = (1..FEW.min(self.followed.len())).contains(&events.len());
        let pause = few && self.is_stamped && events.iter().all(|event| self.followed.contains_key(&of(event)));
        if pause {
            PAUSE_NS.min(self.gap_ns / PART_OF_GAP)
        } else {
            0
        }
    }

    /// Fills `events`.
    fn ready(&self, left_ns: u64, fine: bool, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let mut whole_ms = left_ns.div_ceil(MS);
        if fine && left_ns > FINE_NS {
            whole_ms = (left_ns - FINE_NS).div_ceil(MS);
        } else if fine && left_ns > 0 {
            poll(&mut [PollFd::new(&self.poll, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: left_ns as _ }))?;
            whole_ms = 0;
        }
        let wait = Timespec { tv_sec: (whole_ms / 1000) as i64, tv_nsec: (whole_ms % 1000 * MS) as _ };
        epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), Some(&wait))?;
        Ok(())
    }

    /// Keeps the next piece of a connection; whether the caller has to serve it.
    fn keep(&mut self, fd: RawFd) -> bool {
        let Some(answer) = self.followed.get_mut(&fd) else {
            return true;
        };
        let (bytes, stamp) = match receive(fd, &mut self.buffer) {
            Ok(read) => read,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return false
            }
            Err(error) => {
                answer.pieces.errno = error.raw_os_error().unwrap_or(libc::EIO);
                return true;
            }
        };
        let (piece, pieces) = (&self.buffer[..bytes], &mut answer.pieces);
        let (now, min_ns) = (now_ns(), answer.last_ns);
        let came = self.stamped.moment(stamp, min_ns, now);
        (self.is_stamped, answer.last_ns) = (came.is_some(), came.unwrap_or(now));
        pieces.bytes.extend_from_slice(piece);
        pieces.sizes.push(bytes);
        pieces.times_ns.push(answer.last_ns);
        if matches!(answer.body, Body::Chunks(_)) {
            self.gap_ns = (15 * self.gap_ns + (answer.last_ns - min_ns).min(GAP_NS)) / 16;
        }
        answer.needs_look(bytes)
    }
}

#[cfg(test)]
mod tests;
