//! Walks along a graph over vectors, and the choice of a vector's neighbours in it.

use std::collections::HashSet;

use super::distance::distance_coded;

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

    /// How far two of them are apart, squared.
    #[must_use]
    pub fn apart(&self, a: u32, b: u32) -> u32 {
        distance_coded(self.row(a), self.row(b))
    }
}

/// The neighbours of each vector, none of one that is not of its level.
pub type Graph = Vec<Vec<u32>>;

/// Those that a greedy walk from `entry` towards `query` looked at, with their distance, nearest first.
#[must_use]
pub fn walk(codes: &Codes, graph: &Graph, entry: u32, query: &[u8], list: usize) -> Vec<(u32, u32)> {
    let mut seen = HashSet::with_capacity(list * 16);
    let mut nearest = vec![(distance_coded(query, codes.row(entry)), entry, false)];
    let mut looked_at = Vec::with_capacity(list * 2);
    seen.insert(entry);
    while let Some(at) = nearest.iter().position(|one| !one.2) {
        nearest[at].2 = true;
        let (far, vector, _) = nearest[at];
        looked_at.push((far, vector));
        for &other in &graph[vector as usize] {
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

/// The neighbours kept: at most `degree` of the candidates (nearest first), spread over all directions.
#[must_use]
pub fn prune(codes: &Codes, vector: u32, candidates: &[(u32, u32)], degree: usize, alpha_squared: f64) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(degree);
    for &(far, candidate) in candidates {
        if candidate == vector || chosen.contains(&candidate) {
            continue;
        }
        let hidden = chosen.iter().any(|&one| alpha_squared * f64::from(codes.apart(one, candidate)) <= f64::from(far));
        if !hidden {
            chosen.push(candidate);
            if chosen.len() == degree {
                break;
            }
        }
    }
    chosen
}
