//! The objects of a run: their prefix and their keys.

use crate::contract::kernel::Error;
use crate::object::keys::Keys;

/// Some objects of a bucket.
pub struct Stored {
    /// What all of their keys begin with.
    pub prefix: String,
    /// Their keys.
    pub keys: Keys,
}

impl Stored {
    /// Those that are numbered behind a prefix.
    ///
    /// # Errors
    /// Usage: the prefix is too long.
    pub fn numbered(prefix: &str) -> Result<Self, Error> {
        Ok(Self { prefix: prefix.into(), keys: Keys::numbered(prefix)? })
    }

    /// Those that a listing has found.
    #[must_use]
    pub fn listed(prefix: &str, keys: &[String]) -> Self {
        Self { prefix: prefix.into(), keys: Keys::listed(keys) }
    }
}
