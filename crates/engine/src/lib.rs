//! The engine: measures, and knows no Python, no plan and no ceiling.
//!
//! Three verbs are all that it offers: [`survey()`] describes the machine, [`kernels()`] lists the
//! measuring loops with their parameters, [`run`] runs one of them and returns a [`Reading`].

pub mod agent;
pub mod clock;
pub mod compute;
pub mod cpu_time;
pub mod crew;
pub mod declare;
pub mod error;
#[cfg(test)]
#[path = "../tests/here/mod.rs"]
mod here;
pub mod histogram;
pub mod kernel;
pub mod kernels;
pub mod memory;
pub mod network;
pub mod parameter;
pub mod reading;
pub mod rng;
pub mod start;
pub mod storage;
pub mod survey;
pub mod sys;
pub mod team;
pub mod training;

use std::path::Path;

pub use kernel::{Entry, Error, Kernel, KernelInfo, Stop};
pub use reading::Reading;

/// Describes the machine as a JSON object (see `survey`), with the storage behind `path`.
///
/// `root` is where `/sys` and `/proc` are looked up: `/` for this machine, or a recorded tree (a copied
/// directory, or a text file as `survey::tree` describes it), for which nothing is timed and no system
/// call about this machine is made.
#[must_use]
pub fn survey(root: &Path, path: Option<&Path>) -> serde_json::Value {
    survey::survey(root, path)
}

/// Lists every kernel: its name, what it measures, its parameters, and what one pass does.
#[must_use]
pub fn kernels() -> Vec<KernelInfo> {
    kernels::TABLE.iter().map(|kernel| kernel.info()).collect()
}

/// Runs the kernel called `name` once with `parameters` (a JSON object) until it ends or `stop` is set.
///
/// # Errors
/// [`Error::Usage`] for an unknown kernel or parameter, or a value out of range: nothing was measured.
/// [`Error::Machine`] for what the machine refused before the timed region began. Faults inside the
/// timed region are counted in the [`Reading`], which is then partial, and are not errors.
pub fn run(name: &str, parameters: &serde_json::Value, stop: &Stop) -> Result<Reading, Error> {
    let found = kernels::TABLE.iter().find(|kernel| kernel.name() == name);
    let kernel = found.ok_or_else(|| {
        let known: Vec<_> = kernels::TABLE.iter().map(|kernel| kernel.name()).collect();
        Error::usage(format!("no kernel is called '{name}'; there are: {}", known.join(", ")))
    })?;
    kernel.measure(parameters, stop)
}
