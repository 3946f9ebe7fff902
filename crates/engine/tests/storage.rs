//! The storage kernels from outside: every engine and mode on real files, and what they refuse.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod here;

use here::absent;
use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const ENGINES: [&str; 4] = ["io_uring", "libaio", "psync", "mmap"];
const MIB: u64 = 1 << 20;

/// A directory that goes when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self::below(Path::new("/var/tmp"), name)
    }

    fn below(base: &Path, name: &str) -> Self {
        let path = base.join(format!("hwdyno-kernels-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A laid out file of `size` bytes in it.
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

fn with(base: &Value, more: &Value) -> Value {
    let mut all = base.as_object().unwrap().clone();
    all.extend(more.as_object().unwrap().clone());
    Value::Object(all)
}

/// Runs; none where this system does not have the engine (an emulator, an old kernel, a container's filter).
fn blocks(parameters: &Value) -> Option<Reading> {
    match run("storage_blocks", parameters, &Stop::new()) {
        Ok(reading) => Some(reading),
        Err(Error::Machine(says, Some(libc::ENOSYS | libc::EPERM))) if says.contains("use ioengine") => {
            absent(&says);
            None
        }
        Err(error) => panic!("{parameters}: {error}"),
    }
}

fn operations(reading: &Reading) -> u64 {
    reading.streams.iter().map(|stream| stream.operations).sum()
}

/// The mark that a sector at `offset` of a file carries (as `sys::memory::mark`).
fn mark(offset: u64) -> [u8; 8] {
    hwdyno_engine::parts::mark(offset).to_le_bytes()
}

fn serial(data: &[u8], offset: usize) -> &[u8] {
    &data[offset + 8..offset + 16]
}

#[test]
fn every_engine_and_mode_moves_each_block_once_and_to_its_place() {
    let scratch = Scratch::new("modes");
    let (size, offset, length, bs) = (3 * MIB, 64 << 10, 2 * MIB, 8192_u64);
    let path = scratch.file(size);
    let mut seed = 0; // another one each time, so that what is written differs from what was there
    for engine in ENGINES {
        let depth = if matches!(engine, "psync" | "mmap") { 1 } else { 16 };
        for direct in [false, true] {
            for rw in ["read", "write", "randread", "randwrite", "rw", "randrw"] {
                let before = fs::read(&path).unwrap();
                seed += 1;
                let asked = json!({"path": path, "rw": rw, "rwmixread": 30, "bs": bs, "iodepth": depth, "numjobs": 2,
                    "ioengine": engine, "direct": direct, "size": length, "offset": offset, "time_based": false,
                    "runtime": 0, "seed": seed, "end_fsync": true});
                let Some(reading) = blocks(&asked) else { continue };
                let case = format!("{engine} {rw} direct {direct}");
                assert!(reading.faults.is_empty(), "{case}: {:?}", reading.faults);
                assert_eq!(operations(&reading), length / bs, "{case}");
                for stream in &reading.streams {
                    assert_eq!(stream.bytes, stream.operations * bs, "{case}");
                    assert_eq!(stream.latency_ns["total"]["count"], stream.operations, "{case}");
                    assert_eq!(stream.latency_ns["complete"]["count"], stream.operations, "{case}");
                }
                let names: Vec<_> = reading.streams.iter().map(|stream| stream.name.as_str()).collect();
                let expected: &[&str] = match rw {
                    "read" | "randread" => &["read"],
                    "write" | "randwrite" => &["write"],
                    _ => &["read", "write"],
                };
                assert_eq!(names, expected, "{case}");
                // Each block is where it belongs, as many changed as were written, none outside of the region.
                let after = fs::read(&path).unwrap();
                assert_eq!(after.len() as u64, size, "{case}");
                let mut changed = 0;
                for at in (0..size).step_by(512) {
                    assert_eq!(after[at as usize..][..8], mark(at), "{case}: sector at {at}");
                    if serial(&after, at as usize) != serial(&before, at as usize) {
                        assert!((offset..offset + length).contains(&at), "{case}: wrote at {at}");
                        changed += 1;
                    }
                }
                let written = reading.streams.iter().find(|stream| stream.name == "write").map_or(0, |s| s.bytes);
                assert_eq!(changed * 512, written, "{case}");
            }
        }
    }
}

#[test]
fn time_based_runs_keep_their_depth_and_their_time() {
    let scratch = Scratch::new("time");
    let path = scratch.file(MIB);
    for engine in ENGINES {
        let depth = if matches!(engine, "psync" | "mmap") { 1 } else { 8 };
        let asked = json!({"path": path, "rw": "randread", "iodepth": depth, "ioengine": engine, "runtime": 0.15,
            "ramp_time": 0.05, "startdelay": 0.05, "interval_s": 0.01, "numjobs": 2});
        let Some(reading) = blocks(&asked) else { continue };
        assert!(reading.elapsed_s >= 0.15, "{engine}: {}", reading.elapsed_s);
        assert!(!reading.interrupted);
        let in_flight = reading.details["in_flight_mean"].as_f64().unwrap();
        assert!(in_flight <= reading.concurrency_requested * 1.0001, "{engine}: {in_flight}");
        let sampled: u64 = reading.samples.operations.iter().flatten().sum();
        assert!(sampled > 0 && sampled <= operations(&reading), "{engine}: {sampled}");
        assert!(reading.counters.contains_key("process_read_bytes"));
    }
}

#[test]
fn the_same_seed_gives_the_same_order() {
    let scratch = Scratch::new("seed");
    let path = scratch.file(MIB);
    let asked =
        |seed: u64| json!({"path": path, "rw": "randrw", "ioengine": "psync", "seed": seed, "time_based": false});
    let reads = |seed: u64| blocks(&asked(seed)).unwrap().streams[0].operations;
    assert_eq!(reads(1), reads(1));
    assert!((2..20).any(|seed| reads(seed) != reads(1)));
}

#[test]
fn blocks_that_do_not_fit_direct_access_go_through_the_cache_and_say_so() {
    let scratch = Scratch::new("align");
    let path = scratch.file(MIB);
    let asked =
        json!({"path": path, "rw": "randread", "bs": 777, "ioengine": "psync", "direct": true, "time_based": false});
    let reading = blocks(&asked).unwrap();
    assert_eq!(reading.notes.iter().filter(|note| note.code == "direct_refused").count(), 1, "{:?}", reading.notes);
    assert_eq!(operations(&reading), MIB / 777);
    assert_eq!(reading.details["direct_used"], false);
}

#[test]
fn a_filesystem_in_memory_is_never_called_direct() {
    let shm = Path::new("/dev/shm");
    if fs::write(shm.join("hwdyno-probe"), b"x").is_err() {
        return absent("a tmpfs at /dev/shm");
    }
    fs::remove_file(shm.join("hwdyno-probe")).unwrap();
    let scratch = Scratch::below(shm, "tmpfs");
    let path = scratch.file(MIB);
    let asked = json!({"path": path, "ioengine": "psync", "direct": true, "time_based": false});
    let reading = blocks(&asked).unwrap();
    assert!(reading.notes.iter().any(|note| note.code == "direct_refused"), "{:?}", reading.notes);
}

#[test]
fn what_cannot_be_is_refused_in_one_line_with_what_mends_it() {
    let scratch = Scratch::new("refuse");
    let path = scratch.file(MIB);
    let base = json!({"path": path, "ioengine": "psync", "runtime": 0.01});
    for (more, word) in [
        (json!({"iodepth": 4}), "numjobs 4"),
        (json!({"ioengine": "mmap", "iodepth": 2}), "io_uring"),
        (json!({"size": 2 * MIB}), "lay the file out"),
        (json!({"offset": MIB}), "lay the file out"),
        (json!({"offset": i64::MAX, "size": i64::MAX}), "lay the file out"),
        (json!({"bs": 2 * MIB}), "smaller bs"),
        (json!({"bs": MIB, "numjobs": 2}), "share=whole"),
        (json!({"runtime": 0}), "runtime above 0"),
        (json!({"path": scratch.0.join("missing")}), "lay the file out first"),
        (json!({"path": scratch.0}), ""),
        (json!({"path": "/dev/null", "rw": "write"}), "regular file"),
        (json!({"bs": 1_u64 << 40, "size": 1_u64 << 40}), "buffers"),
    ] {
        let error = run("storage_blocks", &with(&base, &more), &Stop::new()).unwrap_err().to_string();
        assert!(error.contains(word) && error.lines().count() == 1, "{more}: {error}");
    }
    assert_eq!(fs::metadata(&path).unwrap().len(), MIB);
}

#[test]
fn asked_to_stop_it_ends_soon_with_what_it_has() {
    let scratch = Scratch::new("stop");
    let path = scratch.file(MIB);
    let base = json!({"path": path, "rw": "randrw", "ioengine": "psync", "runtime": 60, "numjobs": 2});
    for more in
        [json!({}), json!({"startdelay": 60}), json!({"ramp_time": 60}), json!({"ioengine": "io_uring", "iodepth": 32})]
    {
        let stop = Stop::new();
        let other = stop.clone();
        let setter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(60));
            other.set();
        });
        let began = Instant::now();
        let answer = run("storage_blocks", &with(&base, &more), &stop);
        setter.join().unwrap();
        // Far from the requested minute, even on a busy machine.
        assert!(began.elapsed() < Duration::from_secs(20), "{more}: {:?}", began.elapsed());
        match answer {
            Ok(reading) => assert!(reading.interrupted, "{more}"),
            Err(error) => assert!(error.to_string().contains("use ioengine"), "{more}: {error}"),
        }
    }
}

