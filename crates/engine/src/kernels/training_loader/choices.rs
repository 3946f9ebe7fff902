//! What the loader takes: its data set and load, its order, what it makes of a file, what becomes of the page cache.

use crate::contract::declare::{choice, flag, integer, number, text, Group};
use crate::contract::parameter::Role;
use crate::training::dataset::DatasetParameters;
use crate::{parameters, words};

words! {
    /// The order in which an epoch goes through the files.
    pub enum Order {
        /// Sorted, as DLIO does.
        Dlio = "dlio",
        /// Random, another order each epoch.
        Shuffled = "shuffled",
    }
}

words! {
    /// What is made of what was read.
    pub enum Parse {
        /// Each format is checked by its checksums.
        Full = "full",
        /// Nothing.
        Raw = "raw",
    }
}

words! {
    /// What becomes of the page cache first.
    pub enum Cache {
        /// It stays as it is.
        Keep = "keep",
        /// It is emptied of the files.
        Drop = "drop",
        /// It is filled with them.
        Warm = "warm",
    }
}

parameters! {
    /// What `training_loader` takes.
    pub struct Parameters {
        dataset: DatasetParameters = Group,
        accelerators: u64 = integer("emulated accelerators, one rank each", "", (1, 4096), 1).role(Role::Concurrency),
        batch_size: u64 = integer("samples per batch", "", (1, 1 << 32), 7),
        read_threads: u64 = integer("reader threads per accelerator; 0 reads in the accelerator's own \
            thread", "", (0, 256), 4).role(Role::Concurrency),
        prefetch: u64 = integer("batches that each reader prefetches", "", (1, 1024), 2).role(Role::Concurrency),
        epochs: u64 = integer("number of passes over the data set", "", (1, 10_000), 5),
        steps: u64 = integer("most steps per epoch; 0 for all", "", (0, 1 << 40), 0),
        compute: f64 = number("compute time of an accelerator per batch", "s", (0.0, 3600.0), 0.323),
        runtime: f64 = number("time limit, at the end of a step; 0 for none", "s", (0.0, 1e7), 0.0),
        order: Order = choice("files in sorted order, or a new random order each epoch"),
        parse: Parse = choice("verify each format's checksums, or only read"),
        transfer_size: u64 = integer("size of one read", "B", (4096, 1 << 30), 512 << 10).role(Role::Size),
        read_columns: usize = integer("parquet: number of columns read; 0 for all", "", (0, 10_000), 0),
        direct: bool = flag("bypass the page cache (O_DIRECT)", false),
        cache: Cache = choice("page cache: leave as it is, drop the files first, or fill it"),
        subset: usize = integer("read only this many files; 0 for all", "", (0, 1 << 32), 0),
        barrier: bool = flag("synchronise accelerators after each step", true),
        #[allow(dead_code, reason = "only recorded in the reading")]
        au_pass: f64 = number("accelerator utilisation needed to pass; recorded, not used", "", (0.0, 1.0), 0.9),
        #[allow(dead_code, reason = "only recorded in the reading")]
        workload: String = text("name of the workload; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        accelerator: String = text("name of the emulated accelerator; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        storage: String = text("name of the storage; recorded, not used", ""),
    }
}
