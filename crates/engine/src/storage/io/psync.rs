//! pread and pwrite: one operation at a time.

use std::io;

use super::access::Transfer;
use super::synchronous::Mover;
use crate::storage::data::buffers::Pool;
use crate::storage::data::file_set::Set;
use crate::sys::files;

/// See the module.
pub struct Psync<'a> {
    set: Set<'a>,
    pool: &'a Pool,
}

impl<'a> Psync<'a> {
    /// Between the files and the pool's memory.
    #[must_use]
    pub fn new(set: Set<'a>, pool: &'a Pool) -> Self {
        Self { set, pool }
    }
}

impl Mover for Psync<'_> {
    const CALLS_EACH: u64 = 1;

    #[inline]
    fn transfer(&mut self, transfer: &Transfer) -> i64 {
        let call = if transfer.write { files::write_at } else { files::read_at };
        let (file, offset) = self.set.place(transfer.offset);
        call(&self.set.files()[file], self.pool.region(), transfer.at, transfer.length, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.set.sync_all()
    }
}
