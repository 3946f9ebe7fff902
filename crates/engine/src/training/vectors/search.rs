//! Answers queries from a vector index on storage, each by real reads, and holds the answers against the exact ones.

use std::fs::File;
use std::path::Path;

use super::data::{Code, Set, TRUTH};
use super::file::{from_words, inspect, sections, Header, Layout, SECTOR};
use super::{distance, distance_coded};
use crate::clock::now_ns;
use crate::histogram::Histogram;
use crate::kernel::Stop;
use crate::storage::access::{Access, Transfer};
use crate::storage::pool::Pool;
use crate::training::ledger::Ledger;

/// Lists are read in pieces of about this length.
const PIECE: usize = 128 << 10;
/// Blocks that are named; more are only counted.
const NAMED: u64 = 16;

/// An index that is open to be searched.
pub struct Index {
    /// What it is made of.
    pub header: Header,
    layout: Layout,
    code: Code,
    /// Every vector in 8 bits a dimension (a graph's), or none.
    codes: Vec<u8>,
    entry: u32,
    /// The lists' centres, and the first block and the number of entries of each (an inverted file's).
    centres: Set,
    lists: Vec<(u32, u32)>,
    queries: Set,
    truth: Vec<u32>,
}

impl Index {
    /// Opens an index; in words what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let header = Header::read(&file)?;
        let layout = Layout::of(header.number("entry_bytes").max(1));
        let dim = header.number("dim").max(1);
        let from = SECTOR + header.number("blocks") * layout.block;
        let found = sections(path, from as u64, 4)?;
        let [memory, lists, queries, truth]: [Vec<u8>; 4] =
            found.try_into().map_err(|_| "it lacks a section: corrupt".to_string())?;
        let is_graph = header.word("index") == "diskann";
        let lists: Vec<u32> = from_words(&lists, u32::from_le_bytes);
        let centres = if is_graph { Vec::new() } else { from_words(&memory, f32::from_le_bytes) };
        Ok(Self {
            layout,
            code: Code { low: header.fraction("code_low"), step: header.fraction("code_step") },
            codes: if is_graph { memory } else { Vec::new() },
            entry: header.number("entry") as u32,
            centres: Set { dim, values: centres },
            lists: lists.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            queries: Set { dim, values: from_words(&queries, f32::from_le_bytes) },
            truth: from_words(&truth, u32::from_le_bytes),
            header,
        })
    }

    fn is_graph(&self) -> bool {
        !self.codes.is_empty()
    }

    fn dim(&self) -> usize {
        self.queries.dim
    }

    /// How many vectors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.header.number("vectors")
    }

    /// Bytes that a search keeps in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.codes.len() + 4 * (self.centres.values.len() + 2 * self.lists.len())
    }

    /// The length of a read.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
        if self.is_graph() {
            self.layout.block
        } else {
            (PIECE / self.layout.block).max(1) * self.layout.block
        }
    }

    fn at(&self, block: u64) -> u64 {
        SECTOR as u64 + block * self.layout.block as u64
    }

    fn code_of(&self, at: u32) -> &[u8] {
        &self.codes[at as usize * self.dim()..(at as usize + 1) * self.dim()]
    }
}

/// How queries search.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    /// Neighbours that a query asks for.
    pub k: usize,
    /// A graph's: candidates that are kept.
    pub list: usize,
    /// Reads in flight a query.
    pub beam: usize,
    /// An inverted file's: lists that are read.
    pub probes: usize,
    /// When to end, ns of the monotonic clock.
    pub end_ns: u64,
    /// Decides the order of queries.
    pub seed: u64,
}

/// What a thread found.
#[derive(Default)]
pub struct Told {
    /// Whole time of each query.
    pub query: Histogram,
    /// From handing a beam's reads over to having them all.
    pub hop: Histogram,
    /// Queries answered.
    pub queries: u64,
    /// Reads, their bytes, and the times that a query waited for some.
    pub reads: u64,
    /// As above.
    pub bytes: u64,
    /// As above.
    pub hops: u64,
    /// Exact neighbours found, of so many asked for.
    pub found: u64,
    /// As above.
    pub asked: u64,
    /// Blocks that were not what was written.
    pub corrupt: u64,
    /// What keeps it from going on.
    pub broken: bool,
}

impl Told {
    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.query.merge(&other.query);
        self.hop.merge(&other.hop);
        for (mine, theirs) in [
            (&mut self.queries, other.queries),
            (&mut self.reads, other.reads),
            (&mut self.bytes, other.bytes),
            (&mut self.hops, other.hops),
            (&mut self.found, other.found),
            (&mut self.asked, other.asked),
            (&mut self.corrupt, other.corrupt),
        ] {
            *mine += theirs;
        }
        self.broken |= other.broken;
    }
}

