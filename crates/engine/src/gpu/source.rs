//! A file that is loaded to a GPU: how its blocks are read, and what should have arrived.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::contract::error::Error;
use crate::contract::reading::Verdict;
use crate::sys::files;
use crate::sys::mapping::FileMapping;
use crate::sys::memory::{mark, SECTOR};
use crate::words;

/// What a direct read must be a multiple of.
pub const ALIGNED: u64 = 4096;

words! {
    /// How the file is read.
    pub enum Access {
        /// Direct reads, past the page cache.
        Direct = "direct",
        /// Buffered reads, after the file was dropped from the page cache.
        Read = "read",
        /// Copied out of a mapping, likewise.
        Mmap = "mmap",
        /// cuFile, which moves data from storage straight to the device (`GPUDirect Storage`).
        Gds = "gds",
    }
}

/// A pinned buffer of the host, and which block it holds.
pub struct Slot<'b> {
    /// Its bytes.
    pub bytes: &'b mut [u8],
    /// The block's number; none where it holds none.
    pub number: Option<u64>,
}

impl<'b> Slot<'b> {
    /// The part of a block's length that begins where a direct read may.
    #[must_use]
    pub fn of(bytes: &'b mut [u8], block: usize) -> Self {
        let begin = bytes.as_ptr().align_offset(ALIGNED as usize);
        Self { bytes: &mut bytes[begin..begin + block], number: None }
    }
}

/// What is loaded.
pub struct Source {
    path: PathBuf,
    /// It, open.
    pub file: File,
    /// How it is read.
    pub access: Access,
    /// Whether direct access was requested and refused.
    pub refused: bool,
    /// Bytes of a block.
    pub block: u64,
    /// How many whole ones it has.
    pub blocks: u64,
}

impl Source {
    /// Opens `size` bytes of the file, of blocks of `block`; where the filesystem refuses direct access, to be read
    /// through the page cache.
    ///
    /// # Errors
    /// The system's refusal; that the file is shorter.
    pub fn open(path: &Path, size: u64, block: u64, access: Access) -> Result<Self, Error> {
        let (mut access, mut refused) = (access, false);
        let opened = match files::open(path, matches!(access, Access::Direct | Access::Gds)) {
            Err(error) if access == Access::Direct && error.raw_os_error() == Some(libc::EINVAL) => {
                (access, refused) = (Access::Read, true);
                files::open(path, false)
            }
            answer => answer,
        };
        let source = |file| Self { path: path.to_path_buf(), file, access, refused, block, blocks: size / block };
        let source = opened.map(source).map_err(|error| Error::machine(format!("open {}", path.display()), &error))?;
        let about = source.file.metadata().map_err(|error| source.failed(&error))?;
        let there = files::device_size(&source.file).unwrap_or(about.len());
        if there < size {
            return Err(Error::usage(format!("{} has {there} B, and not the {size} B of `size`", path.display())));
        }
        Ok(source)
    }

    /// What the system answered to a read of it.
    #[must_use]
    pub fn failed(&self, error: &io::Error) -> Error {
        Error::machine(format!("read {}", self.path.display()), error)
    }

    /// Empties the page cache of it; gives the share that stays.
    #[must_use]
    pub fn forget(&self) -> Option<f64> {
        files::forget(&self.file);
        files::cached_share(&self.file, 0, self.block * self.blocks)
    }

    /// Whether it is read once, since the page cache has it then.
    #[must_use]
    pub fn is_read_once(&self) -> bool {
        !matches!(self.access, Access::Direct | Access::Gds)
    }

    /// Where the block of that number begins; after the last one it is the first again.
    #[must_use]
    pub fn offset(&self, number: u64) -> u64 {
        number % self.blocks * self.block
    }

    /// Reads the block of that number.
    ///
    /// # Errors
    /// The system's refusal; that the file ended.
    pub fn read(&self, number: u64, slot: &mut Slot<'_>) -> io::Result<()> {
        let offset = self.offset(number);
        slot.number = None;
        if self.access == Access::Mmap {
            let map = FileMapping::new(&self.file, offset, slot.bytes.len(), false)?.guarded();
            map.advise(false);
            if map.read_to(0, slot.bytes) < 0 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
        } else {
            self.file.read_exact_at(slot.bytes, offset)?;
        }
        slot.number = Some(number);
        Ok(())
    }

    /// The file as it is read to compare.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn there(&self) -> io::Result<There<'_>> {
        let file = files::open(&self.path, false)?;
        let mut first = [0; 8];
        file.read_exact_at(&mut first, 0)?;
        Ok(There { source: self, file, is_ours: u64::from_le_bytes(first) == mark(0) })
    }
}

/// What should have arrived: the file's bytes by another read, and in a data file of ours each sector's mark.
pub struct There<'a> {
    source: &'a Source,
    file: File,
    is_ours: bool,
}

impl There<'_> {
    /// How many bytes of what arrived as the block of that number are wrong.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn compared(&self, number: Option<u64>, arrived: &[u8]) -> io::Result<Verdict> {
        let Some(number) = number else { return Ok(Verdict::default()) };
        let offset = self.source.offset(number);
        let mut expected = vec![0; arrived.len()];
        self.file.read_exact_at(&mut expected, offset)?;
        let mut wrong = arrived.iter().zip(&expected).filter(|(one, other)| one != other).count();
        if self.is_ours {
            let begins = (offset..).step_by(SECTOR).zip(arrived.chunks(SECTOR));
            wrong += begins.filter(|(at, sector)| !sector.starts_with(&mark(*at).to_le_bytes())).count();
        }
        Ok(Verdict { checked: arrived.len() as u64, wrong: wrong as u64 })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::storage::scratch::Scratch;

    const BLOCK: u64 = 64 << 10;

    #[test]
    fn bytes_of_another_place_are_wrong() {
        let scratch = Scratch::new("gpu-load-wrong");
        let path = scratch.path("data");
        let given = json!({"path": path, "size": 4 * BLOCK});
        crate::run("storage_layout", &given, &crate::contract::kernel::Stop::new()).unwrap();
        let source = Source::open(&path, 4 * BLOCK, BLOCK, Access::Read).unwrap();
        let mut bytes = vec![0; BLOCK as usize];
        let mut slot = Slot { bytes: &mut bytes, number: None };
        source.read(2, &mut slot).unwrap();
        let there = source.there().unwrap();
        assert!(there.is_ours);
        let right = there.compared(Some(2), slot.bytes).unwrap();
        assert_eq!((right.checked, right.wrong), (BLOCK, 0));
        assert!(there.compared(Some(6), slot.bytes).unwrap().wrong == 0, "the file begins again");
        assert!(there.compared(Some(1), slot.bytes).unwrap().wrong > 0);
        slot.bytes[70] ^= 1;
        assert_eq!(there.compared(Some(2), slot.bytes).unwrap().wrong, 1);
    }
}
