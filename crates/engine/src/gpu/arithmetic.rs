//! Numbers of a device's precisions: as bytes, and as the host computes with them.

use crate::timing::rng::Rng;

use crate::words;

words! {
    /// The numbers that a device computes with.
    pub enum Precision {
        /// 32-bit floating point.
        Single = "single",
        /// 64-bit floating point.
        Double = "double",
        /// 16-bit floating point (IEEE binary16).
        Half = "half",
        /// 16-bit floating point with the exponents of `Single` (bfloat16).
        Bfloat16 = "bfloat16",
        /// Whole numbers of 32 bits.
        Int32 = "int32",
        /// Whole numbers of 8 bits.
        Int8 = "int8",
    }
}

impl Precision {
    /// Its type in `OpenCL` C.
    #[must_use]
    pub fn of_opencl(self) -> &'static str {
        match self {
            Self::Single => "float",
            Self::Double => "double",
            Self::Half => "half",
            Self::Bfloat16 => "bfloat16",
            Self::Int32 => "int",
            Self::Int8 => "char",
        }
    }

    /// What a device must have for it; empty for what all have.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Double => "cl_khr_fp64",
            Self::Half => "cl_khr_fp16",
            _ => "",
        }
    }

    /// Bytes of one number.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Double => 8,
            Self::Single | Self::Int32 => 4,
            Self::Half | Self::Bfloat16 => 2,
            Self::Int8 => 1,
        }
    }

    /// Whether it has no fractions, and wraps.
    #[must_use]
    pub fn is_whole(self) -> bool {
        matches!(self, Self::Int32 | Self::Int8)
    }

    /// The relative error of one rounding.
    #[must_use]
    pub fn unit(self) -> f64 {
        match self {
            Self::Double => f64::EPSILON / 2.0,
            Self::Single => f64::from(f32::EPSILON) / 2.0,
            Self::Half => 2_f64.powi(-11),
            Self::Bfloat16 => 2_f64.powi(-8),
            _ => 0.0,
        }
    }

    /// `value` in its bytes, rounded.
    pub fn write(self, value: f64, into: &mut Vec<u8>) {
        match self {
            Self::Double => into.extend(value.to_le_bytes()),
            Self::Single => into.extend((value as f32).to_le_bytes()),
            Self::Half => into.extend(round_to_half(value).to_le_bytes()),
            Self::Bfloat16 => into.extend(round_to_bfloat(value).to_le_bytes()),
            Self::Int32 => into.extend((value as i64 as i32).to_le_bytes()),
            Self::Int8 => into.extend((value as i64 as i8).to_le_bytes()),
        }
    }

    /// The number at place `at`.
    #[must_use]
    pub fn read(self, bytes: &[u8], at: usize) -> f64 {
        let part = &bytes[at * self.bytes()..(at + 1) * self.bytes()];
        let word = part.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
        match self {
            Self::Double => f64::from_bits(word),
            Self::Single => f64::from(f32::from_bits(word as u32)),
            Self::Half => of_half(word as u16),
            Self::Bfloat16 => f64::from(f32::from_bits((word as u32) << 16)),
            Self::Int32 => f64::from(word as u32 as i32),
            Self::Int8 => f64::from(word as u8 as i8),
        }
    }

    /// `count` random numbers in [`low`, `high`), as the device has them.
    #[must_use]
    pub fn random(self, rng: &mut Rng, count: usize, (low, high): (f64, f64)) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count * self.bytes());
        (0..count).for_each(|_| self.write(low + (high - low) * rng.share(), &mut bytes));
        bytes
    }

    /// `a * x + b` as the device's instruction gives it, but in double for fractions.
    #[must_use]
    pub fn multiply_add(self, a: f64, x: f64, b: f64) -> f64 {
        match self {
            Self::Int32 => f64::from((a as i32).wrapping_mul(x as i32).wrapping_add(b as i32)),
            Self::Int8 => f64::from((a as i8).wrapping_mul(x as i8).wrapping_add(b as i8)),
            _ => a.mul_add(x, b),
        }
    }
}

/// The nearest IEEE binary16, ties to even; only numbers of its normal range are requested.
fn round_to_half(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 48) as u16 & 0x8000;
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023 + 15;
    if value == 0.0 || exponent <= 0 {
        return sign;
    }
    let fraction = bits & ((1 << 52) - 1);
    let rest = fraction & ((1 << 42) - 1);
    let kept = (exponent as u64) << 10 | fraction >> 42;
    let up = rest > 1 << 41 || (rest == 1 << 41 && kept & 1 == 1);
    sign | (kept + u64::from(up)).min(0x7c00) as u16
}

/// The nearest bfloat16, ties to even, of a finite number that a `f32` has.
fn round_to_bfloat(value: f64) -> u16 {
    let bits = (value as f32).to_bits();
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn of_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    match exponent {
        0 => sign * fraction * 2_f64.powi(-24),
        31 => sign * f64::INFINITY,
        _ => sign * (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::declare::Words;

    #[test]
    fn halves_are_those_of_ieee() {
        for (value, bits) in
            [(1.0, 0x3c00), (-2.0, 0xc000), (0.5, 0x3800), (65504.0, 0x7bff), (1.000_976_562_5, 0x3c01)]
        {
            assert_eq!(round_to_half(value), bits, "{value}");
            assert!((of_half(bits) - value).abs() < 1e-12);
        }
        // Half way between two: the even one.
        assert_eq!((round_to_half(1.0 + 1.0 / 2048.0), round_to_half(1.0 + 3.0 / 2048.0)), (0x3c00, 0x3c02));
    }

    #[test]
    fn brain_floats_are_the_upper_half_of_a_single() {
        for (value, bits) in [(1.0, 0x3f80), (-2.0, 0xc000), (1.0 + 1.0 / 256.0, 0x3f80), (1.0 + 3.0 / 256.0, 0x3f82)] {
            assert_eq!(round_to_bfloat(value), bits, "{value}");
        }
    }

    #[test]
    fn numbers_come_back_from_their_bytes() {
        for (precision, ..) in Precision::ALL {
            let bytes = precision.random(&mut Rng::new(7), 100, (-100.0, 100.0));
            for at in 0..100 {
                let mut again = Vec::new();
                precision.write(precision.read(&bytes, at), &mut again);
                assert_eq!(again, bytes[at * precision.bytes()..(at + 1) * precision.bytes()]);
            }
        }
    }

    #[test]
    fn whole_numbers_wrap() {
        assert!((Precision::Int8.multiply_add(16.0, 16.0, 3.0) - 3.0).abs() < 1e-12);
        assert!((Precision::Int32.multiply_add(65536.0, 65536.0, -1.0) + 1.0).abs() < 1e-12);
    }
}
