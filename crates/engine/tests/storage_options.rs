//! Options of storage jobs beyond blocks at full speed, from outside: rates, syncs, lengths, and verified blocks.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

mod here;

use here::absent;
use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/var/tmp/hwdyno-asked-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, size: u64) -> String {
        let path = self.0.join("data").to_str().unwrap().to_string();
        run("storage_layout", &json!({"path": path, "size": size}), &Stop::new()).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn asked(path: &str, more: &Value) -> Value {
    let mut all = json!({"path": path, "ioengine": "psync", "time_based": false, "runtime": 0});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Runs; none where this system does not have the engine.
fn blocks(path: &str, more: &Value) -> Option<Reading> {
    match run("storage_blocks", &asked(path, more), &Stop::new()) {
        Ok(reading) => Some(reading),
        Err(Error::Machine(says, Some(libc::ENOSYS | libc::EPERM))) if says.contains("use ioengine") => {
            absent(&says);
            None
        }
        Err(error) => panic!("{more}: {error}"),
    }
}

fn operations(reading: &Reading) -> u64 {
    reading.streams.iter().map(|stream| stream.operations).sum()
}

fn damaged(reading: &Reading) -> Vec<(&'static str, u64)> {
    ["torn", "stale", "misplaced", "flipped", "lost"]
        .into_iter()
        .map(|kind| (kind, reading.details[&format!("verify_{kind}_blocks")].as_u64().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[test]
fn every_engine_writes_blocks_that_it_reads_back_and_another_run_can_check() {
    let scratch = Scratch::new("verify");
    let path = scratch.file(4 * MIB);
    let mut generation = 0;
    for (engine, depth) in [("io_uring", 16), ("libaio", 16), ("psync", 1), ("mmap", 1)] {
        for rw in ["write", "randwrite"] {
            generation += 1;
            let base = json!({"ioengine": engine, "iodepth": depth, "rw": rw, "verify": "crc32c", "numjobs": 2, "seed": generation,
                "direct": engine != "mmap", "generation": generation});
            let Some(written) = blocks(&path, &base) else { continue };
            assert!(written.faults.is_empty(), "{engine} {rw}: {:?}", written.faults);
            assert_eq!(
                (operations(&written), &written.details["verify_checked_blocks"]),
                (1024, &json!(1024)),
                "{engine} {rw}"
            );
            let check = json!({"rw": "randread", "verify": "crc32c", "generation": generation, "seed": 99});
            let read = blocks(&path, &check).unwrap();
            assert_eq!(
                (damaged(&read), &read.details["verify_checked_blocks"]),
                (vec![], &json!(1024)),
                "{engine} {rw}"
            );
        }
    }
}

#[test]
fn rewrites_while_time_lasts_are_checked_against_the_last_one() {
    let scratch = Scratch::new("rewrite");
    let path = scratch.file(MIB);
    for more in [
        json!({"rw": "randwrite"}),
        json!({"rw": "randrw", "rwmixread": 40}),
        json!({"rw": "randwrite", "random_distribution": "zipf:1.3"}),
        json!({"rw": "write", "pattern": "backward"}),
    ] {
        let mut all =
            json!({"ioengine": "io_uring", "iodepth": 32, "verify": "crc32c", "runtime": 0.1, "time_based": true});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let Some(reading) = blocks(&path, &all) else { return };
        assert!(reading.faults.is_empty() && reading.details["verify_checked_blocks"].as_u64().unwrap() > 0, "{more}");
        assert!(operations(&reading) > 256, "{more}: rewrites were meant");
    }
}

#[test]
fn each_planted_damage_is_named_and_placed() {
    let scratch = Scratch::new("plant");
    let path = scratch.file(MIB);
    let write = |generation: u64| {
        blocks(&path, &json!({"rw": "write", "bs": 4096, "verify": "crc32c", "generation": generation})).unwrap()
    };
    let check = || blocks(&path, &json!({"rw": "read", "bs": 4096, "verify": "crc32c", "generation": 2})).unwrap();
    write(1);
    let old = fs::read(&path).unwrap();
    write(2);
    let new = fs::read(&path).unwrap();
    assert_eq!(damaged(&check()), []);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let block = |all: &[u8], number: usize| all[number * 4096..(number + 1) * 4096].to_vec();
    let torn = [&block(&new, 7)[..1536], &block(&old, 7)[1536..]].concat();
    let mut flipped = block(&new, 7);
    flipped[3000] ^= 4;
    for (kind, planted) in [
        ("torn", torn),
        ("stale", block(&old, 7)),
        ("misplaced", block(&new, 9)),
        ("flipped", flipped),
        ("lost", vec![0; 4096]),
    ] {
        file.write_all_at(&planted, 7 * 4096).unwrap();
        let reading = check();
        assert_eq!(damaged(&reading), [(kind, 1)]);
        assert_eq!(reading.details["verify_first_damaged"], json!([{"offset": 7 * 4096, "damage": kind}]));
        assert!(reading.faults.iter().any(|fault| fault.operation == "verify" && fault.says.contains(kind)));
    }
    file.write_all_at(&block(&new, 7), 7 * 4096).unwrap();
    assert_eq!(damaged(&check()), []);
}

#[test]
fn a_rate_is_kept_and_latency_counts_from_the_intended_start() {
    let scratch = Scratch::new("rate");
    let path = scratch.file(MIB);
    for (engine, depth, jobs) in [("psync", 1, 1), ("psync", 1, 2), ("io_uring", 8, 1), ("libaio", 8, 1)] {
        for process in ["linear", "poisson"] {
            let more = json!({"rw": "randread", "ioengine": engine, "iodepth": depth, "numjobs": jobs, "rate": 1000,
                "rate_process": process});
            let Some(reading) = blocks(&path, &more) else { continue };
            assert_eq!(operations(&reading), 256);
            // 256 operations at 1000/s: a clock can be late, but never early.
            let least = if process == "linear" { 0.25 } else { 0.15 };
            assert!(reading.elapsed_s > least, "{engine} {process}: {}", reading.elapsed_s);
            assert!(reading.concurrency_requested.abs() < f64::EPSILON);
        }
    }
    // A rate beyond anything: the wait is part of the latency, and the reading says so.
    let more = json!({"rw": "read", "rate": 1e9, "size": MIB, "bs": 512});
    let reading = blocks(&path, &more).unwrap();
    let mean = |kind: &str| {
        let histogram = &reading.streams[0].latency_ns[kind];
        histogram["sum"].as_f64().unwrap_or(0.0) / histogram["count"].as_f64().unwrap()
    };
    assert!(mean("total") > 10.0 * mean("complete"), "{} {}", mean("total"), mean("complete"));
    assert!(reading.notes.iter().any(|note| note.code == "rate_not_reached"), "{:?}", reading.notes);
}

#[test]
fn a_byte_rate_think_time_and_syncs_take_the_time_that_they_should() {
    let scratch = Scratch::new("think");
    let path = scratch.file(MIB);
    let reading = blocks(&path, &json!({"rw": "read", "rate_bytes": 4 * MIB, "bs": 64 * KIB})).unwrap();
    assert!(reading.elapsed_s >= 0.234, "{}", reading.elapsed_s);
    let more = json!({"rw": "read", "bs": 64 * KIB, "thinktime": 0.01, "thinktime_blocks": 2});
    let reading = blocks(&path, &more).unwrap();
    assert!(reading.elapsed_s >= 0.07 && operations(&reading) == 16, "{}", reading.elapsed_s);
    for (sync, engine, depth) in [("fsync", "psync", 1), ("fdatasync", "io_uring", 8)] {
        let more = json!({"rw": "write", "bs": 64 * KIB, "ioengine": engine, "iodepth": depth, sync: 4});
        let Some(reading) = blocks(&path, &more) else { continue };
        assert_eq!((operations(&reading), &reading.details["sync_count"]), (16, &json!(4)), "{sync}");
    }
    let reading = blocks(&path, &json!({"rw": "randrw", "io_size": 3 * MIB, "numjobs": 2})).unwrap();
    assert_eq!(operations(&reading), 768);
}

#[test]
fn lengths_are_counted_by_the_byte() {
    let scratch = Scratch::new("split");
    let path = scratch.file(8 * MIB);
    for (engine, depth) in [("psync", 1), ("io_uring", 16)] {
        let more = json!({"rw": "randrw", "bssplit": "4k/50:64k/50", "ioengine": engine, "iodepth": depth, "direct": true,
            "io_size": 64 * MIB, "interval_s": 0.001});
        let Some(reading) = blocks(&path, &more) else { continue };
        assert!(reading.faults.is_empty());
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        assert!((64 * MIB..65 * MIB).contains(&bytes), "{bytes}");
        let mean = bytes as f64 / operations(&reading) as f64;
        assert!((mean / 34816.0 - 1.0).abs() < 0.1, "{mean}");
        let sampled: u64 = reading.samples.bytes.iter().flatten().sum();
        assert!(sampled <= bytes && sampled > bytes / 2, "{sampled} of {bytes}");
    }
}

#[test]
fn what_cannot_be_together_is_refused_in_one_line() {
    let scratch = Scratch::new("refuse");
    let path = scratch.file(MIB);
    for (more, word) in [
        (json!({"fsync": 1, "fdatasync": 1}), "fdatasync"),
        (json!({"rate": 1, "rate_bytes": 1}), "rate_bytes"),
        (json!({"random_distribution": "zipf:1.1", "rw": "read"}), "randread"),
        (json!({"random_distribution": "zipf:no", "rw": "randread"}), "zipf"),
        (json!({"bssplit": "4k/20"}), "bssplit"),
        (json!({"verify": "crc32c", "bssplit": "4k:8k"}), "bssplit"),
        (json!({"verify": "crc32c", "share": "whole", "numjobs": 2}), "partition"),
        (json!({"pattern": "backward", "rw": "randread"}), "sequential"),
    ] {
        let error = run("storage_blocks", &asked(&path, &more), &Stop::new()).unwrap_err().to_string();
        assert!(error.contains(word) && error.lines().count() == 1, "{more}: {error}");
    }
}

#[test]
fn jobs_of_a_group_run_at_the_same_time_and_each_is_told_apart() {
    let scratch = Scratch::new("group");
    let path = scratch.file(4 * MIB);
    let job = |rw: &str, offset: u64| json!({"path": path, "rw": rw, "ioengine": "psync", "offset": offset, "size": MIB, "runtime": 0.2});
    let jobs = json!([job("randread", 0), job("write", MIB), job("read", 2 * MIB)]).to_string();
    let reading = run("storage_group", &json!({"jobs": jobs}), &Stop::new()).unwrap();
    let each = reading.details["jobs"].as_array().unwrap();
    assert_eq!(each.len(), 3);
    let total: u64 = each.iter().map(|one| one["streams"][0]["operations"].as_u64().unwrap()).sum();
    assert!(total == operations(&reading) && total > 0);
    assert_eq!(each[1]["streams"][0]["name"], "write");
    for (jobs, word) in [("[]", "entries"), ("{", "JSON"), ("[{\"path\": \"/x\", \"bs\": 0}]", "bs"), ("[{}]", "path")]
    {
        let error = run("storage_group", &json!({"jobs": jobs}), &Stop::new()).unwrap_err().to_string();
        assert!(error.contains(word), "{jobs}: {error}");
    }
}

#[test]
fn polling_is_refused_where_it_would_spin_for_ever() {
    let scratch = Scratch::new("hipri");
    let path = scratch.file(MIB);
    let refused = |more: &Value| match run("storage_blocks", &asked(&path, more), &Stop::new()) {
        Err(Error::Usage(says)) => says,
        other => panic!("{more}: {other:?}"),
    };
    assert!(refused(&json!({"hipri": true, "direct": true})).contains("needs ioengine io_uring"));
    assert!(refused(&json!({"hipri": true, "ioengine": "io_uring"})).contains("needs direct"));
}

#[test]
fn small_pages_for_buffers_change_nothing_but_the_cost() {
    let scratch = Scratch::new("mem");
    let path = scratch.file(8 * MIB);
    for mem in ["huge", "small"] {
        let reading = blocks(&path, &json!({"rw": "read", "bs": 4 * MIB, "mem": mem})).unwrap();
        assert_eq!(operations(&reading), 2, "{mem}");
        assert!(reading.faults.is_empty());
    }
}

#[test]
fn a_thread_that_ended_in_the_ramp_adds_nothing_to_the_others_region() {
    let scratch = Scratch::new("ramp");
    let path = scratch.file(3 * 4096);
    // One block for the first thread, at once, and two for the other, half a second apart.
    let more = json!({"rw": "read", "bs": 4096, "numjobs": 2, "direct": false, "rate": 4.0, "ramp_time": 0.4});
    let reading = blocks(&path, &more).unwrap();
    assert_eq!(operations(&reading), 2);
    assert!((0.4..0.9).contains(&reading.elapsed_s), "{}", reading.elapsed_s);
    assert!(reading.notes.iter().all(|note| note.code != "done_in_ramp"));
}
