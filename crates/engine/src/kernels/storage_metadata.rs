//! Names of many small files: how many are made, looked up, listed, changed and removed a second (as mdtest has them).

use std::path::Path;

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::names::{Names, Operation};

const OPERATIONS: [&str; 6] = ["create", "stat", "open", "readdir", "rename", "unlink"];

/// See the module.
pub struct StorageMetadata;

fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    Parameter { name, means, unit, kind, default }
}

fn count(name: &'static str, means: &'static str, unit: &'static str, min: i64, max: i64, default: i64) -> Parameter {
    parameter(name, means, unit, Kind::Integer { min, max }, json!(default))
}

fn choice(name: &'static str, means: &'static str, choices: &[&'static str]) -> Parameter {
    parameter(name, means, "", Kind::Choice { choices: choices.to_vec() }, json!(choices[0]))
}

impl Kernel for StorageMetadata {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_metadata",
            measures: "names of many small files in a tree of its own: made, looked up, listed, changed, removed",
            parameters: vec![
                parameter(
                    "path",
                    "a directory to make the tree in, or a file in it; what is there stays",
                    "",
                    Kind::Text,
                    Value::Null,
                ),
                choice("operation", "what is timed; readdir lists a whole directory an operation", &OPERATIONS),
                count("nrfiles", "files a thread", "", 1, 10_000_000, 1000),
                count("filesize", "length of each file", "B", 0, 1 << 30, 4096),
                count("depth", "levels of directories, four in each; files lie in the lowest", "", 0, 6, 0),
                count("numjobs", "threads", "", 1, 1024, 1),
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
                parameter(
                    "runtime",
                    "no longer than this; stat, open, readdir and rename go on for it; 0 for one pass",
                    "s",
                    Kind::Number { min: 0.0, max: 604_800.0 },
                    json!(1.0),
                ),
                parameter(
                    "interval_s",
                    "length of a sampling interval",
                    "s",
                    Kind::Number { min: 0.001, max: 3600.0 },
                    json!(0.1),
                ),
                parameter(
                    "cpus",
                    "processors to run on, one thread each in turn; empty for any",
                    "",
                    Kind::Integers,
                    json!([]),
                ),
            ],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let path = Path::new(parameters.text("path"));
        let name = parameters.text("operation");
        let fsync = parameters.text("fsync");
        let names = Names {
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
        Ok(Reading { kernel: "storage_metadata".into(), parameters: parameters.as_json(), ..names.run(stop)? })
    }
}
