//! The machine, one file a resource.

use std::path::Path;

use serde_json::{json, Value};

/// See [`crate::survey()`].
#[must_use]
pub fn survey(_root: &Path, _path: Option<&Path>) -> Value {
    json!({})
}
