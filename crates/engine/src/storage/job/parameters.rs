//! The parameters that `storage_blocks` declares beside those of every run.

use std::path::PathBuf;

use crate::contract::declare::{choice, flag, integer, number, text, Integer, Number};
use crate::contract::parameter::Role;
use crate::sys::files::Durable;
use crate::{parameters, words};

/// A time.
#[must_use]
pub const fn seconds(means: &'static str, default: f64) -> Number {
    number(means, "s", (0.0, 604_800.0), default)
}

/// A length.
#[must_use]
pub const fn bytes(means: &'static str, min: i64, default: i64) -> Integer {
    integer(means, "B", (min, i64::MAX), default)
}

const fn percent(means: &'static str) -> Integer {
    integer(means, "%", (0, 100), 0)
}

const fn operations_s(means: &'static str) -> Number {
    number(means, "operations/s", (0.0, 1e9), 0.0)
}

words! {
    /// When operations of a rate begin.
    pub enum RateProcess {
        /// Evenly spaced.
        Linear = "linear",
        /// Random moments.
        Poisson = "poisson",
    }
}

words! {
    /// Which way an order in sequence goes.
    pub enum SequenceDirection {
        /// Ascending offsets.
        Forward = "forward",
        /// Descending offsets.
        Backward = "backward",
    }
}

words! {
    /// How blocks are checked.
    pub enum Verification {
        /// Not at all.
        None = "none",
        /// Each has a header with its checksum.
        Crc32c = "crc32c",
    }
}

words! {
    /// What operations do between two at random.
    pub enum RwSequencer {
        /// Go on in sequence.
        Sequential = "sequential",
        /// Repeat the last offset.
        Identical = "identical",
    }
}

parameters! {
    /// Several files, passes, and an early end.
    pub struct MultiFileParameters {
        loops: u64 = integer("passes, unless time ends the run", "", (1, 1 << 30), 1),
        files: String = text("several files for path, as a JSON list: each job has its share of them, or all with \
            share=whole", ""),
        file_service_type: String = text("order of files: roundrobin, sequential, random, zipf:N, pareto:N, \
            normal:N; :COUNT operations each", "roundrobin"),
        openfiles: usize = integer("files of a job in use at a time; 0 for all", "", (0, 1 << 20), 0),
        steadystate: String = text("end when the rate is steady: iops:2% (largest deviation), iops_slope:0.3%, bw:…, \
            lat:…; empty for never", ""),
        steadystate_duration: f64 = seconds("length of the steady window", 10.0),
        steadystate_ramp_time: f64 = seconds("time before the first window", 0.0),
        steadystate_interval: f64 = seconds("sampling interval of the window", 1.0),
        log: bool = flag("log each job's throughput and latency by interval", false),
    }
}

parameters! {
    /// What a run may do beyond blocks at full speed; see [`super::options::JobOptions`].
    pub struct LoadParameters {
        rate: f64 = number("start this many operations/s, all jobs together, without waiting for completions (open \
            loop); 0 for closed loop", "operations/s", (0.0, 1e9), 0.0).role(Role::Rate),
        rate_bytes: u64 = bytes("the same in B/s; 0 for no rate", 0, 0).role(Role::Rate),
        rate_process: RateProcess = choice("spacing of the starts of a rate: even, or random (Poisson)"),
        thinktime: f64 = seconds("pause after every thinktime_blocks operations", 0.0).role(Role::Delay),
        thinktime_blocks: u32 = integer("operations before each thinktime", "", (1, 1 << 30), 1),
        thinktime_iotime: f64 = seconds("time of operations before each thinktime; 0 for thinktime_blocks", 0.0),
        thinktime_spin: f64 = seconds("part of each thinktime that spins instead of sleeping", 0.0),
        random_distribution: String = text("distribution of random blocks: random, zipf:N, pareto:N, normal:N, \
            zoned:A/B:C/D", "random"),
        bssplit: String = text("block sizes with their shares in percent, such as 4k/50:64k/50; empty for bs only", ""),
        bssplit_write: String = text("the same for writes; empty for bssplit", ""),
        pattern: SequenceDirection = choice("direction of sequential order"),
        stride: u64 = bytes("distance between sequential operations; 0 for bs", 0, 0),
        io_size: u64 = bytes("bytes per pass, all jobs together; 0 for size", 0, 0),
        fsync: u32 = integer("sync the file after this many writes of a job; 0 for never", "", (0, 1 << 30), 0),
        fdatasync: u32 = integer("sync the file's data after this many writes; 0 for never", "", (0, 1 << 30), 0),
        verify: Verification = choice("verify blocks: written ones are read back after the timed region, read ones \
            are checked"),
        verify_seed: u64 = integer("identifies the blocks of this run", "", (0, i64::MAX), 1),
        generation: u32 = integer("number of the first write of a block; older ones are stale", "", (1, 1 << 30), 1),
        journal: PathBuf = text("with verify: new file that records acknowledged and synced writes for `storage \
            check`, even after a kill; best in /dev/shm, 16 B per block", ""),
        purge: bool = flag("discard the whole raw device first, as after a purge; no effect on a file", false),
        destroy: String = text("block device to overwrite, the same as path; empty for none", ""),
        serial: String = text("its serial number; its size in bytes where it has none, or a loop's backing file", ""),
    }
}

