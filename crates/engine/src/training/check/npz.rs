//! A zip as `zipfile` reads it: its directory from the end, then each entry against its CRC-32. Of a stream whose end
//! cannot be read first, each entry's own header has its length and its CRC-32.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::stream::{u16_at, u32_at, u64_at, Gather, Piece};

const LIMIT: u64 = 0xffff_ffff;
/// Bytes from the end that are read at first: they hold the directory of any `numpy.savez` of a few arrays.
const TAIL: usize = 4096;
/// A directory beyond this is not believed.
const DIRECTORY: u64 = 16 << 20;

struct Entry {
    offset: u64,
    size: u64,
    crc: u32,
    stored: bool,
}

enum State {
    /// The bytes before an entry's local header.
    Between,
    /// The local header.
    Header,
    /// Its name and extra field, this many bytes before the data.
    Names(u64),
    /// The same of a stream: the name's bytes, and all.
    Extra(usize, usize),
    /// Its data.
    Data(u64),
    /// The directory of a stream, behind all entries.
    Directory,
}

/// A check of a zip's directory and entries.
pub struct Npz {
    entries: Vec<Entry>,
    tail: Vec<u8>,
    /// Whether it is a stream, so that entries are found as they come.
    streams: bool,
    state: State,
    at: u64,
    entry: usize,
    gather: Gather,
    crc: crc32fast::Hasher,
    /// What kept its directory from being read; 0 for nothing.
    pub errno: i32,
}

impl Default for Npz {
    fn default() -> Self {
        Self {
            entries: Vec::with_capacity(16),
            tail: Vec::with_capacity(TAIL),
            streams: false,
            state: State::Between,
            at: 0,
            entry: 0,
            gather: Gather::default(),
            crc: crc32fast::Hasher::new(),
            errno: 0,
        }
    }
}

impl Npz {
    pub fn start(&mut self, piece: &Piece<'_>) -> Result<(), String> {
        self.state = State::Between;
        self.at = piece.from;
        self.entry = 0;
        self.gather.clear();
        self.entries.clear();
        self.errno = 0;
        let Some(file) = piece.file else {
            (self.streams, self.state) = (true, State::Header);
            return Ok(());
        };
        self.streams = false;
        self.directory(file, piece)?;
        self.entries.sort_unstable_by_key(|entry| entry.offset);
        Ok(())
    }

    fn directory(&mut self, file: &File, piece: &Piece<'_>) -> Result<(), String> {
        let have = piece.length.min(TAIL as u64);
        self.fill(file, piece.length - have, have)?;
        let end = (0..self.tail.len().saturating_sub(21))
            .rev()
            .find(|&at| self.tail[at..].starts_with(b"PK\x05\x06"))
            .ok_or("it is not a whole zip: its end has no directory (truncated?)")?;
        let record = &self.tail[end..];
        let (mut count, mut size, mut offset) =
            (u16_at(record, 10), u64::from(u32_at(record, 12)), u64::from(u32_at(record, 16)));
        let big = end.checked_sub(76).filter(|&at| self.tail[at..].starts_with(b"PK\x06\x06"));
        if let (true, Some(at)) = (offset == LIMIT, big) {
            let record = &self.tail[at..];
            (count, size, offset) = (u64_at(record, 32), u64_at(record, 40), u64_at(record, 48));
        }
        if size > DIRECTORY || offset.checked_add(size).is_none_or(|end| end > piece.length) {
            return Err("its zip directory lies beyond its end (truncated?)".into());
        }
        self.fill(file, offset, size)?;
        let mut at = 0;
        for _ in 0..count {
            let entry = self.tail.get(at..at + 46).filter(|entry| entry.starts_with(b"PK\x01\x02"));
            let entry = entry.ok_or("its zip directory is damaged")?;
            let (name, extra, comment) = (u16_at(entry, 28), u16_at(entry, 30), u16_at(entry, 32));
            let mut found = Entry {
                offset: u64::from(u32_at(entry, 42)),
                size: u64::from(u32_at(entry, 20)),
                crc: u32_at(entry, 16),
                stored: u16_at(entry, 10) == 0,
            };
            let (raw, from) = (u64::from(u32_at(entry, 24)), at + 46 + name as usize);
            let fields = self.tail.get(from..from + extra as usize).ok_or("its zip directory is damaged")?;
            // zip64 sizes and offset, in this order, only those that are needed (APPNOTE 4.5.3)
            if let Some(mut wide) = zip64(fields) {
                let mut next = |is: bool, value: u64| {
                    if is && value == LIMIT && wide.len() >= 8 {
                        let number = u64_at(wide, 0);
                        wide = &wide[8..];
                        number
                    } else {
                        value
                    }
                };
                next(true, raw);
                found.size = next(true, found.size);
                found.offset = next(true, found.offset);
            }
            self.entries.push(found);
            at = from + extra as usize + comment as usize;
        }
        Ok(())
    }

