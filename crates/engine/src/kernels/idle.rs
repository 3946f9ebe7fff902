//! The tool's own floor: an operation that does nothing but is counted, clocked and sampled.

use crate::contract::declare::{choice, integer, RUNTIME, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::parameters;
use crate::storage::job::spec::{Engine, Job, Rw};

/// The kernel `idle`. The loop is the one of `storage_blocks`, with an access engine that does nothing.
pub struct Idle;

parameters! {
    /// What `idle` takes.
    pub struct Parameters {
        runtime: f64 = RUNTIME.default(0.2),
        iodepth: usize = integer("operations in flight", "", (1, 1024), 32).role(Role::Concurrency),
        numjobs: usize = THREADS.means("threads"),
        bs: u64 = integer("size of one operation", "B", (1, 1 << 24), 4096).role(Role::Size),
        size: u64 = integer("size of the region", "B", (1, 1 << 50), 1 << 30),
        rw: Rw = choice("direction and order; randrw is half reads, half writes")
            .only(&[Rw::Randread, Rw::Read, Rw::Randrw, Rw::Randwrite]),
    }
}

impl Kernel for Idle {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("idle", "the tool's own cost per operation, with no I/O", "operation");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { runtime, iodepth, numjobs, bs, size, rw } = *parameters;
        Job {
            engine: Engine::Null,
            read_percent: rw.read_percent(50),
            random: rw.random(),
            block: bs,
            depth: iodepth,
            jobs: numjobs,
            size,
            share_whole: true,
            runtime_s: runtime,
            time_based: true,
            ..Job::default()
        }
        .run(stop)
    }
}
