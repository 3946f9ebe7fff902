//! Lays a data file out with bytes that do not compress, or finishes one that was begun.

use std::path::PathBuf;

use crate::contract::declare::{integer, required, SEED};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::reading::Reading;
use crate::parameters;
use crate::storage::data::layout::lay_out;

/// The kernel `storage_layout`.
pub struct StorageLayout;

parameters! {
    /// What `storage_layout` takes.
    pub struct Parameters {
        path: PathBuf = required("the file; an existing layout is completed, any other file is never overwritten"),
        size: u64 = integer("size of the file", "B", (1, i64::MAX), 1).required(),
        seed: u64 = SEED.means("seed of the data"),
    }
}

impl Kernel for StorageLayout {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        writes: Writes::File,
        stateful: true,
        ..Declaration::new(
            "storage_layout",
            "sequential writing of an incompressible data file, including the final fsync",
            "block",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        lay_out(&parameters.path, parameters.size, parameters.seed, stop)
    }
}
