//! Blocks read from or written to a file, with a number of operations in flight.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::job::options::JobOptions;
use crate::storage::job::parameters::{
    bytes, choice, count, flag, job_file_parameters, load_parameters, multi_file_parameters, parameter, seconds,
};
use crate::storage::job::spec::{Engine, Job};
use crate::storage::pace::flow::{FlowShare, Flows};
use crate::storage::raw::claim::Consent;

/// The paths of a JSON list; none for an empty text.
fn files_of(text: &str) -> Result<Vec<PathBuf>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Error::usage(format!("files is no JSON list of paths: {error}")))
}

/// See the module.
pub struct StorageBlocks;

impl Kernel for StorageBlocks {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_blocks",
            measures: "blocks read from or written to a file, with a number of operations in flight",
            parameters: vec![
                parameter("path", "an existing file, or a block device, which is written with destroy and serial only", "", Kind::Text, Value::Null),
                choice(
                    "rw",
                    "direction and order; rw and randrw mix by rwmixread; trims give blocks back, trimwrite before each write",
                    &[
                        "read", "write", "randread", "randwrite", "rw", "randrw", "trim", "randtrim", "trimwrite",
                        "randtrimwrite",
                    ],
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
                choice("ioengine", "how operations reach the file", &["io_uring", "libaio", "psync", "mmap", "stdio", "null"]),
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
            .chain(load_parameters())
            .chain(multi_file_parameters())
            .chain(job_file_parameters())
            .collect(),
            pass: vec![("operations", "1"), ("bytes", "bs")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        run(parameters, stop, &Flows::default(), None)
    }
}

/// Runs one job, beside others with which it shares `flows`; it ends when `cancelled` is set.
pub fn run(
    parameters: &Parameters,
    stop: &Stop,
    flows: &Flows,
    cancelled: Option<&Arc<AtomicBool>>,
) -> Result<Reading, Error> {
    let rw = parameters.text("rw");
    let read_percent = match rw {
        "read" | "randread" | "trim" | "randtrim" => 100,
        "write" | "randwrite" => 0,
        "trimwrite" | "randtrimwrite" => 50,
        _ => parameters.integer("rwmixread"),
    };
    let mut options = JobOptions::of(parameters)?;
    options.cancelled = cancelled.cloned();
    options.flow = (parameters.integer("flow") > 0).then(|| FlowShare {
        flow: flows.numbered(parameters.integer("flow_id")),
        weight: parameters.integer("flow"),
        rest: Duration::from_secs_f64(parameters.number("flow_sleep")),
    });
    let job = Job {
        path: PathBuf::from(parameters.text("path")),
        engine: Engine::named(parameters.text("ioengine")),
        read_percent,
        random: rw.starts_with("rand"),
        block: options.longest(parameters.integer("bs")),
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
        fault: PlannedFault::from_environment(),
        options,
    };
    let reading = job.run(stop)?;
    Ok(Reading { kernel: "storage_blocks".into(), parameters: parameters.as_json(), ..reading })
}
