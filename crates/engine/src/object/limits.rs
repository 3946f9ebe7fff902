//! When a request of a connection ends: its deadline, a store's silence and a stop.

use std::cell::Cell;
use std::time::Duration;

use crate::contract::kernel::Stop;
use crate::object::failure::Failure;
use crate::timing::clock::now_ns;

/// How long the answer to what was sent is awaited after a stop: a store may finish it after its removal, which then removes
/// nothing.
pub const GRACE_NS: u64 = 2_000_000_000;

/// What ends a wait.
pub struct Limits<'a> {
    /// Its deadline, ns.
    pub until_ns: u64,
    /// How long nothing may move, ns: the deadline of much would hide that a store is silent.
    silent_ns: u64,
    /// When something moved.
    moved_ns: Cell<u64>,
    /// How long it may take after a stop, and when the stop was seen.
    grace_ns: u64,
    stopped_ns: Cell<u64>,
    stop: &'a Stop,
}

impl<'a> Limits<'a> {
    /// Those of a request: the answer to one with a body is awaited also after a stop, and nothing moves for `silent` at most.
    #[must_use]
    pub fn new(until_ns: u64, silent: Duration, has_body: bool, stop: &'a Stop) -> Self {
        Self {
            until_ns,
            silent_ns: silent.as_nanos() as u64,
            moved_ns: Cell::new(now_ns()),
            grace_ns: if has_body { GRACE_NS } else { 0 },
            stopped_ns: Cell::new(u64::MAX),
            stop,
        }
    }

    /// Notes that something moved.
    pub fn moved(&self) {
        self.moved_ns.set(now_ns());
    }

    /// Ends what takes too long.
    ///
    /// # Errors
    /// Timeout.
    pub fn check(&self) -> Result<(), Failure> {
        let now = now_ns();
        if self.stop.is_set() {
            self.stopped_ns.set(self.stopped_ns.get().min(now));
        }
        let until_ns = self.until_ns.min(self.moved_ns.get() + self.silent_ns);
        if now > until_ns || now >= self.stopped_ns.get().saturating_add(self.grace_ns) {
            return Err(Failure::Timeout);
        }
        Ok(())
    }
}
