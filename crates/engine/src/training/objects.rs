//! A data set in an object store: its objects, as a listing gives them.

use std::path::PathBuf;

use super::dataset::Format;
use crate::contract::kernel::{Error, Stop};
use crate::object::keys::Keys;
use crate::object::place::Place;

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
pub fn list(place: Place, format: Format, stop: &Stop) -> Result<Listed, Error> {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for (key, length) in place.control(stop).list_all(&format!("{}train/", place.prefix))? {
        let name = PathBuf::from(place.url(&key));
        if name.extension().is_some_and(|ending| ending == format.word()) {
            found.push((name, key, length));
        } else if !key.ends_with('/') {
            others.push(name);
        }
    }
    found.sort_unstable();
    let keys: Vec<String> = found.iter().map(|(_, key, _)| key.clone()).collect();
    let (keys, lengths) = (Keys::listed(&keys), found.iter().map(|entry| entry.2).collect());
    let names = found.into_iter().map(|entry| entry.0).collect();
    Ok(Listed { objects: Objects { place, keys, lengths }, names, others })
}
