//! A file under way, which gets its name once it is whole.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::{Folder, New};
use crate::sys::beneath::{self, Identity};

/// A file under way. Dropped before [`Part::finish`] it leaves nothing behind.
pub struct Part<'a> {
    folder: &'a Folder,
    temporary: PathBuf,
    whole: PathBuf,
    /// The file to be written.
    pub file: File,
    identity: Identity,
    is_finished: bool,
}

impl<'a> Part<'a> {
    /// Begins `whole` under the name `part` until then. In a folder of this tool's, what a dead run left goes.
    ///
    /// # Errors
    /// The system's refusal; that another file has the name, or another run writes it.
    pub fn begin(folder: &'a Folder, whole: &Path, part: &Path, how: New) -> io::Result<Self> {
        let (file, identity) = match folder.create_known(part, how) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                remove_left(folder, part)?;
                folder.create_known(part, how)?
            }
            made => made?,
        };
        // where there are no locks, another run's file looks the same as a dead one's
        let _ = beneath::lock(&file);
        Ok(Self { folder, temporary: part.into(), whole: whole.into(), file, identity, is_finished: false })
    }

    /// Gives it its name, which nothing has yet.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn finish(mut self) -> io::Result<()> {
        beneath::publish(&self.folder.handle, &self.temporary, &self.whole)?;
        self.is_finished = true;
        Ok(())
    }

    /// Gives it the name of a file that was verified as this tool's, and that goes.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn finish_in_place_of_ours(mut self) -> io::Result<()> {
        beneath::replace(&self.folder.handle, &self.temporary, &self.whole)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.folder.remove(&self.temporary, self.identity);
        }
    }
}

/// Removes the part that a dead run left in a folder of this tool's.
fn remove_left(folder: &Folder, part: &Path) -> io::Result<()> {
    let refused = |why: &str| {
        let says = format!("{} is {why}", folder.path.join(part).display());
        Err(io::Error::new(io::ErrorKind::AlreadyExists, says))
    };
    let about = beneath::about(&folder.handle, part)?;
    if !about.is_plain || !folder.is_ours() {
        return refused("not hwdyno's, and is in the way: move it elsewhere, or give another --path");
    }
    let file = folder.read(part, false)?;
    if Identity::of_file(&file)? != about.identity || !beneath::lock(&file).unwrap_or(true) {
        return refused("being written by another run: wait for its end");
    }
    beneath::remove(&folder.handle, part, about.identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;
    use std::fs;
    use std::io::Write;

    fn begun<'a>(folder: &'a Folder, name: &str) -> io::Result<Part<'a>> {
        Part::begin(folder, Path::new(name), &PathBuf::from(format!("{name}.part")), New::SHARED)
    }

    #[test]
    fn a_part_gets_a_free_name_only_and_leaves_nothing_otherwise() {
        let scratch = Scratch::new("part");
        let (folder, _) = Folder::for_files(&scratch.path("set")).unwrap();
        begun(&folder, "dropped").unwrap().file.write_all(b"x").unwrap();
        let mut whole = begun(&folder, "whole").unwrap();
        whole.file.write_all(b"whole").unwrap();
        whole.finish().unwrap();
        assert!(begun(&folder, "whole").unwrap().finish().is_err());
        assert_eq!(fs::read(scratch.path("set/whole")).unwrap(), b"whole");
        assert_eq!(fs::read_dir(scratch.path("set")).unwrap().count(), 1);
    }

    #[test]
    fn what_a_dead_run_left_goes_in_a_folder_of_ours_alone() {
        let scratch = Scratch::new("part-left");
        let (folder, is_new) = Folder::for_files(&scratch.path("set")).unwrap();
        assert!(is_new && !folder.is_ours());
        fs::write(scratch.path("set/a.part"), "left").unwrap();
        assert!(begun(&folder, "a").err().unwrap().to_string().contains("a.part is not hwdyno's"));
        folder.mark();
        assert!(folder.is_ours());
        let living = begun(&folder, "a").unwrap();
        assert!(begun(&folder, "a").err().unwrap().to_string().contains("another run"));
        living.finish().unwrap();
        std::os::unix::fs::symlink("a", scratch.path("set/b.part")).unwrap();
        assert!(begun(&folder, "b").err().unwrap().to_string().contains("b.part is not hwdyno's"));
        // a copy of the folder has the mark of another one
        fs::create_dir(scratch.path("copy")).unwrap();
        fs::copy(scratch.path("set/.hwdyno"), scratch.path("copy/.hwdyno")).unwrap();
        assert!(!Folder::for_files(&scratch.path("copy")).unwrap().0.is_ours());
    }
}