#[test]
fn a_file_cut_short_underneath_is_a_fault_and_not_the_end_of_the_process() {
    for engine in ENGINES {
        let scratch = Scratch::new(&format!("cut-{engine}"));
        let path = scratch.file(4 * MIB);
        let cutter = {
            let path = path.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                fs::OpenOptions::new().write(true).open(path).unwrap().set_len(64 << 10).unwrap();
            })
        };
        let reading = blocks(&json!({"path": path, "rw": "randread", "ioengine": engine, "runtime": 0.3}));
        cutter.join().unwrap();
        let Some(reading) = reading else { continue };
        assert!(reading.faults.iter().any(|fault| fault.operation == "read" && fault.count > 0), "{engine}");
        assert!(operations(&reading) > 0, "{engine}");
    }
}

#[test]
fn holes_and_unwritten_parts_are_told_apart_from_data() {
    let scratch = Scratch::new("extents");
    let path = scratch.file(MIB);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(3 * MIB).unwrap();
    let reading = blocks(&json!({"path": path, "ioengine": "psync", "time_based": false})).unwrap();
    let bytes = |name: &str| reading.details[name].as_u64();
    if bytes("extent_hole_bytes").is_none() {
        return absent("a filesystem at /var/tmp that tells its extents");
    }
    assert_eq!((bytes("extent_written_bytes"), bytes("extent_hole_bytes")), (Some(MIB), Some(2 * MIB)));
    assert!(reading.details["cached_share_after"].as_f64().is_none_or(|share| (0.0..=1.0).contains(&share)));
}

