//! Builds graphs over vectors, along which a greedy walk from one of them finds any other.
//!
//! One level is the graph of a `DiskANN` index (Subramanya et al., "`DiskANN`: Fast Accurate Billion-point Nearest
//! Neighbor Search on a Single Node", `NeurIPS` 2019, algorithms 1 and 2), several are those of HNSW (Malkov and
//! Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable Small World
//! graphs", `IEEE` `TPAMI` 2020, algorithms 1, 2 and 4). Vectors are inserted in growing batches, so that a graph does
//! not depend on the number of threads (Manohar et al., "`ParlayANN`", `PPoPP` 2024).

use crate::training::vectors::walk::{prune, walk, Codes, Graph};

use super::each;
use crate::contract::kernel::{Error, Stop};
use crate::training::random::Order;

/// `DiskANN`'s: a neighbour is left out if a chosen one is nearer to it by this factor, 1.2 of the paper, squared.
pub const ALPHA_SQUARED: f64 = 1.44;
/// A batch is at most this share of all.
const LARGEST_BATCH: usize = 50;

/// How a graph is built.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Neighbours of a vector at most on the lowest level; on others half of them.
    pub degree: usize,
    /// Candidates that are kept by a walk.
    pub list: usize,
    /// How much nearer a chosen neighbour must be to leave another one out, squared; HNSW's is 1.
    pub alpha_squared: f64,
}

impl Shape {
    /// Neighbours of a vector at most on a level.
    #[must_use]
    pub fn level_degree(&self, level: usize) -> usize {
        if level == 0 {
            self.degree
        } else {
            (self.degree / 2).max(1)
        }
    }
}

/// Builds the graph over all vectors; none if it was stopped.
pub fn build(
    codes: &Codes,
    entry: u32,
    shape: &Shape,
    seed: u64,
    threads: usize,
    stop: &Stop,
) -> Result<Option<Graph>, Error> {
    let count = codes.bytes.len() / codes.dim;
    let order = Order::new(count as u64, seed);
    let rest = (0..count as u64).map(|at| order.at(at) as u32).filter(|&at| at != entry);
    let inserted: Vec<u32> = std::iter::once(entry).chain(rest).collect();
    Ok(grow(codes, &inserted, &vec![0; count], shape, threads, stop)?.map(|mut levels| levels.swap_remove(0)))
}

/// Builds a graph on each level over the vectors that reach it, the lowest first; none if it was stopped.
///
/// `inserted` has every vector, those of higher levels first: the first of all is the entry of every level.
pub fn grow(
    codes: &Codes,
    inserted: &[u32],
    levels: &[u8],
    shape: &Shape,
    threads: usize,
    stop: &Stop,
) -> Result<Option<Vec<Graph>>, Error> {
    let count = inserted.len();
    let entry = inserted[0];
    let mut graphs: Vec<Graph> = vec![vec![Vec::new(); count]; usize::from(levels[entry as usize]) + 1];
    let (mut from, mut size) = (1, 1);
    while from < count {
        if stop.is_set() {
            return Ok(None);
        }
        let batch = &inserted[from..(from + size).min(count)];
        let found = each(batch.len(), threads, |at| {
            let vector = batch[at];
            neighbours(codes, &graphs, entry, vector, usize::from(levels[vector as usize]), shape)
        })?;
        let mut back: Vec<(usize, u32, u32)> = Vec::with_capacity(batch.len() * shape.degree);
        for (vector, by_level) in batch.iter().zip(found) {
            for (level, chosen) in by_level.into_iter().enumerate() {
                back.extend(chosen.iter().map(|&other| (level, other, *vector)));
                graphs[level][*vector as usize] = chosen;
            }
        }
        back.sort_unstable();
        let groups: Vec<&[(usize, u32, u32)]> = back.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).collect();
        let grown = each(groups.len(), threads, |at| {
            let (level, vector, _) = groups[at][0];
            let before = &graphs[level][vector as usize];
            let mut all = before.clone();
            all.extend(groups[at].iter().map(|link| link.2).filter(|other| !before.contains(other)));
            let degree = shape.level_degree(level);
            if all.len() > degree {
                let mut candidates: Vec<_> = all.iter().map(|&other| (codes.apart(vector, other), other)).collect();
                candidates.sort_unstable();
                all = prune(codes, vector, &candidates, degree, shape.alpha_squared);
            }
            (level, vector, all)
        })?;
        for (level, vector, all) in grown {
            graphs[level][vector as usize] = all;
        }
        from += batch.len();
        size = (size * 2).min((count / LARGEST_BATCH).max(1));
    }
    Ok(Some(graphs))
}

/// The neighbours that a new vector gets on each of its levels, the lowest first.
fn neighbours(codes: &Codes, graphs: &[Graph], entry: u32, vector: u32, level: usize, shape: &Shape) -> Vec<Vec<u32>> {
    let query = codes.row(vector);
    let mut at = entry;
    for above in (level + 1..graphs.len()).rev() {
        at = walk(codes, &graphs[above], at, query, 1)[0].1;
    }
    let mut chosen = vec![Vec::new(); level + 1];
    for here in (0..=level).rev() {
        let candidates = walk(codes, &graphs[here], at, query, shape.list);
        at = candidates[0].1;
        chosen[here] = prune(codes, vector, &candidates, shape.level_degree(here), shape.alpha_squared);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::data::{Code, Set, Spread};
    use super::*;

    fn codes(count: usize) -> Codes {
        let set = Set::draw(count, 32, Spread::Clustered, (3, 0), 1).unwrap();
        let mut bytes = Vec::new();
        Code::of(&set).encode(&set.values, &mut bytes);
        Codes { dim: 32, bytes }
    }

    const SHAPE: Shape = Shape { degree: 24, list: 48, alpha_squared: ALPHA_SQUARED };

    #[test]
    fn a_walk_finds_almost_every_vector_by_itself() {
        let codes = codes(1500);
        let graph = build(&codes, 0, &SHAPE, 1, 2, &Stop::new()).unwrap().unwrap();
        assert!(graph.iter().all(|neighbours| neighbours.len() <= 24));
        let found = (0..1500).filter(|&vector| walk(&codes, &graph, 0, codes.row(vector), 32)[0].0 == 0).count();
        assert!(found >= 1480, "{found}");
    }

    #[test]
    fn the_graph_does_not_depend_on_the_number_of_threads() {
        let codes = codes(400);
        let one = build(&codes, 7, &SHAPE, 1, 1, &Stop::new()).unwrap();
        assert_eq!(one, build(&codes, 7, &SHAPE, 1, 3, &Stop::new()).unwrap());
        let stop = Stop::new();
        stop.set();
        assert_eq!(build(&codes, 7, &SHAPE, 1, 1, &stop).unwrap(), None);
    }
}