parameters! {
    /// What job files ask beside those: rates apart, other orders, other contents, traces.
    pub struct JobFileParameters {
        rate_iops_read: f64 = operations_s("start this many reads/s, all jobs together, instead of rate; 0 for no \
            rate").role(Role::Rate),
        rate_iops_write: f64 = operations_s("the same for writes/s; in a mix, the direction that is due goes \
            first").role(Role::Rate),
        rate_read: u64 = bytes("the same for B/s read; 0 for no rate", 0, 0).role(Role::Rate),
        rate_write: u64 = bytes("the same for B/s written", 0, 0).role(Role::Rate),
        rate_iops_min_read: f64 = operations_s("end the run as failed below this many reads/s, all jobs together; 0 \
            for never"),
        rate_iops_min_write: f64 = operations_s("the same for writes/s"),
        rate_min_read: u64 = bytes("the same for B/s read", 0, 0),
        rate_min_write: u64 = bytes("the same for B/s written", 0, 0),
        rate_cycle: f64 = seconds("interval between checks of these minimum rates, the first after 2 s", 1.0),
        rate_ignore_thinktime: bool = flag("do not catch up on a rate after thinktime", false),
        number_ios: u64 = integer("most operations of one pass, all jobs together; 0 for no \
            limit", "", (0, i64::MAX), 0),
        latency_target: f64 = seconds("search for the largest depth, up to iodepth, within this latency; 0 for no \
            search", 0.0),
        latency_window: f64 = seconds("time at each depth", 0.0),
        latency_percentile: f64 = number("share of operations that must meet latency_target", "%", (0.0, 100.0), 100.0),
        latency_run: bool = flag("continue searching until the run ends", false),
        zonesize: u64 = bytes("bytes transferred in one zone before the next; 0 for no zones", 0, 0),
        zonerange: u64 = bytes("size of a zone; 0 for zonesize", 0, 0),
        zoneskip: u64 = bytes("gap between zones", 0, 0),
        blockalign: u64 = bytes("alignment of random offsets; 0 for the smallest block size", 0, 0),
        blockalign_write: u64 = bytes("the same for writes; 0 for blockalign", 0, 0),
        bs_unaligned: bool = flag("block sizes of any number of bytes between the smallest and largest of \
            bssplit", false),
        bs_is_seq_rand: bool = flag("bssplit applies to sequential operations, bssplit_write to random ones", false),
        sequential_read: u64 = percent("share of random reads that continue where the last one ended"),
        sequential_write: u64 = percent("the same for writes"),
        random_every: u32 = integer("in random order, only every n-th operation is random; 0 for \
            all", "", (0, 1 << 30), 0),
        rw_sequencer: RwSequencer = choice("the operations between: sequential, or a repeat of the last"),
        positions_apart: bool = flag("sequential reads and writes have separate positions", false),
        gap: i64 = integer("gap between sequential operations, backward if negative; 0 for \
            none", "B", (-(1 << 50), 1 << 50), 0),
        norandommap: bool = flag("random order may repeat a block in a pass and skip others", false),
        buffer_compress_percentage: u64 = percent("share of zeroes in written data"),
        buffer_compress_chunk: u64 = bytes("chunk size of these zeroes; 0 for bs", 0, 0),
        dedupe_percentage: u64 = percent("share of writes that repeat the previous block"),
        buffer_pattern: String = text("pattern to write, as bytes of two hexadecimal digits each; empty for random \
            data", ""),
        sync: Durable = choice("writes return when the data (dsync) and the metadata (sync) are durable"),
        pre_read: bool = flag("read the region into the page cache first", false),
        write_iolog: Option<PathBuf> = text("record the operations in this file, as fio's iolog version 3", ""),
        overwrite: bool = flag("write_iolog may replace a file that hwdyno did not write", false),
        read_iolog: Option<PathBuf> = text("replay the operations of this iolog, version 2 or 3; bs is the largest \
            of them", ""),
        replay_skip: String = text("operations of the iolog to skip: read, write, sync, trim", ""),
        replay_time_scale: f64 = number("factor on the times between its operations; 0 for no \
            waiting", "", (0.0, 1e6), 1.0),
        flow: u64 = integer("each thread's share of the operations of its flow; 0 for none", "", (0, 1 << 30), 0),
        flow_id: u64 = integer("flow of this job, among the jobs that run in parallel", "", (0, 1 << 30), 0),
        flow_sleep: f64 = seconds("sleep of a thread that is ahead of its share", 0.0),
    }
}
