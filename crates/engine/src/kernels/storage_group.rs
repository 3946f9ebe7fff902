//! Several jobs of [`super::storage_blocks`] at the same time, each with its own file, load and end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{json, Value};

use super::storage_blocks::{self, StorageBlocks};
use crate::contract::declare::required;
use crate::contract::kernel::{Declaration, Error, Given, Kernel, Stop, Writes};
use crate::contract::reading::Reading;
use crate::parameters;
use crate::storage::pace::flow::Flows;

/// This many jobs may run at once.
const MAX_JOBS: usize = 256;

/// Which jobs one job waits for, and which end with it.
#[derive(Debug, Default)]
struct Dependencies {
    /// It begins when these have ended.
    after: Vec<usize>,
    /// When it ends, so do these.
    ends: Vec<usize>,
}

impl Dependencies {
    /// Separates them from the parameters given for the job `number` of `jobs`.
    fn take(number: usize, mut job: Value, jobs: usize) -> Result<(Self, Value), Error> {
        let mut list = |name: &str, below: usize| {
            let Some(given) = job.as_object_mut().and_then(|all| all.remove(name)) else { return Ok(Vec::new()) };
            let number_of = |one: &Value| one.as_u64().map(|one| one as usize).filter(|&one| one < below);
            let numbers = given.as_array().and_then(|list| list.iter().map(number_of).collect());
            numbers.ok_or_else(|| {
                Error::usage(format!(
                    "job {number}: {name} {given} is not a list of jobs below \
                    {below}"
                ))
            })
        };
        // A job waits for earlier ones only, so that none can wait for itself.
        let (after, ends) = (list("after", number)?, list("ends", jobs)?);
        Ok((Self { after, ends }, job))
    }
}

/// Which jobs have ended, for those that wait for them.
struct Gate {
    ended: Mutex<Vec<bool>>,
    changed: Condvar,
    /// Which are over before their time.
    cancelled: Vec<Arc<AtomicBool>>,
}

impl Gate {
    fn new(jobs: usize) -> Self {
        Self {
            ended: Mutex::new(vec![false; jobs]),
            changed: Condvar::new(),
            cancelled: (0..jobs).map(|_| Arc::default()).collect(),
        }
    }

    fn wait_for(&self, jobs: &[usize], stop: &Stop) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        while jobs.iter().any(|&job| !ended[job]) && !stop.is_set() {
            let waited = self.changed.wait_timeout(ended, Duration::from_millis(50));
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn ended(&self, job: usize, ends: &[usize]) {
        for &other in ends {
            self.cancelled[other].store(true, Ordering::Relaxed);
        }
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)[job] = true;
        self.changed.notify_all();
    }
}

/// The kernel `storage_group`.
pub struct StorageGroup;

parameters! {
    /// What `storage_group` takes.
    pub struct Parameters {
        jobs: String = required("parameters of storage_blocks for each job, as a JSON list of objects; after: jobs \
            to wait for; ends: jobs that end with it"),
    }
}

impl Kernel for StorageGroup {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        writes: Writes::Device,
        stateful: true,
        ..Declaration::new(
            "storage_group",
            "several storage jobs in parallel; the reading of each is in details.jobs",
            "I/O",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let given: Vec<Value> = serde_json::from_str(&parameters.jobs)
            .map_err(|error| Error::usage(format!("jobs is not a JSON list: {error}")))?;
        if given.is_empty() || given.len() > MAX_JOBS {
            return Err(Error::usage(format!("jobs has {} entries; use 1 to {MAX_JOBS}", given.len())));
        }
        let jobs = given.len();
        let given = given
            .into_iter()
            .enumerate()
            .map(|(number, job)| Dependencies::take(number, job, jobs))
            .collect::<Result<Vec<_>, _>>()?;
        let checked = given.iter().map(|(_, job)| Given::<StorageBlocks>::check(job)).collect::<Result<Vec<_>, _>>()?;
        // The jobs set up and start by themselves from here on, as they do on one host.
        crate::timing::start::hold_once();
        let (flows, gate) = (Flows::default(), Gate::new(checked.len()));
        let answers: Vec<Mutex<Option<Result<Reading, Error>>>> = checked.iter().map(|_| Mutex::new(None)).collect();
        let one = |number: usize| {
            let dependencies = &given[number].0;
            gate.wait_for(&dependencies.after, stop);
            let job = &checked[number];
            let answer = storage_blocks::run(&job.parameters, stop, &flows, Some(&gate.cancelled[number]))
                .map(|reading| job.name(reading));
            if answer.is_err() {
                stop.set(); // the others would measure another load than this one
            }
            gate.ended(number, &dependencies.ends);
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
        let mut together = Reading::default();
        let mut jobs = Vec::with_capacity(answers.len());
        for answer in answers {
            let answer = answer.into_inner().ok().flatten();
            let reading = answer.unwrap_or_else(|| Err(Error::Machine("a job has panicked".into(), None)))?;
            together.elapsed_s = together.elapsed_s.max(reading.elapsed_s);
            together.cpu += reading.cpu;
            together.concurrency_requested += reading.concurrency_requested;
            together.interrupted |= reading.interrupted;
            together.streams.extend(reading.streams.iter().cloned());
            together.faults.extend(reading.faults.iter().cloned());
            jobs.push(json!(reading));
        }
        together.detail("jobs", jobs);
        Ok(together)
    }
}
