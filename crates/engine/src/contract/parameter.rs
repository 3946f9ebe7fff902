//! What a kernel takes, as data: each parameter with its type, bounds and role, and the check of what was given.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::contract::error::Error;

/// One parameter of a kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Parameter {
    /// The field's term for it.
    pub name: &'static str,
    /// What it means.
    pub means: &'static str,
    /// The unit of its value, such as `B`, `s`, or empty.
    pub unit: &'static str,
    /// Its type and bounds.
    #[serde(flatten)]
    pub kind: Kind,
    /// The value when it is not given; `null` means that it must be given.
    pub default: Value,
    /// What it means for the load.
    pub role: Role,
    /// Whether each step of a concurrency adds a thread that runs by itself, and not the depth of a queue.
    pub workers: bool,
    /// What the words of a choice mean for a finding or a plan.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub traits: BTreeMap<&'static str, &'static [Trait]>,
    /// What each word does to an element, for a choice of loops over arrays.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub per_element: BTreeMap<&'static str, PerElement>,
    /// The parameter with the share of reads, in per cent, for a choice with a word that both reads and writes.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub split: &'static str,
}

/// The type of a parameter.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Kind {
    /// A whole number within bounds, both included.
    Integer {
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// A number within bounds, both included.
    Number {
        /// The least value.
        min: f64,
        /// The greatest value.
        max: f64,
    },
    /// One of some words.
    Choice {
        /// The words.
        choices: Vec<&'static str>,
    },
    /// Any text, such as a path; may be `null`-able by an empty default.
    Text,
    /// True or false.
    Flag,
    /// A list of whole numbers (such as processor numbers).
    Integers,
}

/// What a parameter means for the load, where a sweep runs along it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Operations in flight: more is more load.
    Concurrency,
    /// Bytes of one operation.
    Size,
    /// Operations or bytes offered a second, whether those before are complete or not: an open loop.
    Rate,
    /// A wait between operations: less is more load.
    Delay,
    /// Anything else: it names or orders points.
    Label,
}

/// What a word of a choice means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trait {
    /// It reads.
    Reads,
    /// It writes.
    Writes,
    /// It gives blocks back.
    Trims,
    /// Blocks in random order.
    Random,
    /// One operation in flight, regardless of the depth.
    Synchronous,
    /// Likewise, unless it bypasses the page cache.
    SynchronousBuffered,
    /// It cannot bypass the page cache.
    PageCache,
}

/// What a loop does to each element of its arrays; every count of bytes and FLOP is derived from that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PerElement {
    /// Arrays that it reads.
    pub reads: u64,
    /// Arrays that it writes.
    pub writes: u64,
    /// Arrays that it stores through the caches without having read them: the hardware reads their lines first.
    pub allocates: u64,
    /// Floating-point operations.
    pub flops: u64,
}

impl PerElement {
    /// Arrays that it goes through.
    #[must_use]
    pub const fn arrays(self) -> u64 {
        self.reads + self.writes
    }
}

/// Checked parameters of one run.
#[derive(Debug, Clone)]
pub struct Checked(Map<String, Value>);

impl Checked {
    /// Checks `given` against the declaration of the kernel called `kernel`, and fills in defaults.
    ///
    /// # Errors
    /// Usage: a name that is not declared, a value of the wrong type or out of bounds, one that is missing.
    pub fn check(kernel: &str, declared: &[Parameter], given: &Value) -> Result<Self, Error> {
        let Value::Object(given) = given else {
            return Err(Error::usage(format!("{kernel}: parameters must be an object")));
        };
        if let Some(unknown) = given.keys().find(|key| !declared.iter().any(|p| p.name == key.as_str())) {
            let known: Vec<_> = declared.iter().map(|p| p.name).collect();
            return Err(Error::usage(format!("{kernel} has no parameter '{unknown}'; known: {}", known.join(", "))));
        }
        let mut checked = Map::new();
        for parameter in declared {
            let value = match given.get(parameter.name) {
                Some(value) if !value.is_null() => value.clone(),
                _ => parameter.default.clone(),
            };
            if value.is_null() {
                return Err(Error::usage(format!("{kernel} needs the parameter '{}'", parameter.name)));
            }
            parameter
                .accepts(&value)
                .map_err(|why| Error::usage(format!("{kernel}: {} = {value}: {why}", parameter.name)))?;
            checked.insert(parameter.name.to_string(), value);
        }
        Ok(Self(checked))
    }

    /// The value of `name`, which `read` takes apart.
    ///
    /// # Errors
    /// Usage, where it was not declared, or `read` has no value for it.
    pub fn get<T>(&self, name: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<T, Error> {
        let value = self.0.get(name).unwrap_or(&Value::Null);
        read(value).ok_or_else(|| Error::usage(format!("{name} = {value}: is not a usable value")))
    }

    /// All of them, as they go into the reading.
    #[must_use]
    pub fn into_json(self) -> Value {
        Value::Object(self.0)
    }
}

impl Parameter {
    fn accepts(&self, value: &Value) -> Result<(), String> {
        match &self.kind {
            Kind::Integer { min, max } => match value.as_i64() {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                Some(_) => Err(format!("must be {min} to {max}")),
                None => Err("must be a whole number".into()),
            },
            Kind::Number { min, max } => match value.as_f64() {
                Some(number) if (*min..=*max).contains(&number) => Ok(()),
                Some(_) => Err(format!("must be {min} to {max}")),
                None => Err("must be a number".into()),
            },
            Kind::Choice { choices } => match value.as_str() {
                Some(word) if choices.contains(&word) => Ok(()),
                _ => Err(format!("must be one of: {}", choices.join(", "))),
            },
            Kind::Text => value.as_str().map(|_| ()).ok_or_else(|| "must be text".into()),
            Kind::Flag => value.as_bool().map(|_| ()).ok_or_else(|| "must be true or false".into()),
            Kind::Integers => match value.as_array() {
                Some(list) if list.iter().all(Value::is_u64) => Ok(()),
                _ => Err("must be a list of whole numbers".into()),
            },
        }
    }
}
