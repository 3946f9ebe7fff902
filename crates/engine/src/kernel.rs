//! What every kernel fills: its declaration (parameters, and what one pass does) and its loop.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::reading::Reading;

/// One measuring loop. A kernel is one file in `kernels/` and one line in [`crate::kernels::TABLE`].
pub trait Kernel: Sync {
    /// Its name, parameters and what one pass does; constant for a given machine.
    fn info(&self) -> KernelInfo;
    /// Runs once. `parameters` holds every declared parameter, checked and with defaults filled in.
    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error>;
}

/// The declaration of a kernel.
#[derive(Debug, Clone, Serialize)]
pub struct KernelInfo {
    /// How `run` calls it, such as `storage_blocks`.
    pub name: &'static str,
    /// One sentence: what it measures.
    pub measures: &'static str,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// What one pass (one operation) does, as `(unit, amount)`: the amount is a number or the name
    /// of a parameter, so that every rate is derived from the count of passes.
    pub pass: Vec<(&'static str, &'static str)>,
    /// What one pass is, in the field's word, singular.
    pub operation: &'static str,
    /// What a run changes.
    pub writes: Writes,
    /// Parameters by which the user gives a device's data away.
    pub consent: &'static [&'static str],
    /// Whether a reading leaves something behind that changes the next one: files, caches, the far end's memory.
    pub stateful: bool,
    /// Whether the time of a reading grows with a parameter, so that it is not read in rounds with others.
    pub grows: bool,
}

impl KernelInfo {
    /// One that changes nothing and leaves nothing behind; what differs is set beside it.
    #[must_use]
    pub fn new(name: &'static str, measures: &'static str, operation: &'static str) -> Self {
        Self {
            name,
            measures,
            parameters: Vec::new(),
            pass: vec![("operations", "1")],
            operation,
            writes: Writes::Nothing,
            consent: &[],
            stateful: false,
            grows: false,
        }
    }
}

/// What a run of a kernel changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Nothing.
    Nothing,
    /// The file at `path`, or new ones beside it.
    File,
    /// Files below the folder `path`.
    Folder,
    /// The file at `path`, or a raw device with the parameters in `consent`.
    Device,
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
    /// Of a concurrency: whether each step adds a thread that runs by itself, and not the depth of a queue.
    pub workers: bool,
    /// Of a choice: what its words mean for a finding or a plan, such as `reads` or `synchronous`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub traits: BTreeMap<&'static str, &'static [&'static str]>,
    /// Of a choice with a word that both reads and writes: the parameter with the share of reads, in per cent.
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

/// Checked parameters of one run.
#[derive(Debug, Clone)]
pub struct Parameters(Map<String, Value>);

impl Parameters {
    /// Holds `given` against the declaration and fills in defaults.
    pub fn check(info: &KernelInfo, given: &Value) -> Result<Self, Error> {
        let Value::Object(given) = given else {
            return Err(Error::usage(format!("{}: parameters must be an object", info.name)));
        };
        if let Some(unknown) = given.keys().find(|key| !info.parameters.iter().any(|p| p.name == key.as_str())) {
            let known: Vec<_> = info.parameters.iter().map(|p| p.name).collect();
            return Err(Error::usage(format!(
                "{} has no parameter '{unknown}'; it has: {}",
                info.name,
                known.join(", ")
            )));
        }
        let mut checked = Map::new();
        for parameter in &info.parameters {
            let value = match given.get(parameter.name) {
                Some(value) if !value.is_null() => value.clone(),
                _ => parameter.default.clone(),
            };
            if value.is_null() {
                return Err(Error::usage(format!("{} needs the parameter '{}'", info.name, parameter.name)));
            }
            parameter
                .accepts(&value)
                .map_err(|why| Error::usage(format!("{}: {} = {value}: {why}", info.name, parameter.name)))?;
            checked.insert(parameter.name.to_string(), value);
        }
        Ok(Self(checked))
    }

    /// A whole number; 0 if `name` was not declared as one.
    #[must_use]
    pub fn integer(&self, name: &str) -> u64 {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    /// A whole number that may be negative; 0 if `name` was not declared as one.
    #[must_use]
    pub fn signed(&self, name: &str) -> i64 {
        self.0.get(name).and_then(Value::as_i64).unwrap_or(0)
    }

    /// A number; 0 if `name` was not declared as one.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// A word or text; empty if `name` was not declared as one.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// A flag; false if `name` was not declared as one.
    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// A list of whole numbers; empty if `name` was not declared as one.
    #[must_use]
    pub fn integers(&self, name: &str) -> Vec<u64> {
        self.0
            .get(name)
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_u64).collect())
            .unwrap_or_default()
    }

    /// All of them, as they go into the reading.
    #[must_use]
    pub fn as_json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

impl Parameter {
    /// With this role; [`Role::Label`] where none is given.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// A concurrency of which each step adds a thread that runs by itself.
    #[must_use]
    pub fn workers(mut self) -> Self {
        self.workers = true;
        self.role(Role::Concurrency)
    }

    /// With what its words mean.
    #[must_use]
    pub fn traits(mut self, traits: &[(&'static str, &'static [&'static str])]) -> Self {
        self.traits = traits.iter().copied().collect();
        self
    }

    /// With the parameter that says the share of reads where a word both reads and writes.
    #[must_use]
    pub fn split(mut self, by: &'static str) -> Self {
        self.split = by;
        self
    }

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

/// A request to end early, shared with whoever asked for the run; cheap to read in a loop.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// One that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the run to end at its next look.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the run was asked to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a run gave no reading.
#[derive(Debug)]
pub enum Error {
    /// What was asked for cannot be: an unknown name, a value out of range.
    Usage(String),
    /// What the machine refused before the timed region began, with the `errno` where there is one.
    Machine(String, Option<i32>),
}

impl Error {
    /// A mistake in what was asked.
    pub fn usage(says: impl Into<String>) -> Self {
        Self::Usage(says.into())
    }

    /// A refusal by the machine; `doing` says what was tried, such as `open /data/x`.
    pub fn machine(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        Self::Machine(format!("{doing}: {error}"), error.raw_os_error())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(says) | Self::Machine(says, _) => formatter.write_str(says),
        }
    }
}

impl std::error::Error for Error {}
