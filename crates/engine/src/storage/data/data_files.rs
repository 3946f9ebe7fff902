//! Opens data files to be written over: by handle, and no file but those that this tool wrote.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use crate::contract::kernel::Error;
use crate::safe_files;
use crate::sys::beneath::Identity;
use crate::sys::memory::mark;

/// A file by its inode and by when that was made: the number of one that was removed is given to the next.
type Birth = (Identity, Option<SystemTime>);

/// The data files that this process made or found the mark in. Measuring may write over the mark.
static KNOWN: Mutex<Option<HashSet<Birth>>> = Mutex::new(None);

fn birth(file: &File) -> io::Result<Birth> {
    Ok((Identity::of_file(file)?, file.metadata()?.created().ok()))
}

/// Keeps in mind that this process made a file, or found that it is a data file of this tool's.
pub fn remember(file: &File) {
    if let Ok(birth) = birth(file) {
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert(birth);
    }
}

fn is_known(file: &File) -> bool {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    birth(file).is_ok_and(|birth| known.as_ref().is_some_and(|all| all.contains(&birth)))
}

/// Whether the sector at `offset` has the mark of its place, which a layout and each write of random bytes leave.
pub fn has_mark(file: &File, offset: u64) -> io::Result<bool> {
    let mut word = [0_u8; 8];
    match file.read_exact_at(&mut word, offset) {
        Ok(()) => Ok(u64::from_le_bytes(word) == mark(offset)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Opens a data file whose bytes from `offset` on are to be written; a link is not followed.
///
/// What is looked at is what is opened: a file that took the name since the layout is refused, unless it is one too.
/// What is no regular file is handed on, for the caller to refuse.
///
/// # Errors
/// The system's refusal, as `refused` words it; [`Error::Usage`] for a file that is not this tool's.
pub fn open_to_write(
    path: &Path,
    flags: i32,
    offset: u64,
    refused: impl Fn(&io::Error) -> Error,
) -> Result<File, Error> {
    let file = safe_files::open_to_write(path, flags).map_err(|error| refused(&error))?;
    if is_known(&file) || !file.metadata().is_ok_and(|about| about.is_file()) {
        return Ok(file);
    }
    // O_DIRECT reads into aligned memory only. While `file` is open, no other can get its inode.
    let buffered = safe_files::open_to_write(path, 0).map_err(|error| refused(&error))?;
    let is_same = birth(&buffered).and_then(|one| Ok(one == birth(&file)?));
    let is_ours = is_same.and_then(|same| Ok(same && (has_mark(&buffered, 0)? || has_mark(&buffered, offset)?)));
    if !is_ours.map_err(|error| refused(&error))? {
        return Err(Error::usage(format!(
            "{} is not a hwdyno data file, or took the place of one: it was not written; use a new name",
            path.display()
        )));
    }
    remember(&file);
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::kernel::Stop;
    use crate::storage::data::layout::lay_out;
    use crate::storage::scratch::Scratch;
    use std::fs;

    const SIZE: u64 = 1 << 20;

    fn open(path: &Path) -> Result<File, String> {
        let refused = |error: &io::Error| Error::machine("open", error);
        open_to_write(path, 0, 8192, refused).map_err(|error| error.to_string())
    }

    #[test]
    fn a_data_file_is_known_after_its_mark_is_gone() {
        let scratch = Scratch::new("data-file");
        let path = scratch.path("data");
        lay_out(&path, SIZE, 7, &Stop::new()).unwrap();
        open(&path).unwrap().write_all_at(&[0; 16384], 0).unwrap();
        open(&path).unwrap();
    }

    #[test]
    fn a_file_that_took_the_name_is_not_written() {
        let scratch = Scratch::new("data-file-swapped");
        let (path, thesis) = (scratch.path("data"), scratch.path("thesis"));
        lay_out(&path, SIZE, 7, &Stop::new()).unwrap();
        fs::write(&thesis, vec![1; SIZE as usize]).unwrap();
        fs::rename(&thesis, &path).unwrap();
        assert!(open(&path).unwrap_err().contains("took the place"));
        // Its inode is free for the next file.
        fs::remove_file(&path).unwrap();
        lay_out(&path, SIZE, 7, &Stop::new()).unwrap();
        fs::remove_file(&path).unwrap();
        fs::write(&path, vec![1; SIZE as usize]).unwrap();
        assert!(open(&path).unwrap_err().contains("took the place"));
    }

    #[test]
    fn another_processs_data_file_has_its_mark_at_the_start_or_where_it_is_written() {
        let scratch = Scratch::new("data-file-marked");
        let path = scratch.path("data");
        let bytes = |at: usize, word: u64| {
            let mut bytes = vec![1; SIZE as usize];
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            bytes
        };
        for (content, is_ours) in [
            (bytes(0, mark(0)), true),
            (bytes(8192, mark(8192)), true),
            (bytes(8192, mark(0)), false),
            (bytes(4096, mark(4096)), false),
        ] {
            let _ = fs::remove_file(&path);
            fs::write(&path, content).unwrap();
            assert_eq!(open(&path).is_ok(), is_ours);
        }
    }
}
