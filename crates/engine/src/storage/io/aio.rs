//! libaio's system calls. On a buffered file the kernel does the whole transfer inside the submission.

use std::io;

use super::access::{Access, Transfer};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::sys::aio::Context;

/// The access engine `libaio`.
pub struct Aio<'a> {
    context: Context<'a>,
    file_set: FileSet<'a>,
}

impl<'a> Aio<'a> {
    /// A separate context for this job.
    pub fn new(file_set: FileSet<'a>, pool: &'a BufferPool) -> io::Result<Self> {
        Ok(Self { context: Context::new(pool.slots(), file_set.files(), pool.region())?, file_set })
    }
}

impl Access for Aio<'_> {
    const SYNCHRONOUS: bool = false;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        let (file, offset) = self.file_set.place(transfer.offset);
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
        self.file_set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.file_set.sync_all()
    }

    fn calls(&self) -> u64 {
        self.context.calls()
    }
}
