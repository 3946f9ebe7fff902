//! Directories of one run: made new, for this user alone, and removed with all their content.
//!
//! Name, lock and mark of a [`Scratch`] are those of `workspace.py`: what a killed process leaves, the next run on that
//! path removes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use super::{Folder, New};
use crate::contract::left_behind;
use crate::sys::beneath::{self, Identity};

const MARK: &[u8] = b"hwdyno scratch directory: removed by its run, or by the next one if that run died\n";
const PREFIX: &str = "hwdyno-scratch-";
const LOCK: &str = "lock";
/// The part of it that is a kernel's.
const MADE: &str = "made";
/// NFS and FUSE keep a file that is removed while it is open under a hidden name, until they learn that it is closed.
const HIDDEN_TRIES: u32 = 20;
const HIDDEN_PAUSE: Duration = Duration::from_millis(10);

/// A directory that was not there before, for this user alone; dropped, it is removed with all its content.
#[derive(Debug)]
pub struct Fresh {
    parent: Folder,
    name: PathBuf,
    /// The directory.
    pub folder: Folder,
}

impl Fresh {
    /// Makes it in `parent`.
    ///
    /// # Errors
    /// The system's refusal; that something has the name.
    pub fn new(parent: Folder, name: &str) -> io::Result<Self> {
        let name = PathBuf::from(name);
        if !beneath::make_directory(&parent.handle, &name, 0o700)? {
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        let folder = parent.new_folder(&name)?;
        Ok(Self { parent, name, folder })
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let remove = || {
            // the lock at the end: without it no one removes what a crash leaves now
            beneath::clear(self.folder.handle.as_fd(), OsStr::new(LOCK))?;
            beneath::remove(&self.parent.handle, &self.name, Identity::of_file(&self.folder.handle)?)
        };
        left_behind::remove(&self.folder.path, || {
            for _ in 0..HIDDEN_TRIES {
                match remove() {
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => std::thread::sleep(HIDDEN_PAUSE),
                    done => return done,
                }
            }
            remove()
        });
    }
}

/// A directory of one run.
#[derive(Debug)]
pub struct Scratch {
    fresh: Fresh,
    lock: Option<File>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The lock is closed before its file goes, for the same reason, and once nothing is left for another run to remove.
        let _ = beneath::clear_but(self.fresh.folder.handle.as_fd(), OsStr::new(LOCK));
        drop(self.lock.take());
    }
}

impl Scratch {
    /// Makes one in `parent`.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn new(parent: Folder) -> io::Result<Self> {
        let mut random = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let fresh = Fresh::new(parent, &format!("{PREFIX}{:016x}", u64::from_le_bytes(random)))?;
        let mut lock = fresh.folder.create(Path::new(LOCK), New::PRIVATE)?;
        beneath::lock(&lock)?;
        // The lock comes before the mark: without a mark no one takes the directory for a dead run's.
        lock.write_all(MARK)?;
        Ok(Self { fresh, lock: Some(lock) })
    }

    /// The directory of a run of this user's that has died, which is ours then.
    fn of_dead(parent: Folder, name: PathBuf) -> io::Result<Self> {
        let folder = parent.existing_folder(&name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK;
        let lock = File::from(beneath::open(&folder.handle, Path::new(LOCK), flags, Mode::empty())?);
        let mut mark = Vec::new();
        if beneath::is_users(&folder.handle) && beneath::lock(&lock)? {
            (&lock).take(MARK.len() as u64 + 1).read_to_end(&mut mark)?;
        }
        if mark != MARK {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self { fresh: Fresh { parent, name, folder }, lock: Some(lock) })
    }

    /// The directory.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.fresh.folder
    }
}

/// Removes the directories of this user whose run has died; each keeps its lock as long as it lives.
pub fn clean_stale(parent: &Path) {
    for name in Folder::named(parent).and_then(|parent| beneath::names(&parent.handle)).unwrap_or_default() {
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if number.is_some_and(|number| number.len() == 16 && u64::from_str_radix(number, 16).is_ok()) {
            drop(Folder::named(parent).and_then(|parent| Scratch::of_dead(parent, name)));
        }
    }
}

/// A kernel's files: in a scratch directory, where no one else makes, replaces or removes one.
#[derive(Debug)]
pub struct Private {
    folder: Folder,
    _scratch: Scratch,
}

impl Private {
    /// Makes one in the folder at `path`, which is made where it is missing, and nothing above it.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn at(path: &Path) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(Path::new(""));
        match path.file_name() {
            // A directory that the user removed meanwhile is not made again.
            Some(name) => Self::beneath(Folder::named(parent)?.folder(Path::new(name))?.0),
            None => Self::beneath(Folder::named(path)?),
        }
    }

    /// Makes one in a folder that is there.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn beneath(parent: Folder) -> io::Result<Self> {
        let scratch = Scratch::new(parent)?;
        let (folder, _) = scratch.folder().folder(Path::new(MADE))?;
        Ok(Self { folder, _scratch: scratch })
    }

    /// Where the files are.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Opens a file of its to be written from its beginning, made where it is missing.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn rewrite(&self, name: &Path) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        Ok(beneath::open(&self.folder.handle, name, flags, Mode::from_raw_mode(super::PRIVATE))?.into())
    }

    /// Makes a file that was not there; where the storage refuses to go past the page cache, nothing is left of it.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn create(&self, name: &Path, direct: bool) -> io::Result<File> {
        self.folder.create(name, New { direct, ..New::PRIVATE }).inspect_err(|error| {
            if direct && error.raw_os_error() == Some(libc::EINVAL) {
                self.remove(name); // the system refuses after it made the file
            }
        })
    }

    /// Removes a file; one that is gone already is as good.
    pub fn remove(&self, name: &Path) {
        left_behind::remove(&self.folder.path.join(name), || beneath::remove_entry(&self.folder.handle, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch as Test;
    use std::fs;

    #[test]
    fn a_private_folder_goes_with_all_in_it_and_nothing_beside() {
        let test = Test::new("private");
        fs::create_dir(test.path("elsewhere")).unwrap();
        fs::write(test.path("elsewhere/mine"), "mine").unwrap();
        let private = Private::at(&test.path("kv")).unwrap();
        fs::write(test.path("kv/mine"), "mine").unwrap();
        private.create(Path::new("a"), false).unwrap();
        assert!(private.create(Path::new("a"), false).is_err());
        let inside = private.folder().path().to_path_buf();
        fs::create_dir_all(inside.join("deep/er")).unwrap();
        fs::write(inside.join("deep/er/file"), "x").unwrap();
        std::os::unix::fs::symlink(test.path("elsewhere"), inside.join("link")).unwrap();
        private.remove(Path::new("a"));
        private.remove(Path::new("a"));
        drop(private);
        let left: Vec<_> = fs::read_dir(test.path("kv")).unwrap().flatten().map(|found| found.file_name()).collect();
        assert_eq!(left, ["mine"]);
        assert!(test.path("elsewhere/mine").exists());
    }

    #[test]
    fn a_folder_that_is_a_link_is_refused() {
        let test = Test::new("private-link");
        fs::create_dir(test.path("elsewhere")).unwrap();
        std::os::unix::fs::symlink(test.path("elsewhere"), test.path("kv")).unwrap();
        assert_eq!(Private::at(&test.path("kv")).unwrap_err().raw_os_error(), Some(libc::ELOOP));
        assert_eq!(fs::read_dir(test.path("elsewhere")).unwrap().count(), 0);
    }
}
