//! How a checkpoint's files are cut and written: as files, or as objects in parts.

use std::path::Path;

use crate::contract::kernel::{Error, Stop};
use crate::object::failure::Failure;
use crate::object::multipart::{MAX_PARTS, MIN_PART};
use crate::object::place::{Line, Place};
use crate::object::upload::Upload;
use crate::sys;
use crate::training::target::{key, Target};

/// Blocks of which each has its own content, bytes.
pub const BLOCK: usize = 4096;

/// Bytes of one write or read of a file of at most `largest` bytes. Of an object they are those of a part, and it has
/// at most [`MAX_PARTS`].
pub fn transfer(target: &Target, wanted: u64, largest: u64) -> usize {
    let least = if target.store().is_none() { 0 } else { MIN_PART.max(largest.div_ceil(MAX_PARTS)) };
    wanted.max(least).next_multiple_of(BLOCK as u64) as usize
}

/// Refuses more than a folder has room for.
pub fn check_room(folder: &Path, size: u64, slots: u64) -> Result<(), Error> {
    let free = sys::filesystem::free_bytes(folder)
        .map_err(|error| Error::machine(format!("query free space of {}", folder.display()), &error))?;
    if size * slots <= free / 100 * 98 {
        return Ok(());
    }
    Err(Error::Machine(
        format!(
            "{slots} checkpoint(s) of {:.1} GB do not fit in the {:.1} GB free in {}: use a smaller scale",
            size as f64 / 1e9,
            free as f64 / 1e9,
            folder.display()
        ),
        Some(libc::ENOSPC),
    ))
}

/// Gives each whole block the next stamp.
pub fn mark_blocks(buffer: &mut [u8], stamp: &mut u64) {
    for block in buffer.chunks_exact_mut(BLOCK) {
        block[..8].copy_from_slice(&stamp.to_le_bytes());
        *stamp += 1;
    }
}

/// What a store answered, as the error of a file; a request that a stop has cut short is none.
fn unless_stopped(answer: Result<(), Failure>, stop: &Stop) -> std::io::Result<()> {
    match answer {
        Err(failure) if !stop.is_set() => Err(std::io::Error::other(failure.says())),
        _ => Ok(()),
    }
}

/// Loads an object; gives its bytes.
pub fn get(place: &Place, (name, wanted): (&Path, u64), line: &mut Line, stop: &Stop) -> std::io::Result<u64> {
    let mut bytes = 0;
    let mut count = |piece: &[u8]| {
        bytes += piece.len() as u64;
        true
    };
    let found = line.read((&key(place, name), 0), (0, wanted - 1, wanted), stop, &mut count);
    unless_stopped(found, stop).map(|()| bytes)
}

/// Saves an object: in one request where it is a single part, else in parts.
pub fn put(
    place: &Place,
    (name, wanted): (&Path, u64),
    buffer: &mut [u8],
    number: u64,
    line: &mut Line,
    stop: &Stop,
) -> std::io::Result<u64> {
    let (keys, mut stamp, mut left) = (key(place, name), number << 40, wanted);
    let parts = wanted.div_ceil(buffer.len() as u64) as usize;
    let mut save = || -> Result<(), Failure> {
        if parts <= 1 {
            mark_blocks(&mut buffer[..wanted as usize], &mut stamp);
            line.write(&keys, 0, &buffer[..wanted as usize], stop)?;
            left = 0;
            return Ok(());
        }
        let mut upload = Upload::begin(line, (&keys, 0), parts, stop)?;
        for part in 1..=parts {
            let length = left.min(buffer.len() as u64) as usize;
            mark_blocks(&mut buffer[..length], &mut stamp);
            upload.part(part, &buffer[..length])?;
            left -= length as u64;
        }
        upload.complete()
    };
    let saved = save();
    unless_stopped(saved, stop).map(|()| wanted - left)
}
