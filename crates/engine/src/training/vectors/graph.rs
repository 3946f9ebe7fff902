//! Builds the graph of a `DiskANN` index: each vector with few neighbours, along which a greedy walk finds any other.
//!
//! Subramanya et al., "`DiskANN`: Fast Accurate Billion-point Nearest Neighbor Search on a Single Node" (`NeurIPS`
//! 2019), algorithms 1 and 2; inserted in growing batches, so that the graph does not depend on the number of threads
//! (Manohar et al., "`ParlayANN`", `PPoPP` 2024).

use super::{distance_coded, each};
use crate::kernel::{Error, Stop};
use crate::training::random::Order;

/// A neighbour is left out if a chosen one is nearer to it by this factor: alpha = 1.2 of the paper, squared.
const ALPHA_SQUARED: f64 = 1.44;
/// A batch is at most this share of all.
const LARGEST_BATCH: usize = 50;

/// Vectors in 8 bits a dimension, one after the other.
pub struct Codes {
    /// Dimensions of each.
    pub dim: usize,
    /// All of them.
    pub bytes: Vec<u8>,
}

impl Codes {
    /// One of them.
    #[inline]
    #[must_use]
    pub fn row(&self, at: u32) -> &[u8] {
        &self.bytes[at as usize * self.dim..(at as usize + 1) * self.dim]
    }

    fn apart(&self, a: u32, b: u32) -> u32 {
        distance_coded(self.row(a), self.row(b))
    }
}

/// The neighbours of each vector.
pub type Graph = Vec<Vec<u32>>;

/// Those that a greedy walk from `entry` towards `query` looked at, with their distance, nearest first.
fn walk(codes: &Codes, graph: &Graph, entry: u32, query: &[u8], list: usize) -> Vec<(u32, u32)> {
    let mut seen = std::collections::HashSet::with_capacity(list * 16);
    let mut nearest = vec![(distance_coded(query, codes.row(entry)), entry, false)];
    let mut looked_at = Vec::with_capacity(list * 2);
    seen.insert(entry);
    while let Some(at) = nearest.iter().position(|one| !one.2) {
        nearest[at].2 = true;
        let (far, own, _) = nearest[at];
        looked_at.push((far, own));
        for &other in &graph[own as usize] {
            if !seen.insert(other) {
                continue;
            }
            let far = distance_coded(query, codes.row(other));
            if nearest.len() < list || nearest.last().is_some_and(|last| far < last.0) {
                let place = nearest.partition_point(|one| one.0 <= far);
                nearest.insert(place, (far, other, false));
                nearest.truncate(list);
            }
        }
    }
    looked_at.sort_unstable();
    looked_at
}

/// At most `degree` of the candidates (nearest first), spread over all directions.
fn prune(codes: &Codes, own: u32, candidates: &[(u32, u32)], degree: usize) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(degree);
    for &(far, candidate) in candidates {
        if candidate == own || chosen.contains(&candidate) {
            continue;
        }
        let hidden = chosen.iter().any(|&one| ALPHA_SQUARED * f64::from(codes.apart(one, candidate)) <= f64::from(far));
        if !hidden {
            chosen.push(candidate);
            if chosen.len() == degree {
                break;
            }
        }
    }
    chosen
}

/// Builds the graph over all vectors; none if it was asked to stop.
pub fn build(
    codes: &Codes,
    entry: u32,
    (degree, list): (usize, usize),
    seed: u64,
    threads: usize,
    stop: &Stop,
) -> Result<Option<Graph>, Error> {
    let count = codes.bytes.len() / codes.dim;
    let mut graph: Graph = vec![Vec::new(); count];
    let order = Order::new(count as u64, seed);
    let inserted: Vec<u32> = (0..count as u64).map(|at| order.at(at) as u32).filter(|&at| at != entry).collect();
    let (mut from, mut size) = (0, 1);
    while from < inserted.len() {
        if stop.is_set() {
            return Ok(None);
        }
        let batch = &inserted[from..(from + size).min(inserted.len())];
        let found = each(batch.len(), threads, |at| {
            let own = batch[at];
            let candidates = walk(codes, &graph, entry, codes.row(own), list);
            prune(codes, own, &candidates, degree)
        })?;
        let mut back: Vec<(u32, u32)> = Vec::with_capacity(batch.len() * degree);
        for (own, neighbours) in batch.iter().zip(found) {
            back.extend(neighbours.iter().map(|&other| (other, *own)));
            graph[*own as usize] = neighbours;
        }
        back.sort_unstable();
        let groups: Vec<&[(u32, u32)]> = back.chunk_by(|a, b| a.0 == b.0).collect();
        let grown = each(groups.len(), threads, |at| {
            let own = groups[at][0].0;
            let mut all = graph[own as usize].clone();
            all.extend(groups[at].iter().map(|pair| pair.1).filter(|other| !graph[own as usize].contains(other)));
            if all.len() > degree {
                let mut candidates: Vec<_> = all.iter().map(|&other| (codes.apart(own, other), other)).collect();
                candidates.sort_unstable();
                all = prune(codes, own, &candidates, degree);
            }
            (own, all)
        })?;
        for (own, neighbours) in grown {
            graph[own as usize] = neighbours;
        }
        from += batch.len();
        size = (size * 2).min((count / LARGEST_BATCH).max(1));
    }
    Ok(Some(graph))
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

    #[test]
    fn a_walk_finds_almost_every_vector_by_itself() {
        let codes = codes(1500);
        let graph = build(&codes, 0, (24, 48), 1, 2, &Stop::new()).unwrap().unwrap();
        assert!(graph.iter().all(|neighbours| neighbours.len() <= 24));
        let found = (0..1500).filter(|&own| walk(&codes, &graph, 0, codes.row(own), 32)[0].0 == 0).count();
        assert!(found >= 1480, "{found}");
    }

    #[test]
    fn the_graph_does_not_depend_on_the_number_of_threads() {
        let codes = codes(400);
        let one = build(&codes, 7, (16, 32), 1, 1, &Stop::new()).unwrap();
        assert_eq!(one, build(&codes, 7, (16, 32), 1, 3, &Stop::new()).unwrap());
        let stop = Stop::new();
        stop.set();
        assert_eq!(build(&codes, 7, (16, 32), 1, 1, &stop).unwrap(), None);
    }
}
