//! pread and pwrite: one operation at a time.

use std::io;

use super::access::Transfer;
use super::synchronous::BlockingIo;
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::sys::files;

/// The access engine `psync`.
pub struct Psync<'a> {
    file_set: FileSet<'a>,
    pool: &'a BufferPool,
}

impl<'a> Psync<'a> {
    /// An access engine that moves blocks between the files and the pool's memory.
    #[must_use]
    pub fn new(file_set: FileSet<'a>, pool: &'a BufferPool) -> Self {
        Self { file_set, pool }
    }
}

impl BlockingIo for Psync<'_> {
    const CALLS_EACH: u64 = 1;

    #[inline]
    fn transfer(&mut self, transfer: &Transfer) -> i64 {
        let call = if transfer.write { files::write_at } else { files::read_at };
        let (file, offset) = self.file_set.place(transfer.offset);
        call(&self.file_set.files()[file], self.pool.region(), transfer.at, transfer.length, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file_set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.file_set.sync_all()
    }
}
