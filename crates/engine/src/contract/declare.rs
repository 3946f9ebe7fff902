//! How a kernel declares what it takes: one table, from which its typed values are made, and its choices as enums.
//!
//! A kernel writes each parameter once, as a field of the struct that [`parameters!`](crate::parameters) makes: the
//! field's name is the parameter's, and its type is what the kernel works with. `kernels/idle.rs` is a short example.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::path::PathBuf;

use serde_json::{json, Value};

use crate::contract::error::Error;
use crate::contract::parameter::{Checked, Kind, Parameter, PerElement, Role, Trait};

/// What a kernel takes; [`parameters!`](crate::parameters) fills it.
pub trait ParameterSet: Sized {
    /// Appends its parameters in their order.
    fn declare(into: &mut Vec<Parameter>);
    /// Its values.
    ///
    /// # Errors
    /// Usage, where a value does not fit into the type of its field.
    fn read(from: &Checked) -> Result<Self, Error>;
    /// Its parameters in their order.
    #[must_use]
    fn declared() -> Vec<Parameter> {
        let mut list = Vec::new();
        Self::declare(&mut list);
        list
    }
}

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

/// The parameters of another struct in this place, in their order.
pub struct Group;

impl<T: ParameterSet> Declares<T> for Group {
    fn declare(&self, _: &'static str, into: &mut Vec<Parameter>) {
        T::declare(into);
    }
    fn read(&self, _: &'static str, from: &Checked) -> Result<T, Error> {
        T::read(from)
    }
}

/// What all types of parameters have.
#[derive(Debug, Clone, Copy)]
struct Facts {
    means: &'static str,
    unit: &'static str,
    role: Role,
    workers: bool,
}

impl Facts {
    const fn new(means: &'static str, unit: &'static str) -> Self {
        Self { means, unit, role: Role::Label, workers: false }
    }

    fn parameter(&self, name: &'static str, kind: Kind, default: Value) -> Parameter {
        let Self { means, unit, role, workers } = *self;
        let (traits, per_element) = (BTreeMap::new(), BTreeMap::new());
        Parameter { name, means, unit, kind, default, role, workers, traits, per_element, split: "" }
    }

    /// One of some words with their traits, compiled once for the enums of all choices; `default` is a place in `words`.
    fn choice(&self, name: &'static str, words: Vec<(&'static str, &'static [Trait])>, default: usize) -> Parameter {
        let choices: Vec<_> = words.iter().map(|word| word.0).collect();
        let default = json!(choices[default]);
        let mut traits = BTreeMap::new();
        traits.extend(words.into_iter().filter(|word| !word.1.is_empty()));
        Parameter { traits, ..self.parameter(name, Kind::Choice { choices }, default) }
    }
}

/// A whole number within bounds, both included.
#[derive(Debug, Clone, Copy)]
pub struct Integer {
    facts: Facts,
    bounds: (i64, i64),
    default: Option<i64>,
}

/// A number within bounds, both included.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    facts: Facts,
    bounds: (f64, f64),
    default: f64,
}

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

/// One of some words that no loop distinguishes.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    facts: Facts,
    words: &'static [&'static str],
}

/// Any text.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    facts: Facts,
    default: Option<&'static str>,
}

/// Yes or no.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    facts: Facts,
    default: bool,
}

/// A list of whole numbers; empty by default.
#[derive(Debug, Clone, Copy)]
pub struct Integers {
    facts: Facts,
}

/// A whole number within bounds, both included.
#[must_use]
pub const fn integer(means: &'static str, unit: &'static str, bounds: (i64, i64), default: i64) -> Integer {
    Integer { facts: Facts::new(means, unit), bounds, default: Some(default) }
}

