//! Trims: an access engine that trims instead of reading.
//!
//! A block device is trimmed by BLKDISCARD, a file by punching a hole. As in fio, both are complete when the call
//! returns, regardless of the engine that writes.

use std::io;
use std::os::unix::fs::FileTypeExt;

use serde_json::{Map, Value};

use super::access::{Access, Transfer};
use crate::storage::data::file_set::FileSet;
use crate::sys::files::{self, Give};

/// An access engine that trims instead of reading.
pub struct Trimming<'a, A> {
    inner: A,
    file_set: FileSet<'a>,
    give: Give,
    done: Vec<(usize, i64)>,
    calls: u64,
}

impl<'a, A: Access> Trimming<'a, A> {
    /// Trims beside the writes of `inner`; with no files nothing is given back.
    pub fn new(file_set: FileSet<'a>, inner: A) -> Self {
        let device = |file: &std::fs::File| file.metadata().is_ok_and(|found| found.file_type().is_block_device());
        let give = if file_set.files().first().is_some_and(device) { Give::Discard } else { Give::Hole };
        Self { inner, file_set, give, done: Vec::with_capacity(1024), calls: 0 }
    }
}

impl<A: Access> Access for Trimming<'_, A> {
    const SYNCHRONOUS: bool = A::SYNCHRONOUS;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        if transfer.write {
            return self.inner.prepare(slot, transfer);
        }
        let (file, offset) = self.file_set.place(transfer.offset);
        let answer = match self.file_set.files().get(file) {
            Some(file) => files::give_back(file, self.give, offset, transfer.length as u64),
            None => 0,
        };
        self.calls += 1;
        self.done.push((slot, if answer < 0 { answer } else { transfer.length as i64 }));
    }

    fn submit(&mut self) -> io::Result<()> {
        self.inner.submit()
    }

    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.inner.wait(at_least.saturating_sub(self.done.len()))
    }

    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        self.done.drain(..).for_each(|(slot, moved)| done(slot, moved));
        self.inner.completions(done);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.inner.sync_whole()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }

    fn calls(&self) -> u64 {
        self.inner.calls() + self.calls
    }

    fn facts(&self, details: &mut Map<String, Value>) {
        self.inner.facts(details);
    }
}

/// Blocks that are given back and then written, one after the other; fio's `trimwrite`.
#[derive(Debug, Default)]
pub struct TrimWrite {
    /// The block whose write follows.
    trimmed: Option<(u64, u64)>,
    /// Its trim is not complete yet.
    out: bool,
}

impl TrimWrite {
    /// The write that follows on the last trim, if there is one.
    pub fn write(&mut self) -> Option<(u64, bool, u64)> {
        self.trimmed.take().map(|(offset, length)| (offset, true, length))
    }

    /// Notes a submitted trim.
    pub fn trim(&mut self, offset: u64, length: u64) {
        (self.trimmed, self.out) = (Some((offset, length)), true);
    }

    /// An operation has ended.
    pub fn ended(&mut self, write: bool) {
        self.out &= write;
    }

    /// Whether nothing may begin: the block's write waits for its trim.
    #[must_use]
    pub fn waits(&self) -> bool {
        self.out
    }

    /// Whether a write is to follow.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.trimmed.is_some()
    }
}
