//! Random numbers that are cheap and the same on every machine (splitmix64, Steele et al. 2014).

/// A bijective mixer of 64 bits: the finalizer of splitmix64.
#[inline]
#[must_use]
pub fn mix(mut value: u64) -> u64 {
    value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// The generator.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The sequence that `seed` decides.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let value = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        value
    }

    /// Uniform in (0, 1].
    #[inline]
    #[allow(clippy::cast_precision_loss, reason = "53 bits are kept")]
    pub fn share(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..below`.
    #[inline]
    pub fn below(&mut self, below: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(below)) >> 64) as u64
    }
}
