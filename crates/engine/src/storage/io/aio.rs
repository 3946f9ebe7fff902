//! libaio's system calls. On a buffered file the kernel does the whole transfer inside the submission.

use std::io;

use super::access::{Access, Transfer};
use crate::storage::data::buffers::Pool;
use crate::storage::data::file_set::Set;
use crate::sys::aio::Context;

/// See the module.
pub struct Aio<'a> {
    context: Context<'a>,
    set: Set<'a>,
}

impl<'a> Aio<'a> {
    /// A context of its own for this job.
    pub fn new(set: Set<'a>, pool: &'a Pool) -> io::Result<Self> {
        Ok(Self { context: Context::new(pool.slots(), set.files(), pool.region())?, set })
    }
}

impl Access for Aio<'_> {
    const SYNCHRONOUS: bool = false;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        let (file, offset) = self.set.place(transfer.offset);
        self.context.prepare(slot, file, transfer.write, offset, transfer.at, transfer.length);
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        self.context.submit()
    }

    #[inline]
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.context.wait(at_least)
    }

    #[inline]
    fn completions(&mut self, done: impl FnMut(usize, i64)) {
        self.context.completions(done);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.set.sync_all()
    }

    fn calls(&self) -> u64 {
        self.context.calls()
    }
}
