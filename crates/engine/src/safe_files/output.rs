//! A file that a user named: written whole, and over nothing that is not this tool's.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{open_folder, Folder, New};
use crate::contract::kernel::Error;
use crate::sys::beneath::{self, Identity};

/// Names inode, length and time of the last change: a copy of the file is not ours, nor one that was edited.
/// `safe_files.py` has the same.
const ATTRIBUTE: &str = "user.hwdyno";

/// What this process wrote, with its mark, for filesystems without extended attributes.
static WRITTEN: Mutex<Option<HashSet<(Identity, String)>>> = Mutex::new(None);

/// Whether `path` may be written: it is free, or this tool's as it left it, or `overwrite` gives it away.
///
/// # Errors
/// [`Error::Usage`] with what is in the way and what mends it; [`Error::Machine`] for a folder that is not there.
pub fn check(path: &Path, overwrite: bool) -> Result<(), Error> {
    let (folder, name) =
        open_folder(path).map_err(|error| Error::machine(format!("write {}", path.display()), &error))?;
    may_replace(&folder, &name, path, overwrite).map(drop)
}

/// Whether there is a file to be replaced.
fn may_replace(folder: &Folder, name: &Path, path: &Path, overwrite: bool) -> Result<bool, Error> {
    let Ok(about) = beneath::about(&folder.handle, name) else { return Ok(false) };
    let shown = path.display();
    if about.is_link {
        return Err(Error::usage(format!(
            "{shown} is a symbolic link, and nothing is written through one: name the file that it leads to"
        )));
    }
    if about.is_directory || !about.is_plain && !overwrite {
        return Err(Error::usage(format!("{shown} exists and is not hwdyno's: give another name, or --overwrite")));
    }
    if overwrite || folder.read(name, false).is_ok_and(|file| is_ours(&file)) {
        return Ok(true);
    }
    Err(Error::usage(format!("{shown} exists and is not hwdyno's: give another name, or --overwrite")))
}

/// Writes a file whole, and only then under its name.
///
/// # Errors
/// As [`check`]; what the system refused.
pub fn write(path: &Path, bytes: &[u8], overwrite: bool) -> Result<(), Error> {
    let failed = |error: &io::Error| Error::machine(format!("write {}", path.display()), error);
    let (folder, name) = open_folder(path).map_err(|error| failed(&error))?;
    let replaces = may_replace(&folder, &name, path, overwrite)?;
    let part = PathBuf::from(format!(".hwdyno-{}-{:x}.part", std::process::id(), crate::timing::clock::now_ns()));
    let (mut file, identity) = folder.create_known(&part, New::SHARED).map_err(|error| failed(&error))?;
    let done = file.write_all(bytes).and_then(|()| {
        mark(&file, identity);
        let give = if replaces { beneath::replace } else { beneath::publish };
        give(&folder.handle, &part, &name)
    });
    done.map_err(|error| {
        folder.remove(&part, identity);
        failed(&error)
    })
}

fn format_mark(file: &File) -> io::Result<String> {
    let about = file.metadata()?;
    Ok(format!("{} {} {}.{:09}", about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

fn mark(file: &File, identity: Identity) {
    let Ok(mark) = format_mark(file) else { return };
    if !beneath::set_attribute(file, ATTRIBUTE, mark.as_bytes()) {
        WRITTEN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().insert((identity, mark));
    }
}

fn is_ours(file: &File) -> bool {
    let (Ok(identity), Ok(mark)) = (Identity::of_file(file), format_mark(file)) else { return false };
    if let Some(found) = beneath::attribute(file, ATTRIBUTE) {
        return found == mark.as_bytes();
    }
    let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    written.as_ref().is_some_and(|all| all.contains(&(identity, mark)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;
    use std::fs;

    #[test]
    fn an_output_replaces_what_is_ours_as_we_left_it_and_anothers_with_consent_alone() {
        let scratch = Scratch::new("output");
        let path = scratch.path("trace");
        write(&path, b"first", false).unwrap();
        write(&path, b"second", false).unwrap();
        fs::write(&path, "mine").unwrap();
        let error = write(&path, b"third", false).unwrap_err().to_string();
        assert!(error.contains("is not hwdyno's") && error.contains("--overwrite"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        write(&path, b"third", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 1);
    }

    #[test]
    fn an_output_goes_through_no_link_and_over_no_folder() {
        let scratch = Scratch::new("output-link");
        fs::write(scratch.path("mine"), "mine").unwrap();
        fs::create_dir(scratch.path("folder")).unwrap();
        std::os::unix::fs::symlink("mine", scratch.path("link")).unwrap();
        std::os::unix::fs::symlink("nothing", scratch.path("dangling")).unwrap();
        for (name, says) in [("link", "symbolic link"), ("dangling", "symbolic link"), ("folder", "exists")] {
            let error = write(&scratch.path(name), b"x", true).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(fs::read(scratch.path("mine")).unwrap(), b"mine");
        assert!(!scratch.path("nothing").exists());
    }
}
