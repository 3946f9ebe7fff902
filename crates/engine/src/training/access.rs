//! Reads ranges of a data set's files or objects, piece by piece through one buffer.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::objects::Objects;
use crate::contract::kernel::Stop;
use crate::object::place::Line;

/// What `O_DIRECT` wants offsets, lengths and addresses to be multiples of, on any storage in use.
const ALIGN: u64 = 4096;

/// What was tried, the system's number, and words.
pub type Failure = (&'static str, i32, String);

/// Files or objects, and how they are read.
pub struct Files {
    /// The paths of the files in order; of objects what a user knows them by.
    pub paths: Vec<PathBuf>,
    /// The objects, where they are in an object store.
    pub objects: Option<Objects>,
    /// Whether the page cache is bypassed.
    pub direct: bool,
    /// Bytes of one read.
    pub transfer: u64,
    /// Set when the storage refused to bypass the page cache.
    pub direct_refused: AtomicBool,
}

impl Files {
    fn is_direct(&self) -> bool {
        self.direct && !self.direct_refused.load(Ordering::Relaxed)
    }
}

/// What one thread reads by: its buffer, and its connection where the data set is in an object store.
pub struct Access<'a> {
    files: &'a Files,
    buffer: Vec<u8>,
    offset: usize,
    /// Its connection.
    pub line: Option<Line>,
    stop: &'a Stop,
    /// Bytes that the storage delivered.
    pub bytes: u64,
}

/// A file or an object that can be read.
pub enum Opened {
    /// A file.
    File {
        /// Its handle, past the page cache where that was requested.
        file: File,
        /// A second handle for data at odd places (directories, headers, footers): `O_DIRECT` cannot read those.
        structure: Option<File>,
        /// Its length.
        length: u64,
    },
    /// An object.
    Object {
        /// Its number.
        number: u64,
        /// Its length by the listing.
        length: u64,
    },
}

impl Opened {
    /// Its length.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::File { length, .. } | Self::Object { length, .. } => *length,
        }
    }

    /// What reads single bytes of it at no cost worth mentioning; none of an object, each read of which is a request.
    #[must_use]
    pub fn structure(&self) -> Option<&File> {
        match self {
            Self::File { file, structure, .. } => Some(structure.as_ref().unwrap_or(file)),
            Self::Object { .. } => None,
        }
    }
}

impl<'a> Access<'a> {
    /// Allocates all that reading takes; `number` tells threads apart.
    #[must_use]
    pub fn new(files: &'a Files, number: u64, stop: &'a Stop) -> Self {
        let buffer = vec![0_u8; (files.transfer + ALIGN) as usize];
        let offset = buffer.as_ptr().align_offset(ALIGN as usize);
        let line = files.objects.as_ref().map(|objects| objects.place.line(number));
        Self { files, buffer, offset, line, stop, bytes: 0 }
    }

    /// Opens a file; an object needs no opening.
    pub fn open(&self, number: u64) -> Result<Opened, Failure> {
        if let Some(objects) = &self.files.objects {
            return Ok(Opened::Object { number, length: objects.lengths[number as usize] });
        }
        let refused = |error: io::Error| ("open", errno(&error), error.to_string());
        let file = self.open_file(number).map_err(refused)?;
        let length = file.metadata().map_err(refused)?.len();
        let second = if self.files.is_direct() { Some(File::open(self.path(number)).map_err(refused)?) } else { None };
        Ok(Opened::File { file, structure: second, length })
    }

    fn path(&self, number: u64) -> &Path {
        &self.files.paths[number as usize]
    }

    fn open_file(&self, number: u64) -> io::Result<File> {
        if self.files.is_direct() {
            match OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(self.path(number)) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.files.direct_refused.store(true, Ordering::Relaxed);
                }
                other => return other,
            }
        }
        File::open(self.path(number))
    }

    /// Gives the bytes of a range to `see`, piece by piece.
    pub fn stream(
        &mut self,
        opened: &Opened,
        range: Range<u64>,
        mut see: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match opened {
            Opened::File { file, .. } => self.read_pieces(file, range, &mut see),
            Opened::Object { number, length } if range.start < range.end => {
                self.get(*number, (range.start, range.end - 1, *length), &mut see)
            }
            Opened::Object { .. } => Ok(()),
        }
    }

    fn read_pieces(
        &mut self,
        file: &File,
        range: Range<u64>,
        see: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let direct = self.files.is_direct();
        let buffer = &mut self.buffer[self.offset..];
        let (mut at, to) = (range.start, range.end);
        while at < to {
            // bypassing the page cache, whole blocks around what is wanted are read
            let begin = if direct { at / ALIGN * ALIGN } else { at };
            let end = if direct { to.next_multiple_of(ALIGN) } else { to };
            let length = (end - begin).min(self.files.transfer) as usize;
            let got = match file.read_at(&mut buffer[..length], begin) {
                Ok(got) => got as u64,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(("read", errno(&error), error.to_string())),
            };
            self.bytes += got;
            let skip = at - begin;
            if got <= skip {
                return Err(("read", 0, format!("it ends at byte {} of {to}: truncated", begin + got)));
            }
            let useful = (got - skip).min(to - at);
            see(&buffer[skip as usize..(skip + useful) as usize])?;
            at += useful;
        }
        Ok(())
    }

    /// The same of an object: one request for the whole range, whose answer comes piece by piece.
    fn get(
        &mut self,
        number: u64,
        range: (u64, u64, u64),
        see: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (Some(objects), Some(line)) = (&self.files.objects, &mut self.line) else {
            return Err(("get", 0, "it has no connection".into()));
        };
        let bytes = &mut self.bytes;
        let mut seen = Ok(());
        let mut take = |piece: &[u8]| {
            *bytes += piece.len() as u64;
            seen = see(piece);
            seen.is_ok()
        };
        let answer = line.read((&objects.keys, number), range, self.stop, &mut take);
        seen.and_then(|()| answer.map_err(|failure| ("get", failure.errno(), failure.says().to_string())))
    }

    /// Fills `into` with what begins at `offset`, and counts no bytes: that is the caller's to decide.
    pub fn fill(&mut self, opened: &Opened, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        if let Some(file) = opened.structure() {
            return file.read_exact_at(into, offset).map_err(|error| ("read", errno(&error), error.to_string()));
        }
        let mut at = 0;
        let before = self.bytes;
        let filled = self.stream(opened, offset..offset + into.len() as u64, |piece| {
            into[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
            Ok(())
        });
        self.bytes = before;
        filled
    }
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}