/// A number within bounds, both included.
#[must_use]
pub const fn number(means: &'static str, unit: &'static str, bounds: (f64, f64), default: f64) -> Number {
    Number { facts: Facts::new(means, unit), bounds, default }
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

/// One of some words that no loop distinguishes, the first by default.
#[must_use]
pub const fn word(means: &'static str, words: &'static [&'static str]) -> Word {
    Word { facts: Facts::new(means, ""), words }
}

/// Yes or no.
#[must_use]
pub const fn flag(means: &'static str, default: bool) -> Flag {
    Flag { facts: Facts::new(means, ""), default }
}

/// Any text.
#[must_use]
pub const fn text(means: &'static str, default: &'static str) -> Text {
    Text { facts: Facts::new(means, ""), default: Some(default) }
}

/// A text that must be given.
#[must_use]
pub const fn required(means: &'static str) -> Text {
    Text { facts: Facts::new(means, ""), default: None }
}

macro_rules! with_meaning {
    ($($kind:ty),+) => {$(
        impl $kind {
            /// Replaces the description.
            #[must_use]
            pub const fn means(mut self, means: &'static str) -> Self {
                self.facts.means = means;
                self
            }

            /// Sets the role for the load; the default is a label.
            #[must_use]
            pub const fn role(mut self, role: Role) -> Self {
                self.facts.role = role;
                self
            }
        }
    )+};
}
with_meaning!(Integer, Number);

impl Integers {
    /// Replaces the description.
    #[must_use]
    pub const fn means(mut self, means: &'static str) -> Self {
        self.facts.means = means;
        self
    }
}

impl Integer {
    /// Removes the default: a value is required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.default = None;
        self
    }

    /// Replaces the bounds.
    #[must_use]
    pub const fn within(mut self, min: i64, max: i64) -> Self {
        self.bounds = (min, max);
        self
    }

    /// A concurrency of which each step adds a thread that runs by itself.
    #[must_use]
    pub const fn workers(mut self) -> Self {
        self.facts.workers = true;
        self.role(Role::Concurrency)
    }
}

impl Number {
    /// Replaces the default.
    #[must_use]
    pub const fn default(mut self, default: f64) -> Self {
        self.default = default;
        self
    }

    /// Replaces the bounds.
    #[must_use]
    pub const fn within(mut self, min: f64, max: f64) -> Self {
        self.bounds = (min, max);
        self
    }
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

macro_rules! reads_integers {
    ($($type:ty),+) => {$(
        impl Declares<$type> for Integer {
            fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
                into.push(self.parameter(name));
            }
            fn read(&self, name: &'static str, from: &Checked) -> Result<$type, Error> {
                from.get(name, |value| value.as_i64().and_then(|number| <$type>::try_from(number).ok()))
            }
        }
    )+};
}
reads_integers!(u64, usize, u32, u16, i64);

/// None where it is negative.
impl Declares<Option<usize>> for Integer {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        into.push(self.parameter(name));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<Option<usize>, Error> {
        from.get(name, |value| value.as_i64().map(|number| usize::try_from(number).ok()))
    }
}

impl Integer {
    fn parameter(&self, name: &'static str) -> Parameter {
        let (min, max) = self.bounds;
        self.facts.parameter(name, Kind::Integer { min, max }, json!(self.default))
    }
}

impl Declares<f64> for Number {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        let (min, max) = self.bounds;
        into.push(self.facts.parameter(name, Kind::Number { min, max }, json!(self.default)));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<f64, Error> {
        from.get(name, Value::as_f64)
    }
}

impl Declares<bool> for Flag {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        into.push(self.facts.parameter(name, Kind::Flag, json!(self.default)));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<bool, Error> {
        from.get(name, Value::as_bool)
    }
}

impl Declares<Vec<u64>> for Integers {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        into.push(self.facts.parameter(name, Kind::Integers, json!([])));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<Vec<u64>, Error> {
        from.get(name, |value| value.as_array().and_then(|list| list.iter().map(Value::as_u64).collect()))
    }
}

macro_rules! reads_texts {
    ($($type:ty = $of:expr),+) => {$(
        impl Declares<$type> for Text {
            fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
                into.push(self.facts.parameter(name, Kind::Text, json!(self.default)));
            }
            fn read(&self, name: &'static str, from: &Checked) -> Result<$type, Error> {
                from.get(name, |value| value.as_str().map($of))
            }
        }
    )+};
}
// An empty text is no path.
reads_texts!(
    String = String::from,
    PathBuf = PathBuf::from,
    Option<PathBuf> = |text| Some(text).filter(|text| !text.is_empty()).map(PathBuf::from)
);

