//! The parameters that `storage_blocks` declares beside those of every run.

use std::path::PathBuf;

use crate::declare::{choice, flag, integer, number, text, Integer, Number};
use crate::parameter::Role;
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
        /// At random.
        Poisson = "poisson",
    }
}

words! {
    /// Which way an order in sequence goes.
    pub enum SequenceDirection {
        /// From the beginning up.
        Forward = "forward",
        /// From the end down.
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
        loops: u64 = integer("passes, where time does not end the run", "", (1, 1 << 30), 1),
        files: String = text("several files for path, as a JSON list: each job has its share of them, or all with share=whole", ""),
        file_service_type: String = text("which file is next: roundrobin, sequential, random, zipf:N, pareto:N, normal:N; :COUNT operations each", "roundrobin"),
        openfiles: usize = integer("so many of a job's files are in use at a time; 0 for all", "", (0, 1 << 20), 0),
        steadystate: String = text("end when the rate is steady: iops:2% (greatest deviation), iops_slope:0.3%, bw:…, lat:…; empty for never", ""),
        steadystate_duration: f64 = seconds("window that has to be steady", 10.0),
        steadystate_ramp_time: f64 = seconds("run this long before the first window begins", 0.0),
        steadystate_interval: f64 = seconds("interval of the window's rates", 1.0),
        log: bool = flag("tell each job's progress and latencies by interval", false),
    }
}

parameters! {
    /// What a run may be asked beyond blocks at full speed; see [`super::options::JobOptions`].
    pub struct LoadParameters {
        rate: f64 = number("begin so many operations/s, all jobs together, whether those before are complete or not (open loop); 0 for no rate", "operations/s", (0.0, 1e9), 0.0).role(Role::Rate),
        rate_bytes: u64 = bytes("likewise so many B/s; 0 for no rate", 0, 0).role(Role::Rate),
        rate_process: RateProcess = choice("operations of a rate begin evenly spaced, or at random"),
        thinktime: f64 = seconds("wait so long after every thinktime_blocks operations", 0.0).role(Role::Delay),
        thinktime_blocks: u32 = integer("operations before each thinktime", "", (1, 1 << 30), 1),
        thinktime_iotime: f64 = seconds("or so long with operations before each thinktime; 0 for thinktime_blocks", 0.0),
        thinktime_spin: f64 = seconds("so much of each thinktime is spent spinning, not asleep", 0.0),
        random_distribution: String = text("how often blocks are visited: random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D", "random"),
        bssplit: String = text("lengths with their shares in percent, such as 4k/50:64k/50; empty for bs alone", ""),
        bssplit_write: String = text("likewise of writes; empty for bssplit", ""),
        pattern: SequenceDirection = choice("direction of an order in sequence"),
        stride: u64 = bytes("from one beginning to the next in sequence; 0 for bs", 0, 0),
        io_size: u64 = bytes("what one pass moves, all jobs together; 0 for size", 0, 0),
        fsync: u32 = integer("sync the file after so many writes of a job; 0 for never", "", (0, 1 << 30), 0),
        fdatasync: u32 = integer("sync the file's data likewise", "", (0, 1 << 30), 0),
        verify: Verification = choice("blocks say what they are; those written are read back after the timed region, those read are checked"),
        verify_seed: u64 = integer("tells the blocks of this run from those of others", "", (0, i64::MAX), 1),
        generation: u32 = integer("number of the first write of a block; an older one is stale", "", (1, 1 << 30), 1),
        journal: PathBuf = text("with verify: a new file that tells, even after a kill, which writes were acknowledged and synced, for \
             storage_check; best in memory (/dev/shm), 16 B a block; empty for none", ""),
        purge: bool = flag("discard the whole raw device first, as after a purge; a file is left as it is", false),
        destroy: String = text("the block device whose data is to be lost, the same as path; empty for none", ""),
        serial: String = text("its serial number; its size in bytes where it has none, or a loop's backing file", ""),
    }
}