/// One thread that searches.
pub struct Searcher<'a, A: Access> {
    index: &'a Index,
    asked: Asked,
    access: A,
    pool: &'a Pool,
    ledger: &'a Ledger,
    path: &'a Path,
    /// By vector: the number of the query that saw it last.
    seen: Vec<u32>,
    turn: u32,
    /// Distance, vector, and whether it was looked at; nearest first.
    nearest: Vec<(u32, u32, bool)>,
    /// Exact distances of all that were read.
    exact: Vec<(f32, u32)>,
    /// Of the beam: block, bytes, and the vector or list and entries that are wanted of it.
    wanted: Vec<Wanted>,
    moved: Vec<i64>,
    vector: Vec<f32>,
    coded: Vec<u8>,
    fresh: Vec<u32>,
    told: Told,
}

#[derive(Clone, Copy)]
struct Wanted {
    block: u64,
    blocks: usize,
    /// A graph's vector.
    vector: u32,
    /// Entries of an inverted list in these blocks.
    entries: usize,
}

impl<'a, A: Access> Searcher<'a, A> {
    /// Allocates all that searching takes.
    pub fn new(index: &'a Index, asked: Asked, access: A, pool: &'a Pool, ledger: &'a Ledger, path: &'a Path) -> Self {
        let most = asked.list * 64;
        Self {
            index,
            asked,
            access,
            pool,
            ledger,
            path,
            seen: vec![0; index.count()],
            turn: 0,
            nearest: Vec::with_capacity(asked.list + 1),
            exact: Vec::with_capacity(most),
            wanted: Vec::with_capacity(asked.beam),
            moved: vec![0; asked.beam],
            vector: vec![0.0; index.dim()],
            coded: Vec::with_capacity(index.dim()),
            fresh: Vec::with_capacity(256),
            told: Told::default(),
        }
    }

    /// Answers queries, from `first` on `apart` from each other in a shuffled order, until the time is over.
    pub fn run(mut self, first: u64, apart: u64, stop: &Stop) -> Told {
        let queries = self.index.queries.count() as u64;
        if queries == 0 {
            return self.told;
        }
        let order = crate::training::random::Order::new(queries, self.asked.seed);
        let mut at = first;
        while !stop.is_set() && !self.told.broken {
            let begun = now_ns();
            if begun >= self.asked.end_ns {
                break;
            }
            let query = order.at(at % queries) as usize;
            let before = self.told.bytes;
            if self.answer(query).is_err() {
                self.told.broken = true;
                break;
            }
            let now = now_ns();
            self.told.query.record(now - begun);
            self.told.queries += 1;
            self.ledger.done(now, 1, self.told.bytes - before);
            self.count(query);
            at += apart;
        }
        self.told
    }

    fn answer(&mut self, query: usize) -> Result<(), ()> {
        self.exact.clear();
        if self.index.is_graph() { self.walk(query) } else { self.probe(query) }?;
        self.exact.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        self.exact.dedup_by_key(|one| one.1);
        Ok(())
    }

    /// Holds the answer against the exact one.
    fn count(&mut self, query: usize) {
        let kept = TRUTH.min(self.index.count());
        let k = self.asked.k.min(kept);
        let truth = &self.index.truth[query * kept..query * kept + k];
        let found = self.exact.iter().take(k).filter(|(_, at)| truth.contains(at)).count();
        self.told.found += found as u64;
        self.told.asked += k as u64;
    }

    /// Walks the graph: the nearest `beam` candidates that were not looked at are read, until all were.
    fn walk(&mut self, query: usize) -> Result<(), ()> {
        let index = self.index;
        self.turn += 1;
        self.coded.clear();
        index.code.encode(index.queries.row(query), &mut self.coded);
        self.nearest.clear();
        self.nearest.push((distance_coded(&self.coded, index.code_of(index.entry)), index.entry, false));
        self.seen[index.entry as usize] = self.turn;
        loop {
            self.wanted.clear();
            for one in &mut self.nearest {
                if !one.2 {
                    one.2 = true;
                    let block = u64::from(one.1) / index.layout.entries as u64;
                    self.wanted.push(Wanted { block, blocks: 1, vector: one.1, entries: 0 });
                    if self.wanted.len() == self.asked.beam {
                        break;
                    }
                }
            }
            if self.wanted.is_empty() {
                return Ok(());
            }
            self.fetch()?;
            for slot in 0..self.wanted.len() {
                self.look_at(slot, query);
            }
        }
    }

    /// Takes a vector's exact distance and its neighbours out of the block that was read for it.
    fn look_at(&mut self, slot: usize, query: usize) {
        let Wanted { block, vector, .. } = self.wanted[slot];
        let index = self.index;
        let layout = index.layout;
        let from = vector as usize % layout.entries * layout.entry;
        self.fresh.clear();
        let (values, fresh) = (&mut self.vector, &mut self.fresh);
        let found = self.pool.region().lend(self.pool.place(slot, 0), layout.block, |bytes| {
            inspect(bytes, block)?;
            let entry = &bytes[from..from + layout.entry];
            decode(entry, values);
            let words = &entry[4 * values.len()..];
            let word = |at: usize| words[4 * at..4 * at + 4].try_into().map_or(0, u32::from_le_bytes);
            fresh.extend((1..=word(0) as usize).map(word));
            Ok::<(), String>(())
        });
        if let Err(what) = found {
            self.damaged(block, &what);
            return;
        }
        self.exact.push((distance(index.queries.row(query), &self.vector), vector));
        for at in 0..self.fresh.len() {
            let other = self.fresh[at];
            match self.seen.get_mut(other as usize) {
                Some(seen) if *seen != self.turn => *seen = self.turn,
                _ => continue,
            }
            let far = distance_coded(&self.coded, index.code_of(other));
            if self.nearest.len() < self.asked.list || self.nearest.last().is_some_and(|last| far < last.0) {
                let place = self.nearest.partition_point(|one| one.0 <= far);
                self.nearest.insert(place, (far, other, false));
                self.nearest.truncate(self.asked.list);
            }
        }
    }

