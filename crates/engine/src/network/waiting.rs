//! How the network's loops wait: never longer than a look, so that each ends soon after it shall.

use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::sys::net;

/// What moves nothing looks this often whether it shall end.
pub const LOOK: Duration = Duration::from_millis(20);

/// Whether a call only has to be made again.
#[must_use]
pub fn passing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// How an end that finds nothing waits: it looks again for a while, where it spins, and sleeps then.
pub struct Rest {
    spin: bool,
    misses: u32,
}

impl Rest {
    /// Misses in a row after which an end sleeps until something comes, some 50 µs: who looks for longer keeps the other
    /// end from the processor where there are fewer processors than ends.
    const MAX_MISSES: u32 = 256;

    /// Waits asleep, or spins first.
    #[must_use]
    pub fn new(spin: bool) -> Self {
        Self { spin, misses: 0 }
    }

    /// Something came.
    #[inline]
    pub fn came(&mut self) {
        self.misses = 0;
    }

    /// Nothing came; true now and then, when it is time to look at other things.
    #[inline]
    pub fn missed(&mut self, socket: &impl std::os::fd::AsFd) -> bool {
        if !self.spin {
            return true;
        }
        self.misses += 1;
        if self.misses < Self::MAX_MISSES {
            return false;
        }
        let _ = net::wait(socket, false, LOOK);
        self.misses = 0;
        true
    }
}
