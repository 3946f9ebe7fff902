//! Copies from and to a mapping of the file: no system call an operation, but page faults.
//!
//! Written pages are written back by the system in its own time, and by msync(2) where the file is to be
//! made durable at the end. A file cut short under the mapping is an I/O error, not the end of the process
//! (see [`crate::sys::mapping`]).

use std::io;

use super::access::Transfer;
use super::synchronous::BlockingIo;
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::storage::order::blocks::Span;
use crate::sys::mapping::FileMapping;
use crate::sys::pages::page_size;

/// The access engine `mmap`.
pub struct Mmap<'a> {
    file_set: FileSet<'a>,
    mappings: Vec<FileMapping>,
    /// Where in each file the mapping begins: a multiple of the page size.
    begin: u64,
    pool: &'a BufferPool,
}

impl<'a> Mmap<'a> {
    /// Maps what `span` covers of each file.
    ///
    /// # Errors
    /// What keeps a file from being mapped.
    pub fn new(file_set: FileSet<'a>, pool: &'a BufferPool, span: Span, write: bool, random: bool) -> io::Result<Self> {
        let begin = span.offset / page_size() * page_size();
        let length = span.offset - begin + span.blocks * span.block;
        let map = |file| FileMapping::new(file, begin, length as usize, write).map(FileMapping::guarded);
        let mappings = file_set.files().iter().map(map).collect::<io::Result<Vec<_>>>()?;
        for mapping in &mappings {
            mapping.advise(random);
        }
        Ok(Self { file_set, mappings, begin, pool })
    }
}

impl BlockingIo for Mmap<'_> {
    #[inline]
    fn transfer(&mut self, transfer: &Transfer) -> i64 {
        let (file, offset) = self.file_set.place(transfer.offset);
        let (mapping, at) = (&self.mappings[file], (offset - self.begin) as usize);
        if transfer.write {
            mapping.write(at, self.pool.region(), transfer.at, transfer.length)
        } else {
            mapping.read(at, self.pool.region(), transfer.at, transfer.length)
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.mappings.iter().try_for_each(FileMapping::sync)
    }
}
