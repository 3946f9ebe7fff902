//! Reads a format as it streams by, and says what is wrong with it; keeps no more than a header's bytes.

use crate::training::csv::Csv;

use super::dataset::Format;

mod npz;
mod simple;
pub(super) mod stream;
mod tfrecord;

use stream::Piece;

/// A checker of one format, reused from file to file.
pub enum Check {
    /// Looks at nothing: `parse=raw`.
    Raw,
    /// The zip's structure, and the CRC-32 of each entry.
    Npz(npz::Npz),
    /// Both CRC-32Cs of each record, and the structure of its `Example`.
    Tfrecord(tfrecord::Tfrecord),
    /// Chunks and their CRC-32s.
    Png(simple::Png),
    /// Markers up to the last one; the pixels are not decoded.
    Jpeg(simple::Jpeg),
    /// Digits, commas, and as many values in each line.
    Csv(Csv),
    /// The header, and that the data is as long as it says.
    Npy(simple::Npy),
    /// The superblock, and that the file is as long as it says.
    Hdf5(simple::Hdf5),
}

impl Check {
    /// The checker for `format`, or none of it.
    #[must_use]
    pub fn of(format: Format, full: bool) -> Self {
        if !full {
            return Self::Raw;
        }
        match format {
            Format::Npz => Self::Npz(npz::Npz::default()),
            Format::Tfrecord => Self::Tfrecord(tfrecord::Tfrecord::default()),
            Format::Png => Self::Png(simple::Png::default()),
            Format::Jpeg => Self::Jpeg(simple::Jpeg::default()),
            Format::Csv => Self::Csv(Csv::default()),
            Format::Npy => Self::Npy(simple::Npy::default()),
            Format::Hdf5 => Self::Hdf5(simple::Hdf5::default()),
            // binary has no structure; parquet's pages are checked chunk by chunk where they are read
            Format::Binary | Format::Parquet => Self::Raw,
        }
    }

    /// What kept it from reading the structure; 0 where the file itself is wrong.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Npz(check) => check.errno,
            _ => 0,
        }
    }

    /// Begins a stream.
    pub fn start(&mut self, piece: &Piece<'_>) -> Result<(), String> {
        match self {
            Self::Raw => Ok(()),
            Self::Npz(check) => check.start(piece),
            Self::Tfrecord(check) => {
                check.start(piece);
                Ok(())
            }
            Self::Png(check) => {
                *check = simple::Png::default();
                Ok(())
            }
            Self::Jpeg(check) => {
                *check = simple::Jpeg::default();
                Ok(())
            }
            Self::Csv(check) => {
                *check = Csv::default();
                Ok(())
            }
            Self::Npy(check) => {
                *check = simple::Npy::new(piece.length);
                Ok(())
            }
            Self::Hdf5(check) => {
                *check = simple::Hdf5::new(piece.from == 0, piece.length);
                Ok(())
            }
        }
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self {
            Self::Raw => Ok(()),
            Self::Npz(check) => check.feed(bytes),
            Self::Tfrecord(check) => check.feed(bytes),
            Self::Png(check) => check.feed(bytes),
            Self::Jpeg(check) => check.feed(bytes),
            Self::Csv(check) => check.feed(bytes),
            Self::Npy(check) => check.feed(bytes),
            Self::Hdf5(check) => check.feed(bytes),
        }
    }

    /// Ends the stream.
    pub fn end(&mut self) -> Result<(), String> {
        match self {
            Self::Raw => Ok(()),
            Self::Npz(check) => check.end(),
            Self::Tfrecord(check) => check.end(),
            Self::Png(check) => check.end(),
            Self::Jpeg(check) => check.end(),
            Self::Csv(check) => check.end(),
            Self::Npy(check) => check.end(),
            Self::Hdf5(check) => check.end(),
        }
    }
}
