//! File metadata operations in a tree of small files: create, stat, open, readdir, rename and unlink, each timed.

use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::contract::error::NO_INODES;
use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::{CpuTime, Fault, Note, Reading, Samples, Stream};
use crate::safe_files::scratch::Fresh;
use crate::safe_files::Folder;
use crate::storage::results::counters::{Device, Snapshot};
use crate::storage::results::metrics::Metrics;
use crate::sys::filesystem::{free_bytes, free_inodes};
use crate::sys::names;
use crate::timing::clock::Clock;
use crate::timing::cpu_time;
use crate::timing::team;
use crate::words;

/// Directories below each directory of the tree.
const BRANCHES: u64 = 4;
/// Consecutive faults that end a thread's run.
const FAULTS_IN_A_ROW: u32 = 1000;

words! {
    /// The operation that is timed.
    pub enum Operation {
        /// Create a file and write it.
        Create = "create": Writes,
        /// Read its attributes.
        Stat = "stat": Reads,
        /// Open and close it.
        Open = "open": Reads,
        /// List a whole directory.
        Readdir = "readdir": Reads,
        /// Rename it within its directory.
        Rename = "rename": Writes,
        /// Remove it.
        Unlink = "unlink": Writes,
    }
}

impl Operation {
    fn consumes(self) -> bool {
        matches!(self, Self::Create | Self::Unlink)
    }
}

/// A metadata run.
#[derive(Debug, Clone)]
pub struct MetadataJob {
    /// The directory in which the tree is created.
    pub path: PathBuf,
    /// The operation that is timed.
    pub operation: Operation,
    /// Files a thread.
    pub files: u64,
    /// Length of each, B.
    pub size: usize,
    /// Levels of directories below the first.
    pub depth: u32,
    /// Threads.
    pub jobs: usize,
    /// All threads work in the same directories.
    pub shared: bool,
    /// Sync each file that is created or changed.
    pub sync_file: bool,
    /// Sync its directory likewise.
    pub sync_directory: bool,
    /// No longer than this, s; 0 for one pass, however long.
    pub runtime_s: f64,
    /// Length of a sampling interval, s.
    pub interval_s: f64,
    /// Processors to run on; empty for any.
    pub cpus: Vec<u64>,
}

/// One thread's paths in the tree, prepared so that nothing is formatted in the timed region.
struct Paths {
    files: Vec<CString>,
    others: Vec<CString>,
    /// The place in `directories` of each file's.
    of: Vec<usize>,
    directories: Vec<CString>,
}

struct ThreadResult {
    metrics: Metrics,
    cpu: CpuTime,
    stopped: bool,
    cut: bool,
    listed: u64,
    faults_ended: bool,
    /// Inodes that were left where there was no room for a file.
    inodes: Option<u64>,
    counters: Option<serde_json::Map<String, serde_json::Value>>,
}

fn text(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::usage("path holds a zero byte"))
}

impl MetadataJob {
    /// Runs it.
    ///
    /// # Errors
    /// What keeps the tree from being made; faults of what is timed are counted in the reading.
    pub fn run(&self, stop: &Stop) -> Result<Reading, Error> {
        let about =
            fs::metadata(&self.path).map_err(|e| Error::machine(format!("stat {}", self.path.display()), &e))?;
        if !about.is_dir() {
            return Err(Error::usage(format!("{} is not a directory: metadata tests need one", self.path.display())));
        }
        let all = self.files * self.jobs as u64;
        let needed = all * (self.size as u64).next_multiple_of(4096).max(512);
        match free_bytes(&self.path) {
            Ok(free) if free < needed => {
                return Err(Error::Machine(
                    format!("{all} files need {} MiB but {} MiB are free: use fewer", needed >> 20, free >> 20),
                    Some(libc::ENOSPC),
                ))
            }
            _ => {}
        }
        Error::without_inodes("the metadata test", &self.path, all + self.directories())?;
        let clock = Clock::best();
        let root = format!("names-{}-{:x}", std::process::id(), clock.now());
        let failed = |e: &std::io::Error| {
            Error::filesystem(
                format!("create a directory in {}; use a writable one", self.path.display()),
                &self.path,
                e,
            )
        };
        // removed with its contents when the reading ends, also after an error
        let tree = Folder::named(&self.path).and_then(|path| Fresh::new(path, &root)).map_err(|e| failed(&e))?;
        let tree = &tree.folder;
        let device = Device::of(&about, false);
        let gave_up = AtomicBool::new(false);
        let results = team::run(self.jobs, &self.cpus, |member| {
            let made = self.make(tree, member.number, stop);
            if made.is_err() {
                gave_up.store(true, Ordering::Relaxed);
            }
            member.wait_for_start();
            let mut paths = made?;
            if gave_up.load(Ordering::Relaxed) {
                return Err(Error::Machine("another thread could not create its files".into(), None));
            }
            Ok(self.measure(tree.handle(), &mut paths, clock, member.number == 0, device.as_ref(), stop))
        })?;
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(self.make_reading(results))
    }

