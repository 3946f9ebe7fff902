//! The upper levels of an HNSW index: which vectors reach them, and the greedy way down through them in memory.

use crate::timing::rng::{mix, Rng};
use crate::training::vectors::distance::distance;
use crate::training::vectors::walk::Graph;

use super::data::Set;
use crate::training::random::Order;

/// Levels above the lowest at most: of 2^31 vectors with 4 neighbours hardly one reaches more.
const HIGHEST: f64 = 31.0;

/// The level that each vector reaches, by the exponential law of the paper (section 4.1): floor(-ln(u) / ln(M)).
///
/// `degree` is that of the lowest level, twice the paper's M.
#[must_use]
pub fn levels(count: usize, degree: usize, seed: u64) -> Vec<u8> {
    let scale = 1.0 / ((degree / 2).max(2) as f64).ln();
    (0..count as u64)
        .map(|at| {
            let mut rng = Rng::new(mix(mix(seed) ^ at));
            (-rng.share().ln() * scale).floor().min(HIGHEST) as u8
        })
        .collect()
}

/// Every vector, those of higher levels first, and within a level shuffled.
#[must_use]
pub fn order(levels: &[u8], seed: u64) -> Vec<u32> {
    let shuffled = Order::new(levels.len() as u64, seed);
    let mut inserted: Vec<u32> = (0..levels.len() as u64).map(|at| shuffled.at(at) as u32).collect();
    inserted.sort_by_key(|&at| std::cmp::Reverse(levels[at as usize]));
    inserted
}

/// The levels above the lowest: their vectors whole, and links by place among them.
pub struct Upper {
    /// The vectors' numbers; the first is the entry of every level.
    ids: Vec<u32>,
    vectors: Set,
    /// The levels from the highest down to the first above the lowest: by place, the places of its neighbours.
    levels: Vec<Vec<Vec<u32>>>,
}

impl Upper {
    /// The upper levels of the graphs, the lowest first, and the vectors in the order in which they were inserted.
    #[must_use]
    pub fn of(set: &Set, graphs: &[Graph], inserted: &[u32], levels: &[u8]) -> Self {
        let reach = |least: usize| inserted.iter().take_while(|&&at| usize::from(levels[at as usize]) >= least).count();
        // a vector alone in the index still needs an entry
        let ids = inserted[..reach(1).max(1)].to_vec();
        let mut place = vec![0_u32; set.count()];
        ids.iter().enumerate().for_each(|(at, &id)| place[id as usize] = at as u32);
        let links = |level: usize| {
            let of = |id: &u32| graphs[level][*id as usize].iter().map(|&other| place[other as usize]).collect();
            ids[..reach(level)].iter().map(of).collect()
        };
        let levels = (1..graphs.len()).rev().map(links).collect();
        let values = ids.iter().flat_map(|&id| set.row(id as usize).to_vec()).collect();
        Self { ids, vectors: Set { dim: set.dim, values }, levels }
    }

    /// Two sections of a file: the vectors, and all else in words of four bytes.
    #[must_use]
    pub fn encode(&self) -> (&[f32], Vec<u32>) {
        let mut words = vec![self.ids.len() as u32];
        words.extend(&self.ids);
        words.push(self.levels.len() as u32);
        for level in &self.levels {
            words.push(level.len() as u32);
            for links in level {
                words.push(links.len() as u32);
                words.extend(links);
            }
        }
        (&self.vectors.values, words)
    }

    /// And back; none if they contradict themselves.
    #[must_use]
    pub fn decode(dim: usize, values: Vec<f32>, words: &[u32]) -> Option<Self> {
        let mut rest = words;
        let count = take(&mut rest, 1)?[0] as usize;
        let ids = take(&mut rest, count)?.to_vec();
        let mut levels = Vec::new();
        for _ in 0..take(&mut rest, 1)?[0] {
            let mut level = Vec::new();
            for _ in 0..take(&mut rest, 1)?[0] {
                let degree = take(&mut rest, 1)?[0] as usize;
                let links = take(&mut rest, degree)?.to_vec();
                if links.iter().any(|&place| place as usize >= count) {
                    return None;
                }
                level.push(links);
            }
            levels.push(level);
        }
        (count > 0 && Some(values.len()) == count.checked_mul(dim)).then_some(Self {
            ids,
            vectors: Set { dim, values },
            levels,
        })
    }

