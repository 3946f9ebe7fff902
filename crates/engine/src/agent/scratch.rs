//! Scratch directories for data files: made new, locked, marked as hwdyno's, and removed when the agent ends.
//!
//! Name, lock and mark are those of `workspace.py`: what a killed agent leaves, the next run on that path removes.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation};
use serde_json::{json, Value};

use crate::sys::filesystem::size_and_free_bytes;
use crate::Error;

const MARK: &[u8] = b"hwdyno scratch directory: removed by its run, or by the next one if that run died\n";
const DATA: &str = "data";
const LOCK: &str = "lock";

/// The directories that this agent has made, each with its lock.
#[derive(Default)]
pub struct All(Vec<(PathBuf, File)>);

impl All {
    /// Makes one below `parent`: the path of its data file, and the filesystem's size and room.
    ///
    /// # Errors
    /// [`Error::Machine`] for what the filesystem refuses.
    pub fn claim(&mut self, parent: &Path) -> Result<Value, Error> {
        let doing = |what: &str| format!("{what} in {}", parent.display());
        let directory = made_in(parent).map_err(|error| Error::machine(doing("make a directory"), &error))?;
        match marked(&directory) {
            Ok(lock) => self.0.push((directory.clone(), lock)),
            Err(error) => {
                remove(&directory);
                return Err(Error::machine(doing("lock a directory"), &error));
            }
        }
        let data = directory.join(DATA);
        new_file(&data).map_err(|error| Error::machine(doing("make a data file"), &error))?;
        let (size, free) = size_and_free_bytes(parent).unwrap_or((0, 0));
        Ok(json!({"data": data, "directory": directory, "size_bytes": size, "free_bytes": free}))
    }

    /// Removes one that this agent has made; says whether it was one.
    pub fn release(&mut self, directory: &Path) -> bool {
        let at = self.0.iter().position(|(path, _)| path == directory);
        at.map(|at| remove(&self.0.swap_remove(at).0)).is_some()
    }

    /// Removes all of them.
    pub fn release_all(&mut self) {
        for (directory, _lock) in self.0.drain(..) {
            remove(&directory);
        }
    }
}

/// The length of a file.
///
/// # Errors
/// [`Error::Machine`] where it is not there.
pub fn size(path: &Path) -> Result<Value, Error> {
    let found = fs::metadata(path).map_err(|error| Error::machine(format!("look at {}", path.display()), &error))?;
    Ok(json!({"bytes": found.len()}))
}

fn made_in(parent: &Path) -> io::Result<PathBuf> {
    loop {
        let mut random = [0_u8; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let directory = parent.join(format!("hwdyno-scratch-{:016x}", u64::from_le_bytes(random)));
        match DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// The lock comes before the mark: without a mark nobody takes the directory for a dead run's.
fn marked(directory: &Path) -> io::Result<File> {
    let mut lock = new_file(&directory.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    lock.write_all(MARK)?;
    Ok(lock)
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Takes away what lies in it, the lock last; what cannot be removed is left for the next run.
fn remove(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if name == LOCK {
            continue;
        }
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
    let _ = fs::remove_file(directory.join(LOCK));
    let _ = fs::remove_dir(directory);
}
