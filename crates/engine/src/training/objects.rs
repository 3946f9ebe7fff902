//! A data set in an object store: its objects, as a listing gives them.

use std::path::PathBuf;

use super::dataset::Format;
use crate::contract::kernel::Error;
use crate::object::keys::Keys;
use crate::object::place::Place;

/// Pages of a listing that are read: ten million keys.
const MAX_PAGES: usize = 10_000;

/// The objects of a data set.
pub struct Objects {
    /// Where they are.
    pub place: Place,
    /// Their keys in order.
    pub keys: Keys,
    /// Their lengths in that order.
    pub lengths: Vec<u64>,
}

/// What a listing of a data set found.
pub struct Listed {
    /// The objects of its format.
    pub objects: Objects,
    /// What they are called.
    pub names: Vec<PathBuf>,
    /// What the other objects are called.
    pub others: Vec<PathBuf>,
}

/// Lists the objects of `format` below `train/` of a place, sorted as DLIO sorts files.
///
/// # Errors
/// Machine: the store refuses, or lists without end.
pub fn list(place: Place, format: Format) -> Result<Listed, Error> {
    let (mut control, below) = (place.control(), format!("{}train/", place.prefix));
    let (mut found, mut others, mut token) = (Vec::new(), Vec::new(), String::new());
    for _ in 0..MAX_PAGES {
        let page = control.list(&below, "", &token)?;
        for (key, length) in page.keys.into_iter().zip(page.sizes) {
            let name = PathBuf::from(place.url(&key));
            if name.extension().is_some_and(|ending| ending == format.word()) {
                found.push((name, key, length));
            } else if !key.ends_with('/') {
                others.push(name);
            }
        }
        let Some(next) = page.next else {
            found.sort_unstable();
            let keys: Vec<String> = found.iter().map(|(_, key, _)| key.clone()).collect();
            let (keys, lengths) = (Keys::listed(&keys), found.iter().map(|entry| entry.2).collect());
            let names = found.into_iter().map(|entry| entry.0).collect();
            return Ok(Listed { objects: Objects { place, keys, lengths }, names, others });
        };
        token = next;
    }
    Err(Error::Machine(format!("the store lists keys below {below} without end"), None))
}
