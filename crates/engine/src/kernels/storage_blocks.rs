//! Blocks read from or written to a file, with a number of operations in flight.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use crate::declare::{choice, flag, integer, required, Group, CPUS, INTERVAL_S, SEED, THREADS};
use crate::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::parameter::Role;
use crate::reading::Reading;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::job::options::JobOptions;
use crate::storage::job::parameters::{bytes, seconds, JobFileParameters, LoadParameters, MultiFileParameters};
use crate::storage::job::spec::{Engine, Job, Rw};
use crate::storage::pace::flow::{FlowShare, Flows};
use crate::storage::raw::claim::Consent;
use crate::{parameters, words};

/// The paths of a JSON list; none for an empty text.
fn files_of(text: &str) -> Result<Vec<PathBuf>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Error::usage(format!("files is no JSON list of paths: {error}")))
}

/// See the module.
pub struct StorageBlocks;

words! {
    /// Pages of the buffers.
    pub enum BufferPages {
        /// Of 2 MiB.
        Huge = "huge",
        /// The system's base pages.
        Small = "small",
    }
}

words! {
    /// How jobs stand to the region.
    pub enum Share {
        /// Each has a part of it.
        Partition = "partition",
        /// Each covers it all.
        Whole = "whole",
    }
}

parameters! {
    /// What `storage_blocks` takes.
    pub struct Parameters {
        path: PathBuf = required("an existing file, or a block device, which is written with destroy and serial only"),
        rw: Rw = choice("direction and order; rw and randrw mix by rwmixread; trims give blocks back, trimwrite before each write").split("rwmixread"),
        rwmixread: u64 = integer("share of reads in a mix", "%", (0, 100), 50),
        bs: u64 = integer("length of an operation", "B", (1, 1 << 40), 4096).role(Role::Size),
        iodepth: usize = integer("operations in flight a job", "", (1, 1024), 1).role(Role::Concurrency),
        iodepth_batch_submit: usize = integer("operations to hand over in one io_uring call; 0 for 2 if direct (more are held back together), \
                     all otherwise or where completions are waited for in batches", "", (0, 1024), 0),
        iodepth_batch_complete_min: usize = integer("completions to wait for at a time; 0 for one in 16 of iodepth", "", (0, 1024), 0),
        numjobs: usize = THREADS.means("threads, each with its own queue"),
        ioengine: Engine = choice("how operations reach the file"),
        hipri: bool = flag("poll for completions instead of waiting for interrupts: io_uring, direct, a queue with io_poll", false),
        mem: BufferPages = choice("pages of the buffers: a large direct block is one piece for the device in a huge page, and hundreds in \
                     small ones, as in fio's malloc"),
        direct: bool = flag("past the page cache (O_DIRECT), where the filesystem allows it", false),
        size: u64 = bytes("length of the region used; 0 for all from offset on", 0, 0),
        offset: u64 = bytes("where the region begins", 0, 0),
        runtime: f64 = seconds("length of the timed region; 0 for no limit", 1.0),
        time_based: bool = flag("go on for all of runtime, pass after pass, instead of ending after one", true),
        ramp_time: f64 = seconds("run this long before anything is counted", 0.0),
        startdelay: f64 = seconds("wait this long before the first operation", 0.0),
        seed: u64 = SEED.means("decides the random order and the bytes written"),
        interval_s: f64 = INTERVAL_S.means("length of a sampling interval; doubled when a run has over 4096 of them"),
        share: Share = choice("jobs split the region among them, or each covers it all"),
        cpus: Vec<u64> = CPUS.means("processors to run on, one job each in turn; empty for any"),
        end_fsync: bool = flag("make durable what was written, inside the timed region", false),
        drop_cache: bool = flag("drop the region from the page cache first", false),
        load: LoadParameters = Group,
        multi: MultiFileParameters = Group,
        job_file: JobFileParameters = Group,
    }
}

impl Kernel for StorageBlocks {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "bs")],
        writes: Writes::Device,
        consent: &["destroy", "serial"],
        stateful: true,
        ..Declaration::new(
            "storage_blocks",
            "blocks read from or written to a file, with a number of operations in flight",
            "I/O",
        )
    };

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
    let Parameters { rw, ref load, ref multi, ref job_file, .. } = *parameters;
    let options = JobOptions {
        cancelled: cancelled.cloned(),
        flow: (job_file.flow > 0).then(|| FlowShare {
            flow: flows.numbered(job_file.flow_id),
            weight: job_file.flow,
            rest: Duration::from_secs_f64(job_file.flow_sleep),
        }),
        trims: rw.trims(),
        hipri: parameters.hipri,
        huge: parameters.mem == BufferPages::Huge,
        ..JobOptions::of(load, multi, job_file)?
    };
    Job {
        path: parameters.path.clone(),
        engine: parameters.ioengine,
        read_percent: rw.read_percent(parameters.rwmixread),
        random: rw.random(),
        block: options.longest(parameters.bs),
        depth: parameters.iodepth,
        jobs: parameters.numjobs,
        direct: parameters.direct,
        size: parameters.size,
        offset: parameters.offset,
        share_whole: parameters.share == Share::Whole,
        runtime_s: parameters.runtime,
        time_based: parameters.time_based,
        ramp_s: parameters.ramp_time,
        delay_s: parameters.startdelay,
        seed: parameters.seed,
        interval_s: parameters.interval_s,
        cpus: parameters.cpus.clone(),
        batch_submit: parameters.iodepth_batch_submit,
        batch_complete_min: parameters.iodepth_batch_complete_min,
        end_fsync: parameters.end_fsync,
        drop_cache: parameters.drop_cache,
        consent: Consent { destroy: load.destroy.clone(), serial: load.serial.clone() },
        files: files_of(&multi.files)?,
        fresh: false,
        fault: PlannedFault::from_environment(),
        options,
    }
    .run(stop)
}
