//! Searches a vector index on storage with many threads, and tells how well and how fast it answers.

use std::fs::File;
use std::path::Path;

use serde_json::{json, Value};

use super::training_vector_index::{fields, index_parameters, FILE};
use crate::clock::now_ns;
use crate::declare::{choice, flag, integer, interval_s, number, text};
use crate::kernel::{Error, Kernel, KernelInfo, Parameter, Parameters, Stop};
use crate::reading::{CpuTime, Note, Reading};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::content::Content;
use crate::storage::data::file_set::FileSet;
use crate::storage::io::psync::Psync;
use crate::storage::io::synchronous::Synchronous;
use crate::storage::io::uring::Uring;
use crate::storage::results::counters::{Device, Snapshot};
use crate::sys::files;
use crate::sys::uring::Queues;
use crate::team::{self, Member};
use crate::training::ledger::Ledger;
use crate::training::vectors::index::Index;
use crate::training::vectors::search::{Asked, Searcher, Told};
use crate::{cpu_time, sys};

/// See the module.
pub struct VectorSearch;

fn parameters() -> Vec<Parameter> {
    let mut list = index_parameters();
    list.extend([
        integer("threads", "threads that answer queries, one at a time each", "", (1, 1024), 1),
        integer(
            "search_list",
            "diskann, hnsw: candidates that a query keeps (ef): more find more, by more reads",
            "",
            (1, 10_000),
            50,
        ),
        integer("beam", "reads in flight a query", "", (1, 256), 4),
        integer("probes", "ivf: lists that a query reads", "", (1, 1 << 20), 16),
        integer("k", "neighbours that a query asks for", "", (1, 100), 10),
        number("runtime", "length of the timed region", "s", (0.001, 1e7), 2.0),
        choice("ioengine", "how a query reads; psync has one read in flight", &["io_uring", "psync"]),
        flag("direct", "bypass the page cache (O_DIRECT)", true),
        flag("drop_cache", "without direct: empty the page cache of the index first", false),
        interval_s(),
        text("storage", "name of the storage; told on, not used", ""),
    ]);
    list
}

impl Kernel for VectorSearch {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "training_vector_search",
            measures: "how fast a vector index on storage answers queries, and how well",
            parameters: parameters(),
            pass: vec![("operations", "1"), ("bytes", "the query's reads")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let path = Path::new(parameters.text("path")).join(FILE);
        let wrong = |says: String, errno| Error::Machine(format!("{}: {says}", path.display()), errno);
        if !path.is_file() {
            return Err(wrong("there is no index: build it first (training_vector_index)".into(), Some(libc::ENOENT)));
        }
        let index = Index::open(&path).map_err(|says| wrong(says, None))?;
        if !index.header.is_of(&fields(parameters)) {
            return Err(wrong("it is an index of other vectors: build it again".into(), None));
        }
        let mut notes = Vec::new();
        let (file, direct) = open(&path, parameters.flag("direct"), &mut notes)?;
        if !direct && parameters.flag("drop_cache") {
            sys::files::forget(&file);
        }
        let threads = parameters.integer("threads");
        let ledger = Ledger::new(parameters.number("interval_s"));
        let device = file.metadata().ok().and_then(|about| Device::of(&about, false));
        let before = Snapshot::take(device.as_ref());
        let start = now_ns();
        ledger.start(start);
        let asked = Asked {
            k: parameters.integer("k") as usize,
            list: parameters.integer("search_list").max(parameters.integer("k")) as usize,
            beam: parameters.integer("beam") as usize,
            probes: parameters.integer("probes") as usize,
            end_ns: start + (parameters.number("runtime") * 1e9) as u64,
            seed: parameters.integer("seed"),
        };
        let uring = parameters.text("ioengine") == "io_uring";
        let work = Work { index: &index, file: &file, path: &path, ledger: &ledger, asked, uring, threads, stop };
        let members = team::run(threads as usize, &[], |member| work.of(member))?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let counters = Snapshot::take(device.as_ref()).since(&before);
        let mut reading = Reading {
            kernel: self.info().name.into(),
            parameters: parameters.as_json(),
            elapsed_s,
            counters,
            concurrency_asked: threads as f64,
            interrupted: stop.is_set(),
            notes,
            ..Reading::default()
        };
        let mut all = Told::default();
        for member in members {
            let (told, cpu) = member.map_err(|error| Error::machine("set up a searching thread", &error))?;
            all.add(&told);
            reading.cpu += cpu;
        }
        tell(&mut reading, &index, &all, &ledger);
        Ok(reading)
    }
}

