//! Safe file access: makes, replaces and removes them by directory handle, through no link, and only what is ours.
//!
//! A path that a user gives may lead through links up to its last component, which is the user's choice. Beneath it nothing
//! is followed. A new file is made with `O_EXCL`; what exists is replaced or removed only where it is verified as
//! this tool's: a folder by the mark in it, an output by its extended attribute, a file of this process by its inode.

pub mod output;
pub mod part;
pub mod scratch;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::contract::left_behind;
use crate::sys::beneath::{self, Identity};

/// The file that marks a folder as made by this tool; it names the folder's inode, so that a copy is marked for nothing.
const MARK: &str = ".hwdyno";
/// What a file is that this process alone may read.
const PRIVATE: u32 = 0o600;
/// What a file is that data sets consist of.
const SHARED: u32 = 0o644;

/// A directory by its handle.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    path: PathBuf,
}

/// How a new file is opened.
#[derive(Debug, Clone, Copy)]
pub struct New {
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Who may use it.
    pub mode: u32,
}

impl New {
    /// Access for this user, through the page cache.
    pub const PRIVATE: Self = Self { direct: false, mode: PRIVATE };
    /// Access for everyone who may read what the user makes.
    pub const SHARED: Self = Self { direct: false, mode: SHARED };
}

impl Folder {
    /// A directory that the user named; links are followed.
    pub fn named(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { handle: beneath::directory(path)?, path: path.into() })
    }

    /// A folder of this tool's, made where it is missing; its own name is no link. Says whether it is new.
    pub fn for_files(path: &Path) -> io::Result<(Self, bool)> {
        let Some(name) = path.file_name() else { return Ok((Self::named(path)?, false)) };
        let parent = path.parent().unwrap_or(Path::new(""));
        let parent = match Self::named(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::for_files(parent)?.0,
            found => found?,
        };
        parent.folder(Path::new(name))
    }

    /// A folder in this one, made where it is missing; says whether it is new.
    pub fn folder(&self, name: &Path) -> io::Result<(Self, bool)> {
        let is_new = beneath::make_directory(&self.handle, name, 0o755)?;
        Ok((if is_new { self.new_folder(name)? } else { self.existing_folder(name)? }, is_new))
    }

    /// A folder that this process has just made; where it cannot be opened, it goes.
    fn new_folder(&self, name: &Path) -> io::Result<Self> {
        self.existing_folder(name).inspect_err(|_| {
            left_behind::remove(&self.path.join(name), || beneath::remove_directory(&self.handle, name));
        })
    }

    fn existing_folder(&self, name: &Path) -> io::Result<Self> {
        let handle = beneath::open(&self.handle, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { handle, path: self.path.join(name) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its handle, for system calls on names in it.
    #[must_use]
    pub fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// Makes a file that was not there.
    pub fn create(&self, name: &Path, how: New) -> io::Result<File> {
        let direct = if how.direct { OFlags::DIRECT } else { OFlags::empty() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | direct;
        Ok(beneath::open(&self.handle, name, flags, Mode::from_raw_mode(how.mode))?.into())
    }

    /// The same with its identity; where the system does not give that, the file goes.
    fn create_known(&self, name: &Path, how: New) -> io::Result<(File, Identity)> {
        let file = self.create(name, how)?;
        let identity = Identity::of_file(&file).inspect_err(|_| {
            left_behind::remove(&self.path.join(name), || beneath::remove_entry(&self.handle, name));
        })?;
        Ok((file, identity))
    }

    /// Opens a file to read.
    pub fn read(&self, name: &Path, direct: bool) -> io::Result<File> {
        let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
        Ok(beneath::open(&self.handle, name, OFlags::RDONLY | direct, Mode::empty())?.into())
    }

    /// Marks a folder that this process made: what it makes in it, another run may finish or remove.
    ///
    /// A mark that cannot be written is left out, and then nothing in the folder is ever removed for a dead run's.
    pub fn mark(&self) {
        let Ok(mark) = self.mark_text() else { return };
        let _ = self.create(Path::new(MARK), New::PRIVATE).and_then(|mut file| file.write_all(mark.as_bytes()));
    }

    /// Whether this tool made the folder, by the mark in it.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let name = Path::new(MARK);
        let is_plain = beneath::about(&self.handle, name).is_ok_and(|about| about.is_plain);
        let found = self.read(name, false).and_then(|file| io::read_to_string(io::Read::take(file, 256)));
        is_plain && self.mark_text().is_ok_and(|mark| found.is_ok_and(|found| found == mark))
    }

    /// Removes what this process made, unless the name is another file's by now.
    fn remove(&self, name: &Path, identity: Identity) {
        left_behind::remove(&self.path.join(name), || match beneath::remove(&self.handle, name, identity) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            done => done,
        });
    }

    fn mark_text(&self) -> io::Result<String> {
        let inode = Identity::of_file(&self.handle)?.inode();
        Ok(format!("hwdyno made this folder (inode {inode}), and may remove what it made in it\n"))
    }
}

/// A file that this process made under a name of the user's choice.
#[derive(Debug)]
pub struct Made {
    folder: Folder,
    name: PathBuf,
    identity: Identity,
    /// While it is open, no other file gets its inode.
    _open: File,
}

impl Made {
    /// Removes it, unless its name is another file's by now.
    pub fn remove(&self) {
        self.folder.remove(&self.name, self.identity);
    }
}

/// The directory of a path that the user named, by handle, and the name in it.
fn open_folder(path: &Path) -> io::Result<(Folder, PathBuf)> {
    let name = path.file_name().ok_or_else(|| io::Error::from_raw_os_error(libc::EISDIR))?;
    Ok((Folder::named(path.parent().unwrap_or(Path::new("")))?, name.into()))
}

/// Makes a file that was not there, and nothing where there is a link.
pub fn create(path: &Path) -> io::Result<(File, Made)> {
    let (folder, name) = open_folder(path)?;
    let (file, identity) = folder.create_known(&name, New::PRIVATE)?;
    let open = file.try_clone().inspect_err(|_| folder.remove(&name, identity))?;
    Ok((file, Made { folder, name, identity, _open: open }))
}

/// Opens a file that exists to be written to; a link is not followed.
pub fn open_to_write(path: &Path, flags: i32) -> io::Result<File> {
    let (folder, name) = open_folder(path)?;
    let flags = OFlags::RDWR | OFlags::from_bits_retain(flags as u32);
    Ok(beneath::open(&folder.handle, &name, flags, Mode::empty())?.into())
}

/// Opens a file to be added to at its end, made where it is missing; a link is not followed.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    let (folder, name) = open_folder(path)?;
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
    Ok(beneath::open(&folder.handle, &name, flags, Mode::from_raw_mode(SHARED))?.into())
}

/// The file with a name, open to be read, and to be removed once it was verified as this tool's.
pub fn found(path: &Path) -> io::Result<(File, Made)> {
    let (folder, name) = open_folder(path)?;
    // A pipe of that name must not block.
    let file: File = beneath::open(&folder.handle, &name, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into();
    let (identity, open) = (Identity::of_file(&file)?, file.try_clone()?);
    Ok((file, Made { folder, name, identity, _open: open }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;
    use std::fs;

    #[test]
    fn a_file_that_took_the_name_stays() {
        let scratch = Scratch::new("made");
        let path = scratch.path("data");
        let (file, made) = create(&path).unwrap();
        drop(file);
        fs::remove_file(&path).unwrap(); // its inode would be free for the next
        fs::write(&path, "thesis").unwrap();
        made.remove();
        assert_eq!(fs::read(&path).unwrap(), b"thesis");
    }
}
