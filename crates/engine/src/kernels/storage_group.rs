//! Several jobs of [`super::storage_blocks`] at the same time, each with its own file, load and end.

use std::sync::Mutex;

use serde_json::{json, Value};

use super::storage_blocks::StorageBlocks;
use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;

/// So many jobs may run at once.
const MOST_JOBS: usize = 256;

/// See the module.
pub struct StorageGroup;

impl Kernel for StorageGroup {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_group",
            measures: "several jobs on storage at the same time; each one's own reading stands in details.jobs",
            parameters: vec![Parameter {
                name: "jobs",
                means: "the parameters of storage_blocks for each job, as a JSON list of objects",
                unit: "",
                kind: Kind::Text,
                default: Value::Null,
            }],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let given: Vec<Value> = serde_json::from_str(parameters.text("jobs"))
            .map_err(|error| Error::usage(format!("jobs is no JSON list: {error}")))?;
        if given.is_empty() || given.len() > MOST_JOBS {
            return Err(Error::usage(format!("jobs has {} entries; give 1 to {MOST_JOBS}", given.len())));
        }
        let info = StorageBlocks.info();
        let checked = given.iter().map(|job| Parameters::check(&info, job)).collect::<Result<Vec<_>, _>>()?;
        let answers: Vec<Mutex<Option<Result<Reading, Error>>>> = checked.iter().map(|_| Mutex::new(None)).collect();
        let one = |number: usize| {
            let answer = StorageBlocks.run(&checked[number], stop);
            if answer.is_err() {
                stop.set(); // the others would measure another load than the one asked for
            }
            if let Ok(mut place) = answers[number].lock() {
                *place = Some(answer);
            }
        };
        std::thread::scope(|scope| -> Result<(), Error> {
            for number in 1..checked.len() {
                std::thread::Builder::new()
                    .name(format!("hwdyno-job-{number}"))
                    .spawn_scoped(scope, move || one(number))
                    .map_err(|error| Error::machine("start a job", &error))?;
            }
            one(0);
            Ok(())
        })?;
        let mut together = Reading { kernel: "storage_group".into(), ..Reading::default() };
        let mut jobs = Vec::with_capacity(answers.len());
        for answer in answers {
            let answer = answer.into_inner().ok().flatten();
            let reading = answer.unwrap_or_else(|| Err(Error::Machine("a job has panicked".into(), None)))?;
            together.elapsed_s = together.elapsed_s.max(reading.elapsed_s);
            together.cpu += reading.cpu;
            together.concurrency_asked += reading.concurrency_asked;
            together.interrupted |= reading.interrupted;
            together.streams.extend(reading.streams.iter().cloned());
            together.faults.extend(reading.faults.iter().cloned());
            jobs.push(json!(reading));
        }
        together.parameters = parameters.as_json();
        together.details.insert("jobs".into(), json!(jobs));
        Ok(together)
    }
}
