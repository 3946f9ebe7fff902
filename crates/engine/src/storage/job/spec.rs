//! What a job does: its file, region, load and options.

use std::path::PathBuf;

use super::options::JobOptions;
use crate::contract::declare::Words;
use crate::contract::kernel::Error;
use crate::contract::parameter::Trait;
use crate::storage::data::buffers::BufferPool;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::raw::claim::Consent;
use crate::survey::platform::available_bytes;
use crate::words;

words! {
    /// How operations reach the file.
    pub enum Engine {
        /// `io_uring`.
        Uring = "io_uring",
        /// libaio's system calls.
        Aio = "libaio": SynchronousBuffered,
        /// pread and pwrite.
        Psync = "psync": Synchronous,
        /// Copies from and to a mapping.
        Mmap = "mmap": Synchronous PageCache,
        /// The C library's fread and fwrite.
        Stdio = "stdio": Synchronous PageCache,
        /// Nothing: the loop alone.
        Null = "null",
    }
}

words! {
    /// Direction and order of a job's operations.
    // The names are fio's.
    #[allow(clippy::enum_variant_names)]
    pub enum Rw {
        /// Reads in sequence.
        Read = "read": Reads,
        /// Writes in sequence.
        Write = "write": Writes,
        /// Reads at random.
        Randread = "randread": Reads Random,
        /// Writes at random.
        Randwrite = "randwrite": Writes Random,
        /// Both in sequence.
        Rw = "rw": Reads Writes,
        /// Both at random.
        Randrw = "randrw": Reads Writes Random,
        /// Gives blocks back in sequence.
        Trim = "trim": Trims,
        /// Gives blocks back at random.
        Randtrim = "randtrim": Trims Random,
        /// Gives each block back and writes it, in sequence.
        Trimwrite = "trimwrite": Trims Writes,
        /// Likewise at random.
        Randtrimwrite = "randtrimwrite": Trims Writes Random,
    }
}

impl Rw {
    /// Share of what does not write, percent; `mixed` where it does both.
    #[must_use]
    pub fn read_percent(self, mixed: u64) -> u64 {
        match self {
            Self::Read | Self::Randread | Self::Trim | Self::Randtrim => 100,
            Self::Write | Self::Randwrite => 0,
            Self::Trimwrite | Self::Randtrimwrite => 50,
            Self::Rw | Self::Randrw => mixed,
        }
    }

    /// Whether its order is random.
    #[must_use]
    pub fn random(self) -> bool {
        self.is(Trait::Random)
    }

    /// Whether it gives blocks back.
    #[must_use]
    pub fn trims(self) -> bool {
        self.is(Trait::Trims)
    }
}

impl Engine {
    fn synchronous(self) -> bool {
        self.is(Trait::Synchronous)
    }
}

/// A job.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct Job {
    /// The file.
    pub path: PathBuf,
    /// How to reach it.
    pub engine: Engine,
    /// Share of reads, percent: 100 reads only, 0 writes only.
    pub read_percent: u64,
    /// Whether the order is random.
    pub random: bool,
    /// Length of an operation, B.
    pub block: u64,
    /// Operations in flight a thread.
    pub depth: usize,
    /// Threads.
    pub jobs: usize,
    /// Whether it bypasses the page cache.
    pub direct: bool,
    /// Length of the region, B; 0 for all of the file from `offset` on.
    pub size: u64,
    /// Beginning of the region, B.
    pub offset: u64,
    /// Each job covers the whole region, not a separate part.
    pub share_whole: bool,
    /// Length of the timed region, s; 0 for no limit.
    pub runtime_s: f64,
    /// Repeats passes for all of `runtime_s`.
    pub time_based: bool,
    /// Time before counting starts, s.
    pub ramp_s: f64,
    /// Delay before the first operation, s.
    pub delay_s: f64,
    /// Decides every random choice.
    pub seed: u64,
    /// Length of a sampling interval, s.
    pub interval_s: f64,
    /// Processors to run on; empty for any.
    pub cpus: Vec<u64>,
    /// Operations to submit in one `io_uring` call; 0 for [`Job::submit_at_most`] to decide.
    pub batch_submit: usize,
    /// Completions to wait for at a time; 0 for [`Job::reap_at_least`] to decide.
    pub batch_complete_min: usize,
    /// Make durable what was written, inside the timed region.
    pub end_fsync: bool,
    /// Drop the region from the page cache first.
    pub drop_cache: bool,
    /// The user's consent to write a raw device.
    pub consent: Consent,
    /// The files, where it is not the one at `path`: each job has its share of them, or all with `share_whole`.
    pub files: Vec<PathBuf>,
    /// The files are made for this run, empty, and removed after it: every write is a first one.
    pub fresh: bool,
    /// A fault to inject, for tests.
    pub fault: Option<PlannedFault>,
    /// Options beyond blocks at full speed.
    pub options: JobOptions,
}

