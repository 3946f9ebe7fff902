//! Scratch directories for data files: made new, locked, marked as hwdyno's, and removed when the agent ends.

use std::fs;
use std::path::Path;

use serde_json::{json, Value};

use crate::safe_files::scratch::{clean_stale, Private, Scratch};
use crate::safe_files::{Folder, New};
use crate::sys::filesystem::size_and_free_bytes;
use crate::Error;

const DATA: &str = "data";

/// The directories that this agent has made.
#[derive(Default)]
pub struct All(Vec<Scratch>);

impl All {
    /// Makes one below `parent`: the path of its data file, and the filesystem's size and room.
    ///
    /// # Errors
    /// [`Error::Machine`] for what the filesystem refuses.
    pub fn claim(&mut self, parent: &Path) -> Result<Value, Error> {
        let doing = |what: &str| format!("{what} in {}", parent.display());
        let scratch = Folder::named(parent)
            .and_then(Scratch::new)
            .map_err(|error| Error::machine(doing("make a directory"), &error))?;
        let made = scratch.folder().create(Path::new(DATA), New::PRIVATE);
        made.map_err(|error| Error::machine(doing("make a data file"), &error))?;
        let directory = scratch.folder().path().to_path_buf();
        let data = directory.join(DATA);
        self.0.push(scratch);
        let (size, free) = size_and_free_bytes(parent).unwrap_or((0, 0));
        Ok(json!({"data": data, "directory": directory, "size_bytes": size, "free_bytes": free}))
    }

    /// Removes one that this agent has made; says whether it was one.
    pub fn release(&mut self, directory: &Path) -> bool {
        let at = self.0.iter().position(|scratch| scratch.folder().path() == directory);
        at.map(|at| self.0.swap_remove(at)).is_some()
    }

    /// Removes all of them.
    pub fn release_all(&mut self) {
        self.0.clear();
    }
}

/// A working folder for a program below the system's folder for temporary files, removed when it is dropped.
///
/// Those that killed agents left beside it go now.
///
/// # Errors
/// [`Error::Machine`] for what the filesystem refuses.
pub fn working_folder() -> Result<Private, Error> {
    let parent = std::env::temp_dir();
    clean_stale(&parent);
    Folder::named(&parent)
        .and_then(Private::beneath)
        .map_err(|error| Error::machine(format!("make a folder in {}", parent.display()), &error))
}

/// The length of a file.
///
/// # Errors
/// [`Error::Machine`] where it is not there.
pub fn size(path: &Path) -> Result<Value, Error> {
    let found = fs::metadata(path).map_err(|error| Error::machine(format!("look at {}", path.display()), &error))?;
    Ok(json!({"bytes": found.len()}))
}
