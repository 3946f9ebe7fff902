//! A vector index that is open: what its file says it is, and what a search of it keeps in memory.

use std::fs::File;
use std::path::Path;

use super::data::{Code, Set, TRUTH};
use super::file::{from_words, sections, Header, Layout, SECTOR};
use super::layers::Upper;
use super::stored::Stored;

/// Lists are read in pieces of about this length.
const PIECE: usize = 128 << 10;

/// An index that is open to be searched.
pub struct Index {
    /// What it is made of.
    pub header: Header,
    pub(super) layout: Layout,
    pub(super) kept: Kept,
    pub(super) queries: Set,
    pub(super) truth: Vec<u32>,
}

/// What a search keeps in memory, by the kind of index.
pub(super) enum Kept {
    /// `DiskANN`'s: the first vector, and every one in 8 bits a dimension.
    Codes { entry: u32, code: Code, codes: Vec<u8> },
    /// HNSW's: the levels above the lowest.
    Upper(Upper),
    /// An inverted file's: the lists' centres, and the first block and the number of entries of each.
    Lists { centres: Set, lists: Vec<(u32, u32)> },
}

impl Index {
    /// Opens an index in a file; in words what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::read(&mut File::open(path).map_err(|error| error.to_string())?)
    }

    /// Reads what a search keeps in memory of a stored index; in words what is wrong with it.
    pub fn read(stored: &mut impl Stored) -> Result<Self, String> {
        let header = Header::read(stored)?;
        let length = stored.length()? as usize;
        let contradiction = || "its header contradicts what follows it: corrupt, build it again".to_string();
        let (dim, entry, blocks) = (header.number("dim"), header.number("entry_bytes"), header.number("blocks"));
        let layout = Some(entry).filter(|&entry| dim > 0 && entry / 4 > dim && entry <= length).map(Layout::of);
        let layout = layout.ok_or_else(contradiction)?;
        let from = blocks.checked_mul(layout.block).and_then(|bytes| bytes.checked_add(SECTOR));
        let from = from.filter(|&from| from <= length).ok_or_else(contradiction)?;
        let found = sections(stored, from as u64, 4)?;
        let [memory, lists, queries, truth]: [Vec<u8>; 4] =
            found.try_into().map_err(|_| "it lacks a section: corrupt".to_string())?;
        let values = || from_words(&memory, f32::from_le_bytes);
        let words: Vec<u32> = from_words(&lists, u32::from_le_bytes);
        let kept = match header.word("index") {
            "diskann" => Kept::Codes {
                entry: header.number("entry") as u32,
                code: Code { low: header.fraction("code_low"), step: header.fraction("code_step") },
                codes: memory,
            },
            "hnsw" => Kept::Upper(Upper::decode(dim, values(), &words).ok_or("its levels are none: corrupt")?),
            _ => Kept::Lists {
                centres: Set { dim, values: values() },
                lists: words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            },
        };
        let index = Self {
            layout,
            kept,
            queries: Set { dim, values: from_words(&queries, f32::from_le_bytes) },
            truth: from_words(&truth, u32::from_le_bytes),
            header,
        };
        index.agrees(blocks).then_some(index).ok_or_else(contradiction)
    }

    /// Whether what a search keeps in memory belongs to the vectors in the file's `blocks`.
    fn agrees(&self, blocks: usize) -> bool {
        let (count, dim, entries) = (self.count(), self.dim(), blocks.saturating_mul(self.layout.entries));
        let kept = match &self.kept {
            Kept::Codes { entry, codes, .. } => {
                Some(codes.len()) == count.checked_mul(dim) && (*entry as usize) < count
            }
            Kept::Upper(upper) => upper.is_within(count),
            Kept::Lists { centres, lists } => {
                centres.count() == lists.len()
                    && lists.iter().all(|&(first, of)| first as usize + self.layout.blocks(of as usize) <= blocks)
            }
        };
        kept && count <= entries && Some(self.truth.len()) == self.queries.count().checked_mul(TRUTH.min(count))
    }

    pub(super) fn dim(&self) -> usize {
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
        match &self.kept {
            Kept::Codes { codes, .. } => codes.len(),
            Kept::Upper(upper) => upper.bytes(),
            Kept::Lists { centres, lists } => 4 * (centres.values.len() + 2 * lists.len()),
        }
    }

    /// The length of a read.
    #[must_use]
    pub fn read_bytes(&self) -> usize {
        match self.kept {
            Kept::Lists { .. } => (PIECE / self.layout.block).max(1) * self.layout.block,
            _ => self.layout.block,
        }
    }

    pub(super) fn at(&self, block: u64) -> u64 {
        SECTOR as u64 + block * self.layout.block as u64
    }
}