    /// Directories of all trees, the one around them included.
    fn directories(&self) -> u64 {
        let each: u64 = (0..=self.depth).map(|level| u64::pow(BRANCHES, level)).sum();
        1 + each * if self.shared { 1 } else { self.jobs as u64 }
    }

    /// Makes one thread's directories, and its files unless they are what is timed.
    fn make(&self, root: &Folder, number: usize, stop: &Stop) -> Result<Paths, Error> {
        let failed = |e: &std::io::Error| Error::filesystem("create the tree's directories", &self.path, e);
        let base = PathBuf::from(if self.shared { "all".into() } else { format!("t{number}") });
        let mut level = vec![base];
        let make_all = |level: &[PathBuf]| {
            // of a shared tree another thread may be first
            level.iter().try_for_each(|path| root.folder(path).map(drop).map_err(|error| failed(&error)))
        };
        make_all(&level)?;
        for _ in 0..self.depth {
            level = level.iter().flat_map(|path| (0..BRANCHES).map(|n| path.join(format!("d{n}")))).collect();
            make_all(&level)?;
        }
        let directories = level.iter().map(|path| text(path)).collect::<Result<Vec<_>, _>>()?;
        let mut paths = Paths { files: Vec::new(), others: Vec::new(), of: Vec::new(), directories };
        for file in 0..self.files {
            let at = (file % level.len() as u64) as usize;
            paths.files.push(text(&level[at].join(format!("f{number}-{file}")))?);
            paths.others.push(text(&level[at].join(format!("g{number}-{file}")))?);
            paths.of.push(at);
        }
        if self.operation != Operation::Create {
            let content = vec![0x5A_u8; self.size];
            for path in &paths.files {
                if stop.is_set() {
                    break;
                }
                names::create(root.handle(), path, &content, false)
                    .map_err(std::io::Error::from_raw_os_error)
                    .map_err(|error| Error::filesystem("create a file", &self.path, &error))?;
            }
        }
        Ok(paths)
    }

    fn once(&self, tree: &OwnedFd, paths: &mut Paths, at: usize, content: &[u8]) -> Result<u64, i32> {
        let of = paths.of[at];
        match self.operation {
            Operation::Create => names::create(tree, &paths.files[at], content, self.sync_file)?,
            Operation::Stat => names::stat(tree, &paths.files[at])?,
            Operation::Open => names::open(tree, &paths.files[at])?,
            Operation::Readdir => return names::list(tree, &paths.directories[at]),
            Operation::Rename => {
                names::rename(tree, &paths.files[at], &paths.others[at])?;
                let Paths { files, others, .. } = paths;
                std::mem::swap(&mut files[at], &mut others[at]);
            }
            Operation::Unlink => names::unlink(tree, &paths.files[at])?,
        }
        if self.sync_directory && matches!(self.operation, Operation::Create | Operation::Rename | Operation::Unlink) {
            names::sync_directory(tree, &paths.directories[of])?;
        }
        Ok(1)
    }

