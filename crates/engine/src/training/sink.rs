//! A file being written: buffered, filled with noise, named `.part` until it is whole.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::training::noise::Noise;

use crate::contract::kernel::Stop;
use crate::safe_files::part::Part;
use crate::safe_files::{Folder, New};

/// Bytes gathered before a write.
const BUFFER: usize = 1 << 20;

/// Why a file was not written to its end.
#[derive(Debug)]
pub enum Halt {
    /// The run was stopped.
    Stopped,
    /// The system refused.
    Refused(io::Error),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

/// A file under way. Dropped before [`Sink::finish`], it leaves nothing behind.
pub struct Sink<'a> {
    part: Part<'a>,
    buffer: &'a mut Vec<u8>,
    noise: Noise,
    stop: &'a Stop,
    written: u64,
}

impl<'a> Sink<'a> {
    /// Begins `name` in `folder`; `buffer` is reused from file to file, and the content follows from `seed`.
    pub fn create(
        folder: &'a Folder,
        name: &Path,
        buffer: &'a mut Vec<u8>,
        seed: u64,
        stop: &'a Stop,
    ) -> Result<Self, Halt> {
        let mut under_way = name.as_os_str().to_owned();
        under_way.push(".part");
        let part = Part::begin(folder, name, &PathBuf::from(under_way), New::SHARED)?;
        buffer.clear();
        buffer.reserve(BUFFER);
        Ok(Self { part, buffer, noise: Noise::new(seed), stop, written: 0 })
    }

    /// Where the next byte goes.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        for piece in bytes.chunks(BUFFER) {
            if self.buffer.len() + piece.len() > BUFFER {
                self.flush()?;
            }
            self.buffer.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Appends `length` bytes of noise; `see` may change each piece and looks at it as it passes.
    pub fn noise(&mut self, length: u64, mut see: impl FnMut(&mut [u8])) -> Result<(), Halt> {
        let mut left = length;
        while left > 0 {
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
            let from = self.buffer.len();
            let count = left.min((BUFFER - from) as u64) as usize;
            self.buffer.resize(from + count, 0);
            let piece = &mut self.buffer[from..];
            self.noise.fill(piece);
            see(piece);
            left -= count as u64;
        }
        Ok(())
    }

    /// Fills `bytes` with this file's noise, and writes nothing.
    pub fn peek_noise(&mut self, bytes: &mut [u8]) {
        self.noise.fill(bytes);
    }

    /// Overwrites the bytes at `position`, which were appended before.
    pub fn patch(&mut self, position: u64, bytes: &[u8]) -> Result<(), Halt> {
        self.flush()?;
        self.part.file.write_all_at(bytes, position)?;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Halt> {
        if self.stop.is_set() {
            return Err(Halt::Stopped);
        }
        self.part.file.write_all(self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file whole: on the storage, under its own name, out of the page cache. Gives its bytes.
    pub fn finish(mut self) -> Result<u64, Halt> {
        self.flush()?;
        self.part.file.sync_data()?;
        crate::sys::files::forget(&self.part.file);
        self.part.finish()?;
        Ok(self.written)
    }
}