    fn fill(&mut self, file: &File, offset: u64, size: u64) -> Result<(), String> {
        self.tail.clear();
        self.tail.resize(size as usize, 0);
        file.read_exact_at(&mut self.tail, offset).map_err(|error| {
            self.errno = error.raw_os_error().unwrap_or(0);
            error.to_string()
        })
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            if self.streams && !matches!(self.state, State::Data(_)) {
                bytes = self.feed_structure(bytes)?;
                continue;
            }
            let Some(entry) = self.entries.get(self.entry) else {
                self.at += bytes.len() as u64;
                return Ok(()); // the directory itself
            };
            match self.state {
                State::Between => {
                    let gap = entry.offset.checked_sub(self.at).ok_or("two of its zip entries overlap")?;
                    let count = gap.min(bytes.len() as u64) as usize;
                    self.at += count as u64;
                    bytes = &bytes[count..];
                    if gap == count as u64 {
                        self.state = State::Header;
                    }
                }
                State::Header => {
                    let before = bytes.len();
                    let header = self.gather.take(&mut bytes, 30);
                    self.at += (before - bytes.len()) as u64;
                    if let Some(header) = header {
                        if !header.starts_with(b"PK\x03\x04") {
                            return Err("an entry of its zip has no header".into());
                        }
                        self.state = State::Names(u16_at(header, 26) + u16_at(header, 28));
                    }
                }
                State::Names(left) => {
                    let count = left.min(bytes.len() as u64);
                    self.at += count;
                    bytes = &bytes[count as usize..];
                    self.state = State::Names(left - count);
                    if left == count {
                        self.crc.reset();
                        self.state = State::Data(entry.size);
                        self.close_if_done()?;
                    }
                }
                State::Data(left) => {
                    let count = left.min(bytes.len() as u64);
                    if entry.stored {
                        self.crc.update(&bytes[..count as usize]);
                    }
                    self.at += count;
                    bytes = &bytes[count as usize..];
                    self.state = State::Data(left - count);
                    self.close_if_done()?;
                }
                State::Extra(..) | State::Directory => return Ok(()),
            }
        }
        Ok(())
    }

    /// Takes what is not an entry's data of a stream; gives what follows.
    fn feed_structure<'b>(&mut self, mut bytes: &'b [u8]) -> Result<&'b [u8], String> {
        let before = bytes.len();
        match self.state {
            State::Extra(name, all) => {
                if let Some(names) = self.gather.take(&mut bytes, all) {
                    let wide = names.get(name..).and_then(zip64);
                    let entry = self.entries.last_mut().ok_or("its zip has no entry")?;
                    if entry.size == LIMIT {
                        // raw size, then stored size (APPNOTE 4.5.3)
                        let sizes = wide.filter(|wide| wide.len() >= 16).ok_or("a zip entry states no length")?;
                        entry.size = u64_at(sizes, 8);
                    }
                    self.crc.reset();
                    self.state = State::Data(entry.size);
                    self.close_if_done()?;
                }
            }
            State::Directory => bytes = &[],
            _ => {
                if let Some(header) = self.gather.take(&mut bytes, 30) {
                    let offset = self.at + before as u64 - bytes.len() as u64 - 30;
                    self.state = match header {
                        [b'P', b'K', 1, 2, ..] => State::Directory,
                        [b'P', b'K', 3, 4, ..] if u16_at(header, 6) & 8 == 0 => {
                            self.entries.push(Entry {
                                offset,
                                size: u64::from(u32_at(header, 18)),
                                crc: u32_at(header, 14),
                                stored: u16_at(header, 8) == 0,
                            });
                            let (name, extra) = (u16_at(header, 26) as usize, u16_at(header, 28) as usize);
                            if name + extra > 64 {
                                return Err("the names of its zip are too long to be checked as they come".into());
                            }
                            State::Extra(name, name + extra)
                        }
                        [b'P', b'K', 3, 4, ..] => {
                            return Err("its zip states lengths behind the data: use parse=raw".into())
                        }
                        _ => return Err("an entry of its zip has no header".into()),
                    };
                }
            }
        }
        self.at += (before - bytes.len()) as u64;
        Ok(bytes)
    }

    fn close_if_done(&mut self) -> Result<(), String> {
        let State::Data(0) = self.state else { return Ok(()) };
        let entry = &self.entries[self.entry];
        if entry.stored && self.crc.clone().finalize() != entry.crc {
            return Err(format!("the CRC-32 of its zip entry at byte {} is wrong: corrupt", entry.offset));
        }
        self.entry += 1;
        self.state = if self.streams { State::Header } else { State::Between };
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), String> {
        if self.streams && !matches!(self.state, State::Directory) {
            return Err("it ends before its directory: truncated".into());
        }
        if self.entry == self.entries.len() {
            return Ok(());
        }
        Err(format!("it ends within zip entry {} of {}: truncated", self.entry + 1, self.entries.len()))
    }
}

/// The content of the zip64 extra field among `fields`.
fn zip64(mut fields: &[u8]) -> Option<&[u8]> {
    while fields.len() >= 4 {
        let (kind, size) = (u16_at(fields, 0), u16_at(fields, 2) as usize);
        let content = fields.get(4..4 + size)?;
        if kind == 1 {
            return Some(content);
        }
        fields = &fields[4 + size..];
    }
    None
}
