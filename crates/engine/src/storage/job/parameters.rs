//! The parameters that `storage_blocks` declares beside those of every run.

use serde_json::{json, Value};

use crate::kernel::{Kind, Parameter};

/// A parameter of any kind.
#[must_use]
pub fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    Parameter { name, means, unit, kind, default }
}

/// A time.
#[must_use]
pub fn seconds(name: &'static str, means: &'static str, default: f64) -> Parameter {
    parameter(name, means, "s", Kind::Number { min: 0.0, max: 604_800.0 }, json!(default))
}

/// Yes or no.
#[must_use]
pub fn flag(name: &'static str, means: &'static str, default: bool) -> Parameter {
    parameter(name, means, "", Kind::Flag, json!(default))
}

/// One of some words, the first of them unless said otherwise.
#[must_use]
pub fn choice(name: &'static str, means: &'static str, choices: &[&'static str]) -> Parameter {
    parameter(name, means, "", Kind::Choice { choices: choices.to_vec() }, json!(choices[0]))
}

/// A whole number without a unit.
#[must_use]
pub fn count(name: &'static str, means: &'static str, min: i64, max: i64, default: i64) -> Parameter {
    parameter(name, means, "", Kind::Integer { min, max }, json!(default))
}

/// A length.
#[must_use]
pub fn bytes(name: &'static str, means: &'static str, min: i64, default: i64) -> Parameter {
    parameter(name, means, "B", Kind::Integer { min, max: i64::MAX }, json!(default))
}

/// Any text; empty unless said otherwise.
#[must_use]
pub fn text(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Text, json!(""))
}

/// Several files, passes, and an early end.
#[must_use]
pub fn multi_file_parameters() -> Vec<Parameter> {
    vec![
        count("loops", "passes, where time does not end the run", 1, 1 << 30, 1),
        text(
            "files",
            "several files for path, as a JSON list: each job has its share of them, or all with share=whole",
        ),
        parameter(
            "file_service_type",
            "which file is next: roundrobin, sequential, random, zipf:N, pareto:N, normal:N; :COUNT operations each",
            "",
            Kind::Text,
            json!("roundrobin"),
        ),
        count("openfiles", "so many of a job's files are in use at a time; 0 for all", 0, 1 << 20, 0),
        text(
            "steadystate",
            "end when the rate is steady: iops:2% (greatest deviation), iops_slope:0.3%, bw:…, lat:…; empty for never",
        ),
        seconds("steadystate_duration", "window that has to be steady", 10.0),
        seconds("steadystate_ramp_time", "run this long before the first window begins", 0.0),
        seconds("steadystate_interval", "interval of the window's rates", 1.0),
        flag("log", "tell each job's progress and latencies by interval", false),
    ]
}

/// What a run may be asked beyond blocks at full speed; see [`super::options::JobOptions`].
#[must_use]
pub fn load_parameters() -> Vec<Parameter> {
    vec![
        parameter(
            "rate",
            "begin so many operations/s, all jobs together, whether those before are complete or not (open loop); 0 for no rate",
            "operations/s",
            Kind::Number { min: 0.0, max: 1e9 },
            json!(0.0),
        ),
        bytes("rate_bytes", "likewise so many B/s; 0 for no rate", 0, 0),
        choice("rate_process", "operations of a rate begin evenly spaced, or at random", &["linear", "poisson"]),
        seconds("thinktime", "wait so long after every thinktime_blocks operations", 0.0),
        count("thinktime_blocks", "operations before each thinktime", 1, 1 << 30, 1),
        seconds("thinktime_iotime", "or so long with operations before each thinktime; 0 for thinktime_blocks", 0.0),
        seconds("thinktime_spin", "so much of each thinktime is spent spinning, not asleep", 0.0),
        parameter(
            "random_distribution",
            "how often blocks are visited: random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D",
            "",
            Kind::Text,
            json!("random"),
        ),
        text("bssplit", "lengths with their shares in percent, such as 4k/50:64k/50; empty for bs alone"),
        text("bssplit_write", "likewise of writes; empty for bssplit"),
        choice("pattern", "direction of an order in sequence", &["forward", "backward"]),
        bytes("stride", "from one beginning to the next in sequence; 0 for bs", 0, 0),
        bytes("io_size", "what one pass moves, all jobs together; 0 for size", 0, 0),
        count("fsync", "sync the file after so many writes of a job; 0 for never", 0, 1 << 30, 0),
        count("fdatasync", "sync the file's data likewise", 0, 1 << 30, 0),
        choice(
            "verify",
            "blocks say what they are; those written are read back after the timed region, those read are checked",
            &["none", "crc32c"],
        ),
        count("verify_seed", "tells the blocks of this run from those of others", 0, i64::MAX, 1),
        count("generation", "number of the first write of a block; an older one is stale", 1, 1 << 30, 1),
        text(
            "journal",
            "with verify: a new file that tells, even after a kill, which writes were acknowledged and synced, for \
             storage_check; best in memory (/dev/shm), 16 B a block; empty for none",
        ),
        flag("purge", "discard the whole raw device first, as after a purge; a file is left as it is", false),
        text("destroy", "the block device whose data is to be lost, the same as path; empty for none"),
        text("serial", "its serial number; its size in bytes where it has none, or a loop's backing file"),
    ]
}

