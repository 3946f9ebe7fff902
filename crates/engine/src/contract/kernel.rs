//! What every kernel fills: its declaration, what it takes, and its loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::contract::declare::ParameterSet;
pub use crate::contract::error::Error;
use crate::contract::parameter::{Checked, Parameter};
use crate::contract::reading::Reading;

/// One measuring loop. A kernel is one file in `kernels/` and one line in [`crate::kernels::TABLE`].
pub trait Kernel: Sync {
    /// What it takes, made by [`parameters!`](crate::parameters).
    type Parameters: ParameterSet;
    /// What it is.
    const DECLARATION: Declaration;
    /// The combinations of some parameters that this machine has; empty where it has all.
    #[must_use]
    fn possible() -> Vec<Value> {
        Vec::new()
    }
    /// Runs once; the name and the parameters come into the reading by themselves.
    ///
    /// # Errors
    /// Why nothing was measured.
    fn run(&self, parameters: &Self::Parameters, stop: &Stop) -> Result<Reading, Error>;
}

/// What a kernel is, beside its parameters.
#[derive(Debug, Clone, Serialize)]
pub struct Declaration {
    /// How `run` calls it, such as `storage_blocks`.
    pub name: &'static str,
    /// One sentence: what it measures.
    pub measures: &'static str,
    /// What one pass is, in the field's word, singular.
    pub operation: &'static str,
    /// What one pass (one operation) does, as `(unit, amount)`: the amount is a number or the name
    /// of a parameter, so that every rate is derived from the count of passes.
    pub pass: &'static [(&'static str, &'static str)],
    /// What a run changes.
    pub writes: Writes,
    /// Parameters by which the user gives a device's data away.
    pub consent: &'static [&'static str],
    /// Whether a reading leaves something behind that changes the next one: files, caches, the far end's memory.
    pub stateful: bool,
    /// Whether the time of a reading grows with a parameter, so that it is not read in rounds with others.
    pub grows: bool,
}

impl Declaration {
    /// One that changes nothing and leaves nothing behind; what differs is set beside it.
    #[must_use]
    pub const fn new(name: &'static str, measures: &'static str, operation: &'static str) -> Self {
        Self {
            name,
            measures,
            operation,
            pass: &[("operations", "1")],
            writes: Writes::Nothing,
            consent: &[],
            stateful: false,
            grows: false,
        }
    }
}

/// A kernel's whole declaration.
#[derive(Debug, Clone, Serialize)]
pub struct KernelInfo {
    /// What it is.
    #[serde(flatten)]
    pub declaration: Declaration,
    /// What it takes.
    pub parameters: Vec<Parameter>,
    /// The combinations of some parameters that this machine has; empty where it has all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub possible: Vec<Value>,
}

/// A kernel in the table: any of them, by its declaration alone.
pub trait Entry: Sync {
    /// How `run` calls it.
    fn name(&self) -> &'static str;
    /// Its declaration, constant for a given machine.
    fn info(&self) -> KernelInfo;
    /// Checks what was `given`, and runs once.
    ///
    /// # Errors
    /// Usage, where the check fails; else why nothing was measured.
    fn measure(&self, given: &Value, stop: &Stop) -> Result<Reading, Error>;
    /// Whether what was `given` can be read, for tests that try the bounds of every parameter.
    #[cfg(any(test, fuzzing))]
    fn check(&self, given: &Value) -> Result<(), Error>;
}

impl<K: Kernel> Entry for K {
    fn name(&self) -> &'static str {
        K::DECLARATION.name
    }

    fn info(&self) -> KernelInfo {
        KernelInfo { declaration: K::DECLARATION, parameters: K::Parameters::declared(), possible: K::possible() }
    }

    fn measure(&self, given: &Value, stop: &Stop) -> Result<Reading, Error> {
        let given = Given::<K>::check(given)?;
        let reading = match self.run(&given.parameters, stop) {
            Err(Error::Machine(_, Some(libc::ECANCELED))) if stop.is_set() => {
                Reading { interrupted: true, ..Reading::default() }
            }
            result => result?,
        };
        Ok(given.name(reading))
    }

    #[cfg(any(test, fuzzing))]
    fn check(&self, given: &Value) -> Result<(), Error> {
        Given::<K>::check(given).map(|_| ())
    }
}

/// What was given to a kernel, checked.
pub struct Given<K: Kernel> {
    /// The parameters as the kernel reads them.
    pub parameters: K::Parameters,
    json: Value,
}

impl<K: Kernel> Given<K> {
    /// Checks it against the declaration, and fills in defaults.
    ///
    /// # Errors
    /// Usage: a name that is not declared, a value of the wrong type or out of bounds, one that is missing.
    pub fn check(given: &Value) -> Result<Self, Error> {
        let checked = Checked::check(K::DECLARATION.name, &K::Parameters::declared(), given)?;
        Ok(Self { parameters: K::Parameters::read(&checked)?, json: checked.into_json() })
    }

    /// The reading with the kernel's name and what was given.
    #[must_use]
    pub fn name(&self, reading: Reading) -> Reading {
        named(K::DECLARATION.name, &self.json, reading)
    }
}

/// [`Given::name`] without its type parameter, compiled once for all kernels.
fn named(kernel: &str, parameters: &Value, reading: Reading) -> Reading {
    Reading { kernel: kernel.into(), parameters: parameters.clone(), ..reading }
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

/// A request to end early, shared with the caller; cheap to read in a loop.
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

    /// Whether the run is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