fn open(path: &Path, direct: bool, notes: &mut Vec<Note>) -> Result<(File, bool), Error> {
    let failed = |error: std::io::Error| Error::machine(format!("open {}", path.display()), &error);
    if direct {
        match files::open(path, false, true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => notes.push(Note {
                code: "direct_refused".into(),
                says: "the filesystem refuses O_DIRECT: the index was read through the page cache".into(),
            }),
            answer => return answer.map(|file| (file, true)).map_err(failed),
        }
    }
    let file = files::open(path, false, false).map_err(failed)?;
    files::advise(&file, 0, 0, files::Advice::Random);
    Ok((file, false))
}

/// What all threads share.
struct Work<'a> {
    index: &'a Index,
    file: &'a File,
    path: &'a Path,
    ledger: &'a Ledger,
    asked: Asked,
    uring: bool,
    threads: u64,
    stop: &'a Stop,
}

impl Work<'_> {
    fn of(&self, member: &Member<'_>) -> std::io::Result<(Told, CpuTime)> {
        let beam = self.asked.beam;
        let pool = BufferPool::new(
            beam,
            self.index.read_bytes(),
            false,
            self.threads as usize,
            false,
            &Content::default(),
            1,
        )?;
        let (index, asked, ledger, path) = (self.index, self.asked, self.ledger, self.path);
        let first = member.number as u64;
        if self.uring {
            let mut queues = Queues::new(beam as u32, false)?;
            let access = Uring::new(&mut queues, FileSet::one(self.file), &pool, beam);
            let searcher = Searcher::new(index, asked, access, &pool, ledger, path);
            member.wait_for_start();
            let before = cpu_time::of_this_thread();
            return Ok((searcher.run(first, self.threads, self.stop), cpu_time::of_this_thread().since(before)));
        }
        let searcher = Searcher::new(
            index,
            asked,
            Synchronous::new(Psync::new(FileSet::one(self.file), &pool)),
            &pool,
            ledger,
            path,
        );
        member.wait_for_start();
        let before = cpu_time::of_this_thread();
        Ok((searcher.run(first, self.threads, self.stop), cpu_time::of_this_thread().since(before)))
    }
}

fn tell(reading: &mut Reading, index: &Index, all: &Told, ledger: &Ledger) {
    let (samples, mut stream) = ledger.samples(reading.elapsed_s, "read");
    stream.add_latency("total", &all.query);
    stream.add_latency("hop", &all.hop);
    reading.samples = samples;
    reading.streams.push(stream);
    reading.faults = ledger.faults();
    let queries = all.queries.max(1) as f64;
    let seen = reading.counters.get("process_read_bytes").and_then(Value::as_u64);
    let cached = seen.filter(|_| all.bytes > 0).map(|seen| (1.0 - seen as f64 / all.bytes as f64).max(0.0));
    let mut add = |name: &str, value: Value| reading.details.insert(name.into(), value);
    add("queries_s", json!(all.queries as f64 / reading.elapsed_s));
    add("recall", json!((all.asked > 0).then(|| all.found as f64 / all.asked as f64)));
    add("reads_per_query", json!(all.reads as f64 / queries));
    add("bytes_per_query", json!(all.bytes as f64 / queries));
    add("hops_per_query", json!(all.hops as f64 / queries));
    add("reads_s", json!(all.reads as f64 / reading.elapsed_s));
    add("index_bytes", json!(index.header.number("blocks") * index.header.number("block_bytes")));
    add("memory_bytes", json!(index.memory_bytes()));
    add("corrupt_blocks", json!(all.corrupt));
    add("cached_share_by_device", json!(cached));
    if all.queries == 0 {
        reading.notes.push(Note { code: "no_step".into(), says: "not one query was answered".into() });
    }
}