#[test]
fn the_systems_counters_hold_all_that_any_thread_counted_but_what_straddles_its_begin() {
    let scratch = Scratch::new("edges");
    let path = scratch.file(64 * MIB);
    // Few large blocks a thread: each is a good part of the run, and the threads end at different times.
    for (jobs, ramp_s) in [(1, 0.0), (4, 0.0), (4, 0.05), (1, 0.05)] {
        let reading = blocks(&json!({
            "path": path, "rw": "read", "bs": 8 * MIB, "iodepth": 2, "numjobs": jobs, "direct": true,
            "runtime": 0.1, "ramp_time": ramp_s, "share": "whole",
        }));
        let Some(reading) = reading else { return absent("io_uring") };
        if reading.details["direct_used"] != json!(true) {
            return absent("direct I/O at /var/tmp");
        }
        let count = |name: &str| reading.counters[name].as_u64().unwrap_or(0);
        let issued: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        let seen = count("process_read_bytes");
        if seen == 0 {
            return absent("/proc/self/io");
        }
        let straddling = count("straddling_bytes");
        assert!(straddling <= 2 * jobs * 8 * MIB && (ramp_s > 0.0 || straddling == 0), "{jobs} {ramp_s} {straddling}");
        assert!(seen + straddling >= issued, "{jobs} jobs, ramp {ramp_s}: {seen} + {straddling} < {issued}");
    }
}

#[test]
fn what_was_written_to_the_page_cache_alone_is_dirty() {
    let scratch = Scratch::new("dirty");
    let path = scratch.file(4 * MIB);
    let given = json!({"path": path, "rw": "write", "ioengine": "psync", "time_based": false, "direct": false});
    let Some(share) = blocks(&given).unwrap().details.get("dirty_share_after").and_then(Value::as_f64) else {
        return absent("cachestat");
    };
    assert!((0.0..=1.0).contains(&share) && share > 0.5, "{share}");
    let synced = json!({
        "path": path, "rw": "write", "ioengine": "psync", "time_based": false, "direct": false, "end_fsync": true,
    });
    assert_eq!(blocks(&synced).unwrap().details["dirty_share_after"], json!(0.0));
}

#[test]
fn idle_counts_clocks_and_samples_like_any_other() {
    for rw in ["randread", "read", "randrw", "randwrite"] {
        let reading = run("idle", &json!({"runtime": 0.05, "rw": rw, "iodepth": 16}), &Stop::new()).unwrap();
        assert!(operations(&reading) > 0);
        for stream in &reading.streams {
            for kind in ["submit", "complete", "total"] {
                assert_eq!(stream.latency_ns[kind]["count"], stream.operations, "{rw} {kind}");
            }
        }
        let in_flight = reading.details["in_flight_mean"].as_f64().unwrap();
        assert!((in_flight - 16.0).abs() < 0.5, "{rw}: {in_flight} in flight");
    }
}
