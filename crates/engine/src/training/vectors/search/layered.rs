//! How HNSW searches: greedily down its upper levels in memory, then on the lowest, where every distance is a read.
//!
//! Unlike `DiskANN`'s, its nodes keep no short form of their neighbours: a vector is read before its distance is known
//! (Malkov and Yashunin, algorithms 2 and 5). What `DiskANN` reads one block for, this reads all neighbours' for.

use crate::training::vectors::nearest::{consider, Candidate};

use super::super::layers::Upper;
use super::{Access, ReadFault, Searcher};

impl<A: Access> Searcher<'_, A> {
    /// Goes down, then on from the nearest candidate whose neighbours were not read, until there is none.
    pub(super) fn descend(&mut self, query: usize, upper: &Upper) -> Result<(), ReadFault> {
        self.seen.restart();
        self.nearest.clear();
        self.links.clear();
        self.wanted.clear();
        let entry = upper.descend(self.index.queries.row(query));
        self.seen.is_new(entry);
        self.want(entry);
        self.read_wanted(query)?;
        while let Some(place) = self.nearest.iter().position(|one| !one.done) {
            self.nearest[place].done = true;
            let (from, to) = self.nearest[place].links;
            for at in from..to {
                let other = self.links[at as usize];
                if self.seen.is_new(other) {
                    self.want(other);
                    if self.wanted.len() == self.search.beam {
                        self.read_wanted(query)?;
                    }
                }
            }
            self.read_wanted(query)?;
        }
        Ok(())
    }

    /// Reads the vectors that are wanted, and keeps the nearest with their links.
    fn read_wanted(&mut self, query: usize) -> Result<(), ReadFault> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        self.fetch()?;
        for slot in 0..self.wanted.len() {
            if let Some(far) = self.look_at(slot, query) {
                let from = self.links.len() as u32;
                self.links.extend_from_slice(&self.fresh);
                let links = (from, self.links.len() as u32);
                // distances are not negative, so that their bits are in their order
                let found = Candidate { far: far.to_bits(), at: self.wanted[slot].vector, done: false, links };
                consider(&mut self.nearest, self.search.list, found);
            }
        }
        self.wanted.clear();
        Ok(())
    }
}
