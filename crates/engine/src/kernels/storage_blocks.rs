//! Blocks read from or written to a file, with a number of operations in flight.

use std::path::PathBuf;

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::asked::Asked;
use crate::storage::failing::Fail;
use crate::storage::job::{Engine, Job};
use crate::storage::raw::Consent;

/// The paths of a JSON list; none for an empty text.
fn files_of(text: &str) -> Result<Vec<PathBuf>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Error::usage(format!("files is no JSON list of paths: {error}")))
}

/// See the module.
pub struct StorageBlocks;

fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    Parameter { name, means, unit, kind, default }
}

fn seconds(name: &'static str, means: &'static str, default: f64) -> Parameter {
    parameter(name, means, "s", Kind::Number { min: 0.0, max: 604_800.0 }, json!(default))
}

fn flag(name: &'static str, means: &'static str, default: bool) -> Parameter {
    parameter(name, means, "", Kind::Flag, json!(default))
}

fn choice(name: &'static str, means: &'static str, choices: &[&'static str]) -> Parameter {
    parameter(name, means, "", Kind::Choice { choices: choices.to_vec() }, json!(choices[0]))
}

fn count(name: &'static str, means: &'static str, min: i64, max: i64, default: i64) -> Parameter {
    parameter(name, means, "", Kind::Integer { min, max }, json!(default))
}

fn bytes(name: &'static str, means: &'static str, min: i64, default: i64) -> Parameter {
    parameter(name, means, "B", Kind::Integer { min, max: i64::MAX }, json!(default))
}

fn text(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Text, json!(""))
}

/// Several files, passes, and an early end.
fn courses() -> Vec<Parameter> {
    vec![
        count("loops", "passes, where time does not end the run", 1, 1 << 30, 1),
        text(
            "files",
            "several files for path, as a JSON list: each job has its share of them, or all with share=whole",
        ),
        parameter(
            "file_service_type",
            "which file is next: roundrobin, sequential, random, zipf:N, pareto:N, normal:N; :COUNT operations each",
            "",
            Kind::Text,
            json!("roundrobin"),
        ),
        count("openfiles", "so many of a job's files are in use at a time; 0 for all", 0, 1 << 20, 0),
        text(
            "steadystate",
            "end when the rate is steady: iops:2% (greatest deviation), iops_slope:0.3%, bw:…, lat:…; empty for never",
        ),
        seconds("steadystate_duration", "window that has to be steady", 10.0),
        seconds("steadystate_ramp_time", "run this long before the first window begins", 0.0),
        seconds("steadystate_interval", "interval of the window's rates", 1.0),
        flag("log", "tell each job's progress and latencies by interval", false),
    ]
}

/// What a run may be asked beyond blocks at full speed; see [`Asked`].
fn asked() -> Vec<Parameter> {
    vec![
        parameter(
            "rate",
            "begin so many operations/s, all jobs together, whether those before are complete or not (open loop); 0 for no rate",
            "operations/s",
            Kind::Number { min: 0.0, max: 1e9 },
            json!(0.0),
        ),
        bytes("rate_bytes", "likewise so many B/s; 0 for no rate", 0, 0),
        choice("rate_process", "operations of a rate begin evenly spaced, or at random", &["linear", "poisson"]),
        seconds("thinktime", "wait so long after every thinktime_blocks operations", 0.0),
        count("thinktime_blocks", "operations before each thinktime", 1, 1 << 30, 1),
        seconds("thinktime_iotime", "or so long with operations before each thinktime; 0 for thinktime_blocks", 0.0),
        seconds("thinktime_spin", "so much of each thinktime is spent spinning, not asleep", 0.0),
        parameter(
            "random_distribution",
            "how often blocks are visited: random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D",
            "",
            Kind::Text,
            json!("random"),
        ),
        text("bssplit", "lengths with their shares in percent, such as 4k/50:64k/50; empty for bs alone"),
        text("bssplit_write", "likewise of writes; empty for bssplit"),
        choice("pattern", "direction of an order in sequence", &["forward", "backward"]),
        bytes("stride", "from one beginning to the next in sequence; 0 for bs", 0, 0),
        bytes("io_size", "what one pass moves, all jobs together; 0 for size", 0, 0),
        count("fsync", "sync the file after so many writes of a job; 0 for never", 0, 1 << 30, 0),
        count("fdatasync", "sync the file's data likewise", 0, 1 << 30, 0),
        choice(
            "verify",
            "blocks say what they are; those written are read back after the timed region, those read are checked",
            &["none", "crc32c"],
        ),
        count("verify_seed", "tells the blocks of this run from those of others", 0, i64::MAX, 1),
        count("generation", "number of the first write of a block; an older one is stale", 1, 1 << 30, 1),
        text(
            "journal",
            "with verify: a new file that tells, even after a kill, which writes were acknowledged and synced, for \
             storage_check; best in memory (/dev/shm), 16 B a block; empty for none",
        ),
        flag("purge", "discard the whole raw device first, as after a purge; a file is left as it is", false),
        text("destroy", "the block device whose data is to be lost, the same as path; empty for none"),
        text("serial", "its serial number; its size in bytes where it has none, or a loop's backing file"),
    ]
}

