//! What the declarations of all types of parameters have, and how they are read.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::contract::error::Error;
use crate::contract::parameter::{Checked, Kind, Parameter, Role, Trait};

/// A declaration that is read as a `T`.
pub trait Declares<T> {
    /// Appends the parameter, which is called `name`.
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>);
    /// Its value.
    ///
    /// # Errors
    /// Usage, where the value does not fit into the type.
    fn read(&self, name: &'static str, from: &Checked) -> Result<T, Error>;
}

/// What all types of parameters have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts {
    pub(super) means: &'static str,
    pub(super) unit: &'static str,
    pub(super) role: Role,
    pub(super) workers: bool,
}

impl Facts {
    pub(super) const fn new(means: &'static str, unit: &'static str) -> Self {
        Self { means, unit, role: Role::Label, workers: false }
    }

    pub(super) fn parameter(&self, name: &'static str, kind: Kind, default: Value) -> Parameter {
        let Self { means, unit, role, workers } = *self;
        let (traits, per_element) = (BTreeMap::new(), BTreeMap::new());
        Parameter { name, means, unit, kind, default, role, workers, traits, per_element, split: "" }
    }

    /// One of some words with their traits, compiled once for the enums of all choices; `default` is a place in `words`.
    pub(super) fn choice(
        &self,
        name: &'static str,
        words: Vec<(&'static str, &'static [Trait])>,
        default: usize,
    ) -> Parameter {
        let choices: Vec<_> = words.iter().map(|word| word.0).collect();
        let default = json!(choices[default]);
        let mut traits = BTreeMap::new();
        traits.extend(words.into_iter().filter(|word| !word.1.is_empty()));
        Parameter { traits, ..self.parameter(name, Kind::Choice { choices }, default) }
    }
}
