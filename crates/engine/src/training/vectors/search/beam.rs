//! How `DiskANN` searches: a walk along its graph by distances in memory, several of whose vectors are read at once.

use hwdyno_loops::distance::distance_coded;

use super::super::data::Code;
use super::{Access, Candidate, Searcher};

impl<A: Access> Searcher<'_, A> {
    /// Walks the graph: the nearest `beam` candidates that were not looked at are read, until all were.
    pub(super) fn walk(&mut self, query: usize, entry: u32, code: Code, codes: &[u8]) -> Result<(), ()> {
        let dim = self.index.dim();
        let code_of = |at: u32| &codes[at as usize * dim..(at as usize + 1) * dim];
        self.turn += 1;
        self.coded.clear();
        code.encode(self.index.queries.row(query), &mut self.coded);
        self.nearest.clear();
        let far = distance_coded(&self.coded, code_of(entry));
        self.nearest.push(Candidate { far, at: entry, done: false, links: (0, 0) });
        self.seen[entry as usize] = self.turn;
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
                for at in 0..self.fresh.len() {
                    let other = self.fresh[at];
                    if self.is_new(other) {
                        let far = distance_coded(&self.coded, code_of(other));
                        self.consider(Candidate { far, at: other, done: false, links: (0, 0) });
                    }
                }
            }
        }
    }
}
