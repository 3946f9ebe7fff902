//! The half of an access engine that all synchronous ones share: a transfer is complete when its call returns.

use std::io;

use super::access::{Access, Transfer};

/// How one transfer is made, and what was written made durable.
pub trait BlockingIo {
    /// System calls that one transfer makes.
    const CALLS_EACH: u64 = 0;

    /// The bytes moved, or minus the errno.
    fn transfer(&mut self, transfer: &Transfer) -> i64;
    /// [`Access::sync`] of this engine.
    fn sync(&mut self) -> io::Result<()>;
    /// [`Access::sync_whole`] of this engine.
    fn sync_whole(&mut self) -> io::Result<()> {
        self.sync()
    }
    /// [`Access::finish`] of this engine.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An access engine for one operation at a time.
pub struct Synchronous<M> {
    mover: M,
    next: Option<(usize, Transfer)>,
    complete: Option<(usize, i64)>,
    calls: u64,
}

impl<M: BlockingIo> Synchronous<M> {
    /// An access engine that makes its transfers by `mover`.
    #[must_use]
    pub fn new(mover: M) -> Self {
        Self { mover, next: None, complete: None, calls: 0 }
    }
}

impl<M: BlockingIo> Access for Synchronous<M> {
    const SYNCHRONOUS: bool = true;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.next = Some((slot, *transfer));
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        if let Some((slot, transfer)) = self.next.take() {
            self.complete = Some((slot, self.mover.transfer(&transfer)));
            self.calls += M::CALLS_EACH;
        }
        Ok(())
    }

    #[inline]
    fn wait(&mut self, _at_least: usize) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        if let Some((slot, moved)) = self.complete.take() {
            done(slot, moved);
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.mover.sync()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.mover.sync_whole()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.mover.finish()
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
