//! Builds a vector index of generated vectors on storage, with queries and their exact answers, to be searched.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::training::vectors::walk::{Codes, Graph};
use serde_json::{json, Map, Value};

use crate::contract::declare::{choice, integer, required, Group, Text, SEED};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::reading::{CpuTime, Reading, Stream};
use crate::object::options::ReachParameters;
use crate::object::place::Place;
use crate::safe_files::part::Part;
use crate::safe_files::{Folder, New};
use crate::survey::platform::available_bytes;
use crate::timing::clock::now_ns;
use crate::training::target::key;
use crate::training::vectors::data::{Code, Set, Spread, TRUTH};
use crate::training::vectors::file::{words, Header, Layout, Writer, SECTOR};
use crate::training::vectors::graph::{self, Shape, ALPHA_SQUARED};
use crate::training::vectors::layers::{self, Upper};
use crate::training::vectors::lists::{self, Lists};
use crate::training::vectors::object::Parts;
use crate::{parameters, sys, words};

/// The name of an index in its folder.
pub const FILE: &str = "vectors.hwdyno";
/// The same until it is whole.
const PART: &str = "vectors.part";
/// The share of the free room that an index may take.
const ROOM: f64 = 0.9;

/// The kernel `training_vector_index`.
pub struct VectorIndex;

words! {
    /// How an index is searched.
    pub enum Kind {
        /// A graph with short vectors in memory.
        Diskann = "diskann",
        /// A graph with its upper levels there.
        Hnsw = "hnsw",
        /// Lists of near vectors.
        Ivf = "ivf",
    }
}

parameters! {
    /// What decides what is in an index; its header repeats each.
    #[derive(serde::Serialize)]
    pub struct IndexParameters {
        index: Kind = choice("index type: graph with compressed vectors in memory (DiskANN), graph with its upper \
            levels in memory (HNSW), or lists (IVF)"),
        vectors: usize = integer("number of vectors", "", (2, 1 << 31), 20_000),
        dim: usize = integer("dimensions of a vector, 4 bytes each", "", (2, 65_536), 128),
        distribution: Spread = choice("distribution of the vectors: low-dimensional as embeddings are, or uniform"),
        degree: usize = integer("diskann, hnsw: most neighbours of a vector", "", (2, 1024), 32),
        build_list: usize = integer("diskann, hnsw: candidates kept during the build", "", (2, 10_000), 64),
        lists: usize = integer("ivf: lists; 0 for the square root of the vectors", "", (0, 1 << 24), 0),
        queries: usize = integer("number of queries with exact answers", "", (1, 1 << 20), 500),
        seed: u64 = SEED.means("seed of vectors and queries"),
    }
}

impl IndexParameters {
    /// Those that decide it for an index of this kind, as its header has them.
    #[must_use]
    pub fn fields(&self) -> Map<String, Value> {
        let Value::Object(mut all) = json!(self) else { return Map::new() };
        let others: &[_] = if self.index == Kind::Ivf { &["degree", "build_list"] } else { &["lists"] };
        all.retain(|name, _| !others.contains(&name.as_str()));
        all
    }
}

/// The folder of an index.
pub const FOLDER: Text =
    required("a folder, or that of a run in a bucket (s3://BUCKET/hwdyno-…); the index is vectors.hwdyno in it");

parameters! {
    /// What `inference_vector_index` takes.
    pub struct Parameters {
        path: PathBuf = FOLDER,
        shape: IndexParameters = Group,
        threads: usize = integer("build threads; 0 for all CPUs", "", (0, 1024), 0).workers(),
        reach: ReachParameters = Group,
    }
}

impl Kernel for VectorIndex {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("bytes", "the index's")],
        writes: Writes::Folder,
        stateful: true,
        ..Declaration::new("inference_vector_index", "building a vector index on storage", "index")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        match Place::of(&parameters.path, &parameters.reach)? {
            Some(place) => build_in_store(parameters, &place, stop),
            None => build_in_folder(parameters, stop),
        }
    }
}

