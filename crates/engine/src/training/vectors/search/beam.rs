//! How `DiskANN` searches: a walk along its graph by distances in memory, several of whose vectors are read at once.

use crate::training::vectors::distance::distance_coded;
use crate::training::vectors::nearest::{consider_coded, Candidate};

use super::super::data::Code;
use super::{Access, ReadFault, Searcher};

impl<A: Access> Searcher<'_, A> {
    /// Walks the graph: the nearest `beam` candidates that were not looked at are read, until all were.
    pub(super) fn walk(&mut self, query: usize, entry: u32, code: Code, codes: &[u8]) -> Result<(), ReadFault> {
        let dim = self.index.dim();
        self.seen.restart();
        self.coded.clear();
        code.encode(self.index.queries.row(query), &mut self.coded);
        self.nearest.clear();
        let far = distance_coded(&self.coded, &codes[entry as usize * dim..(entry as usize + 1) * dim]);
        self.nearest.push(Candidate::new(far, entry));
        self.seen.is_new(entry);
        loop {
            self.wanted.clear();
            for place in 0..self.nearest.len() {
                if self.nearest[place].done {
                    continue;
                }
                self.nearest[place].done = true;
                self.want(self.nearest[place].at);
                if self.wanted.len() == self.search.beam {
                    break;
                }
            }
            if self.wanted.is_empty() {
                return Ok(());
            }
            self.fetch()?;
            for slot in 0..self.wanted.len() {
                if self.look_at(slot, query).is_none() {
                    continue;
                }
                let (nearest, seen) = (&mut self.nearest, &mut self.seen);
                consider_coded(nearest, self.search.list, &self.fresh, seen, &self.coded, codes);
            }
        }
    }
}
