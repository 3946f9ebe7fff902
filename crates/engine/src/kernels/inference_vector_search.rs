//! Searches a vector index on storage with many threads, and tells how well and how fast it answers.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::inference_vector_index::{IndexParameters, FILE, FOLDER};
use crate::contract::declare::{choice, flag, integer, number, text, Group, INTERVAL_S, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Note, Reading};
use crate::object::keys::Keys;
use crate::object::line_totals::LineTotals;
use crate::object::options::ReachParameters;
use crate::object::paths::Flow;
use crate::object::place::{Line, Place};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::content::Content;
use crate::storage::data::file_set::FileSet;
use crate::storage::io::access::Access;
use crate::storage::io::psync::Psync;
use crate::storage::io::synchronous::Synchronous;
use crate::storage::io::uring::Uring;
use crate::storage::job::spec::Engine;
use crate::storage::results::counters::{Device, Snapshot};
use crate::sys::files;
use crate::sys::uring::Queues;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::team::{self, Member, PerMember};
use crate::training::ledger::Ledger;
use crate::training::target::key;
use crate::training::vectors::index::Index;
use crate::training::vectors::object::{RangedGets, Whole};
use crate::training::vectors::search::{Origin, Search, Searcher, Tally};
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
        beam: usize = integer("reads in flight per query, in a store one connection each", "", (1, 256), 4).role(Role::Concurrency),
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
        reach: ReachParameters = Group,
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
        match Place::of(&parameters.path, &parameters.reach)? {
            Some(place) => search_store(parameters, &place, stop),
            None => search_folder(parameters, stop),
        }
    }
}

fn search_folder(parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
    let path = parameters.path.join(FILE);
    let name = path.display().to_string();
    if !path.is_file() {
        return Err(no_index(&name));
    }
    let index = check(parameters, &name, Index::open(&path))?;
    let mut notes = Vec::new();
    let (file, direct) = open(&path, parameters.direct, &mut notes)?;
    if !direct && parameters.drop_cache {
        sys::files::forget(&file);
    }
    let device = file.metadata().ok().and_then(|about| Device::of(&about, false));
    let origin = Origin { name: &name, operation: "read" };
    let reads = if parameters.ioengine == Engine::Uring { Reads::Queued(&file) } else { Reads::Single(&file) };
    let work = Work { parameters, index: &index, reads, origin, stop };
    work.run(device.as_ref(), notes)
}

/// Searches an index in a bucket: what is kept in memory is read before time begins, and each read is a ranged GET.
fn search_store(parameters: &Parameters, place: &Place, stop: &Stop) -> Result<Reading, Error> {
    let file = Path::new(FILE);
    let name = place.url(&format!("{}{FILE}", place.prefix));
    let length = place.control(stop).length(&format!("{}{FILE}", place.prefix))?.ok_or_else(|| no_index(&name))?;
    let (keys, mut line) = (key(place, file), place.line(0));
    let index = Index::read(&mut Whole { line: &mut line, keys: &keys, length, stop });
    if stop.is_set() {
        return Err(Error::stopped());
    }
    let index = check(parameters, &name, index)?;
    let (threads, beam) = (parameters.threads, parameters.beam);
    let made = team::run(threads, &[], |member| -> Result<Vec<Line>, Error> {
        let mut lines: Vec<Line> = (0..beam).map(|slot| place.line((member.number * beam + slot) as u64)).collect();
        lines.iter_mut().try_for_each(|line| line.connect(stop)).map(|()| lines)
    })?;
    let lines = PerMember::new(made.into_iter().collect::<Result<Vec<_>, _>>()?);
    let origin = Origin { name: &name, operation: "get" };
    let reads = Reads::Ranged { lines: &lines, keys: &keys, length, place };
    let work = Work { parameters, index: &index, reads, origin, stop };
    work.run(None, Vec::new())
}

fn no_index(name: &str) -> Error {
    let says = format!("{name}: no index found; build it first (inference_vector_index)");
    Error::Machine(says, Some(libc::ENOENT))
}

