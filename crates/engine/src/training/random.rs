//! Random numbers: `NumPy`'s legacy normal ones (so that file sizes are DLIO's), and an order.

use crate::timing::rng::mix;

/// The Mersenne Twister 19937 of Matsumoto and Nishimura, seeded as `numpy.random.seed(n)` seeds it.
pub struct Mersenne {
    state: [u32; 624],
    at: usize,
    spare: Option<f64>,
}

impl Mersenne {
    /// Seeds by Knuth's generator, as `init_genrand`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut state = [0_u32; 624];
        state[0] = seed;
        for i in 1..624 {
            state[i] = 1_812_433_253_u32.wrapping_mul(state[i - 1] ^ (state[i - 1] >> 30)).wrapping_add(i as u32);
        }
        Self { state, at: 624, spare: None }
    }

    fn next_u32(&mut self) -> u32 {
        if self.at == 624 {
            for i in 0..624 {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
            }
            self.at = 0;
        }
        let mut y = self.state[self.at];
        self.at += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn unit(&mut self) -> f64 {
        let (a, b) = (self.next_u32() >> 5, self.next_u32() >> 6);
        (f64::from(a) * 67_108_864.0 + f64::from(b)) / 9_007_199_254_740_992.0
    }

    /// A standard normal value by Marsaglia's polar method, in the order that `NumPy` gives them.
    pub fn normal(&mut self) -> f64 {
        if let Some(value) = self.spare.take() {
            return value;
        }
        loop {
            let (x1, x2) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let factor = (-2.0 * r2.ln() / r2).sqrt();
                self.spare = Some(factor * x1);
                return factor * x2;
            }
        }
    }
}

/// A random order of `0..count` that needs no memory: a four-round Feistel network over the next
/// power of four, walked until it falls inside (Black and Rogaway 2002).
#[derive(Clone, Copy)]
pub struct Order {
    count: u64,
    half_bits: u32,
    key: u64,
}

impl Order {
    /// The order that follows from `seed`.
    #[must_use]
    pub fn new(count: u64, seed: u64) -> Self {
        let bits = 64 - count.saturating_sub(1).leading_zeros();
        Self { count, half_bits: bits.div_ceil(2).max(1), key: mix(seed) }
    }

    /// The number at `place`, which is below `count`.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        let mask = (1_u64 << self.half_bits) - 1;
        let mut value = place;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4_u64 {
                let next = left ^ (mix(right ^ self.key.rotate_left(round as u32 * 16) ^ (round << 60)) & mask);
                left = right;
                right = next;
            }
            value = (left << self.half_bits) | right;
            if value < self.count {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_values_are_those_of_numpy() {
        // numpy.random.RandomState(10).normal(size=4)
        let expected =
            [1.331_586_504_129_518, 0.715_278_974_398_405_5, -1.545_400_292_111_268_2, -0.008_383_849_928_522_256];
        let mut random = Mersenne::new(10);
        for value in expected {
            assert!((random.normal() - value).abs() < 1e-14);
        }
    }

    #[test]
    fn an_order_visits_each_place_once() {
        for count in [1_u64, 2, 3, 10, 168, 1000, 4097] {
            let order = Order::new(count, 7);
            let mut seen: Vec<_> = (0..count).map(|place| order.at(place)).collect();
            assert!(count < 100 || seen.windows(2).any(|pair| pair[0] > pair[1]));
            seen.sort_unstable();
            assert!(seen.iter().enumerate().all(|(at, &value)| at as u64 == value), "{count}");
        }
    }
}
