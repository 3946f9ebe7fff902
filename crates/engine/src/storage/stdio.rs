//! The C library's streams: fread and fwrite through a buffer in user space.

use std::io;

use super::access::{Access, Transfer};
use super::pool::Pool;
use super::set::Set;
use crate::sys::stdio::Stream;

/// One operation at a time.
pub struct Stdio<'a> {
    set: Set<'a>,
    streams: Vec<Stream>,
    pool: &'a Pool,
    next: Option<(usize, Transfer)>,
    complete: Option<(usize, i64)>,
}

impl<'a> Stdio<'a> {
    /// A stream over each of the files.
    ///
    /// # Errors
    /// What keeps a stream from being opened.
    pub fn new(set: Set<'a>, pool: &'a Pool, write: bool) -> io::Result<Self> {
        let streams = set.files().iter().map(|file| Stream::over(file, write)).collect::<io::Result<_>>()?;
        Ok(Self { set, streams, pool, next: None, complete: None })
    }
}

impl Access for Stdio<'_> {
    const SYNCHRONOUS: bool = true;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.next = Some((slot, *transfer));
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        if let Some((slot, transfer)) = self.next.take() {
            let (file, offset) = self.set.place(transfer.offset);
            let stream = &mut self.streams[file];
            let region = self.pool.region();
            let moved = if transfer.write {
                stream.write(region, transfer.at, transfer.length, offset)
            } else {
                stream.read(region, transfer.at, transfer.length, offset)
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
        self.streams.iter_mut().try_for_each(Stream::flush)?;
        self.set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(Stream::flush)?;
        self.set.sync_all()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(Stream::flush)
    }
}