impl Declares<&'static str> for Word {
    fn declare(&self, name: &'static str, into: &mut Vec<Parameter>) {
        into.push(self.facts.parameter(name, Kind::Choice { choices: self.words.to_vec() }, json!(self.words[0])));
    }
    fn read(&self, name: &'static str, from: &Checked) -> Result<&'static str, Error> {
        from.get(name, |value| self.words.iter().copied().find(|&word| Some(word) == value.as_str()))
    }
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

/// Makes the struct of a kernel's parameters from one table: `name: type = declaration`.
macro_rules! parameters {
    ($(#[$about:meta])* $visible:vis struct $set:ident {
        $($(#[$field:meta])* $name:ident: $type:ty = $declared:expr),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        // One switch each, as the command line has them.
        #[allow(clippy::struct_excessive_bools, missing_docs)]
        $visible struct $set {
            $($(#[$field])* pub $name: $type,)+
        }

        impl $crate::contract::declare::ParameterSet for $set {
            fn declare(into: &mut Vec<$crate::contract::parameter::Parameter>) {
                $($crate::contract::declare::Declares::<$type>::declare(&$declared, stringify!($name), into);)+
            }
            fn read(from: &$crate::contract::parameter::Checked) -> Result<Self, $crate::contract::error::Error> {
                Ok(Self { $($name: $crate::contract::declare::Declares::<$type>::read(&$declared, stringify!($name), from)?,)+ })
            }
        }
    };
}

/// Makes the enum of a choice: `Value = "word"`, with the word's traits after a colon where it has any; or, with `named`
/// before the braces, `Value word` for words that are names.
macro_rules! words {
    ($(#[$about:meta])* $visible:vis enum $words:ident {
        $($(#[$each:meta])* $value:ident = $word:literal $(: $($is:ident)+)?),+ $(,)?
    }) => {
        $crate::words! { @ [$(#[$about])* $visible] $words $([$(#[$each])* $value, $word, $($($is)+)?])+ }
    };
    ($(#[$about:meta])* $visible:vis enum $words:ident named {
        $($(#[$each:meta])* $value:ident $word:ident),+ $(,)?
    }) => {
        $crate::words! { @ [$(#[$about])* $visible] $words $([$(#[$each])* $value, stringify!($word),])+ }
    };
    (@ [$(#[$about:meta])* $visible:vis] $words:ident
        $([$(#[$each:meta])* $value:ident, $word:expr, $($is:ident)*])+
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        $visible enum $words {
            $($(#[$each])* $value,)+
        }

        impl $words {
            /// Its word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }

        impl ::serde::Serialize for $words {
            fn serialize<S: ::serde::Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
                into.serialize_str(self.word())
            }
        }

        impl $crate::contract::declare::Words for $words {
            const ALL: &'static [(Self, &'static str, &'static [$crate::contract::parameter::Trait])] =
                &[$((Self::$value, $word, &[$($crate::contract::parameter::Trait::$is,)*]),)+];
        }
    };
}

pub(crate) use {parameters, words};

/// Threads that measure at once.
pub const THREADS: Integer = integer("number of threads", "", (1, 1024), 1).workers();
/// How long is measured.
pub const RUNTIME: Number = number("length of the timed region", "s", (0.001, 86_400.0), 1.0);
/// How often throughput is noted over time.
pub const INTERVAL_S: Number = number("length of a sampling interval", "s", (0.001, 3600.0), 0.1);
/// Where threads run.
pub const CPUS: Integers =
    Integers { facts: Facts::new("CPUs to pin to, thread i to the i-th; empty for all allowed", "") };
/// What decides everything that is drawn at random.
pub const SEED: Integer = integer("seed of all random choices", "", (0, i64::MAX), 1);
