//! The objects of a run: their prefix and their keys.

use std::path::Path;

use crate::contract::kernel::Error;
use crate::object::keys::Keys;

/// Some objects of a bucket.
pub struct Stored {
    /// What all of their keys begin with.
    pub prefix: String,
    /// Their keys.
    pub keys: Keys,
    /// Their lengths, where they have several.
    pub lengths: Vec<u64>,
}

impl Stored {
    /// Those that are numbered behind a prefix.
    ///
    /// # Errors
    /// Usage: the prefix is too long.
    pub fn numbered(prefix: &str) -> Result<Self, Error> {
        Ok(Self { prefix: prefix.into(), keys: Keys::numbered(prefix)?, lengths: Vec::new() })
    }

    /// Those that a listing has found.
    #[must_use]
    pub fn listed(prefix: &str, keys: &[String]) -> Self {
        Self { prefix: prefix.into(), keys: Keys::listed(keys), lengths: Vec::new() }
    }

    /// Those of some found below a prefix, each with its length, whose names have this ending.
    ///
    /// # Errors
    /// Usage: there are none.
    pub fn existing(prefix: &str, mut found: Vec<(String, u64)>, ending: &str) -> Result<Self, Error> {
        found.retain(|(key, _)| Path::new(key).extension().is_some_and(|known| known == ending));
        if found.is_empty() {
            return Err(Error::usage(format!("there is no .{ending} object below {prefix}")));
        }
        let (keys, lengths): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok(Self { lengths, ..Self::listed(prefix, &keys) })
    }
}
