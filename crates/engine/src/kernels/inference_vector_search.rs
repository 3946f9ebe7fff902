//! Searches a vector index on storage with many threads, and tells how well and how fast it answers.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::inference_vector_index::{IndexParameters, FILE, FOLDER};
use crate::contract::declare::{choice, flag, integer, number, text, Group, INTERVAL_S, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Note, Reading};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::content::Content;
use crate::storage::data::file_set::FileSet;
use crate::storage::io::psync::Psync;
use crate::storage::io::synchronous::Synchronous;
use crate::storage::io::uring::Uring;
use crate::storage::job::spec::Engine;
use crate::storage::results::counters::{Device, Snapshot};
use crate::sys::files;
use crate::sys::uring::Queues;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::team::{self, Member};
use crate::training::ledger::Ledger;
use crate::training::vectors::index::Index;
use crate::training::vectors::search::{Search, Searcher, Tally};
use crate::{parameters, sys};

/// The kernel `training_vector_search`.
pub struct VectorSearch;

parameters! {
    /// What `inference_vector_search` takes.
    pub struct Parameters {
        path: PathBuf = FOLDER,
        shape: IndexParameters = Group,
        threads: usize = THREADS.means("query threads, one query at a time each"),
        search_list: usize = integer("diskann, hnsw: candidates per query (ef); more give better recall and more \
            reads", "", (1, 10_000), 50),
        beam: usize = integer("reads in flight per query", "", (1, 256), 4).role(Role::Concurrency),
        probes: usize = integer("ivf: lists read per query", "", (1, 1 << 20), 16),
        k: usize = integer("neighbours per query (k)", "", (1, 100), 10),
        runtime: f64 = number("length of the timed region", "s", (0.001, 1e7), 2.0),
        ioengine: Engine = choice("I/O engine; psync has one read in flight")
            .only(&[Engine::Uring, Engine::Psync]),
        direct: bool = flag("bypass the page cache (O_DIRECT)", true),
        drop_cache: bool = flag("without direct: drop the index from the page cache first", false),
        interval_s: f64 = INTERVAL_S,
        #[allow(dead_code, reason = "only recorded in the reading")]
        storage: String = text("name of the storage; recorded, not used", ""),
    }
}

impl Kernel for VectorSearch {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "the query's reads")],
        stateful: true,
        ..Declaration::new(
            "inference_vector_search",
            "queries/s, latency and recall of a vector index on storage",
            "query",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let path = parameters.path.join(FILE);
        let wrong = |says: String, errno| Error::Machine(format!("{}: {says}", path.display()), errno);
        if !path.is_file() {
            return Err(wrong("no index found; build it first (inference_vector_index)".into(), Some(libc::ENOENT)));
        }
        let index = Index::open(&path).map_err(|says| wrong(says, None))?;
        if !index.header.has_fields(&parameters.shape.fields()) {
            return Err(wrong("it is an index of other vectors; rebuild it".into(), None));
        }
        let mut notes = Vec::new();
        let (file, direct) = open(&path, parameters.direct, &mut notes)?;
        if !direct && parameters.drop_cache {
            sys::files::forget(&file);
        }
        let threads = parameters.threads;
        let ledger = Ledger::new(parameters.interval_s);
        let device = file.metadata().ok().and_then(|about| Device::of(&about, false));
        crate::timing::start::hold_once();
        let before = Snapshot::take(device.as_ref());
        let start = now_ns();
        ledger.start(start);
        let search = Search {
            k: parameters.k,
            list: parameters.search_list.max(parameters.k),
            beam: parameters.beam,
            probes: parameters.probes,
            end_ns: start + (parameters.runtime * 1e9) as u64,
            seed: parameters.shape.seed,
        };
        let uring = parameters.ioengine == Engine::Uring;
        let work = Work { index: &index, file: &file, path: &path, ledger: &ledger, search, uring, threads, stop };
        let members = team::run(threads, &[], |member| work.of(member))?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let counters = Snapshot::take(device.as_ref()).since(&before);
        let mut reading = Reading {
            elapsed_s,
            counters,
            concurrency_requested: threads as f64,
            interrupted: stop.is_set(),
            notes,
            ..Reading::default()
        };
        let mut all = Tally::default();
        for member in members {
            let (tally, cpu) = member.map_err(|error| Error::machine("set up a searching thread", &error))?;
            all.add(&tally);
            reading.cpu += cpu;
        }
        describe(&mut reading, &index, &all, &ledger);
        Ok(reading)
    }
}

