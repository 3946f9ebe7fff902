//! Names of many small files: how many are made, looked up, listed, changed and removed a second (as mdtest has them).

use std::path::PathBuf;

use crate::contract::declare::{choice, integer, number, required, CPUS, INTERVAL_S, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::storage::metadata::{MetadataJob, Operation};
use crate::{parameters, words};

/// The kernel `storage_metadata`.
pub struct StorageMetadata;

words! {
    /// Whose directories contain the files.
    pub enum Directories {
        /// Each thread's own.
        Unique = "unique",
        /// The same for all.
        Shared = "shared",
    }
}

words! {
    /// What is made durable after each change.
    pub enum Fsync {
        /// Nothing.
        None = "none",
        /// The file.
        File = "file",
        /// The file and its directory.
        Directory = "directory",
    }
}

parameters! {
    /// What `storage_metadata` takes.
    pub struct Parameters {
        path: PathBuf = required("directory for the tree, or a file in it; existing files are kept"),
        operation: Operation = choice("timed operation; readdir lists a whole directory"),
        nrfiles: u64 = integer("files per thread", "", (1, 10_000_000), 1000),
        filesize: usize = integer("size of each file", "B", (0, 1 << 30), 4096).role(Role::Size),
        depth: u32 = integer("levels of directories, four per level; files are in the lowest", "", (0, 6), 0),
        numjobs: usize = THREADS.means("threads"),
        directories: Directories = choice("separate directories for each thread, or shared ones"),
        fsync: Fsync = choice("sync after each change: nothing, the file, or the file and its directory"),
        runtime: f64 = number("time limit; stat, open, readdir and rename repeat until then; 0 for one \
            pass", "s", (0.0, 604_800.0), 1.0),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS.means("CPUs to run on, one thread each in turn; empty for any"),
    }
}

impl Kernel for StorageMetadata {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        writes: Writes::Folder,
        stateful: true,
        ..Declaration::new(
            "storage_metadata",
            "metadata operations on many small files: create, stat, open, list, rename, unlink",
            "operation",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { ref path, operation, directories, fsync, .. } = *parameters;
        let job = MetadataJob {
            path: if path.is_file() { path.parent().unwrap_or(path) } else { path }.to_path_buf(),
            operation,
            files: parameters.nrfiles,
            size: parameters.filesize,
            depth: parameters.depth,
            jobs: parameters.numjobs,
            shared: directories == Directories::Shared,
            sync_file: fsync != Fsync::None,
            sync_directory: fsync == Fsync::Directory,
            runtime_s: parameters.runtime,
            interval_s: parameters.interval_s,
            cpus: parameters.cpus.clone(),
        };
        job.run(stop)
    }
}