    /// The vector to begin with on the lowest level: on every other one the nearest that greedy steps reach.
    #[must_use]
    pub fn descend(&self, query: &[f32]) -> u32 {
        let mut at = 0_usize;
        let mut best = distance(query, self.vectors.row(at));
        for level in &self.levels {
            loop {
                let nearer = level.get(at).and_then(|links| {
                    let far = |&place: &u32| (distance(query, self.vectors.row(place as usize)), place as usize);
                    links.iter().map(far).min_by(|a, b| a.0.total_cmp(&b.0)).filter(|one| one.0 < best)
                });
                let Some((far, place)) = nearer else { break };
                (best, at) = (far, place);
            }
        }
        self.ids[at]
    }

    /// Whether all of its vectors are among the first `count`.
    #[must_use]
    pub fn is_within(&self, count: usize) -> bool {
        self.ids.iter().all(|&id| (id as usize) < count)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let links: usize = self.levels.iter().flatten().map(|links| links.len() + 1).sum();
        4 * (self.ids.len() + self.vectors.values.len() + links)
    }
}

fn take<'a>(rest: &mut &'a [u32], count: usize) -> Option<&'a [u32]> {
    let (taken, left) = rest.split_at_checked(count)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::super::data::{Code, Spread};
    use super::super::graph::{grow, Shape};
    use super::*;
    use crate::contract::kernel::Stop;
    use crate::training::vectors::walk::Codes;

    #[test]
    fn levels_thin_out_by_the_exponential_law() {
        let levels = levels(64_000, 32, 7);
        for (least, expected) in [(1, 4000.0), (2, 250.0)] {
            let reached = levels.iter().filter(|&&level| level >= least).count() as f64;
            // M = 16: each level keeps a 16th; five standard deviations
            assert!((reached - expected).abs() < 5.0 * f64::sqrt(expected), "{least}: {reached}");
        }
        let order = order(&levels, 7);
        assert!(order.windows(2).all(|pair| levels[pair[0] as usize] >= levels[pair[1] as usize]));
    }

    #[test]
    fn the_way_down_ends_near_the_query_and_is_kept_in_a_file() {
        let set = Set::draw(2000, 24, Spread::Clustered, (3, 0), 1).unwrap();
        let mut bytes = Vec::new();
        Code::of(&set).encode(&set.values, &mut bytes);
        let levels = levels(2000, 16, 1);
        let inserted = order(&levels, 1);
        let shape = Shape { degree: 16, list: 64, alpha_squared: 1.0 };
        let codes = Codes { dim: 24, bytes };
        let graphs = grow(&codes, &inserted, &levels, &shape, 2, &Stop::new()).unwrap().unwrap();
        assert!(graphs[1].iter().all(|links| links.len() <= 8));
        assert_eq!(graphs.len(), 1 + usize::from(levels[inserted[0] as usize]));
        let upper = Upper::of(&set, &graphs, &inserted, &levels);
        let (values, words) = upper.encode();
        let again = Upper::decode(24, values.to_vec(), &words).unwrap();
        assert!(Upper::decode(24, values.to_vec(), &words[..words.len() - 1]).is_none());
        assert_eq!(upper.bytes(), again.bytes());
        let queries = Set::draw(50, 24, Spread::Clustered, (3, 1), 1).unwrap();
        let mut nearer = 0;
        for query in queries.values.chunks_exact(24) {
            let (entry, found) = (inserted[0] as usize, again.descend(query));
            assert_eq!(found, upper.descend(query));
            assert!(levels[found as usize] > 0);
            nearer += usize::from(distance(query, set.row(found as usize)) < 0.5 * distance(query, set.row(entry)));
        }
        assert!(nearer > 40, "{nearer}");
    }
}
