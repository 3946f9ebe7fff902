//! Where a kernel writes its files: into a directory of this run, or as objects into a folder of it in a bucket.

use std::path::Path;

use crate::contract::kernel::{Error, Stop};
use crate::object::keys::Keys;
use crate::object::options::ReachParameters;
use crate::object::place::{Line, Place};
use crate::safe_files::scratch::Private;

/// Where files go.
pub enum Target {
    /// Files in a directory of this run.
    Folder(Private),
    /// Objects of a store.
    Store(Place),
}

impl Target {
    /// What a path names; a folder in a bucket is marked as this run's.
    ///
    /// # Errors
    /// Usage or Machine: it cannot be written to.
    pub fn of(path: &Path, reach: &ReachParameters, stop: &Stop) -> Result<Self, Error> {
        if let Some(place) = Place::of(path, reach)? {
            place.claim(stop)?;
            return Ok(Self::Store(place));
        }
        let private = Private::at(path);
        private.map(Self::Folder).map_err(|error| Error::machine(format!("create {}", path.display()), &error))
    }

    /// The place in a bucket; none where it is a directory.
    #[must_use]
    pub fn store(&self) -> Option<&Place> {
        match self {
            Self::Folder(_) => None,
            Self::Store(place) => Some(place),
        }
    }

    /// The connection of a thread, where it needs one.
    #[must_use]
    pub fn line(&self, number: u64) -> Option<Line> {
        self.store().map(|place| place.line(number))
    }

    /// What a user knows a file by.
    #[must_use]
    pub fn show(&self, name: &Path) -> String {
        match self {
            Self::Folder(folder) => folder.folder().path().join(name).display().to_string(),
            Self::Store(place) => place.url(&format!("{}{}", place.prefix, name.display())),
        }
    }
}

/// The key of a file in a bucket.
#[must_use]
pub fn key(place: &Place, name: &Path) -> Keys {
    Keys::listed(&[format!("{}{}", place.prefix, name.display())])
}