fn build_in_folder(parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
    let folder = parameters.path.as_path();
    let (place, is_new) =
        Folder::for_files(folder).map_err(|error| Error::machine(format!("create {}", folder.display()), &error))?;
    if is_new {
        place.mark();
    }
    let fields = parameters.shape.fields();
    let path = folder.join(FILE);
    crate::timing::start::hold_once();
    let build = Build::begin();
    let in_the_way = |why: &str| {
        let shown = path.display();
        Error::usage(format!("{shown} is not hwdyno's ({why}), and is in the way: move it, or use another path"))
    };
    let there = match place.read(Path::new(FILE), false) {
        Ok(mut file) => Some(Header::read(&mut file).map_err(|why| in_the_way(&why))?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(in_the_way("it is a symbolic link")),
        Err(error) => return Err(Error::machine(format!("read {}", path.display()), &error)),
    };
    let is_replaced = there.is_some();
    if there.is_some_and(|header| header.has_fields(&fields)) {
        let mut reading = Reading::default();
        reading.detail("kept", true);
        reading.elapsed_s = build.elapsed_s();
        return Ok(reading);
    }
    let plan = Plan::of(&parameters.shape, parameters.threads);
    plan.check_room(folder)?;
    plan.check_memory()?;
    let refused = |error: io::Error| Error::machine(format!("write {}", path.display()), &error);
    let part = Part::begin(&place, Path::new(FILE), Path::new(PART), New::PRIVATE).map_err(refused)?;
    let Some(made) = plan.make(stop)? else { return Ok(Reading { interrupted: true, ..Reading::default() }) };
    let build_s = build.elapsed_s();
    let write = || {
        let (_, bytes) = plan.write(&made, fields, io::BufWriter::with_capacity(1 << 20, &part.file))?;
        part.file.sync_all()?;
        if is_replaced {
            part.finish_in_place_of_ours()?;
        } else {
            part.finish()?;
        }
        Ok(bytes)
    };
    Ok(build.end(write().map_err(refused)?, build_s))
}

/// Builds an index in a folder of this run in a bucket, as one object.
fn build_in_store(parameters: &Parameters, place: &Place, stop: &Stop) -> Result<Reading, Error> {
    let left = place.claim(stop)?;
    let plan = Plan::of(&parameters.shape, parameters.threads);
    plan.check_memory()?;
    crate::timing::start::hold_once();
    let build = Build::begin();
    let Some(made) = plan.make(stop)? else { return Ok(Reading { interrupted: true, ..Reading::default() }) };
    let build_s = build.elapsed_s();
    let (keys, mut line) = (key(place, Path::new(FILE)), place.line(0));
    line.connect(stop)?;
    let mut write = || {
        let parts = Parts::begin(&mut line, &keys, plan.max_bytes(), stop)?;
        let (parts, bytes) = plan.write(&made, parameters.shape.fields(), parts)?;
        parts.complete()?;
        Ok(bytes)
    };
    let written: io::Result<u64> = write();
    let bytes = match written {
        Ok(bytes) => bytes,
        Err(_) if stop.is_set() => return Ok(Reading { interrupted: true, ..Reading::default() }),
        Err(error) => {
            let name = place.url(&format!("{}{FILE}", place.prefix));
            return Err(Error::Machine(format!("write {name}: {error}"), None));
        }
    };
    let mut reading = build.end(bytes, build_s);
    reading.detail("store_requests", line.requests);
    reading.detail("requests_repeated", line.repeated);
    left.describe(&mut reading);
    Ok(reading)
}

/// The time of a build.
struct Build {
    begun_ns: u64,
    before: CpuTime,
}

impl Build {
    fn begin() -> Self {
        Self { begun_ns: now_ns(), before: sys::time::process_cpu_time() }
    }

    fn elapsed_s(&self) -> f64 {
        (now_ns() - self.begun_ns) as f64 / 1e9
    }

    /// The reading of an index of this many bytes that was computed in `build_s` and is written now.
    fn end(&self, bytes: u64, build_s: f64) -> Reading {
        let cpu = sys::time::process_cpu_time().since(self.before);
        let mut reading = Reading { elapsed_s: self.elapsed_s(), cpu, ..Reading::default() };
        reading.streams.push(Stream { bytes, ..Stream::new("write", 1) });
        reading.detail("kept", false);
        reading.detail("build_s", build_s);
        reading
    }
}

/// What is to be built.
struct Plan<'a> {
    shape: &'a IndexParameters,
    is_graph: bool,
    threads: usize,
    layout: Layout,
}

