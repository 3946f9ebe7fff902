//! The tool's own floor: an operation that does nothing but is counted, clocked and sampled.

use std::path::PathBuf;

use serde_json::json;

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::asked::Asked;
use crate::storage::job::{Engine, Job};
use crate::storage::raw::Consent;

/// See the module. The loop is the one of `storage_blocks`, with an access engine that does nothing.
pub struct Idle;

fn count(name: &'static str, means: &'static str, unit: &'static str, max: i64, default: i64) -> Parameter {
    Parameter { name, means, unit, kind: Kind::Integer { min: 1, max }, default: json!(default) }
}

impl Kernel for Idle {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "idle",
            measures: "what the tool itself costs an operation, with no work under it",
            parameters: vec![
                Parameter {
                    name: "runtime",
                    means: "length of the timed region",
                    unit: "s",
                    kind: Kind::Number { min: 0.001, max: 86_400.0 },
                    default: json!(0.2),
                },
                count("iodepth", "operations handed over at once", "", 1024, 32),
                count("numjobs", "threads", "", 1024, 1),
                count("bs", "length that an operation would have", "B", 1 << 24, 4096),
                count("size", "length of the region that it would cover", "B", 1 << 50, 1 << 30),
                Parameter {
                    name: "rw",
                    means: "direction and order; randrw mixes half and half",
                    unit: "",
                    kind: Kind::Choice { choices: vec!["randread", "read", "randrw", "randwrite"] },
                    default: json!("randread"),
                },
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
            fail: None,
            asked: Asked::default(),
        };
        let reading = job.run(stop)?;
        Ok(Reading { kernel: "idle".into(), parameters: parameters.as_json(), ..reading })
    }
}
