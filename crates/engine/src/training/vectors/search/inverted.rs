//! How an inverted file is searched: the lists whose centres are nearest are read whole.

use crate::training::vectors::distance::{distance, scan};
use crate::training::vectors::nearest::Candidate;

use super::super::data::Set;
use super::super::file::inspect;
use super::{Access, ReadFault, Searcher, Wanted};

impl<A: Access> Searcher<'_, A> {
    /// Reads the lists whose centres are nearest.
    pub(super) fn probe(&mut self, query: usize, centres: &Set, lists: &[(u32, u32)]) -> Result<(), ReadFault> {
        let index = self.index;
        let vector = index.queries.row(query);
        self.nearest.clear();
        // distances are not negative, so that their bits are in their order
        let far = |at: usize| distance(vector, centres.row(at)).to_bits();
        self.nearest.extend((0..centres.count()).map(|at| Candidate::new(far(at), at as u32)));
        self.nearest.sort_unstable_by_key(|one| (one.far, one.at));
        let each = index.read_bytes() / index.layout.block;
        self.wanted.clear();
        for probe in 0..self.search.probes.min(self.nearest.len()) {
            let (first, mut left) = lists[self.nearest[probe].at as usize];
            let mut block = u64::from(first);
            while left > 0 {
                let entries = (left as usize).min(each * index.layout.entries);
                let blocks = index.layout.blocks(entries);
                self.wanted.push(Wanted { block, blocks, vector: 0, entries });
                block += blocks as u64;
                left -= entries as u32;
                if self.wanted.len() == self.search.beam {
                    self.scan(query)?;
                }
            }
        }
        self.scan(query)
    }

    /// Reads pieces of lists and takes the exact distance of every vector in them.
    fn scan(&mut self, query: usize) -> Result<(), ReadFault> {
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
                    let entries = bytes.get(..here * layout.entry).unwrap_or(bytes);
                    scan(entries, layout.entry, index.queries.row(query), values, exact);
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
}
