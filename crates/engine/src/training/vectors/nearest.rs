//! The nearest vectors that a query came across, and which it came across before.

use super::distance::distance_coded;

/// A vector, or a list, that a query came across.
#[derive(Debug, Clone, Copy)]
pub struct Candidate {
    /// Its distance, as a number of the same order.
    pub far: u32,
    /// Its number.
    pub at: u32,
    /// Whether the query has gone on from it.
    pub done: bool,
    /// HNSW's: where its links are, among those that the query read.
    pub links: (u32, u32),
}

impl Candidate {
    /// One that the query has not gone on from, without links.
    #[must_use]
    pub fn new(far: u32, at: u32) -> Self {
        Self { far, at, done: false, links: (0, 0) }
    }
}

/// Which vectors the query of this turn came across.
#[derive(Debug)]
pub struct Seen {
    /// The turn of the query that saw each vector last.
    by: Vec<u32>,
    turn: u32,
}

impl Seen {
    /// None of `count` vectors.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { by: vec![0; count], turn: 0 }
    }

    /// Forgets all, for the next query.
    pub fn restart(&mut self) {
        self.turn += 1;
    }

    /// Whether the query comes across this vector for the first time; never one that is not there.
    pub fn is_new(&mut self, vector: u32) -> bool {
        match self.by.get_mut(vector as usize) {
            Some(seen) if *seen != self.turn => {
                *seen = self.turn;
                true
            }
            _ => false,
        }
    }
}

/// Keeps a candidate if it is among the `list` nearest, which are in order.
pub fn consider(nearest: &mut Vec<Candidate>, list: usize, candidate: Candidate) {
    let far = candidate.far;
    if nearest.len() < list || nearest.last().is_some_and(|last| far < last.far) {
        let place = nearest.partition_point(|one| one.far <= far);
        nearest.insert(place, candidate);
        nearest.truncate(list);
    }
}

/// Considers the vectors that the query sees for the first time, by their codes, one after the other in `codes`.
pub fn consider_coded(
    nearest: &mut Vec<Candidate>,
    list: usize,
    vectors: &[u32],
    seen: &mut Seen,
    query: &[u8],
    codes: &[u8],
) {
    let dim = query.len();
    for &at in vectors {
        if seen.is_new(at) {
            let far = distance_coded(query, &codes[at as usize * dim..(at as usize + 1) * dim]);
            consider(nearest, list, Candidate::new(far, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::rng::Rng;

    #[test]
    fn the_nearest_are_kept_in_order_and_each_vector_is_seen_once_a_query() {
        let (dim, count, list) = (16, 300, 20);
        let mut rng = Rng::new(5);
        let codes: Vec<u8> = (0..dim * count).map(|_| rng.bits() as u8).collect();
        let query: Vec<u8> = (0..dim).map(|_| rng.bits() as u8).collect();
        let mut all: Vec<(u32, u32)> =
            codes.chunks(dim).zip(0..).map(|(code, at)| (distance_coded(&query, code), at)).collect();
        all.sort_by_key(|one| one.0);
        let mut seen = Seen::new(count);
        for _ in 0..2 {
            let mut nearest = Vec::new();
            seen.restart();
            let twice: Vec<u32> = (0..count as u32).chain(0..count as u32).collect();
            consider_coded(&mut nearest, list, &twice, &mut seen, &query, &codes);
            assert_eq!(
                nearest.iter().map(|one| one.far).collect::<Vec<_>>(),
                all[..list].iter().map(|one| one.0).collect::<Vec<_>>()
            );
            assert!(!seen.is_new(count as u32));
        }
    }
}