/// What was built.
struct Made {
    set: Set,
    queries: Set,
    truth: Vec<u32>,
    code: Code,
    entry: usize,
    index: Index,
}

enum Index {
    Graph(Codes, Graph),
    Layered(Upper, Graph),
    Lists(Lists),
}

impl<'a> Plan<'a> {
    fn of(shape: &'a IndexParameters, threads: usize) -> Self {
        let IndexParameters { dim, degree, index, .. } = *shape;
        let is_graph = index != Kind::Ivf;
        let entry = 4 * dim + if is_graph { 4 + 4 * degree } else { 4 };
        let threads = if threads == 0 { sys::affinity::allowed().len() } else { threads };
        Self { shape, is_graph, threads, layout: Layout::of(entry) }
    }

    fn list_count(&self) -> usize {
        match self.shape.lists {
            0 => (self.shape.vectors as f64).sqrt().ceil() as usize,
            lists => lists.min(self.shape.vectors),
        }
    }

    /// The most bytes that the file takes.
    fn max_bytes(&self) -> u64 {
        let (vectors, dim, queries) = (self.shape.vectors, self.shape.dim, self.shape.queries);
        let lists = if self.is_graph { 0 } else { self.list_count() };
        let blocks = (self.layout.blocks(vectors) + lists) * self.layout.block;
        // A search keeps no more of a vector in memory than all of it.
        (SECTOR + blocks + vectors * 4 * dim + queries * 4 * (dim + TRUTH)) as u64 + (1 << 20)
    }

    /// Refuses what the storage has no room for.
    fn check_room(&self, folder: &Path) -> Result<(), Error> {
        let free = sys::filesystem::free_bytes(folder)
            .map_err(|error| Error::machine(format!("query free space of {}", folder.display()), &error))?;
        let (vectors, dim) = (self.shape.vectors, self.shape.dim);
        let lists = if self.is_graph { 0 } else { self.list_count() };
        let bytes = ((self.layout.blocks(vectors) + lists) * self.layout.block + vectors * dim) as f64;
        if bytes > free as f64 * ROOM {
            return Err(self.refusal("storage", bytes, free, libc::ENOSPC));
        }
        Ok(())
    }

    /// Refuses what the memory has no room for.
    fn check_memory(&self) -> Result<(), Error> {
        let memory = self.shape.vectors as f64 * (5 * self.shape.dim + 4 * self.shape.degree + 160) as f64;
        match available_bytes() {
            Some(there) if memory > there as f64 * ROOM => Err(self.refusal("memory", memory, there, libc::ENOMEM)),
            _ => Ok(()),
        }
    }

    fn refusal(&self, what: &str, need: f64, there: u64, errno: i32) -> Error {
        let says = format!(
            "an index of {} vectors needs {:.2} GB of {what}, but {:.2} GB are free: use fewer vectors",
            self.shape.vectors,
            need / 1e9,
            there as f64 / 1e9
        );
        Error::Machine(says, Some(errno))
    }

    fn make(&self, stop: &Stop) -> Result<Option<Made>, Error> {
        let (dim, seed) = (self.shape.dim, self.shape.seed);
        let spread = self.shape.distribution;
        let set = Set::draw(self.shape.vectors, dim, spread, (seed, 0), self.threads)?;
        let queries = Set::draw(self.shape.queries, dim, spread, (seed, 1), self.threads)?;
        let code = Code::of(&set);
        let entry = set.middle();
        let index = if self.is_graph {
            let mut bytes = Vec::with_capacity(set.values.len());
            code.encode(&set.values, &mut bytes);
            let codes = Codes { dim, bytes };
            let (degree, list) = (self.shape.degree, self.shape.build_list);
            if self.shape.index == Kind::Hnsw {
                let levels = layers::levels(set.count(), degree, seed);
                let inserted = layers::order(&levels, seed);
                let shape = Shape { degree, list, alpha_squared: 1.0 };
                let Some(graphs) = graph::grow(&codes, &inserted, &levels, &shape, self.threads, stop)? else {
                    return Ok(None);
                };
                let upper = Upper::of(&set, &graphs, &inserted, &levels);
                Index::Layered(upper, graphs.into_iter().next().unwrap_or_default())
            } else {
                let shape = Shape { degree, list, alpha_squared: ALPHA_SQUARED };
                let Some(graph) = graph::build(&codes, entry as u32, &shape, seed, self.threads, stop)? else {
                    return Ok(None);
                };
                Index::Graph(codes, graph)
            }
        } else {
            let Some(lists) = lists::cut(&set, self.list_count(), self.threads, stop)? else { return Ok(None) };
            Index::Lists(lists)
        };
        if stop.is_set() {
            return Ok(None);
        }
        let truth = set.nearest(&queries, self.threads)?;
        Ok(Some(Made { set, queries, truth, code, entry, index }))
    }

