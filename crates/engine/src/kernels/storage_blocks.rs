//! Blocks read from or written to a file, with a number of operations in flight.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::declare::{choice, flag, integer, required, Group, CPUS, INTERVAL_S, SEED, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::job::options::JobOptions;
use crate::storage::job::parameters::{bytes, seconds, JobFileParameters, LoadParameters, MultiFileParameters};
use crate::storage::job::spec::{Engine, Job, Rw};
use crate::storage::pace::flow::{FlowShare, Flows};
use crate::storage::raw::claim::Consent;
use crate::{parameters, words};

/// The paths of a JSON list; none for an empty text.
fn parse_files(text: &str) -> Result<Vec<PathBuf>, Error> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    serde_json::from_str(text).map_err(|error| Error::usage(format!("files is not a JSON list of paths: {error}")))
}

/// The kernel `storage_blocks`.
pub struct StorageBlocks;

words! {
    /// Pages of the buffers.
    pub enum BufferPages {
        /// Huge pages of 2 MiB.
        Huge = "huge",
        /// The system's base pages.
        Small = "small",
    }
}

words! {
    /// How jobs share the region.
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
        path: PathBuf = required("an existing file or block device; a device is written only with destroy and serial"),
        rw: Rw = choice("direction and order; rw and randrw mix by rwmixread; trim discards blocks, trimwrite before \
            each write").split("rwmixread"),
        rwmixread: u64 = integer("share of reads in a mix", "%", (0, 100), 50),
        bs: u64 = integer("block size", "B", (1, 1 << 40), 4096).role(Role::Size),
        iodepth: usize = integer("queue depth per job", "", (1, 1024), 1).role(Role::Concurrency),
        iodepth_batch_submit: usize = integer("operations per io_uring submission; 0 for automatic: 2 if direct, all \
            otherwise or where completions are waited for in batches", "", (0, 1024), 0),
        iodepth_batch_complete_min: usize = integer("completions per wait; 0 for iodepth/16", "", (0, 1024), 0),
        numjobs: usize = THREADS.means("jobs: threads, each with its own queue"),
        ioengine: Engine = choice("I/O engine"),
        hipri: bool = flag("poll for completions instead of interrupts (needs io_uring, direct, a queue with \
            io_poll)", false),
        mem: BufferPages = choice("buffer pages: a large direct block is one segment in a huge page, hundreds in \
            small pages as with fio's malloc"),
        direct: bool = flag("bypass the page cache (O_DIRECT), if the filesystem allows it", false),
        size: u64 = bytes("size of the region; 0 for all from offset", 0, 0),
        offset: u64 = bytes("start of the region", 0, 0),
        runtime: f64 = seconds("length of the timed region; 0 for no limit", 1.0),
        time_based: bool = flag("repeat passes for the whole runtime instead of ending after one", true),
        ramp_time: f64 = seconds("warm-up time before counting", 0.0),
        startdelay: f64 = seconds("delay before the first operation", 0.0),
        seed: u64 = SEED.means("seed of the random order and of the data written"),
        interval_s: f64 = INTERVAL_S.means("length of a sampling interval; doubled beyond 4096 samples"),
        share: Share = choice("jobs split the region, or each covers all of it"),
        cpus: Vec<u64> = CPUS.means("CPUs to run on, one job each in turn; empty for any"),
        end_fsync: bool = flag("sync written data at the end, inside the timed region", false),
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
        ..Declaration::new("storage_blocks", "block reads and writes of a file at a queue depth", "I/O")
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
        files: parse_files(&multi.files)?,
        fresh: false,
        fault: PlannedFault::from_environment(),
        options,
    }
    .run(stop)
}
