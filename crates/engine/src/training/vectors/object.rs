//! A vector index as an object of a store: written in parts, and read by ranges.

use std::io::{self, Write};

use super::stored::{Stored, CUT_SHORT};
use crate::contract::kernel::Stop;
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::multipart::MAX_PARTS;
use crate::object::place::Line;
use crate::object::upload::Upload;
use crate::storage::data::buffers::BufferPool;
use crate::storage::io::access::{Access, Transfer};

/// Bytes of a range that is kept in memory, and of a part, unless that makes too many parts.
const PIECE: u64 = 8 << 20;

/// An object under way, of which one part is in memory.
pub struct Parts<'a> {
    upload: Upload<'a>,
    part: Vec<u8>,
    part_bytes: usize,
    count: usize,
}

impl<'a> Parts<'a> {
    /// Begins an object of at most this many bytes.
    ///
    /// # Errors
    /// Why it did not begin.
    pub fn begin(line: &'a mut Line, keys: &'a Keys, max_bytes: u64, stop: &'a Stop) -> io::Result<Self> {
        let part_bytes = PIECE.max(max_bytes.div_ceil(MAX_PARTS)) as usize;
        let upload = Upload::begin(line, (keys, 0), 0, stop).map_err(as_error)?;
        Ok(Self { upload, part: Vec::with_capacity(part_bytes), part_bytes, count: 0 })
    }

    /// Makes the object of all that was written.
    ///
    /// # Errors
    /// Why there is none.
    pub fn complete(mut self) -> io::Result<()> {
        if self.count == 0 || !self.part.is_empty() {
            self.end_part()?;
        }
        self.upload.complete().map_err(as_error)
    }

    fn end_part(&mut self) -> io::Result<()> {
        self.count += 1;
        self.upload.part(self.count, &self.part).map_err(as_error)?;
        self.part.clear();
        Ok(())
    }
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() == self.part_bytes {
            self.end_part()?;
        }
        let count = bytes.len().min(self.part_bytes - self.part.len());
        self.part.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// Nothing: a part that is not the last has its length.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A whole object, read by ranges over one connection.
pub struct Whole<'a> {
    /// The connection.
    pub line: &'a mut Line,
    /// Its key.
    pub keys: &'a Keys,
    /// Its bytes.
    pub length: u64,
    /// Ends a wait.
    pub stop: &'a Stop,
}

impl Stored for Whole<'_> {
    fn length(&mut self) -> Result<u64, String> {
        Ok(self.length)
    }

    fn fill(&mut self, at: u64, into: &mut [u8]) -> Result<(), String> {
        if at.checked_add(into.len() as u64).is_none_or(|end| end > self.length) {
            return Err(CUT_SHORT.into());
        }
        let mut from = at;
        for piece in into.chunks_mut(PIECE as usize) {
            let range = (from, from + piece.len() as u64 - 1, self.length);
            let mut filled = 0;
            let mut see = |bytes: &[u8]| copy_into(piece, &mut filled, bytes);
            let answer = self.line.read((self.keys, 0), range, self.stop, &mut see);
            answer.and_then(|()| check_whole(filled, piece.len())).map_err(|failure| failure.says().to_string())?;
            from += piece.len() as u64;
        }
        Ok(())
    }
}

/// Reads of a search as ranged GETs: all that are prepared are in flight at once, each on a kept connection.
///
/// The thread sends them one after the other and then receives their answers in that order, so that what a beam takes
/// is the time of its slowest request. It allocates when it is made.
pub struct RangedGets<'a> {
    lines: &'a mut [Line],
    keys: &'a Keys,
    length: u64,
    pool: &'a BufferPool,
    stop: &'a Stop,
    /// The reads in flight, of which each has the line of its slot.
    begun: Vec<(usize, Transfer)>,
    /// Those of them that are complete.
    done: usize,
}

impl<'a> RangedGets<'a> {
    /// Reads of an object of `length` bytes into a pool, with a line for each of its slots.
    pub fn new(lines: &'a mut [Line], (keys, length): (&'a Keys, u64), pool: &'a BufferPool, stop: &'a Stop) -> Self {
        let begun = Vec::with_capacity(lines.len());
        Self { lines, keys, length, pool, stop, begun, done: 0 }
    }

    fn range(&self, transfer: &Transfer) -> (u64, u64, u64) {
        (transfer.offset, transfer.offset + transfer.length as u64 - 1, self.length)
    }
}

impl Access for RangedGets<'_> {
    const SYNCHRONOUS: bool = false;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        let range = self.range(transfer);
        self.lines[slot].begin_read((self.keys, 0), range, self.stop);
        self.begun.push((slot, *transfer));
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        let until = (self.done + at_least).min(self.begun.len());
        while self.done < until {
            let (slot, transfer) = self.begun[self.done];
            let range = self.range(&transfer);
            let mut filled = 0;
            let region = self.pool.region();
            let mut see =
                |bytes: &[u8]| region.lend(transfer.at, transfer.length, |into| copy_into(into, &mut filled, bytes));
            let answer = self.lines[slot].read((self.keys, 0), range, self.stop, &mut see);
            answer.and_then(|()| check_whole(filled, transfer.length)).map_err(as_error)?;
            self.done += 1;
        }
        Ok(())
    }

    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        for (slot, transfer) in self.begun.drain(..self.done) {
            done(slot, transfer.length as i64);
        }
        self.done = 0;
    }
}

/// Adds bytes behind the first `filled` ones, as many as there is room for; whether that was all.
fn copy_into(into: &mut [u8], filled: &mut usize, bytes: &[u8]) -> bool {
    let count = bytes.len().min(into.len() - *filled);
    into[*filled..*filled + count].copy_from_slice(&bytes[..count]);
    *filled += count;
    count == bytes.len()
}

/// A store that gives no length may give any.
fn check_whole(filled: usize, wanted: usize) -> Result<(), Failure> {
    if filled == wanted {
        Ok(())
    } else {
        Err(Failure::Length)
    }
}

fn as_error(failure: Failure) -> io::Error {
    io::Error::other(failure.says())
}
