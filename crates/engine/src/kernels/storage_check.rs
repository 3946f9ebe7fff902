//! Blocks of a run that was cut short, compared with its journal of acknowledged writes.

use std::path::PathBuf;

use crate::contract::declare::{choice, required, text};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::Reading;
use crate::parameters;
use crate::storage::integrity::check::{Check, Interruption};

/// The kernel `storage_check`.
pub struct StorageCheck;

parameters! {
    /// What `storage_check` takes.
    pub struct Parameters {
        journal: PathBuf = required("the journal of storage_blocks"),
        path: Option<PathBuf> = text("the file or device; empty for the one that the journal names", ""),
        after: Interruption = choice("kill: all acknowledged writes must be there; power_cut: all writes that a sync \
            had covered"),
    }
}

impl Kernel for StorageCheck {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new(
            "storage_check",
            "whether all writes acknowledged before a crash are there; reads only",
            "block",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { journal, path, after } = parameters.clone();
        Check { journal, path, interruption: after }.run(stop)
    }
}
