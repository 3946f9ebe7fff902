//! The C library's streams: fread and fwrite through a buffer in user space.

use std::io;

use super::access::Transfer;
use super::synchronous::BlockingIo;
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::sys::stdio::Stream;

/// The access engine `stdio`.
pub struct Stdio<'a> {
    file_set: FileSet<'a>,
    streams: Vec<Stream>,
    pool: &'a BufferPool,
}

impl<'a> Stdio<'a> {
    /// A stream over each of the files.
    ///
    /// # Errors
    /// What keeps a stream from being opened.
    pub fn new(file_set: FileSet<'a>, pool: &'a BufferPool, write: bool) -> io::Result<Self> {
        let streams = file_set.files().iter().map(|file| Stream::over(file, write)).collect::<io::Result<_>>()?;
        Ok(Self { file_set, streams, pool })
    }
}

impl BlockingIo for Stdio<'_> {
    #[inline]
    fn transfer(&mut self, transfer: &Transfer) -> i64 {
        let (file, offset) = self.file_set.place(transfer.offset);
        let (stream, region) = (&mut self.streams[file], self.pool.region());
        if transfer.write {
            stream.write(region, transfer.at, transfer.length, offset)
        } else {
            stream.read(region, transfer.at, transfer.length, offset)
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.finish()?;
        self.file_set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.finish()?;
        self.file_set.sync_all()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(Stream::flush)
    }
}