/// Reads one file in sequence, once, a block of 4 KiB at a time.
impl Default for Job {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            engine: Engine::Uring,
            read_percent: 100,
            random: false,
            block: 4096,
            depth: 1,
            jobs: 1,
            direct: false,
            size: 0,
            offset: 0,
            share_whole: false,
            runtime_s: 0.0,
            time_based: false,
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
        }
    }
}

impl Job {
    pub(super) fn reads(&self) -> bool {
        self.read_percent > 0
    }

    pub(super) fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// Whether it changes the file's contents.
    pub(super) fn changes(&self) -> bool {
        self.writes() || self.options.trims
    }

    /// How many completions to wait for at a time: one in 16 of the depth unless given.
    ///
    /// Waiting for k of n keeps a slot idle for (k - 1) / 2 completions on average, so that on a device
    /// that is not saturated the rate falls by (k - 1) / (2 n), here at most 3%; on one that is saturated,
    /// nothing is lost. What is won is a wake-up and a system call shared by k operations.
    pub(super) fn reap_at_least(&self) -> usize {
        if self.batch_complete_min > 0 {
            self.batch_complete_min.min(self.depth)
        } else {
            (self.depth / 16).max(1)
        }
    }

    /// How many operations one `io_uring` call submits, unless given.
    ///
    /// From three on, the kernel holds a call's requests back until all are prepared, and rings the device's
    /// doorbell once. That saves CPU time, but the device starts later: a virtual disk at depth 32 gave 127 k
    /// reads/s so, and 150 to 160 k by ones and twos, as fio has them. Out of the page cache nothing waits.
    pub(super) fn submit_at_most(&self) -> usize {
        match (self.batch_submit, self.direct && self.batch_complete_min == 0) {
            (0, true) => 2,
            (0, false) => self.depth,
            (given, _) => given,
        }
    }

    /// What cannot work, known without touching a file.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.engine.synchronous() && self.depth > 1 {
            return Err(Error::usage(format!(
                "this engine is synchronous and keeps 1 operation in flight, not iodepth {}: use io_uring (or \
                libaio), or numjobs {}",
                self.depth, self.depth
            )));
        }
        if self.time_based && self.runtime_s <= 0.0 {
            return Err(Error::usage("a time_based run needs a runtime above 0 s"));
        }
        self.options.check(self.random, self.share_whole && self.jobs > 1, self.block)?;
        if self.files.len() > 1 && !self.share_whole && self.files.len() % self.jobs != 0 {
            return Err(Error::usage(format!(
                "{} files cannot be shared among {} jobs: use a multiple, or share=whole",
                self.files.len(),
                self.jobs
            )));
        }
        if self.fresh && (self.engine == Engine::Mmap || self.reads() || self.size == 0) {
            return Err(Error::usage("a new file can only be written, not by mmap, and needs a size"));
        }
        let needed =
            BufferPool::bytes(self.depth, self.block as usize, self.writes(), self.jobs) as u128 * self.jobs as u128;
        let limit = available_bytes().map_or(u128::MAX, |bytes| u128::from(bytes) * 4 / 5);
        if needed > limit {
            return Err(Error::usage(format!(
                "bs x iodepth x numjobs needs {} MiB of buffers but {} MiB of memory are available: lower one of them",
                needed >> 20,
                limit >> 20
            ))
            .with_memory_limit());
        }
        Ok(())
    }
}
