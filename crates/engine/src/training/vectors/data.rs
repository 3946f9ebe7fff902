//! The vectors and queries that an index is made of, drawn from a seed, and the exact answers to hold it against.

use crate::timing::rng::{mix, Rng};
use crate::training::vectors::distance::{distance, nearest_ones};

use super::each;
use crate::contract::kernel::Error;
use crate::words;

/// Dimensions that the vectors of a `clustered` set really vary in, as learned embeddings do in a few.
const LATENT: usize = 16;
/// What they vary by in all the others.
const BLUR: f32 = 0.1;
/// Exact neighbours that are kept of each query.
pub const TRUTH: usize = 100;

/// Vectors of one length, one after the other.
pub struct Set {
    /// Dimensions of each.
    pub dim: usize,
    /// All of them.
    pub values: Vec<f32>,
}

words! {
    /// How vectors are spread.
    pub enum Spread {
        /// Vectors around a plane of few dimensions, like embeddings.
        Clustered = "clustered",
        /// Evenly in a cube, as `MLPerf` Storage draws them: the hardest for any index.
        Uniform = "uniform",
    }
}

impl Set {
    /// `count` vectors; those of one `salt` are other ones than those of another, of the same spread.
    pub fn draw(
        count: usize,
        dim: usize,
        spread: Spread,
        (seed, salt): (u64, u64),
        threads: usize,
    ) -> Result<Self, Error> {
        let plane: Vec<f32> = {
            let mut rng = Rng::new(mix(seed));
            (0..LATENT * dim).map(|_| normal(&mut rng)).collect()
        };
        let rows = each(count, threads, |row| {
            let mut rng = Rng::new(mix(seed ^ mix(salt)).wrapping_add(mix(row as u64)));
            match spread {
                Spread::Uniform => (0..dim).map(|_| rng.share() as f32).collect(),
                Spread::Clustered => {
                    let weights: [f32; LATENT] = std::array::from_fn(|_| normal(&mut rng));
                    let mut vector: Vec<f32> = (0..dim).map(|_| BLUR * normal(&mut rng)).collect();
                    for (along, weight) in plane.chunks_exact(dim).zip(weights) {
                        vector.iter_mut().zip(along).for_each(|(value, step)| *value += weight * step);
                    }
                    vector
                }
            }
        })?;
        Ok(Self { dim, values: rows.concat() })
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len() / self.dim.max(1)
    }

    /// One of them.
    #[inline]
    #[must_use]
    pub fn row(&self, at: usize) -> &[f32] {
        &self.values[at * self.dim..(at + 1) * self.dim]
    }

    /// The one that is nearest to their mean.
    #[must_use]
    pub fn middle(&self) -> usize {
        let count = self.count().max(1) as f32;
        let mut mean = vec![0.0_f32; self.dim];
        for row in self.values.chunks_exact(self.dim) {
            mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / count);
        }
        (0..self.count())
            .min_by(|&a, &b| distance(self.row(a), &mean).total_cmp(&distance(self.row(b), &mean)))
            .unwrap_or(0)
    }

    /// The nearest [`TRUTH`] of each query, by looking at every vector.
    pub fn nearest(&self, queries: &Self, threads: usize) -> Result<Vec<u32>, Error> {
        let kept = TRUTH.min(self.count());
        let found = each(queries.count(), threads, |query| nearest_ones(&self.values, queries.row(query), kept))?;
        Ok(found.concat())
    }
}

/// The scale of 8 bits a dimension.
#[derive(Debug, Clone, Copy)]
pub struct Code {
    /// The value of 0.
    pub low: f32,
    /// The value of 1 less that of 0.
    pub step: f32,
}

impl Code {
    /// One that reaches over all values of a set.
    #[must_use]
    pub fn of(set: &Set) -> Self {
        let (low, high) = set
            .values
            .iter()
            .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &value| (low.min(value), high.max(value)));
        Self { low, step: ((high - low) / 255.0).max(f32::MIN_POSITIVE) }
    }

    /// Values in 8 bits each.
    pub fn encode(self, values: &[f32], into: &mut Vec<u8>) {
        // a float beyond the range saturates
        into.extend(values.iter().map(|value| ((value - self.low) / self.step).round() as u8));
    }
}

/// A standard normal value (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f32 {
    let (radius, angle) = (rng.share(), rng.share());
    ((-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_follow_from_the_seed_on_any_number_of_threads() {
        for spread in [Spread::Clustered, Spread::Uniform] {
            let one = Set::draw(50, 24, spread, (1, 2), 1).unwrap();
            assert_eq!(one.values, Set::draw(50, 24, spread, (1, 2), 3).unwrap().values);
            assert_ne!(one.values, Set::draw(50, 24, spread, (1, 3), 1).unwrap().values);
            assert_eq!((one.count(), one.row(49).len()), (50, 24));
        }
    }

    #[test]
    fn a_vector_is_its_own_nearest_neighbour() {
        let set = Set::draw(300, 20, Spread::Clustered, (5, 0), 1).unwrap();
        let truth = set.nearest(&set, 2).unwrap();
        assert!((0..300).all(|at| truth[at * TRUTH] == at as u32));
        assert!(set.middle() < 300);
    }

    #[test]
    fn eight_bits_keep_the_order_of_distances_about() {
        let set = Set::draw(2, 64, Spread::Clustered, (5, 0), 1).unwrap();
        let code = Code::of(&set);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        code.encode(set.row(0), &mut a);
        code.encode(set.row(1), &mut b);
        let exact = distance(set.row(0), set.row(1));
        let coded = crate::training::vectors::distance::distance_coded(&a, &b) as f32 * code.step * code.step;
        assert!((coded / exact - 1.0).abs() < 0.02, "{coded} {exact}");
    }
}
