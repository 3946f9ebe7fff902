//! Names of many small files: how many are made, looked up, listed, changed and removed a second (as mdtest has them).

use std::path::Path;

use crate::declare::{choice, cpus, integer, interval_s, number, path};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::metadata::{MetadataJob, Operation};

const OPERATIONS: [&str; 6] = ["create", "stat", "open", "readdir", "rename", "unlink"];

/// See the module.
pub struct StorageMetadata;

impl Kernel for StorageMetadata {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_metadata",
            measures: "names of many small files in a tree of its own: made, looked up, listed, changed, removed",
            parameters: vec![
                path("a directory to make the tree in, or a file in it; what is there stays"),
                choice("operation", "what is timed; readdir lists a whole directory an operation", &OPERATIONS),
                integer("nrfiles", "files a thread", "", (1, 10_000_000), 1000),
                integer("filesize", "length of each file", "B", (0, 1 << 30), 4096),
                integer("depth", "levels of directories, four in each; files lie in the lowest", "", (0, 6), 0),
                integer("numjobs", "threads", "", (1, 1024), 1),
                choice(
                    "directories",
                    "each thread in directories of its own, or all in the same",
                    &["unique", "shared"],
                ),
                choice(
                    "fsync",
                    "what is made durable after each change: nothing, the file, or the file and its directory",
                    &["none", "file", "directory"],
                ),
                number(
                    "runtime",
                    "no longer than this; stat, open, readdir and rename go on for it; 0 for one pass",
                    "s",
                    (0.0, 604_800.0),
                    1.0,
                ),
                interval_s(),
                cpus("processors to run on, one thread each in turn; empty for any"),
            ],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let path = Path::new(parameters.text("path"));
        let name = parameters.text("operation");
        let fsync = parameters.text("fsync");
        let job = MetadataJob {
            path: if path.is_file() { path.parent().unwrap_or(path) } else { path }.to_path_buf(),
            operation: Operation::named(name),
            name: OPERATIONS.iter().copied().find(|one| *one == name).unwrap_or("stat"),
            files: parameters.integer("nrfiles"),
            size: parameters.integer("filesize") as usize,
            depth: parameters.integer("depth") as u32,
            jobs: parameters.integer("numjobs") as usize,
            shared: parameters.text("directories") == "shared",
            sync_file: fsync != "none",
            sync_directory: fsync == "directory",
            runtime_s: parameters.number("runtime"),
            interval_s: parameters.number("interval_s"),
            cpus: parameters.integers("cpus"),
        };
        Ok(Reading { kernel: "storage_metadata".into(), parameters: parameters.as_json(), ..job.run(stop)? })
    }
}