impl Kernel for StorageBlocks {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_blocks",
            measures: "blocks read from or written to a file, with a number of operations in flight",
            parameters: vec![
                parameter("path", "an existing file, or a block device, which is written with destroy and serial only", "", Kind::Text, Value::Null),
                choice(
                    "rw",
                    "direction and order; rw and randrw mix by rwmixread",
                    &["read", "write", "randread", "randwrite", "rw", "randrw"],
                ),
                parameter("rwmixread", "share of reads in a mix", "%", Kind::Integer { min: 0, max: 100 }, json!(50)),
                parameter("bs", "length of an operation", "B", Kind::Integer { min: 1, max: 1 << 40 }, json!(4096)),
                count("iodepth", "operations in flight a job", 1, 1024, 1),
                count(
                    "iodepth_batch_submit",
                    "operations to hand over in one io_uring call; 0 for 2 if direct (more are held back together), \
                     all otherwise or where completions are waited for in batches",
                    0,
                    1024,
                    0,
                ),
                count(
                    "iodepth_batch_complete_min",
                    "completions to wait for at a time; 0 for one in 16 of iodepth",
                    0,
                    1024,
                    0,
                ),
                count("numjobs", "threads, each with its own queue", 1, 1024, 1),
                choice("ioengine", "how operations reach the file", &["io_uring", "libaio", "psync", "mmap", "stdio"]),
                flag(
                    "hipri",
                    "poll for completions instead of waiting for interrupts: io_uring, direct, a queue with io_poll",
                    false,
                ),
                choice(
                    "mem",
                    "pages of the buffers: a large direct block is one piece for the device in a huge page, and hundreds in \
                     small ones, as in fio's malloc",
                    &["huge", "small"],
                ),
                flag("direct", "past the page cache (O_DIRECT), where the filesystem allows it", false),
                bytes("size", "length of the region used; 0 for all from offset on", 0, 0),
                bytes("offset", "where the region begins", 0, 0),
                seconds("runtime", "length of the timed region; 0 for no limit", 1.0),
                flag("time_based", "go on for all of runtime, pass after pass, instead of ending after one", true),
                seconds("ramp_time", "run this long before anything is counted", 0.0),
                seconds("startdelay", "wait this long before the first operation", 0.0),
                count("seed", "decides the random order and the bytes written", 0, i64::MAX, 1),
                parameter(
                    "interval_s",
                    "length of a sampling interval; doubled when a run has over 4096 of them",
                    "s",
                    Kind::Number { min: 0.001, max: 3600.0 },
                    json!(0.1),
                ),
                choice("share", "jobs split the region among them, or each covers it all", &["partition", "whole"]),
                parameter(
                    "cpus",
                    "processors to run on, one job each in turn; empty for any",
                    "",
                    Kind::Integers,
                    json!([]),
                ),
                flag("end_fsync", "make durable what was written, inside the timed region", false),
                flag("drop_cache", "drop the region from the page cache first", false),
            ]
            .into_iter()
            .chain(asked())
            .chain(courses())
            .collect(),
            pass: vec![("operations", "1"), ("bytes", "bs")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let rw = parameters.text("rw");
        let read_percent = match rw {
            "read" | "randread" => 100,
            "write" | "randwrite" => 0,
            _ => parameters.integer("rwmixread"),
        };
        let asked = Asked::of(parameters)?;
        let job = Job {
            path: PathBuf::from(parameters.text("path")),
            engine: Engine::named(parameters.text("ioengine")),
            read_percent,
            random: rw.starts_with("rand"),
            block: asked.longest(parameters.integer("bs")),
            depth: parameters.integer("iodepth") as usize,
            jobs: parameters.integer("numjobs") as usize,
            direct: parameters.flag("direct"),
            size: parameters.integer("size"),
            offset: parameters.integer("offset"),
            share_whole: parameters.text("share") == "whole",
            runtime_s: parameters.number("runtime"),
            time_based: parameters.flag("time_based"),
            ramp_s: parameters.number("ramp_time"),
            delay_s: parameters.number("startdelay"),
            seed: parameters.integer("seed"),
            interval_s: parameters.number("interval_s"),
            cpus: parameters.integers("cpus"),
            batch_submit: parameters.integer("iodepth_batch_submit") as usize,
            batch_complete_min: parameters.integer("iodepth_batch_complete_min") as usize,
            end_fsync: parameters.flag("end_fsync"),
            drop_cache: parameters.flag("drop_cache"),
            consent: Consent {
                destroy: parameters.text("destroy").to_string(),
                serial: parameters.text("serial").to_string(),
            },
            files: files_of(parameters.text("files"))?,
            fresh: false,
            fail: Fail::asked(),
            asked,
        };
        let reading = job.run(stop)?;
        Ok(Reading { kernel: "storage_blocks".into(), parameters: parameters.as_json(), ..reading })
    }
}
