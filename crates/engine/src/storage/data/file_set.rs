//! The files of one job as one region: an offset selects a file and a place in it.

use std::fs::File;
use std::io;

/// The files of one job as one region. With one file an offset in the region is one in the file.
#[derive(Debug, Clone, Copy)]
pub struct FileSet<'a> {
    files: &'a [File],
    begin: u64,
    length: u64,
}

impl<'a> FileSet<'a> {
    /// A region of the `length` bytes from `begin` on of each of `files`.
    #[must_use]
    pub fn new(files: &'a [File], begin: u64, length: u64) -> Self {
        Self { files, begin, length: length.max(1) }
    }

    /// One file, by its own offsets.
    #[must_use]
    pub fn one(file: &'a File) -> Self {
        Self::new(std::slice::from_ref(file), 0, u64::MAX)
    }

    /// The files.
    #[must_use]
    pub fn files(&self) -> &'a [File] {
        self.files
    }

    /// The file that holds `offset` of the region, and where in it.
    #[inline]
    #[must_use]
    pub fn place(&self, offset: u64) -> (usize, u64) {
        if self.files.len() == 1 {
            return (0, offset);
        }
        let at = offset - self.begin;
        ((at / self.length) as usize, self.begin + at % self.length)
    }

    /// Makes the data of all files durable.
    ///
    /// # Errors
    /// The first refusal.
    pub fn sync_data(&self) -> io::Result<()> {
        self.files.iter().try_for_each(File::sync_data)
    }

    /// Makes durable also what describes them.
    ///
    /// # Errors
    /// The first refusal.
    pub fn sync_all(&self) -> io::Result<()> {
        self.files.iter().try_for_each(File::sync_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_says_which_file_and_where() {
        let file = || File::open("/dev/null").unwrap();
        let one = [file()];
        assert_eq!(FileSet::new(&one, 4096, 100).place(9999), (0, 9999));
        let three = [file(), file(), file()];
        let file_set = FileSet::new(&three, 4096, 1000);
        assert_eq!([4096, 5095, 5096, 7095].map(|at| file_set.place(at)), [(0, 4096), (0, 5095), (1, 4096), (2, 5095)]);
    }
}
