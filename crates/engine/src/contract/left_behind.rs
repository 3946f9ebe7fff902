//! Removes what a run made for itself, and names what could not be removed in its reading or its error.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What could not be removed since the list was last taken: runs clean up where no reading is at hand.
static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Removes `path` by `how`, once more if that fails; what is gone already is as good.
pub fn remove(path: &Path, how: impl Fn() -> io::Result<()>) {
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    // Once more: an error that passes must leave nothing, and a tree is removed name by name.
    match how().or_else(|error| if gone(&error) { Err(error) } else { how() }) {
        Err(error) if !gone(&error) => {
            let says = format!("{} could not be removed: {error}", path.display());
            LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(says);
        }
        _ => {}
    }
}

/// What could not be removed, in one line; none if nothing was left. The first few are named.
#[must_use]
pub fn take() -> Option<String> {
    const NAMED: usize = 3;
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    let more = left.len().saturating_sub(NAMED);
    let named = left.into_iter().take(NAMED).collect::<Vec<_>>().join("; ");
    match (named.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named),
        (false, more) => Some(format!("{named}; and {more} more")),
    }
}
