//! The order in which the places of a working set are visited: in turn, or a random order that is
//! computed, not stored, so that looking it up costs no memory traffic and no set-up.

/// A one-to-one scramble of the numbers below a power of two, whose inverse is as cheap.
///
/// Two rounds of "multiply by an odd number, fold the upper half onto the lower"; both steps are
/// one-to-one on k bits, so that i -> `mix(i)` visits each number exactly once.
#[derive(Debug, Clone, Copy)]
pub struct Mix {
    mask: u64,
    shift: u32,
    key: u64,
}

const M1: u64 = 0x9E37_79B9_7F4A_7C15;
const M2: u64 = 0xD1B5_4A32_D192_ED03;

/// The inverse of an odd number modulo 2^64, by Newton's iteration (each doubles the right bits).
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut round = 0;
    while round < 6 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        round += 1;
    }
    x
}

impl Mix {
    /// One over the numbers below the least power of two that is at least `n`.
    #[must_use]
    pub fn new(n: u64, key: u64) -> Self {
        let bits = n.max(2).next_power_of_two().trailing_zeros();
        Self { mask: (1 << bits) - 1, shift: bits.div_ceil(2), key }
    }

    /// How many numbers it scrambles.
    #[must_use]
    pub fn period(&self) -> u64 {
        self.mask + 1
    }

    /// The `i`-th number.
    #[inline]
    #[must_use]
    pub fn at(&self, i: u64) -> u64 {
        let mut x = (i ^ self.key) & self.mask;
        x = x.wrapping_mul(M1) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(M2) & self.mask;
        x ^= x >> self.shift;
        x.wrapping_mul(M1) & self.mask
    }

    /// Which i gives `x`.
    #[inline]
    #[must_use]
    pub fn index_at(&self, x: u64) -> u64 {
        const I1: u64 = inverse(M1);
        const I2: u64 = inverse(M2);
        // A fold by at least half the bits is its own inverse.
        let mut x = x.wrapping_mul(I1) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(I2) & self.mask;
        x ^= x >> self.shift;
        x = x.wrapping_mul(I1) & self.mask;
        (x ^ self.key) & self.mask
    }
}

/// An order of visiting `n` places again and again. Each turn `i` names a place, or (in a random
/// order over a number that is no power of two) none, which callers skip.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    n: u64,
    mix: Option<Mix>,
    turn: u64,
    passes: u64,
}

impl Places {
    /// `random` or in turn.
    #[must_use]
    pub fn new(n: u64, random: bool, key: u64) -> Self {
        Self { n, mix: random.then(|| Mix::new(n, key)), turn: 0, passes: 0 }
    }

    /// How many places there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.n
    }

    fn period(&self) -> u64 {
        self.mix.map_or(self.n, |mix| mix.period())
    }

    /// Takes the next turns, at most `most` and not over the end of a pass, and calls `place` with
    /// each turn's number and place; a place of `count()` or above is none.
    #[inline]
    pub fn take(&mut self, most: u64, mut place: impl FnMut(u64, u64)) {
        let end = (self.turn + most).min(self.period());
        match self.mix {
            Some(mix) => (self.turn..end).for_each(|turn| place(turn, mix.at(turn))),
            None => (self.turn..end).for_each(|turn| place(turn, turn)),
        }
        self.turn = end;
        if self.turn == self.period() {
            self.turn = 0;
            self.passes += 1;
        }
    }

    /// The turn at which `place` comes in each pass.
    #[inline]
    #[must_use]
    pub fn turn_at(&self, place: u64) -> u64 {
        self.mix.map_or(place, |mix| mix.index_at(place))
    }

    /// How often `place` was visited so far.
    #[inline]
    #[must_use]
    pub fn visits(&self, place: u64) -> u64 {
        self.passes + u64::from(self.turn_at(place) < self.turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_comes_once_a_pass_and_the_inverse_finds_it() {
        for n in [1_u64, 2, 3, 12, 64, 1000, 4096, 5001] {
            let mut places = Places::new(n, true, 77);
            let mut seen = vec![0; n as usize];
            while places.passes == 0 {
                places.take(100, |turn, place| {
                    if place < n {
                        seen[place as usize] += 1;
                        assert_eq!(Places::new(n, true, 77).turn_at(place), turn);
                    }
                });
            }
            assert!(seen.iter().all(|&times| times == 1), "{n}: {seen:?}");
        }
    }

    #[test]
    fn visits_are_counted_in_the_middle_of_a_pass() {
        let mut places = Places::new(1000, true, 5);
        let mut seen = vec![0_u64; 1000];
        for _ in 0..37 {
            places.take(111, |_, place| {
                if place < 1000 {
                    seen[place as usize] += 1;
                }
            });
        }
        assert!((0..1000).all(|place| places.visits(place) == seen[place as usize]));
    }

    #[test]
    fn the_order_looks_random() {
        // The mean distance between neighbours in a random order of n places is n / 3.
        let mix = Mix::new(1 << 16, 1);
        let sum: u64 = (0..65_535).map(|i| mix.at(i).abs_diff(mix.at(i + 1))).sum();
        let mean = sum as f64 / 65_535.0 / 65_536.0;
        assert!((mean - 1.0 / 3.0).abs() < 0.02, "{mean}");
    }
}
