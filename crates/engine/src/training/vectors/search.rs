//! Answers queries from a vector index on storage, each by real reads, and holds the answers against the exact ones.

mod beam;
mod inverted;
mod layered;

use std::io;

use crate::training::vectors::distance::{decode, distance, rank};
use crate::training::vectors::nearest::{Candidate, Seen};

use super::data::TRUTH;
use super::file::inspect;
use super::index::{Index, Kept};
use crate::contract::kernel::Stop;
use crate::storage::data::buffers::BufferPool;
use crate::storage::io::access::{Access, Transfer};
use crate::timing::clock::now_ns;
use crate::timing::histogram::Histogram;
use crate::training::ledger::Ledger;

/// Blocks that are named; more are only counted.
const NAMED: u64 = 16;

/// How queries search.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Neighbours that a query requests.
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

/// Where an index is, for what goes wrong with it.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    /// What a user knows it by.
    pub name: &'a str,
    /// What a read of it is: `read`, or `get` from a store.
    pub operation: &'a str,
}

/// What a thread found.
#[derive(Default)]
pub struct Tally {
    /// Whole time of each query.
    pub query: Histogram,
    /// Time between submitting a beam's reads and having them all.
    pub hop: Histogram,
    /// Queries answered.
    pub queries: u64,
    /// Reads, their bytes, and the times that a query waited for some.
    pub reads: u64,
    /// Bytes of the reads.
    pub bytes: u64,
    /// Times that a query waited for reads.
    pub hops: u64,
    /// Exact neighbours found, of this many in all.
    pub found: u64,
    /// Exact neighbours in all.
    pub sought: u64,
    /// Blocks that were not what was written.
    pub corrupt: u64,
}

/// Why a read is not there.
struct ReadFault {
    errno: i32,
    says: String,
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self { errno: error.raw_os_error().unwrap_or(0), says: error.to_string() }
    }
}

impl Tally {
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
            (&mut self.sought, other.sought),
            (&mut self.corrupt, other.corrupt),
        ] {
            *mine += theirs;
        }
    }
}

