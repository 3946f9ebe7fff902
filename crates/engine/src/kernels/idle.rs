//! The tool's own floor: an operation that does nothing but is counted, clocked and sampled.

use std::path::PathBuf;

use crate::declare::{choice, integer, number};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::job::options::JobOptions;
use crate::storage::job::spec::{Engine, Job};
use crate::storage::raw::claim::Consent;

/// See the module. The loop is the one of `storage_blocks`, with an access engine that does nothing.
pub struct Idle;

impl Kernel for Idle {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "idle",
            measures: "what the tool itself costs an operation, with no work under it",
            parameters: vec![
                number("runtime", "length of the timed region", "s", (0.001, 86_400.0), 0.2),
                integer("iodepth", "operations handed over at once", "", (1, 1024), 32),
                integer("numjobs", "threads", "", (1, 1024), 1),
                integer("bs", "length that an operation would have", "B", (1, 1 << 24), 4096),
                integer("size", "length of the region that it would cover", "B", (1, 1 << 50), 1 << 30),
                choice(
                    "rw",
                    "direction and order; randrw mixes half and half",
                    &["randread", "read", "randrw", "randwrite"],
                ),
            ],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let rw = parameters.text("rw");
        let job = Job {
            path: PathBuf::new(),
            engine: Engine::Null,
            read_percent: match rw {
                "randwrite" => 0,
                "randrw" => 50,
                _ => 100,
            },
            random: rw.starts_with("rand"),
            block: parameters.integer("bs"),
            depth: parameters.integer("iodepth") as usize,
            jobs: parameters.integer("numjobs") as usize,
            direct: false,
            size: parameters.integer("size"),
            offset: 0,
            share_whole: true,
            runtime_s: parameters.number("runtime"),
            time_based: true,
            ramp_s: 0.0,
            delay_s: 0.0,
            seed: 1,
            interval_s: 0.1,
            cpus: Vec::new(),
            batch_submit: 0,
            batch_complete_min: 0,
            end_fsync: false,
            drop_cache: false,
            consent: Consent::default(),
            files: Vec::new(),
            fresh: false,
            fault: None,
            options: JobOptions::default(),
        };
        let reading = job.run(stop)?;
        Ok(Reading { kernel: "idle".into(), parameters: parameters.as_json(), ..reading })
    }
}