    /// Writes the index; gives where to, and its length.
    fn write<W: Write>(&self, made: &Made, mut fields: Map<String, Value>, to: W) -> io::Result<(W, u64)> {
        let vectors = made.set.count();
        let mut members: Vec<Vec<u32>> = Vec::new();
        let blocks = match &made.index {
            Index::Graph(..) | Index::Layered(..) => self.layout.blocks(vectors),
            Index::Lists(lists) => {
                members.resize(lists.centres.count(), Vec::new());
                lists.of.iter().enumerate().for_each(|(at, &list)| members[list as usize].push(at as u32));
                members.iter().map(|list| self.layout.blocks(list.len())).sum()
            }
        };
        for (name, value) in [
            ("entry_bytes", json!(self.layout.entry)),
            ("blocks", json!(blocks)),
            ("entry", json!(made.entry)),
            ("code_low", json!(made.code.low)),
            ("code_step", json!(made.code.step)),
            ("truth", json!(TRUTH)),
            ("block_bytes", json!(self.layout.block)),
            ("data_from", json!(SECTOR)),
        ] {
            fields.insert(name.into(), value);
        }
        let mut writer = Writer::new(to, self.layout, &Header::new(fields))?;
        match &made.index {
            Index::Graph(codes, graph) => {
                nodes(&mut writer, &made.set, graph)?;
                writer.section(&codes.bytes)?;
                writer.section(&[])?;
            }
            Index::Layered(upper, graph) => {
                nodes(&mut writer, &made.set, graph)?;
                let (values, links) = upper.encode();
                writer.section(&words(values, f32::to_le_bytes))?;
                writer.section(&words(&links, u32::to_le_bytes))?;
            }
            Index::Lists(lists) => {
                let table = write_lists(&mut writer, &made.set, &members)?;
                writer.section(&words(&lists.centres.values, f32::to_le_bytes))?;
                writer.section(&words(&table, u32::to_le_bytes))?;
            }
        }
        writer.section(&words(&made.queries.values, f32::to_le_bytes))?;
        writer.section(&words(&made.truth, u32::to_le_bytes))?;
        writer.finish()
    }
}

/// Writes each list's vectors, each with its number; gives where each list begins, in blocks, and its length.
fn write_lists<W: Write>(writer: &mut Writer<W>, set: &Set, members: &[Vec<u32>]) -> io::Result<Vec<u32>> {
    let mut table = Vec::with_capacity(members.len() * 2);
    for list in members {
        table.extend([writer.blocks as u32, list.len() as u32]);
        for &at in list {
            writer.entry(|into| {
                into.extend(at.to_le_bytes());
                into.extend(set.row(at as usize).iter().flat_map(|value| value.to_le_bytes()));
            })?;
        }
        writer.end_block()?;
    }
    Ok(table)
}

/// A graph's vectors, each with the number of its neighbours and them.
fn nodes<W: Write>(writer: &mut Writer<W>, set: &Set, graph: &Graph) -> io::Result<()> {
    for (at, neighbours) in graph.iter().enumerate() {
        writer.entry(|into| {
            into.extend(set.row(at).iter().flat_map(|value| value.to_le_bytes()));
            into.extend((neighbours.len() as u32).to_le_bytes());
            into.extend(neighbours.iter().flat_map(|other| other.to_le_bytes()));
        })?;
    }
    Ok(())
}
