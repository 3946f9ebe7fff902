//! Cuts vectors into the lists of an inverted-file index (IVF), each around its centre.

use crate::training::vectors::distance::nearest;

use super::data::Set;

use super::each;
use crate::contract::kernel::{Error, Stop};

/// Rounds of Lloyd's k-means: more change little.
const ROUNDS: usize = 6;

/// Centres, and the list that each vector belongs to.
pub struct Lists {
    /// One a list.
    pub centres: Set,
    /// The list of each vector.
    pub of: Vec<u32>,
}

/// Cuts a set into `count` lists; none if it was stopped.
pub fn cut(set: &Set, count: usize, threads: usize, stop: &Stop) -> Result<Option<Lists>, Error> {
    let every = (set.count() / count).max(1);
    let first: Vec<f32> = (0..count).flat_map(|at| set.row((at * every) % set.count()).to_vec()).collect();
    let mut centres = Set { dim: set.dim, values: first };
    let mut of = Vec::new();
    for round in 0..=ROUNDS {
        if stop.is_set() {
            return Ok(None);
        }
        of = each(set.count(), threads, |at| nearest(&centres.values, set.row(at)))?;
        if round == ROUNDS {
            break;
        }
        let mut sums = vec![0.0_f32; count * set.dim];
        let mut members = vec![0_u32; count];
        for (at, &list) in of.iter().enumerate() {
            members[list as usize] += 1;
            let sum = &mut sums[list as usize * set.dim..(list as usize + 1) * set.dim];
            sum.iter_mut().zip(set.row(at)).for_each(|(sum, value)| *sum += value);
        }
        for (list, &many) in members.iter().enumerate().filter(|(_, &many)| many > 0) {
            let range = list * set.dim..(list + 1) * set.dim;
            for (centre, sum) in centres.values[range.clone()].iter_mut().zip(&sums[range]) {
                *centre = sum / many as f32;
            }
        }
    }
    Ok(Some(Lists { centres, of }))
}

#[cfg(test)]
mod tests {
    use super::super::data::Spread;
    use super::*;

    #[test]
    fn every_vector_is_in_the_list_of_its_nearest_centre() {
        let set = Set::draw(500, 16, Spread::Clustered, (3, 0), 1).unwrap();
        let lists = cut(&set, 20, 2, &Stop::new()).unwrap().unwrap();
        assert_eq!(lists.of.len(), 500);
        assert!((0..500).all(|at| lists.of[at] == nearest(&lists.centres.values, set.row(at))));
        assert!((0..20).filter(|list| lists.of.contains(list)).count() > 15);
    }
}
