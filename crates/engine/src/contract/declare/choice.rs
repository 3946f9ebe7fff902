//! A parameter that is one of the words of an enum, and the enum.

use std::marker::PhantomData;

use serde_json::json;

use super::facts::{Declares, Facts};
use crate::contract::error::Error;
use crate::contract::parameter::{Checked, Kind, Parameter, PerElement, Trait};

/// One of the words of an enum that [`words!`](crate::words) made.
#[derive(Debug, Clone, Copy)]
pub struct Choice<E: 'static> {
    facts: Facts,
    default: Option<E>,
    split: &'static str,
    /// Those that can be chosen, the first by default; all where there are none.
    only: &'static [E],
    /// What a word does to each element of its arrays, where it is a loop over some.
    per_element: Option<fn(E) -> Option<PerElement>>,
}

/// One of the words of an enum, or the word for none of them, which is the default.
#[derive(Debug, Clone, Copy)]
pub struct OptionalChoice<E> {
    facts: Facts,
    none: &'static str,
    words: PhantomData<E>,
}

/// An enum of the words of a choice; [`words!`](crate::words) fills it.
pub trait Words: Copy + PartialEq + 'static {
    /// Each value, its word, and what the word means.
    const ALL: &'static [(Self, &'static str, &'static [Trait])];

    /// Whether its word means this.
    #[must_use]
    fn is(self, one: Trait) -> bool {
        Self::ALL.iter().any(|&(value, _, traits)| value == self && traits.contains(&one))
    }
}

impl<E: Words> Choice<E> {
    /// Those that can be chosen, in their order.
    fn words(&self) -> Vec<(E, &'static str, &'static [Trait])> {
        if self.only.is_empty() {
            return E::ALL.to_vec();
        }
        self.only.iter().filter_map(|&value| E::ALL.iter().copied().find(|one| one.0 == value)).collect()
    }
}

impl<E: Words> Declares<E> for Choice<E> {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        let words = self.words();
        let default = words.iter().position(|one| Some(one.0) == self.default).unwrap_or(0);
        let of = |value| self.per_element.and_then(|of| of(value));
        let per_element = words.iter().filter_map(|&(value, word, _)| Some((word, of(value)?))).collect();
        let words = words.into_iter().map(|one| (one.1, one.2)).collect();
        into.push(Parameter { per_element, split: self.split, ..self.facts.choice(name, words, default) });
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<E, Error> {
        from.get(name, |value| self.words().iter().find(|one| Some(one.1) == value.as_str()).map(|one| one.0))
    }
}

impl<E: Words> Declares<Option<E>> for OptionalChoice<E> {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        let choices = std::iter::once(self.none).chain(E::ALL.iter().map(|one| one.1)).collect();
        into.push(self.facts.parameter(name, Kind::Choice { choices }, json!(self.none)));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<Option<E>, Error> {
        from.get(name, |value| {
            let word = value.as_str()?;
            let found = E::ALL.iter().find(|one| one.1 == word).map(|one| one.0);
            (found.is_some() || word == self.none).then_some(found)
        })
    }
}

/// One of the words of an enum, the first by default.
#[must_use]
pub const fn choice<E: Copy + 'static>(means: &'static str) -> Choice<E> {
    Choice { facts: Facts::new(means, ""), default: None, split: "", only: &[], per_element: None }
}

/// `none`, the default, or one of the words of an enum.
#[must_use]
pub const fn choice_or<E>(none: &'static str, means: &'static str) -> OptionalChoice<E> {
    OptionalChoice { facts: Facts::new(means, ""), none, words: PhantomData }
}

impl<E: Copy + 'static> Choice<E> {
    /// Replaces the default, which is the first word otherwise.
    #[must_use]
    pub const fn default(mut self, default: E) -> Self {
        self.default = Some(default);
        self
    }

    /// Restricts the choice to these words; the first is the default.
    #[must_use]
    pub const fn only(mut self, only: &'static [E]) -> Self {
        self.only = only;
        self
    }

    /// Declares what each word does to an element of its arrays; none of a word that depends on more.
    #[must_use]
    pub const fn per_element(mut self, of: fn(E) -> Option<PerElement>) -> Self {
        self.per_element = Some(of);
        self
    }

    /// Names the parameter for the share of reads where a word both reads and writes.
    #[must_use]
    pub const fn split(mut self, by: &'static str) -> Self {
        self.split = by;
        self
    }
}
