//! A survey under way: the tree that it reads, and the reasons for what it could not find out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::tree::Tree;

/// A survey under way: where it reads, and what it could not find out.
pub struct Survey {
    /// Where `/proc` and `/sys` are.
    pub tree: Tree,
    /// What is not known, and why.
    pub unknown: Unknown,
}

impl Survey {
    /// `value`, or `null` with the reason `why` under the dotted path `at`.
    pub fn or<T: Into<Value>>(&self, at: &str, value: Option<T>, why: &str) -> Value {
        self.unknown.or(at, value, why)
    }

    /// A file's text, or `null` with the reason that the file does not exist.
    #[must_use]
    pub fn text_or(&self, at: &str, file: &str) -> Value {
        self.or(at, self.tree.text(file), &format!("{file} is missing or empty"))
    }
}

/// The reasons for what is not known, by dotted path.
#[derive(Default)]
pub struct Unknown(RefCell<BTreeMap<String, String>>);

impl Unknown {
    /// `value`, or `null` with a reason.
    pub fn or<T: Into<Value>>(&self, at: &str, value: Option<T>, why: &str) -> Value {
        if let Some(value) = value {
            return value.into();
        }
        self.note(at, why);
        Value::Null
    }

    /// The reason noted for a path.
    #[must_use]
    pub fn reason(&self, at: &str) -> Option<String> {
        self.0.borrow().get(at).cloned()
    }

    /// All reasons.
    #[must_use]
    pub fn into_reasons(self) -> BTreeMap<String, String> {
        self.0.into_inner()
    }

    /// Notes why something is not known.
    pub fn note(&self, at: &str, why: &str) {
        self.0.borrow_mut().insert(at.to_string(), why.to_string());
    }
}
