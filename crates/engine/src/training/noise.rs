//! Bytes that no compression makes smaller, faster than any storage takes them.

use crate::timing::rng::mix;

const LANES: usize = 8;

/// Incompressible bytes at several GB/s: eight xorshift128+ generators side by side (Vigna 2014).
pub struct Noise {
    a: [u64; LANES],
    b: [u64; LANES],
}

impl Noise {
    /// One whose bytes follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let lane = |salt: u64| std::array::from_fn(|i| mix(seed ^ mix(salt + i as u64)) | 1);
        Self { a: lane(1), b: lane(1000) }
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let mut blocks = bytes.chunks_exact_mut(LANES * 8);
        for block in &mut blocks {
            let values = self.next();
            for (place, value) in block.chunks_exact_mut(8).zip(values) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
        let rest = blocks.into_remainder();
        if !rest.is_empty() {
            let values = self.next();
            for (place, value) in rest.chunks_mut(8).zip(values) {
                place.copy_from_slice(&value.to_le_bytes()[..place.len()]);
            }
        }
    }

    #[inline]
    fn next(&mut self) -> [u64; LANES] {
        let mut sums = [0; LANES];
        for ((a, b), sum) in self.a.iter_mut().zip(&mut self.b).zip(&mut sums) {
            let (mut x, y) = (*a, *b);
            x ^= x << 23;
            let z = x ^ y ^ (x >> 18) ^ (y >> 5);
            (*a, *b) = (y, z);
            *sum = z.wrapping_add(y);
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_does_not_repeat_and_has_every_byte() {
        let mut bytes = vec![0; 100_003];
        Noise::new(3).fill(&mut bytes);
        let mut counts = [0_u32; 256];
        for &byte in &bytes {
            counts[byte as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (250..550).contains(&count)));
        let mut other = vec![0; 100_003];
        Noise::new(4).fill(&mut other);
        assert_ne!(bytes, other);
    }
}