    fn measure(
        &self,
        tree: &OwnedFd,
        paths: &mut Paths,
        clock: Clock,
        observes: bool,
        device: Option<&Device>,
        stop: &Stop,
    ) -> ThreadResult {
        let mut metrics = Metrics::new((self.interval_s * 1e9) as u64);
        let content = vec![0xA5_u8; self.size];
        let count = if self.operation == Operation::Readdir { paths.directories.len() } else { paths.files.len() };
        let before = observes.then(|| Snapshot::take(device));
        let cpu = cpu_time::of_this_thread();
        let began = clock.now();
        metrics.begin(began);
        let end = if self.runtime_s > 0.0 { began + (self.runtime_s * 1e9) as u64 } else { u64::MAX };
        let (mut now, mut listed, mut in_a_row) = (began, 0, 0);
        let (mut stopped, mut cut) = (false, false);
        let again = !self.operation.consumes() && self.runtime_s > 0.0;
        'passes: loop {
            for at in 0..count {
                let then = now;
                let answer = self.once(tree, paths, at, &content);
                now = clock.now();
                match answer {
                    Ok(names) => {
                        listed += names;
                        in_a_row = 0;
                        metrics.completed(false, now - then, now - then, 1);
                    }
                    Err(errno) => {
                        in_a_row += 1;
                        metrics.fault(false, errno);
                    }
                }
                metrics.tick(now);
                stopped = stop.is_set();
                cut = now >= end && !again && at + 1 < count;
                if stopped || now >= end || in_a_row >= FAULTS_IN_A_ROW {
                    break 'passes;
                }
            }
            if !again || count == 0 {
                break;
            }
        }
        metrics.end(now);
        let cpu = cpu_time::of_this_thread().since(cpu);
        let counters = before.map(|before| Snapshot::take(device).since(&before));
        let is_full = metrics.faults.iter().any(|fault| fault.errno == libc::ENOSPC);
        let inodes = is_full.then(|| free_inodes(&self.path)).flatten();
        ThreadResult { inodes, metrics, cpu, stopped, cut, listed, faults_ended: in_a_row >= FAULTS_IN_A_ROW, counters }
    }

    fn make_reading(&self, results: Vec<ThreadResult>) -> Reading {
        let mut reading = Reading { concurrency_requested: self.jobs as f64, ..Reading::default() };
        let mut all: Option<Metrics> = None;
        let (mut listed, mut cut, mut faults_ended, mut inodes) = (0, false, false, None);
        for result in results {
            reading.cpu += result.cpu;
            reading.interrupted |= result.stopped;
            listed += result.listed;
            cut |= result.cut;
            faults_ended |= result.faults_ended;
            inodes = inodes.or(result.inodes);
            if let Some(counters) = result.counters {
                reading.counters = counters;
            }
            match &mut all {
                Some(all) => all.merge(result.metrics),
                None => all = Some(result.metrics),
            }
        }
        let Some(metrics) = all else { return reading };
        reading.elapsed_s = (metrics.ended_ns - metrics.began_ns) as f64 / 1e9;
        let [direction, _] = &metrics.directions;
        let mut stream =
            Stream { name: self.operation.word().into(), operations: direction.total.count(), ..Stream::default() };
        stream.add_latency("total", &direction.total);
        reading.streams.push(stream);
        reading.samples = Samples {
            interval_s: metrics.interval_ns as f64 / 1e9,
            operations: vec![direction.progress.clone()],
            bytes: vec![vec![0; direction.progress.len()]],
        };
        for fault in &metrics.faults {
            reading.faults.push(Fault {
                operation: self.operation.word().into(),
                errno: fault.errno,
                says: if inodes == Some(0) && fault.errno == libc::ENOSPC {
                    NO_INODES.into()
                } else {
                    std::io::Error::from_raw_os_error(fault.errno).to_string()
                },
                count: fault.count,
            });
        }
        let mut note = |code: &str, says: String| reading.notes.push(Note { code: code.into(), says });
        if cut {
            note("pass_cut", format!("not every file was reached within {} s", self.runtime_s));
        }
        if faults_ended {
            note("faults_ended_run", "too many operations failed in a row, so the run ended early".into());
        }
        if self.operation == Operation::Readdir {
            let rate = listed as f64 / reading.elapsed_s.max(1e-9);
            reading.details.insert("listed_names_s".into(), json!(rate));
        }
        let directories = u64::pow(BRANCHES, self.depth) * if self.shared { 1 } else { self.jobs as u64 };
        reading.details.insert("directories".into(), json!(directories));
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::declare::Words;
    use crate::storage::scratch::Scratch;

    fn names(path: PathBuf, operation: Operation) -> MetadataJob {
        MetadataJob {
            path,
            operation,
            files: 50,
            size: 100,
            depth: 1,
            jobs: 2,
            shared: false,
            sync_file: false,
            sync_directory: false,
            runtime_s: 0.0,
            interval_s: 1.0,
            cpus: Vec::new(),
        }
    }

    #[test]
    fn every_operation_reaches_every_name_and_nothing_stays() {
        let scratch = Scratch::new("names");
        fs::create_dir(scratch.path("here")).unwrap();
        fs::write(scratch.path("here").join("mine"), "x").unwrap();
        for &(chosen, _, _) in Operation::ALL {
            for shared in [false, true] {
                for sync in [false, true] {
                    let mut names = names(scratch.path("here"), chosen);
                    (names.shared, names.sync_file, names.sync_directory) = (shared, sync, sync);
                    let reading = names.run(&Stop::new()).unwrap();
                    let expected = if chosen == Operation::Readdir { 8 } else { 100 };
                    assert_eq!((reading.streams[0].operations, reading.faults.len()), (expected, 0), "{names:?}");
                    assert_eq!(reading.streams[0].latency_ns["total"]["count"], expected, "{names:?}");
                    assert_eq!(fs::read_dir(scratch.path("here")).unwrap().count(), 1, "{names:?}");
                }
            }
        }
    }

    #[test]
    fn it_goes_on_while_time_lasts_and_stops_when_asked() {
        let scratch = Scratch::new("names-time");
        fs::create_dir(scratch.path("here")).unwrap();
        for chosen in [Operation::Stat, Operation::Rename] {
            let mut names = names(scratch.path("here"), chosen);
            names.runtime_s = 0.1;
            assert!(names.run(&Stop::new()).unwrap().streams[0].operations > 100);
        }
        let stop = Stop::new();
        stop.set();
        let reading = names(scratch.path("here"), Operation::Create).run(&stop).unwrap();
        assert!(reading.interrupted && reading.streams[0].operations <= 2);
        assert_eq!(fs::read_dir(scratch.path("here")).unwrap().count(), 0);
        assert!(names(scratch.path("nowhere"), Operation::Create).run(&Stop::new()).is_err());
    }
}
