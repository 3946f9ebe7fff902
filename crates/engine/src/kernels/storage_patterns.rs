//! The ways in which programs go through a file, as IOzone and IOR name them: first writes and rewrites, cold and
//! warm reads, backward, in strides, one record again and again, and through the C library's streams.

use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::asked::Asked;
use crate::storage::failing::Fail;
use crate::storage::job::{Engine, Job};
use crate::storage::raw::Consent;

/// What IOzone's stride read takes unless told otherwise: every 17th record.
const STRIDE_RECORDS: u64 = 17;
const PATTERNS: [&str; 14] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "randread",
    "randwrite",
    "backward_read",
    "record_rewrite",
    "stride",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
    "randrw",
];

/// See the module.
pub struct StoragePatterns;

fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    Parameter { name, means, unit, kind, default }
}

fn flag(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Flag, json!(false))
}

impl Kernel for StoragePatterns {
    fn info(&self) -> KernelInfo {
        let count = |name, means, unit, min, max, default: i64| {
            parameter(name, means, unit, Kind::Integer { min, max }, json!(default))
        };
        KernelInfo {
            name: "storage_patterns",
            measures: "one pass through a file in one of the patterns of IOzone and IOR, through the page cache unless direct",
            parameters: vec![
                parameter("path", "an existing data file; new ones are made beside it and removed", "", Kind::Text, Value::Null),
                parameter(
                    "pattern",
                    "write: into a new file; rewrite: into one that is there; read: not in the cache; reread: read before; \
                     backward_read, stride (every 17th record), record_rewrite (one record again and again); f…: by fread and fwrite",
                    "",
                    Kind::Choice { choices: PATTERNS.to_vec() },
                    json!(PATTERNS[0]),
                ),
                count("bs", "length of a record", "B", 1, 1 << 40, 65536),
                count("numjobs", "threads, each with a part of the file (or a new file) of its own", "", 1, 1024, 1),
                count("size", "what all threads together go through; 0 for the whole file", "B", 0, i64::MAX, 0),
                parameter(
                    "ioengine",
                    "how records reach the file; f… are always the C library's",
                    "",
                    Kind::Choice { choices: vec!["psync", "mmap", "io_uring", "libaio"] },
                    json!("psync"),
                ),
                flag("direct", "past the page cache (O_DIRECT), where the filesystem allows it"),
                flag("end_fsync", "make durable what was written, inside the timed region"),
                parameter(
                    "runtime",
                    "a pass is cut after this; 0 for never",
                    "s",
                    Kind::Number { min: 0.0, max: 604_800.0 },
                    json!(0.0),
                ),
                count("seed", "decides random orders and the bytes written", "", 0, i64::MAX, 1),
                parameter(
                    "interval_s",
                    "length of a sampling interval",
                    "s",
                    Kind::Number { min: 0.001, max: 3600.0 },
                    json!(0.1),
                ),
                parameter("cpus", "processors to run on, one job each in turn; empty for any", "", Kind::Integers, json!([])),
            ],
            pass: vec![("operations", "1"), ("bytes", "bs")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let pattern = parameters.text("pattern");
        let path = PathBuf::from(parameters.text("path"));
        let (block, jobs) = (parameters.integer("bs"), parameters.integer("numjobs"));
        let streams = matches!(pattern, "fwrite" | "frewrite" | "fread" | "freread");
        let plain = if streams { &pattern[1..] } else { pattern };
        let fresh = plain == "write";
        if !path.is_file() {
            return Err(Error::usage(format!("{} is no file: patterns go through a data file", path.display())));
        }
        let size = match parameters.integer("size") {
            0 => path.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e))?.len(),
            size => size,
        };
        let asked = Asked {
            backward: plain == "backward_read",
            stride: if plain == "stride" { STRIDE_RECORDS * block } else { 0 },
            io_size: if plain == "record_rewrite" { size / block * block } else { 0 },
            ..Asked::default()
        };
        let job = Job {
            engine: if streams { Engine::Stdio } else { Engine::named(parameters.text("ioengine")) },
            read_percent: match plain {
                "read" | "reread" | "randread" | "backward_read" | "stride" => 100,
                "randrw" => 50,
                _ => 0,
            },
            random: plain.starts_with("rand"),
            block,
            depth: 1,
            jobs: jobs as usize,
            direct: parameters.flag("direct"),
            size: match plain {
                "record_rewrite" => block * jobs,
                "write" => (size / jobs).max(block),
                _ => size,
            },
            offset: 0,
            share_whole: false,
            runtime_s: parameters.number("runtime"),
            time_based: false,
            ramp_s: 0.0,
            delay_s: 0.0,
            seed: parameters.integer("seed"),
            interval_s: parameters.number("interval_s"),
            cpus: parameters.integers("cpus"),
            batch_submit: 0,
            batch_complete_min: 0,
            end_fsync: parameters.flag("end_fsync"),
            drop_cache: plain == "read",
            files: if fresh { beside(&path, jobs) } else { Vec::new() },
            fresh,
            consent: Consent::default(),
            fail: Fail::asked(),
            asked,
            path,
        };
        if plain == "read" {
            // Only clean pages can be dropped.
            let _ = std::fs::File::open(&job.path).and_then(|file| file.sync_data());
        }
        if plain == "reread" {
            Job { asked: Asked::default(), ..job.clone() }.run(stop)?;
        }
        let reading = job.run(stop)?;
        Ok(Reading { kernel: "storage_patterns".into(), parameters: parameters.as_json(), ..reading })
    }
}

/// New names beside the data file, a thread each.
fn beside(path: &Path, jobs: u64) -> Vec<PathBuf> {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy().into_owned());
    (0..jobs).map(|number| path.with_file_name(format!("{name}.fresh.{number}"))).collect()
}
