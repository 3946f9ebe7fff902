//! Several files a job, streams of the C library, runs that end when they are steady, and what each thread tells.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::fs;
use std::path::PathBuf;

mod here;

use here::absent;
use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const MIB: u64 = 1 << 20;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/var/tmp/hwdyno-files-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Laid out files of `size` bytes each.
    fn files(&self, count: usize, size: u64) -> Vec<String> {
        let path = |number| self.0.join(format!("data.{number}")).to_str().unwrap().to_string();
        let all: Vec<String> = (0..count).map(path).collect();
        for path in &all {
            run("storage_layout", &json!({"path": path, "size": size}), &Stop::new()).unwrap();
        }
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs; none where this system does not have the engine, unless it must.
fn blocks(files: &[String], more: &Value) -> Option<Reading> {
    let mut all = json!({"path": files[0], "ioengine": "psync", "time_based": false, "runtime": 0});
    if files.len() > 1 {
        all["files"] = json!(json!(files).to_string());
    }
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    match run("storage_blocks", &all, &Stop::new()) {
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

const ENGINES: [(&str, u64); 5] = [("io_uring", 8), ("libaio", 8), ("psync", 1), ("mmap", 1), ("stdio", 1)];

#[test]
fn every_engine_reaches_every_block_of_every_file_and_finds_it_in_its_place() {
    let scratch = Scratch::new("engines");
    let files = scratch.files(6, 256 << 10);
    let mut generation = 0;
    for (engine, depth) in ENGINES {
        for (rw, jobs, service, open) in
            [("write", 1, "roundrobin", 0), ("randwrite", 3, "random:2", 0), ("write", 2, "sequential", 1)]
        {
            generation += 1;
            let base = json!({"ioengine": engine, "iodepth": depth, "rw": rw, "numjobs": jobs, "verify": "crc32c",
                "generation": generation, "file_service_type": service, "openfiles": open});
            let Some(written) = blocks(&files, &base) else { continue };
            assert!(written.faults.is_empty(), "{engine} {rw}: {:?}", written.faults);
            assert_eq!((operations(&written), &written.details["verify_checked_blocks"]), (384, &json!(384)), "{base}");
            let check = json!({"rw": "randread", "numjobs": jobs, "verify": "crc32c", "generation": generation});
            let read = blocks(&files, &check).unwrap();
            assert_eq!((read.faults.len(), &read.details["verify_checked_blocks"]), (0, &json!(384)), "{base}");
        }
    }
    assert!(files.iter().all(|path| fs::metadata(path).unwrap().len() == 256 << 10));
}

#[test]
fn streams_of_the_c_library_take_blocks_of_any_length() {
    let scratch = Scratch::new("stdio");
    let files = scratch.files(1, MIB);
    for (rw, bs) in [("write", 8), ("read", 8), ("randread", 1000), ("randwrite", 3), ("rw", 4096), ("read", MIB)] {
        let reading = blocks(&files, &json!({"ioengine": "stdio", "rw": rw, "bs": bs})).unwrap();
        assert_eq!((operations(&reading), reading.faults.len()), (MIB / bs, 0), "{rw} {bs}");
    }
    let refused = run("storage_blocks", &json!({"path": files[0], "ioengine": "stdio", "iodepth": 2}), &Stop::new());
    assert!(refused.unwrap_err().to_string().contains("synchronous"));
}

#[test]
fn a_run_ends_when_its_rate_is_steady_and_says_what_it_saw() {
    let scratch = Scratch::new("steady");
    let files = scratch.files(1, MIB);
    let more = json!({"rw": "randread", "rate": 2000, "numjobs": 2, "runtime": 60, "time_based": true,
        "steadystate": "iops:50%", "steadystate_duration": 0.3, "steadystate_interval": 0.1, "steadystate_ramp_time": 0.1});
    let reading = blocks(&files, &more).unwrap();
    assert!(reading.elapsed_s < 30.0, "{} s of 60", reading.elapsed_s);
    let told = &reading.details["steadystate"];
    assert_eq!((&told["attained"], told["operations_s"].as_array().unwrap().len()), (&json!(true), 3), "{told}");
    let never = json!({"rw": "randread", "rate": 2000, "runtime": 0.4, "time_based": true,
        "steadystate": "iops_slope:0", "steadystate_duration": 0.2, "steadystate_interval": 0.1});
    assert_eq!(blocks(&files, &never).unwrap().details["steadystate"]["criterion"], "iops_slope:0");
}

#[test]
fn each_thread_tells_its_own_course_and_its_own_rate() {
    let scratch = Scratch::new("children");
    let files = scratch.files(1, MIB);
    let more = json!({"rw": "randrw", "numjobs": 2, "runtime": 0.3, "time_based": true, "interval_s": 0.05, "log": true,
        "bssplit": "4k", "bssplit_write": "4k/50:8k/50"});
    let reading = blocks(&files, &more).unwrap();
    let logs = reading.details["logs"].as_array().unwrap();
    assert_eq!(logs.len(), 2);
    for way in ["read", "write"] {
        let rows =
            |name: &str| logs[0][way][name].as_array().unwrap().iter().filter_map(Value::as_u64).collect::<Vec<_>>();
        let (count, bytes, ns) = (rows("operations"), rows("bytes"), rows("total_ns"));
        assert!(count.len() >= 3 && count.len() == bytes.len() && count.len() == ns.len(), "{way}: {count:?}");
        assert!(count.iter().zip(&ns).all(|(count, ns)| (*count > 0) == (*ns > 0)), "{way}: {count:?} {ns:?}");
        let a_block = bytes.iter().sum::<u64>() as f64 / count.iter().sum::<u64>() as f64;
        let expected = if way == "read" { 4096.0 } else { 6144.0 };
        assert!((a_block - expected).abs() < 200.0, "{way}: {a_block} B an operation");
    }
    let of = |name: &str| reading.details[name].as_f64().unwrap();
    assert!(of("children_min_bytes_s") <= of("children_mean_bytes_s"));
    assert!((of("children_sum_bytes_s") - 2.0 * of("children_mean_bytes_s")).abs() < 1.0);
}

#[test]
fn loops_and_pauses_are_what_was_asked() {
    let scratch = Scratch::new("loops");
    let files = scratch.files(3, 64 << 10);
    for (more, count) in [
        (json!({"loops": 3, "rw": "read"}), 144),
        (json!({"loops": 2, "rw": "randread", "random_distribution": "zipf:1.2"}), 96),
        (json!({"thinktime": 0.001, "thinktime_spin": 0.0005, "thinktime_blocks": 10, "rw": "read"}), 48),
        (json!({"thinktime": 0.001, "thinktime_iotime": 0.000_01, "rw": "read"}), 48),
        (json!({"rate": 20000, "rw": "read"}), 48),
    ] {
        assert_eq!(operations(&blocks(&files, &more).unwrap()), count, "{more}");
    }
    let refused =
        run("storage_blocks", &json!({"path": "x", "files": json!(files).to_string(), "numjobs": 2}), &Stop::new());
    assert!(refused.unwrap_err().to_string().contains("share=whole"));
}