fn open(path: &Path, direct: bool, notes: &mut Vec<Note>) -> Result<(File, bool), Error> {
    let failed = |error: std::io::Error| Error::machine(format!("open {}", path.display()), &error);
    if direct {
        match files::open(path, true) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => notes.push(Note {
                code: "direct_refused".into(),
                says: "the filesystem refuses O_DIRECT: the index was read through the page cache".into(),
            }),
            answer => return answer.map(|file| (file, true)).map_err(failed),
        }
    }
    let file = files::open(path, false).map_err(failed)?;
    files::advise(&file, 0, 0, files::Advice::Random);
    Ok((file, false))
}

/// What all threads share.
struct Work<'a> {
    index: &'a Index,
    file: &'a File,
    path: &'a Path,
    ledger: &'a Ledger,
    search: Search,
    uring: bool,
    threads: usize,
    stop: &'a Stop,
}

impl Work<'_> {
    fn of(&self, member: &Member<'_>) -> std::io::Result<(Tally, CpuTime)> {
        let beam = self.search.beam;
        let pool = BufferPool::new(beam, self.index.read_bytes(), false, self.threads, false, &Content::default(), 1)?;
        let (index, search, ledger, path) = (self.index, self.search, self.ledger, self.path);
        let first = member.number as u64;
        if self.uring {
            let mut queues = Queues::new(beam as u32, false)?;
            let access = Uring::new(&mut queues, FileSet::one(self.file), &pool, beam);
            let searcher = Searcher::new(index, search, access, &pool, ledger, path);
            member.wait_for_start();
            let before = cpu_time::of_this_thread();
            return Ok((searcher.run(first, self.threads as u64, self.stop), cpu_time::of_this_thread().since(before)));
        }
        let searcher = Searcher::new(
            index,
            search,
            Synchronous::new(Psync::new(FileSet::one(self.file), &pool)),
            &pool,
            ledger,
            path,
        );
        member.wait_for_start();
        let before = cpu_time::of_this_thread();
        Ok((searcher.run(first, self.threads as u64, self.stop), cpu_time::of_this_thread().since(before)))
    }
}

fn describe(reading: &mut Reading, index: &Index, all: &Tally, ledger: &Ledger) {
    ledger.add(reading, "read", &[("total", &all.query), ("hop", &all.hop)]);
    let queries = all.queries.max(1) as f64;
    let seen = reading.counters.get("process_read_bytes").and_then(Value::as_u64);
    let cached = seen.filter(|_| all.bytes > 0).map(|seen| (1.0 - seen as f64 / all.bytes as f64).max(0.0));
    reading.detail("queries_s", all.queries as f64 / reading.elapsed_s);
    reading.detail("recall", (all.sought > 0).then(|| all.found as f64 / all.sought as f64));
    reading.detail("reads_per_query", all.reads as f64 / queries);
    reading.detail("bytes_per_query", all.bytes as f64 / queries);
    reading.detail("hops_per_query", all.hops as f64 / queries);
    reading.detail("reads_s", all.reads as f64 / reading.elapsed_s);
    reading.detail("index_bytes", index.header.number("blocks") * index.header.number("block_bytes"));
    reading.detail("memory_bytes", index.memory_bytes());
    reading.detail("corrupt_blocks", all.corrupt);
    reading.detail("cached_share_by_device", cached);
    if all.queries == 0 {
        reading.note("no_step", "no query was answered");
    }
}