parameters! {
    /// What job files ask beside those: rates apart, other orders, other contents, traces.
    pub struct JobFileParameters {
        rate_iops_read: f64 = operations_s("begin so many reads/s, all jobs together, in place of rate; 0 for no rate").role(Role::Rate),
        rate_iops_write: f64 = operations_s("likewise writes/s; in a mix the direction that is due goes first").role(Role::Rate),
        rate_read: u64 = bytes("likewise B/s read; 0 for no rate", 0, 0).role(Role::Rate),
        rate_write: u64 = bytes("likewise B/s written", 0, 0).role(Role::Rate),
        rate_iops_min_read: f64 = operations_s("end the run, as a fault, when fewer reads/s are made, all jobs together; 0 for never"),
        rate_iops_min_write: f64 = operations_s("likewise writes/s"),
        rate_min_read: u64 = bytes("likewise B/s read", 0, 0),
        rate_min_write: u64 = bytes("likewise B/s written", 0, 0),
        rate_cycle: f64 = seconds("so long between two looks at those, the first after 2 s", 1.0),
        rate_ignore_thinktime: bool = flag("a rate does not make up for thinktime", false),
        number_ios: u64 = integer("operations of one pass, all jobs together, if size does not end it first; 0 for no limit", "", (0, i64::MAX), 0),
        latency_target: f64 = seconds("search for the greatest depth, up to iodepth, with this latency; 0 for no search", 0.0),
        latency_window: f64 = seconds("so long at each depth", 0.0),
        latency_percentile: f64 = number("share of the operations that have to keep latency_target", "%", (0.0, 100.0), 100.0),
        latency_run: bool = flag("go on searching until the run ends", false),
        zonesize: u64 = bytes("bytes that are moved in one zone before the next; 0 for no zones", 0, 0),
        zonerange: u64 = bytes("length of a zone; 0 for zonesize", 0, 0),
        zoneskip: u64 = bytes("from the end of a zone to the next one", 0, 0),
        blockalign: u64 = bytes("random offsets are whole multiples of this; 0 for the shortest length", 0, 0),
        blockalign_write: u64 = bytes("likewise of writes; 0 for blockalign", 0, 0),
        bs_unaligned: bool = flag("lengths are any number of bytes from the least to the most of bssplit", false),
        bs_is_seq_rand: bool = flag("bssplit is of operations in sequence, and bssplit_write of random ones", false),
        sequential_read: u64 = percent("share of reads in random order that go on where the last one ended"),
        sequential_write: u64 = percent("likewise of writes"),
        random_every: u32 = integer("in random order only every so many-th operation is at random; 0 for all", "", (0, 1 << 30), 0),
        rw_sequencer: RwSequencer = choice("those between go on in sequence, or repeat the last"),
        positions_apart: bool = flag("in sequence, reads and writes each have a position of their own", false),
        gap: i64 = integer("in sequence each operation so far behind the end of the one before, or before it if negative; 0 for none", "B", (-(1 << 50), 1 << 50), 0),
        norandommap: bool = flag("a random order may visit a block twice in a pass, and leave others out", false),
        buffer_compress_percentage: u64 = percent("share of what is written that is zeroes"),
        buffer_compress_chunk: u64 = bytes("of every so many bytes; 0 for bs", 0, 0),
        dedupe_percentage: u64 = percent("share of writes that are the block before once more"),
        buffer_pattern: String = text("what is written, as bytes of two hexadecimal digits each; empty for what never repeats", ""),
        sync: Durable = choice("a write is complete when its data (dsync) and what describes the file (sync) is durable"),
        pre_read: bool = flag("read the region first, so that it lies in the page cache", false),
        write_iolog: Option<PathBuf> = text("write down the operations in this file, as fio's iolog version 3", ""),
        read_iolog: Option<PathBuf> = text("run the operations of this iolog, version 2 or 3, in place of any order; bs is the longest of them", ""),
        replay_skip: String = text("actions of it to leave out: read, write, sync, trim", ""),
        replay_time_scale: f64 = number("of the times between its operations so much is waited; 0 for none of it", "", (0.0, 1e6), 1.0),
        flow: u64 = integer("this job's part, each thread's, of the operations of its flow; 0 for none", "", (0, 1 << 30), 0),
        flow_id: u64 = integer("which flow, among the jobs that run at the same time", "", (0, 1 << 30), 0),
        flow_sleep: f64 = seconds("how long a thread rests that is ahead of its part", 0.0),
    }
}
