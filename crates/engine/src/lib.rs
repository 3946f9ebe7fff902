//! The engine: measures, and knows no Python, no plan and no ceiling.
//!
//! Three verbs are all that it offers: [`survey()`] describes the machine, [`kernels()`] lists the
//! measuring loops with their parameters, [`run`] runs one of them and returns a [`Reading`].

pub mod agent;
mod contract;
#[cfg(any(test, fuzzing))]
mod fuzzing;
mod gpu;
#[cfg(test)]
#[path = "../tests/here/mod.rs"]
mod here;
mod kernels;
mod loops;
mod network;
mod object;
mod safe_files;
mod storage;
mod survey;
mod sys;
mod timing;
mod training;

use std::path::Path;

pub use agent::measure;
use contract::declare::{parameters, words};
pub use contract::kernel::{Error, KernelInfo, Stop};
pub use contract::reading::Reading;
pub use network::{chunks, receiver};
pub use sys::guard;
pub use timing::histogram::unpacked;

/// What integration tests and examples use besides the verbs; no part of the interface.
#[doc(hidden)]
pub mod parts {
    #[cfg(fuzzing)]
    pub use crate::fuzzing::targets::TARGETS;
    pub use crate::loops::memory::loops::wide;
    pub use crate::network::server::{Server, Serving};
    pub use crate::object::checksum::Sum;
    pub use crate::object::options::Checksum;
    pub use crate::storage::integrity::journal::Journal;
    pub use crate::storage::integrity::ledger::{Entry, Ledger};
    pub use crate::storage::integrity::verify::seal;
    pub use crate::survey::of_tree;
    pub use crate::survey::tree::Tree;
    pub use crate::sys::memory::mark;
    pub use crate::sys::words::Words;
    pub use crate::timing::clock::{now_ns, Clock};
    pub use crate::timing::histogram::Histogram;
    pub use crate::timing::rng::mix;
}

/// Describes the machine as a JSON object (see `survey`), with the storage behind `path`.
///
/// `root` is where `/sys` and `/proc` are looked up: `/` for this machine, or a recorded tree (a copied
/// directory, or a text file as `survey::tree` describes it), for which nothing is timed and no system
/// call about this machine is made.
#[must_use]
pub fn survey(root: &Path, path: Option<&Path>) -> serde_json::Value {
    survey::survey(root, path)
}

/// The number of the processor that the calling thread is on; it may be another one by the next instruction.
#[must_use]
pub fn processor() -> usize {
    rustix::thread::sched_getcpu()
}

/// Prepares a process that will measure: begins to watch what others do on this machine, so that a survey soon after need
/// not wait for it, and lets threads share what is limited.
pub fn watch() {
    sys::heap::spare_address_space();
    survey::conditions::watch();
}

/// Lets the signals that end a process set `stop` instead; a second one ends the process at once.
///
/// Call it before any other thread is started: they inherit which signals interrupt them.
///
/// # Errors
/// Where the system refuses to keep them back, or a thread that waits for them.
pub fn stop_on_signals(stop: &Stop) -> std::io::Result<()> {
    let (ending, stop) = (sys::signals::Ending::blocked()?, stop.clone());
    std::thread::Builder::new().name("hwdyno-signals".into()).spawn(move || {
        while let Some(signal) = ending.next() {
            if stop.is_set() {
                sys::exit::at_once(sys::exit::STATUS_OF_SIGNAL + signal);
            }
            stop.set();
        }
    })?;
    Ok(())
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
        Error::usage(format!("no kernel is called '{name}'; known: {}", known.join(", ")))
    })?;
    let _memory = sys::heap::Use::new();
    match (kernel.measure(parameters, stop), contract::left_behind::take()) {
        (Ok(mut reading), Some(says)) => {
            reading.note("left_behind", says);
            Ok(reading)
        }
        (Err(error), Some(says)) => Err(error.also(&says)),
        (result, None) => result,
    }
}
