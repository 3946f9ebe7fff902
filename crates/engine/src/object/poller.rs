//! What tells a thread which of its connections can be read or written.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::contract::kernel::Error;

/// The longest wait: so often are deadlines, rests and the stop looked at.
pub const LOOK_NS: u64 = 20_000_000;
/// The last part of a wait for a due request, which is not left to `epoll`: it counts in whole ms.
const FINE_NS: u64 = 2_000_000;
const MS: u64 = 1_000_000;
const WRITABLE: EventFlags = EventFlags::OUT.union(EventFlags::ERR).union(EventFlags::HUP);
const BOTH: EventFlags = EventFlags::IN.union(EventFlags::OUT);

/// An epoll over the connections of one thread, each with its number.
pub struct Poller {
    poll: OwnedFd,
}

impl Poller {
    /// One without connections.
    ///
    /// # Errors
    /// Machine: the system has none to give.
    pub fn new() -> Result<Self, Error> {
        match epoll::create(epoll::CreateFlags::CLOEXEC) {
            Ok(poll) => Ok(Self { poll }),
            Err(errno) => Err(Error::machine("make an epoll", &errno.into())),
        }
    }

    /// Adds a connection that is being made.
    ///
    /// # Errors
    /// Other: the system refuses.
    pub fn add(&self, stream: &TcpStream, number: usize) -> io::Result<()> {
        Ok(epoll::add(&self.poll, stream, EventData::new_u64(number as u64), BOTH)?)
    }

    /// Tells from now on when a connection can be read, and also when it can be written where it `writes`.
    pub fn watch(&self, stream: &TcpStream, number: usize, writes: bool) {
        let flags = if writes { BOTH } else { EventFlags::IN };
        // A descriptor that is at this epoll can be changed there.
        let _ = epoll::modify(&self.poll, stream, EventData::new_u64(number as u64), flags);
    }

    /// Waits at most this long for what can be read or written; the end of a short wait is met within tens of µs.
    ///
    /// # Errors
    /// Machine: the system refuses.
    pub fn wait(&self, events: &mut Vec<Event>, left_ns: u64) -> Result<(), Error> {
        events.clear();
        let mut whole_ms = left_ns.div_ceil(MS);
        let mut answer = Ok(0);
        if left_ns < FINE_NS {
            let fine = Timespec { tv_sec: 0, tv_nsec: left_ns as _ };
            answer = poll(&mut [PollFd::new(&self.poll, PollFlags::IN)], Some(&fine));
            whole_ms = 0;
        } else if left_ns < LOOK_NS {
            whole_ms = (left_ns - FINE_NS) / MS;
        }
        let time = Timespec { tv_sec: 0, tv_nsec: (whole_ms * MS) as _ };
        match answer.and_then(|_| epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), Some(&time))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::machine("wait for the store", &errno.into())),
        }
    }
}

/// Whether a connection can be written, or has failed.
#[must_use]
pub fn is_writable(event: &Event) -> bool {
    let flags = { event.flags };
    flags.intersects(WRITABLE)
}
