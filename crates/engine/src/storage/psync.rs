//! pread and pwrite: one operation at a time.

use std::io;

use super::access::{Access, Transfer};
use super::pool::Pool;
use super::set::Set;
use crate::sys::files;

/// See the module.
pub struct Psync<'a> {
    set: Set<'a>,
    pool: &'a Pool,
    next: Option<(usize, Transfer)>,
    complete: Option<(usize, i64)>,
    calls: u64,
}

impl<'a> Psync<'a> {
    /// For one operation at a time.
    #[must_use]
    pub fn new(set: Set<'a>, pool: &'a Pool) -> Self {
        Self { set, pool, next: None, complete: None, calls: 0 }
    }
}

impl Access for Psync<'_> {
    const SYNCHRONOUS: bool = true;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.next = Some((slot, *transfer));
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        if let Some((slot, transfer)) = self.next.take() {
            let call = if transfer.write { files::write_at } else { files::read_at };
            let (file, offset) = self.set.place(transfer.offset);
            let moved = call(&self.set.files()[file], self.pool.region(), transfer.at, transfer.length, offset);
            self.complete = Some((slot, moved));
            self.calls += 1;
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
        self.set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.set.sync_all()
    }

    fn calls(&self) -> u64 {
        self.calls
    }
}