    /// Reads the lists whose centres are nearest.
    fn probe(&mut self, query: usize) -> Result<(), ()> {
        let index = self.index;
        let vector = index.queries.row(query);
        self.nearest.clear();
        // distances of vectors are positive, so that their bits are in their order
        self.nearest.extend(
            (0..index.centres.count()).map(|at| (distance(vector, index.centres.row(at)).to_bits(), at as u32, false)),
        );
        self.nearest.sort_unstable();
        let each = index.read_bytes() / index.layout.block;
        self.wanted.clear();
        for probe in 0..self.asked.probes.min(self.nearest.len()) {
            let (first, mut left) = index.lists[self.nearest[probe].1 as usize];
            let mut block = u64::from(first);
            while left > 0 {
                let entries = (left as usize).min(each * index.layout.entries);
                let blocks = index.layout.blocks(entries);
                self.wanted.push(Wanted { block, blocks, vector: 0, entries });
                block += blocks as u64;
                left -= entries as u32;
                if self.wanted.len() == self.asked.beam {
                    self.scan(query)?;
                }
            }
        }
        self.scan(query)
    }

    /// Reads pieces of lists and takes the exact distance of every vector in them.
    fn scan(&mut self, query: usize) -> Result<(), ()> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        self.fetch()?;
        let index = self.index;
        let layout = index.layout;
        for slot in 0..self.wanted.len() {
            let Wanted { block, blocks, entries, .. } = self.wanted[slot];
            for at in 0..blocks {
                let number = block + at as u64;
                let here = (entries - at * layout.entries).min(layout.entries);
                let (values, exact) = (&mut self.vector, &mut self.exact);
                let place = self.pool.place(slot, 0) + at * layout.block;
                let found = self.pool.region().lend(place, layout.block, |bytes| {
                    inspect(bytes, number)?;
                    for entry in bytes.chunks_exact(layout.entry).take(here) {
                        let own = entry[..4].try_into().map_or(0, u32::from_le_bytes);
                        decode(&entry[4..], values);
                        exact.push((distance(index.queries.row(query), values), own));
                    }
                    Ok::<(), String>(())
                });
                if let Err(what) = found {
                    self.damaged(number, &what);
                }
            }
        }
        self.wanted.clear();
        Ok(())
    }

    fn damaged(&mut self, block: u64, what: &str) {
        self.told.corrupt += 1;
        if self.told.corrupt <= NAMED {
            self.ledger.fault("verify", 0, format!("{}: block {block} is {what}", self.path.display()));
        }
    }

    /// Reads all that is wanted, at once.
    fn fetch(&mut self) -> Result<(), ()> {
        let begun = now_ns();
        let mut fault = Ok(());
        let moved = &mut self.moved;
        for (slot, wanted) in self.wanted.iter().enumerate() {
            let length = wanted.blocks * self.index.layout.block;
            let transfer =
                Transfer { write: false, offset: self.index.at(wanted.block), at: self.pool.place(slot, 0), length };
            self.access.prepare(slot, &transfer);
            if A::SYNCHRONOUS {
                fault = fault.and(self.access.submit());
                self.access.completions(|slot, bytes| moved[slot] = bytes);
            }
            self.told.bytes += length as u64;
        }
        if !A::SYNCHRONOUS {
            fault = self.access.submit();
            let mut left = self.wanted.len();
            while left > 0 && fault.is_ok() {
                fault = self.access.wait(left);
                self.access.completions(|slot, bytes| {
                    moved[slot] = bytes;
                    left -= 1;
                });
            }
        }
        self.told.hop.record(now_ns() - begun);
        self.told.reads += self.wanted.len() as u64;
        self.told.hops += 1;
        let tell = |errno: i32, says: String| {
            self.ledger.fault("read", errno, format!("{}: {says}", self.path.display()));
            Err(())
        };
        if let Err(error) = fault {
            return tell(error.raw_os_error().unwrap_or(0), error.to_string());
        }
        for (wanted, &bytes) in self.wanted.iter().zip(&self.moved) {
            let length = (wanted.blocks * self.index.layout.block) as i64;
            if bytes < 0 {
                return tell(-bytes as i32, std::io::Error::from_raw_os_error(-bytes as i32).to_string());
            }
            if bytes < length {
                return tell(0, format!("it ends within block {}: cut short", wanted.block));
            }
        }
        Ok(())
    }
}

fn decode(bytes: &[u8], values: &mut [f32]) {
    for (value, word) in values.iter_mut().zip(bytes.chunks_exact(4)) {
        *value = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
}