/// The index, if it is what the parameters say.
fn check(parameters: &Parameters, name: &str, index: Result<Index, String>) -> Result<Index, Error> {
    let wrong = |says: &str| Error::Machine(format!("{name}: {says}"), None);
    let index = index.map_err(|says| wrong(&says))?;
    if index.header.has_fields(&parameters.shape.fields()) {
        Ok(index)
    } else {
        Err(wrong("it is an index of other vectors; rebuild it"))
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

/// How the index is read.
enum Reads<'a> {
    /// Reads of a file, as many as are wanted at once.
    Queued(&'a File),
    /// Reads of a file, one at a time.
    Single(&'a File),
    /// Ranged GETs of an object of this length, each over the connection of its slot.
    Ranged { lines: &'a PerMember<Vec<Line>>, keys: &'a Keys, length: u64, place: &'a Place },
}

/// What all threads share.
struct Work<'a> {
    parameters: &'a Parameters,
    index: &'a Index,
    reads: Reads<'a>,
    origin: Origin<'a>,
    stop: &'a Stop,
}

/// What a thread brings back.
#[derive(Default)]
struct Done {
    tally: Tally,
    cpu: CpuTime,
    lines: LineTotals,
}

impl Work<'_> {
    fn run(&self, device: Option<&Device>, notes: Vec<Note>) -> Result<Reading, Error> {
        let (parameters, threads) = (self.parameters, self.parameters.threads);
        let ledger = Ledger::new(parameters.interval_s);
        crate::timing::start::hold_once();
        let before = Snapshot::take(device);
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
        let broken = Stop::new();
        let members = team::run(threads, &[], |member| self.of(member, search, &ledger, &broken))?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let mut reading = Reading {
            elapsed_s,
            concurrency_requested: threads as f64,
            interrupted: self.stop.is_set(),
            notes,
            ..Reading::default()
        };
        let mut all = Done::default();
        for member in members {
            let done = member?;
            all.tally.add(&done.tally);
            reading.cpu += done.cpu;
            all.lines.merge(&done.lines);
        }
        if let Reads::Ranged { place, .. } = &self.reads {
            all.lines.describe(place, "store_requests", threads, Flow::Down, &mut reading);
        } else {
            reading.counters = Snapshot::take(device).since(&before); // what this host's storage did is not a store's
        }
        describe(&mut reading, self.index, &all.tally, &ledger);
        Ok(reading)
    }

    fn of(&self, member: &Member<'_>, search: Search, ledger: &Ledger, broken: &Stop) -> Result<Done, Error> {
        let refused = |error: std::io::Error| Error::machine("set up a searching thread", &error);
        let (beam, bytes, threads) = (search.beam, self.index.read_bytes(), self.parameters.threads);
        let pool = BufferPool::new(beam, bytes, false, threads, false, &Content::default(), 1).map_err(refused)?;
        let run = Run { work: self, search, pool: &pool, ledger, broken, member };
        match &self.reads {
            Reads::Queued(file) => {
                let mut queues = Queues::new(beam as u32, false).map_err(refused)?;
                Ok(run.with(Uring::new(&mut queues, FileSet::one(file), &pool, beam)))
            }
            Reads::Single(file) => Ok(run.with(Synchronous::new(Psync::new(FileSet::one(file), &pool)))),
            Reads::Ranged { lines, keys, length, .. } => {
                let mut lines = lines.take(member)?;
                let mut done = run.with(RangedGets::new(&mut lines, (keys, *length), &pool, self.stop));
                for line in &*lines {
                    done.lines.add(line);
                }
                Ok(done)
            }
        }
    }
}

/// One thread's run.
struct Run<'a> {
    work: &'a Work<'a>,
    search: Search,
    pool: &'a BufferPool,
    ledger: &'a Ledger,
    broken: &'a Stop,
    member: &'a Member<'a>,
}

impl Run<'_> {
    fn with(&self, access: impl Access) -> Done {
        let (work, member) = (self.work, self.member);
        let searcher = Searcher::new(work.index, self.search, access, self.pool, self.ledger, work.origin);
        member.wait_for_start();
        let before = cpu_time::of_this_thread();
        let turn = (member.number as u64, work.parameters.threads as u64);
        let tally = searcher.run(turn, work.stop, self.broken);
        Done { tally, cpu: cpu_time::of_this_thread().since(before), ..Done::default() }
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
