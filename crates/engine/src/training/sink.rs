//! A file or an object being written: buffered, filled with noise, and there only when it is whole.

use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::training::noise::Noise;

use crate::contract::kernel::Stop;
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::place::Line;
use crate::object::upload::Upload;
use crate::safe_files::part::Part;
use crate::safe_files::{Folder, New};

/// Bytes gathered before a write to a file.
const BUFFER: usize = 1 << 20;
/// Bytes of a part of an object, at most; a smaller object is one request.
const PART: usize = 64 << 20;

/// Why a file was not written to its end.
#[derive(Debug)]
pub enum Halt {
    /// The run was stopped.
    Stopped,
    /// The system refused.
    Refused(io::Error),
    /// The store did.
    Failed(Failure),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Refused(error)
    }
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Where the bytes go.
enum Target<'a> {
    /// A file, named `.part` until it is whole.
    File(Part<'a>),
    /// An object.
    Object(Parts<'a>),
}

/// An object under way: its first part is kept until the end, because a format may complete its header then.
struct Parts<'a> {
    to: Option<(&'a mut Line, &'a Keys, u64)>,
    upload: Option<Upload<'a>>,
    first: Vec<u8>,
    count: usize,
}

/// A file or an object under way. Dropped before [`Sink::finish`], it leaves nothing behind.
pub struct Sink<'a> {
    target: Target<'a>,
    buffer: &'a mut Vec<u8>,
    room: usize,
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
        Ok(Self { target: Target::File(part), buffer, room: BUFFER, noise: Noise::new(seed), stop, written: 0 })
    }

    /// Likewise an object.
    pub fn upload(
        line: &'a mut Line,
        (keys, object): (&'a Keys, u64),
        buffer: &'a mut Vec<u8>,
        seed: u64,
        stop: &'a Stop,
    ) -> Self {
        buffer.clear();
        let parts = Parts { to: Some((line, keys, object)), upload: None, first: Vec::new(), count: 0 };
        Self { target: Target::Object(parts), buffer, room: PART, noise: Noise::new(seed), stop, written: 0 }
    }

    /// Where the next byte goes.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends `bytes`.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        for piece in bytes.chunks(BUFFER) {
            if self.buffer.len() + piece.len() > self.room {
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
            if self.buffer.len() >= self.room {
                self.flush()?;
            }
            let from = self.buffer.len();
            let count = left.min((self.room - from).min(BUFFER) as u64) as usize;
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

    /// Overwrites the bytes at `position`, which were appended before; of an object they are in its first part.
    pub fn patch(&mut self, position: u64, bytes: &[u8]) -> Result<(), Halt> {
        match &mut self.target {
            Target::File(part) => {
                write_out(part, self.buffer, &mut self.written, self.stop)?;
                part.file.write_all_at(bytes, position)?;
            }
            Target::Object(parts) => {
                let first = if parts.count == 0 { &mut *self.buffer } else { &mut parts.first };
                first[position as usize..position as usize + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Halt> {
        match &mut self.target {
            Target::File(part) => write_out(part, self.buffer, &mut self.written, self.stop),
            Target::Object(parts) => {
                parts.add(self.buffer, self.stop)?;
                self.written += self.buffer.len() as u64;
                self.buffer.clear();
                Ok(())
            }
        }
    }

    /// Makes it whole: a file on the storage, under its own name, out of the page cache. Gives its bytes.
    pub fn finish(mut self) -> Result<u64, Halt> {
        match self.target {
            Target::File(mut part) => {
                write_out(&mut part, self.buffer, &mut self.written, self.stop)?;
                part.file.sync_data()?;
                crate::sys::files::forget(&part.file);
                part.finish()?;
                Ok(self.written)
            }
            Target::Object(parts) => {
                parts.finish(self.buffer, self.stop)?;
                Ok(self.written + self.buffer.len() as u64)
            }
        }
    }
}

fn write_out(part: &mut Part<'_>, buffer: &mut Vec<u8>, written: &mut u64, stop: &Stop) -> Result<(), Halt> {
    if stop.is_set() {
        return Err(Halt::Stopped);
    }
    part.file.write_all(buffer)?;
    *written += buffer.len() as u64;
    buffer.clear();
    Ok(())
}

impl<'a> Parts<'a> {
    /// Writes the next part, or keeps it where it is the first one.
    fn add(&mut self, content: &[u8], stop: &'a Stop) -> Result<(), Halt> {
        if stop.is_set() {
            return Err(Halt::Stopped);
        }
        self.count += 1;
        if self.count == 1 {
            self.first = content.to_vec();
            return Ok(());
        }
        if let Some((line, keys, object)) = self.to.take() {
            self.upload = Some(Upload::begin(line, (keys, object), self.count, stop)?);
        }
        Ok(self.upload.as_mut().ok_or(Failure::Lost)?.part(self.count, content)?)
    }

    /// Makes the object, of which this is the last part.
    fn finish(mut self, content: &[u8], stop: &'a Stop) -> Result<(), Halt> {
        if let (0, Some((line, keys, object))) = (self.count, &mut self.to) {
            return Ok(line.write(keys, *object, content, stop)?);
        }
        self.add(content, stop)?;
        let mut upload = self.upload.take().ok_or(Failure::Lost)?;
        upload.part(1, &self.first)?;
        Ok(upload.complete()?)
    }
}