fn percent(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "%", Kind::Integer { min: 0, max: 100 }, json!(0))
}

fn rate(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "operations/s", Kind::Number { min: 0.0, max: 1e9 }, json!(0.0))
}

/// What job files ask beside those: rates apart, other orders, other contents, traces.
#[must_use]
pub fn job_file_parameters() -> Vec<Parameter> {
    vec![
        rate("rate_iops_read", "begin so many reads/s, all jobs together, in place of rate; 0 for no rate"),
        rate("rate_iops_write", "likewise writes/s; in a mix the direction that is due goes first"),
        bytes("rate_read", "likewise B/s read; 0 for no rate", 0, 0),
        bytes("rate_write", "likewise B/s written", 0, 0),
        rate(
            "rate_iops_min_read",
            "end the run, as a fault, when fewer reads/s are made, all jobs together; 0 for never",
        ),
        rate("rate_iops_min_write", "likewise writes/s"),
        bytes("rate_min_read", "likewise B/s read", 0, 0),
        bytes("rate_min_write", "likewise B/s written", 0, 0),
        seconds("rate_cycle", "so long between two looks at those, the first after 2 s", 1.0),
        flag("rate_ignore_thinktime", "a rate does not make up for thinktime", false),
        count(
            "number_ios",
            "operations of one pass, all jobs together, if size does not end it first; 0 for no limit",
            0,
            i64::MAX,
            0,
        ),
        seconds(
            "latency_target",
            "search for the greatest depth, up to iodepth, with this latency; 0 for no search",
            0.0,
        ),
        seconds("latency_window", "so long at each depth", 0.0),
        parameter(
            "latency_percentile",
            "share of the operations that have to keep latency_target",
            "%",
            Kind::Number { min: 0.0, max: 100.0 },
            json!(100.0),
        ),
        flag("latency_run", "go on searching until the run ends", false),
        bytes("zonesize", "bytes that are moved in one zone before the next; 0 for no zones", 0, 0),
        bytes("zonerange", "length of a zone; 0 for zonesize", 0, 0),
        bytes("zoneskip", "from the end of a zone to the next one", 0, 0),
        bytes("blockalign", "random offsets are whole multiples of this; 0 for the shortest length", 0, 0),
        bytes("blockalign_write", "likewise of writes; 0 for blockalign", 0, 0),
        flag("bs_unaligned", "lengths are any number of bytes from the least to the most of bssplit", false),
        flag("bs_is_seq_rand", "bssplit is of operations in sequence, and bssplit_write of random ones", false),
        percent("sequential_read", "share of reads in random order that go on where the last one ended"),
        percent("sequential_write", "likewise of writes"),
        count("random_every", "in random order only every so many-th operation is at random; 0 for all", 0, 1 << 30, 0),
        choice("rw_sequencer", "those between go on in sequence, or repeat the last", &["sequential", "identical"]),
        flag("positions_apart", "in sequence, reads and writes each have a position of their own", false),
        parameter(
            "gap",
            "in sequence each operation so far behind the end of the one before, or before it if negative; 0 for none",
            "B",
            Kind::Integer { min: -(1 << 50), max: 1 << 50 },
            json!(0),
        ),
        flag("norandommap", "a random order may visit a block twice in a pass, and leave others out", false),
        percent("buffer_compress_percentage", "share of what is written that is zeroes"),
        bytes("buffer_compress_chunk", "of every so many bytes; 0 for bs", 0, 0),
        percent("dedupe_percentage", "share of writes that are the block before once more"),
        text(
            "buffer_pattern",
            "what is written, as bytes of two hexadecimal digits each; empty for what never repeats",
        ),
        choice(
            "sync",
            "a write is complete when its data (dsync) and what describes the file (sync) is durable",
            &["none", "sync", "dsync"],
        ),
        flag("pre_read", "read the region first, so that it lies in the page cache", false),
        text("write_iolog", "write down the operations in this file, as fio's iolog version 3"),
        text(
            "read_iolog",
            "run the operations of this iolog, version 2 or 3, in place of any order; bs is the longest of them",
        ),
        text("replay_skip", "actions of it to leave out: read, write, sync, trim"),
        parameter(
            "replay_time_scale",
            "of the times between its operations so much is waited; 0 for none of it",
            "",
            Kind::Number { min: 0.0, max: 1e6 },
            json!(1.0),
        ),
        count("flow", "this job's part, each thread's, of the operations of its flow; 0 for none", 0, 1 << 30, 0),
        count("flow_id", "which flow, among the jobs that run at the same time", 0, 1 << 30, 0),
        seconds("flow_sleep", "how long a thread rests that is ahead of its part", 0.0),
    ]
}
