//! PNG, JPEG, CSV, npy and HDF5: what can be checked of them without decoding.

use super::stream::Gather;
use crate::training::hdf5;

/// Chunks and their CRC-32s.
#[derive(Default)]
pub struct Png {
    state: PngState,
    gather: Gather,
    crc: crc32fast::Hasher,
    last: bool,
}

#[derive(Default, Clone, Copy)]
enum PngState {
    #[default]
    Signature,
    Header,
    Data(u64),
    Crc,
}

impl Png {
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.state {
                PngState::Signature => {
                    if let Some(signature) = self.gather.take(&mut bytes, 8) {
                        if signature != b"\x89PNG\r\n\x1a\n" {
                            return Err("it does not begin as PNG does".into());
                        }
                        self.state = PngState::Header;
                    }
                }
                PngState::Header => {
                    if let Some(header) = self.gather.take(&mut bytes, 8) {
                        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
                        self.crc.reset();
                        self.crc.update(&header[4..]);
                        self.last = &header[4..] == b"IEND";
                        self.state = if length == 0 { PngState::Crc } else { PngState::Data(u64::from(length)) };
                    }
                }
                PngState::Data(left) => {
                    let count = left.min(bytes.len() as u64);
                    self.crc.update(&bytes[..count as usize]);
                    bytes = &bytes[count as usize..];
                    self.state = if left == count { PngState::Crc } else { PngState::Data(left - count) };
                }
                PngState::Crc => {
                    if let Some(crc) = self.gather.take(&mut bytes, 4) {
                        if crc != self.crc.clone().finalize().to_be_bytes() {
                            return Err("the CRC-32 of one of its chunks is wrong: corrupt".into());
                        }
                        self.state = PngState::Header;
                    }
                }
            }
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), String> {
        let whole = self.last && matches!(self.state, PngState::Header) && self.gather.is_empty();
        whole.then_some(()).ok_or_else(|| "it ends before its last chunk: truncated".into())
    }
}

/// Markers up to the last one.
#[derive(Default)]
pub struct Jpeg {
    state: JpegState,
    gather: Gather,
}

#[derive(Default, Clone, Copy)]
enum JpegState {
    #[default]
    Start,
    Marker,
    Segment(u64, bool),
    Coded,
    CodedMarker,
    Done,
}

impl Jpeg {
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.state {
                JpegState::Start => {
                    if let Some(start) = self.gather.take(&mut bytes, 2) {
                        if start != [0xff, 0xd8] {
                            return Err("it does not begin as JPEG does".into());
                        }
                        self.state = JpegState::Marker;
                    }
                }
                JpegState::Marker => {
                    if let Some(marker) = self.gather.take(&mut bytes, 4) {
                        let length = u64::from(u16::from_be_bytes([marker[2], marker[3]]));
                        if marker[0] != 0xff || length < 2 {
                            return Err("a marker of its JPEG header is damaged".into());
                        }
                        self.state = JpegState::Segment(length - 2, marker[1] == 0xda);
                    }
                }
                JpegState::Segment(left, scan) => {
                    let count = left.min(bytes.len() as u64);
                    bytes = &bytes[count as usize..];
                    self.state = match left - count {
                        0 if scan => JpegState::Coded,
                        0 => JpegState::Marker,
                        left => JpegState::Segment(left, scan),
                    };
                }
                JpegState::Coded => match bytes.iter().position(|&byte| byte == 0xff) {
                    Some(at) => {
                        bytes = &bytes[at + 1..];
                        self.state = JpegState::CodedMarker;
                    }
                    None => return Ok(()),
                },
                JpegState::CodedMarker => {
                    let marker = bytes[0];
                    bytes = &bytes[1..];
                    self.state = match marker {
                        0xff => JpegState::CodedMarker,
                        0xd9 => JpegState::Done,
                        // a stuffed 0, a restart, or another scan of a progressive picture, passed as coded data
                        _ => JpegState::Coded,
                    };
                }
                JpegState::Done => return Ok(()),
            }
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), String> {
        matches!(self.state, JpegState::Done)
            .then_some(())
            .ok_or_else(|| "it ends before its last marker: truncated".into())
    }
}

/// The header, and that the data is as long as it says.
#[derive(Default)]
pub struct Npy {
    gather: Gather,
    text: Vec<u8>,
    length: u64,
    wants: usize,
}

impl Npy {
    pub fn new(length: u64) -> Self {
        Self { length, ..Self::default() }
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        if self.wants == 0 {
            let Some(start) = self.gather.take(&mut bytes, 10) else { return Ok(()) };
            if !start.starts_with(b"\x93NUMPY\x01") {
                return Err("it does not begin as npy 1.0 does".into());
            }
            self.wants = usize::from(u16::from_le_bytes([start[8], start[9]])).max(1);
        }
        if self.text.len() < self.wants {
            let count = (self.wants - self.text.len()).min(bytes.len());
            self.text.extend_from_slice(&bytes[..count]);
            if self.text.len() == self.wants {
                return self.hold();
            }
        }
        Ok(())
    }

    fn hold(&self) -> Result<(), String> {
        let text = String::from_utf8_lossy(&self.text);
        let width = text.split("'descr': '").nth(1).and_then(|rest| rest.split('\'').next());
        let width = width.and_then(|kind| kind.get(2..)).and_then(|digits| digits.parse::<u64>().ok());
        let shape = text.split("'shape': (").nth(1).and_then(|rest| rest.split(')').next());
        let (Some(width), Some(shape)) = (width, shape) else { return Err("its npy header is damaged".into()) };
        let sides = shape.split(',').filter_map(|side| side.trim().parse::<u64>().ok());
        let bytes = sides.into_iter().try_fold(width, u64::checked_mul);
        let expected = bytes.and_then(|bytes| bytes.checked_add(10 + self.wants as u64));
        let expected = expected.ok_or("its npy header asks for more bytes than any file has: corrupt")?;
        if self.length == expected {
            return Ok(());
        }
        Err(format!("its header asks for {expected} bytes and it has {}: truncated?", self.length))
    }

    pub fn end(&mut self) -> Result<(), String> {
        let whole = self.wants > 0 && self.text.len() == self.wants;
        whole.then_some(()).ok_or_else(|| "it ends within its header: truncated".into())
    }
}

/// The superblock, and that the file is as long as it says.
#[derive(Default)]
pub struct Hdf5 {
    gather: Gather,
    length: u64,
    seen: bool,
}

impl Hdf5 {
    pub fn new(from_start: bool, length: u64) -> Self {
        Self { gather: Gather::default(), length, seen: !from_start }
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        if self.seen {
            return Ok(());
        }
        if let Some(start) = self.gather.take(&mut bytes, 64) {
            self.seen = true;
            let end = hdf5::stated_end(start)?;
            if end > self.length {
                return Err(format!("its superblock ends at {end} and it has {} bytes: truncated", self.length));
            }
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), String> {
        self.seen.then_some(()).ok_or_else(|| "it ends within its superblock: truncated".into())
    }
}
