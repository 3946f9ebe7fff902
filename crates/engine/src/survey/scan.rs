//! A survey under way: the tree that it reads, and the reasons for what it could not find out.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::tree::{Ranges, Tree, MAX_NUMBERS};

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

    /// A file's list of processors, if there is one; one that no kernel could have is refused, with the reason under `at`.
    pub fn processors(&self, at: &str, file: &str) -> Option<Ranges> {
        self.listed(at, file, &self.tree.text(file)?)
    }

    /// The same, of the text that `file` has.
    pub fn listed(&self, at: &str, file: &str, list: &str) -> Option<Ranges> {
        let ranges = Ranges::of(list);
        if ranges.is_none() {
            self.unknown
                .note(at, &format!("{file} lists more than {MAX_NUMBERS} processors, more than any kernel has"));
        }
        ranges
    }

    /// Keeps the first `most`; that there are more is noted under `at`.
    pub fn at_most<T>(&self, at: &str, all: &mut Vec<T>, most: usize) {
        if all.len() > most {
            self.unknown.note(at, &format!("the system lists {}; the first {most} are described", all.len()));
            all.truncate(most);
        }
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
    /// `value`, or `null` with a reason: the one that was noted already, if there is one.
    pub fn or<T: Into<Value>>(&self, at: &str, value: Option<T>, why: &str) -> Value {
        if let Some(value) = value {
            return value.into();
        }
        self.0.borrow_mut().entry(at.to_string()).or_insert_with(|| why.to_string());
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
