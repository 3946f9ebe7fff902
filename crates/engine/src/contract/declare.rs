//! How a kernel declares what it takes: one table, from which its typed values are made, and its choices as enums.
//!
//! A kernel writes each parameter once, as a field of the struct that [`parameters!`](crate::parameters) makes: the
//! field's name is the parameter's, and its type is what the kernel works with. `kernels/idle.rs` is a short example.

use std::path::PathBuf;

use serde_json::{json, Value};

mod choice;
mod facts;

pub use choice::{choice, choice_or, Words};
pub use facts::Declares;
use facts::Facts;

use crate::contract::error::Error;
use crate::contract::parameter::{Checked, Kind, Parameter, Role};

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
