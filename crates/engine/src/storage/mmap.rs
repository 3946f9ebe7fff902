//! Copies from and to a mapping of the file: no system call an operation, but page faults.
//!
//! Written pages are written back by the system in its own time, and by msync(2) where the file is to be
//! made durable at the end. A file cut short under the mapping is an I/O error, not the end of the process
//! (see [`crate::sys::mapping`]).

use std::io;

use super::access::{Access, Transfer};
use super::order::Span;
use super::pool::Pool;
use super::set::Set;
use crate::sys::files::page_size;
use crate::sys::mapping::FileMapping;

/// See the module.
pub struct Mmap<'a> {
    set: Set<'a>,
    mappings: Vec<FileMapping>,
    /// Where in each file the mapping begins: a multiple of the page size.
    begin: u64,
    pool: &'a Pool,
    next: Option<(usize, Transfer)>,
    complete: Option<(usize, i64)>,
}

impl<'a> Mmap<'a> {
    /// Maps what `span` covers of each file.
    pub fn new(set: Set<'a>, pool: &'a Pool, span: Span, write: bool, random: bool) -> io::Result<Self> {
        let begin = span.offset / page_size() * page_size();
        let length = span.offset - begin + span.blocks * span.block;
        let map = |file| FileMapping::new(file, begin, length as usize, write).map(FileMapping::guarded);
        let mappings = set.files().iter().map(map).collect::<io::Result<Vec<_>>>()?;
        for mapping in &mappings {
            mapping.advise(random);
        }
        Ok(Self { set, mappings, begin, pool, next: None, complete: None })
    }
}

impl Access for Mmap<'_> {
    const SYNCHRONOUS: bool = true;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.next = Some((slot, *transfer));
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        if let Some((slot, transfer)) = self.next.take() {
            let (file, offset) = self.set.place(transfer.offset);
            let (mapping, at) = (&self.mappings[file], (offset - self.begin) as usize);
            let moved = if transfer.write {
                mapping.write(at, self.pool.region(), transfer.at, transfer.length)
            } else {
                mapping.read(at, self.pool.region(), transfer.at, transfer.length)
            };
            self.complete = Some((slot, moved));
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
        self.mappings.iter().try_for_each(FileMapping::sync)
    }
}
