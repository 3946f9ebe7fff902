//! A journal of acknowledged writes outlives a kill, so that lost writes differ from those never promised.

#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod here;

use here::absent;
use hwdyno_engine::parts::{mix, seal, Entry, Journal};
use hwdyno_engine::{run, Error, Reading, Stop};
use serde_json::{json, Value};

const BLOCK: usize = 4096;
const BLOCKS: usize = 512;

struct Scratch(PathBuf);

impl Scratch {
    /// A folder with a laid out file of [`BLOCKS`] blocks.
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/var/tmp/hwdyno-journal-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let scratch = Self(path);
        run("storage_layout", &json!({"path": scratch.data(), "size": BLOCK * BLOCKS}), &Stop::new()).unwrap();
        scratch
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn written(scratch: &Scratch, more: &Value) -> Value {
    let mut all = json!({"path": scratch.data(), "journal": scratch.journal(), "rw": "randwrite", "bs": BLOCK,
        "ioengine": "psync", "verify": "crc32c", "runtime": 300.0});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

/// Whether this system has the access engine.
fn has(engine: &str) -> bool {
    let scratch = Scratch::new(&format!("has-{engine}"));
    let asked = json!({"path": scratch.data(), "ioengine": engine, "time_based": false});
    match run("storage_blocks", &asked, &Stop::new()) {
        Err(Error::Machine(says, Some(libc::ENOSYS | libc::EPERM))) if says.contains("use ioengine") => {
            absent(&says);
            false
        }
        other => other.is_ok(),
    }
}

fn check(scratch: &Scratch, after: &str) -> Reading {
    run("storage_check", &json!({"journal": scratch.journal(), "after": after}), &Stop::new()).unwrap()
}

fn count(reading: &Reading, name: &str) -> u64 {
    reading.details[name].as_u64().unwrap()
}

fn entries(scratch: &Scratch) -> Vec<Entry> {
    let journal = Journal::open(&scratch.journal()).unwrap();
    (0..journal.jobs())
        .flat_map(|job| {
            let ledger = journal.ledger(job);
            (0..ledger.blocks()).map(move |number| ledger.entry(number)).collect::<Vec<_>>()
        })
        .collect()
}

/// Writes of all blocks that were acknowledged, counted as often as they were written.
fn acknowledged(scratch: &Scratch) -> u64 {
    entries(scratch).iter().map(|entry| u64::from(entry.acknowledged)).sum()
}

/// A separate process that writes until it is killed.
struct Writer(Child);

impl Writer {
    fn start(scratch: &Scratch, more: &Value) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hwdyno-engine"));
        let child = child.args(["run", "storage_blocks", &written(scratch, more).to_string()]);
        Self(child.stdout(Stdio::null()).spawn().unwrap())
    }

    /// Waits, however long it takes under load, until this many writes were acknowledged.
    fn until(&mut self, scratch: &Scratch, writes: u64) {
        let begun = Instant::now();
        while Journal::open(&scratch.journal()).is_err() || acknowledged(scratch) < writes {
            assert!(self.0.try_wait().unwrap().is_none(), "the writer ended by itself");
            assert!(begun.elapsed() < Duration::from_secs(200), "nothing is written");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill(); // SIGKILL
        let _ = self.0.wait();
    }
}

fn put(path: &Path, number: usize, block: &[u8]) {
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(block, (number * BLOCK) as u64).unwrap();
}

#[test]
fn killed_at_any_moment_nothing_that_was_acknowledged_is_lost() {
    for (engine, more) in [
        ("io_uring", json!({"iodepth": 8, "direct": true, "numjobs": 2})),
        ("libaio", json!({"iodepth": 8, "direct": true, "fsync": 64})),
        ("psync", json!({"fdatasync": 16})),
        ("mmap", json!({"numjobs": 2})),
    ] {
        if !has(engine) {
            continue;
        }
        for seed in 1..=3_u64 {
            let scratch = Scratch::new(&format!("kill-{engine}-{seed}"));
            let mut all = more.clone();
            all["ioengine"] = json!(engine);
            all["seed"] = json!(seed);
            let mut writer = Writer::start(&scratch, &all);
            // Some way into the first pass, or some passes later.
            writer.until(&scratch, mix(seed) % (3 * BLOCKS as u64));
            drop(writer);
            let told = check(&scratch, "kill");
            assert_eq!(told.faults.len(), 0, "{engine} {seed}: {:?}", told.faults);
            let known = entries(&scratch);
            let having = |has: fn(&Entry) -> bool| known.iter().filter(|entry| has(entry)).count() as u64;
            assert_eq!(count(&told, "verify_checked_blocks"), having(|entry| entry.begun > 0), "{engine} {seed}");
            assert_eq!(count(&told, "journal_acknowledged_blocks"), having(|entry| entry.acknowledged > 0));
            assert_eq!(count(&told, "journal_in_flight_blocks"), having(|entry| entry.begun > entry.acknowledged));
            assert_eq!(count(&told, "journal_covered_by_sync_blocks"), having(|entry| entry.covered > 0));
            assert!(having(|entry| entry.covered > 0) == 0 || more.get("fsync").or(more.get("fdatasync")).is_some());
            assert_eq!(told.details["journal_ended"], false);
            assert_eq!(check(&scratch, "power_cut").faults.len(), 0, "{engine} {seed}");
        }
    }
}

/// Writes 1150 blocks in sequence, a sync after each 100, is killed in the pause that follows, and leaves 126 blocks
/// of the third pass: 76 of them covered by a sync, 50 not.
fn killed_in_the_third_pass(scratch: &Scratch) -> Vec<Entry> {
    let more = json!({"rw": "write", "time_based": true, "fsync": 100, "thinktime": 300.0, "thinktime_blocks": 1150});
    let mut writer = Writer::start(scratch, &more);
    writer.until(scratch, 1150);
    drop(writer);
    let known = entries(scratch);
    let in_pass = |number: usize| if number < 126 { 3 } else { 2 };
    for (number, entry) in known.iter().enumerate() {
        let covered = if number < 76 { 3 } else { 2 };
        assert_eq!((entry.certain(), entry.covered), (Some(in_pass(number)), covered), "block {number}");
    }
    known
}

/// The block as its write of that generation left it.
fn written_block(scratch: &Scratch, number: usize, generation: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..BLOCK).map(|at| mix(at as u64) as u8).collect();
    let nonce = Journal::open(&scratch.journal()).unwrap().nonce();
    seal(&mut bytes, (number * BLOCK) as u64, nonce, generation);
    bytes
}

#[test]
fn a_block_rolled_back_is_named_where_it_was_acknowledged_and_only_there() {
    let scratch = Scratch::new("rollback");
    killed_in_the_third_pass(&scratch);
    let told = check(&scratch, "kill");
    assert_eq!((told.faults.len(), count(&told, "journal_acknowledged_blocks")), (0, BLOCKS as u64));

    // Block 7: the device gives up a write that it had acknowledged, and that a sync had covered.
    let old = written_block(&scratch, 7, 2);
    put(&scratch.data(), 7, &old);
    for (after, word) in [("kill", "acknowledged"), ("power_cut", "sync")] {
        let told = check(&scratch, after);
        assert_eq!((count(&told, "verify_stale_blocks"), count(&told, "journal_lost_after_sync_blocks")), (1, 1));
        assert_eq!(told.details["verify_first_damaged"], json!([{"offset": 7 * BLOCK, "damage": "stale"}]));
        assert!(told.faults[0].says.contains("stale") && told.faults[0].says.contains(word), "{:?}", told.faults);
    }
    // Half of it is no better, because nothing was in flight there.
    put(&scratch.data(), 7, &[&written_block(&scratch, 7, 3)[..1536], &old[1536..]].concat());
    assert_eq!(count(&check(&scratch, "kill"), "verify_torn_blocks"), 1);
    put(&scratch.data(), 7, &written_block(&scratch, 7, 3));

    // Block 100 was acknowledged, but no sync came after: a power cut may take that write, a kill may not.
    let old = written_block(&scratch, 100, 2);
    for bytes in [&old, &[&old[..512], &written_block(&scratch, 100, 3)[512..]].concat()] {
        put(&scratch.data(), 100, bytes);
        let told = check(&scratch, "kill");
        assert_eq!((told.faults.len(), count(&told, "journal_lost_after_sync_blocks")), (1, 0));
        assert_eq!(check(&scratch, "power_cut").faults.len(), 0);
    }
    put(&scratch.data(), 100, &written_block(&scratch, 100, 1));
    assert_eq!(count(&check(&scratch, "power_cut"), "verify_stale_blocks"), 1);
    put(&scratch.data(), 100, &written_block(&scratch, 100, 3));

    // A journal that is older than its file accuses no one.
    put(&scratch.data(), 300, &written_block(&scratch, 300, 9));
    let told = check(&scratch, "kill");
    assert_eq!((told.faults.len(), count(&told, "journal_later_blocks")), (0, 1));
    assert_eq!(told.notes[0].code, "journal_older");
}

#[test]
fn a_block_that_was_never_acknowledged_may_hold_anything() {
    let scratch = Scratch::new("never");
    let more = json!({"rw": "write", "thinktime": 300.0, "thinktime_blocks": 50});
    let mut writer = Writer::start(&scratch, &more);
    writer.until(&scratch, 50);
    drop(writer);
    assert_eq!(entries(&scratch)[49..51], [Entry { begun: 1, acknowledged: 1, ..Entry::default() }, Entry::default()]);
    put(&scratch.data(), 50, &[7; BLOCK]);
    let told = check(&scratch, "kill");
    assert_eq!((told.faults.len(), count(&told, "verify_checked_blocks")), (0, 50));
    put(&scratch.data(), 49, &[7; BLOCK]);
    assert_eq!(count(&check(&scratch, "kill"), "verify_lost_blocks"), 1);
    fs::OpenOptions::new().write(true).open(scratch.data()).unwrap().set_len(40 * BLOCK as u64).unwrap();
    let told = check(&scratch, "kill");
    assert!(told.faults.iter().any(|fault| (fault.errno, fault.count) == (libc::EIO, 10)), "{:?}", told.faults);
}

#[test]
fn a_run_that_ends_says_so_and_what_cannot_be_is_refused() {
    let scratch = Scratch::new("ends");
    let once = json!({"time_based": false, "runtime": 0.0, "end_fsync": true, "generation": 5});
    for _ in 0..2 {
        // The journal of the run before is replaced, because that run ended.
        let reading = run("storage_blocks", &written(&scratch, &once), &Stop::new()).unwrap();
        assert_eq!((reading.faults.len(), count(&reading, "verify_checked_blocks")), (0, BLOCKS as u64));
        let told = check(&scratch, "power_cut");
        assert_eq!((told.faults.len(), &told.details["journal_ended"]), (0, &json!(true)));
        assert_eq!(count(&told, "journal_covered_by_sync_blocks"), BLOCKS as u64);
        assert!(entries(&scratch).iter().all(|entry| (entry.begun, entry.covered) == (5, 5)));
    }
    fs::write(scratch.0.join("mine"), "x").unwrap();
    for (more, word) in [
        (json!({"verify": "none"}), "verify"),
        (json!({"rw": "randread"}), "writes"),
        (json!({"journal": scratch.0.join("mine")}), "not a journal"),
        (json!({"journal": scratch.data()}), "not a journal"),
        (json!({"journal": scratch.0.join("no/journal")}), "journal"),
    ] {
        let says = run("storage_blocks", &written(&scratch, &more), &Stop::new()).unwrap_err().to_string();
        assert!(says.contains(word) && says.lines().count() == 1, "{more}: {says}");
    }
    for journal in [scratch.data(), scratch.0.join("mine"), scratch.0.join("missing"), scratch.0.clone()] {
        let says = run("storage_check", &json!({"journal": journal}), &Stop::new()).unwrap_err().to_string();
        assert!(says.contains("journal") && says.lines().count() == 1, "{says}");
    }
    assert_eq!(fs::read(scratch.0.join("mine")).unwrap(), b"x");
}
