//! A piece of a file as it streams by, and headers gathered from it.

use std::fs::File;

/// What a reader is about to stream.
pub struct Piece<'a> {
    /// Its file; none where it cannot be read at other places than those that stream by.
    pub file: Option<&'a File>,
    /// The file's length.
    pub length: u64,
    /// Where the stream begins.
    pub from: u64,
    /// How many samples that is.
    pub samples: u64,
}

/// Collects a header of up to 64 bytes that may cross two pieces of a stream.
pub(super) struct Gather {
    bytes: [u8; 64],
    have: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self { bytes: [0; 64], have: 0 }
    }
}

impl Gather {
    /// Whether it holds no part of a header.
    pub fn is_empty(&self) -> bool {
        self.have == 0
    }

    /// Drops the part that it holds.
    pub fn clear(&mut self) {
        self.have = 0;
    }

    /// Takes from `input` until `want` bytes are there; then gives them and begins anew.
    pub fn take(&mut self, input: &mut &[u8], want: usize) -> Option<&[u8]> {
        let count = (want - self.have).min(input.len());
        self.bytes[self.have..self.have + count].copy_from_slice(&input[..count]);
        *input = &input[count..];
        self.have += count;
        if self.have < want {
            return None;
        }
        self.have = 0;
        Some(&self.bytes[..want])
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

pub(in crate::training) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