/// One thread that searches.
pub struct Searcher<'a, A: Access> {
    index: &'a Index,
    search: Search,
    access: A,
    pool: &'a BufferPool,
    ledger: &'a Ledger,
    origin: Origin<'a>,
    seen: Seen,
    /// What the query may look at next, nearest first.
    nearest: Vec<Candidate>,
    /// Links of all vectors that an HNSW query has read so far.
    links: Vec<u32>,
    /// Exact distances of all that were read: not negative, so that their bits are in their order.
    exact: Vec<(u32, u32)>,
    /// The beam's reads: block, bytes, and the vector or list and entries that are wanted of it.
    wanted: Vec<Wanted>,
    moved: Vec<i64>,
    vector: Vec<f32>,
    coded: Vec<u8>,
    fresh: Vec<u32>,
    tally: Tally,
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
    pub fn new(
        index: &'a Index,
        search: Search,
        access: A,
        pool: &'a BufferPool,
        ledger: &'a Ledger,
        origin: Origin<'a>,
    ) -> Self {
        let most = search.list * 64;
        Self {
            index,
            search,
            access,
            pool,
            ledger,
            origin,
            seen: Seen::new(index.count()),
            nearest: Vec::with_capacity(search.list + 1),
            links: Vec::with_capacity(most),
            exact: Vec::with_capacity(most),
            wanted: Vec::with_capacity(search.beam),
            moved: vec![0; search.beam],
            vector: vec![0.0; index.dim()],
            coded: Vec::with_capacity(index.dim()),
            fresh: Vec::with_capacity(256),
            tally: Tally::default(),
        }
    }

    /// Answers queries, from `first` on `apart` from each other in a shuffled order, until the time is over or a thread cannot
    /// go on, which sets `broken`.
    pub fn run(mut self, (first, apart): (u64, u64), stop: &Stop, broken: &Stop) -> Tally {
        let queries = self.index.queries.count() as u64;
        if queries == 0 {
            return self.tally;
        }
        let order = crate::training::random::Order::new(queries, self.search.seed);
        let mut at = first;
        while !stop.is_set() && !broken.is_set() {
            let begun = now_ns();
            if begun >= self.search.end_ns {
                break;
            }
            let query = order.at(at % queries) as usize;
            let before = self.tally.bytes;
            if let Err(fault) = self.answer(query) {
                // What a stop has cut short is no fault.
                if !stop.is_set() {
                    self.ledger.fault(
                        self.origin.operation,
                        fault.errno,
                        format!("{}: {}", self.origin.name, fault.says),
                    );
                }
                broken.set();
                break;
            }
            let now = now_ns();
            self.tally.query.record(now - begun);
            self.tally.queries += 1;
            self.ledger.done(now, 1, self.tally.bytes - before);
            self.count(query);
            at += apart;
        }
        self.tally
    }

    fn answer(&mut self, query: usize) -> Result<(), ReadFault> {
        self.exact.clear();
        let index = self.index;
        match &index.kept {
            Kept::Codes { entry, code, codes } => self.walk(query, *entry, *code, codes),
            Kept::Upper(upper) => self.descend(query, upper),
            Kept::Lists { centres, lists } => self.probe(query, centres, lists),
        }?;
        rank(&mut self.exact);
        Ok(())
    }

    /// Holds the answer against the exact one.
    fn count(&mut self, query: usize) {
        let kept = TRUTH.min(self.index.count());
        let k = self.search.k.min(kept);
        let truth = &self.index.truth[query * kept..query * kept + k];
        let found = self.exact.iter().take(k).filter(|(_, at)| truth.contains(at)).count();
        self.tally.found += found as u64;
        self.tally.sought += k as u64;
    }

    /// Takes a vector's exact distance, and its neighbours into `fresh`, out of the block that was read for it.
    fn look_at(&mut self, slot: usize, query: usize) -> Option<f32> {
        let Wanted { block, vector, .. } = self.wanted[slot];
        let layout = self.index.layout;
        let from = vector as usize % layout.entries * layout.entry;
        self.fresh.clear();
        let (values, fresh) = (&mut self.vector, &mut self.fresh);
        let found = self.pool.region().lend(self.pool.place(slot, 0), layout.block, |bytes| {
            inspect(bytes, block)?;
            let entry = &bytes[from..from + layout.entry];
            decode(entry, values);
            let words = &entry[4 * values.len()..];
            let mut words = words.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
            let links = words.next().unwrap_or(0) as usize;
            if links > words.len() {
                return Err(format!("corrupt: a vector has {links} neighbours where {} have room", words.len()));
            }
            fresh.extend(words.take(links));
            Ok::<(), String>(())
        });
        if let Err(what) = found {
            self.damaged(block, &what);
            return None;
        }
        let far = distance(self.index.queries.row(query), &self.vector);
        self.exact.push((far.to_bits(), vector));
        Some(far)
    }

    /// Asks for the block of a graph's vector.
    fn want(&mut self, vector: u32) {
        let block = u64::from(vector) / self.index.layout.entries as u64;
        self.wanted.push(Wanted { block, blocks: 1, vector, entries: 0 });
    }

    fn damaged(&mut self, block: u64, what: &str) {
        self.tally.corrupt += 1;
        if self.tally.corrupt <= NAMED {
            self.ledger.fault("verify", 0, format!("{}: block {block} is {what}", self.origin.name));
        }
    }

    /// Reads all that is wanted, at once.
    fn fetch(&mut self) -> Result<(), ReadFault> {
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
            self.tally.bytes += length as u64;
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
        self.tally.hop.record(now_ns() - begun);
        self.tally.reads += self.wanted.len() as u64;
        self.tally.hops += 1;
        fault?;
        for (wanted, &bytes) in self.wanted.iter().zip(&self.moved) {
            let length = (wanted.blocks * self.index.layout.block) as i64;
            if bytes < 0 {
                return Err(io::Error::from_raw_os_error(-bytes as i32).into());
            }
            if bytes < length {
                return Err(ReadFault { errno: 0, says: format!("it ends within block {}: cut short", wanted.block) });
            }
        }
        Ok(())
    }
}
