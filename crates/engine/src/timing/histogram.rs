//! Whole latency distributions in fixed memory: log-linear buckets, three significant digits.

use serde_json::{json, Value};

/// Bits of a value that are kept: buckets are at most 2^-10 = 0.1% wide.
pub const SUB_BITS: u32 = 10;
const SUB: u64 = 1 << SUB_BITS;
/// Values at or above 2^42 ns (73 minutes) fall into the last bucket; `max` stays exact.
const TOP_BITS: u32 = 42;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) as usize) << SUB_BITS;

/// Counts of values in buckets whose width grows with the value.
///
/// A value v below 2^10 has bucket v. Above, with e = floor(log2 v) - 10, it has bucket
/// `(e + 1) * 2^10 + (v >> e) - 2^10`. Recording costs a shift, an addition and an increment.
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u32]>,
    count: u64,
    sum: u64,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS].into_boxed_slice(), count: 0, sum: 0, min: u64::MAX, max: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Histogram(count {}, min {}, max {})", self.count, self.min, self.max)
    }
}

/// The bucket of `value`.
#[inline]
#[must_use]
pub fn index(value: u64) -> usize {
    let exponent = (value | SUB).ilog2() - SUB_BITS;
    let index = (u64::from(exponent) << SUB_BITS) + (value >> exponent);
    (index as usize).min(BUCKETS - 1)
}

/// The least value in the bucket at `index`, and the bucket's width.
#[must_use]
pub fn bounds(index: usize) -> (u64, u64) {
    let index = index as u64;
    if index < SUB {
        return (index, 1);
    }
    let exponent = (index >> SUB_BITS) - 1;
    ((index - (exponent << SUB_BITS)) << exponent, 1 << exponent)
}

impl Histogram {
    /// An empty one; allocates, so make it before the timed region.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything; allocates nothing.
    pub fn clear(&mut self) {
        self.buckets.fill(0);
        (self.count, self.sum, self.min, self.max) = (0, 0, u64::MAX, 0);
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts `times` equal values.
    #[inline]
    pub fn record_many(&mut self, value: u64, times: u32) {
        self.buckets[index(value)] += times;
        self.count += u64::from(times);
        self.sum = self.sum.wrapping_add(value.wrapping_mul(u64::from(times)));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The arithmetic mean; 0 when empty.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The quantile `quantile` (0 to 1) of the values: the middle of its bucket, so within 0.05% of the true one; 0
    /// when empty.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let rank = ((quantile * self.count as f64).ceil() as u64).clamp(1, self.count);
        let mut seen = 0;
        for (at, &count) in self.buckets.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                let (low, width) = bounds(at);
                return (low + (width - 1) / 2).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The JSON form in a reading: `{sub_bits, count, sum, min, max, packed}`. `packed` has two little-endian `u32` a
    /// bucket that holds something, its index and its count, each byte as two hexadecimal digits: to read numbers one
    /// by one takes long.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let mut packed = String::new();
        let first = index(self.min.min(self.max));
        for (at, &count) in
            self.buckets[..=index(self.max)].iter().enumerate().skip(first).filter(|(_, &count)| count > 0)
        {
            for byte in [at as u32, count].into_iter().flat_map(u32::to_le_bytes) {
                packed.push(char::from(DIGITS[usize::from(byte >> 4)]));
                packed.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
        json!({
            "sub_bits": SUB_BITS,
            "count": self.count,
            "sum": self.sum,
            "min": if self.count == 0 { 0 } else { self.min },
            "max": self.max,
            "packed": packed,
        })
    }
}

/// The buckets of `packed`: the bytes of their indices and of their counts, each an `i64` as this machine has it, and the sum of
/// the counts. None where that is no packed histogram.
#[must_use]
pub fn unpacked(packed: &str) -> Option<(Vec<u8>, Vec<u8>, u64)> {
    let pairs = packed.as_bytes().chunks_exact(16);
    let is_whole = pairs.remainder().is_empty();
    let (mut indices, mut counts, mut total) = (Vec::new(), Vec::new(), 0_u64);
    for pair in pairs {
        let mut bytes = [0; 8];
        for (byte, digits) in bytes.iter_mut().zip(pair.chunks(2)) {
            let digit = |at: usize| char::from(digits[at]).to_digit(16);
            *byte = (digit(0)? << 4 | digit(1)?) as u8;
        }
        let pair = u64::from_le_bytes(bytes);
        let (index, count) = (pair & 0xffff_ffff, pair >> 32);
        if index >= BUCKETS as u64 {
            return None;
        }
        indices.extend((index as i64).to_ne_bytes());
        counts.extend((count as i64).to_ne_bytes());
        total += count;
    }
    is_whole.then_some((indices, counts, total))
}

/// The middle of some values, the upper one of two; none of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket_and_no_bucket_is_wide() {
        let mut value = 0_u64;
        while value < 1 << TOP_BITS {
            let (low, width) = bounds(index(value));
            assert!(low <= value && value < low + width, "{value} in [{low}, {low}+{width})");
            assert!(width == 1 || (width as f64) / (low as f64) <= 1.0 / SUB as f64);
            value += 1 + value / 777;
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::new();
        let mut values: Vec<u64> = (0..10_000_u64).map(|i| (i * 7919) % 1_000_003).collect();
        for &value in &values {
            histogram.record(value);
        }
        values.sort_unstable();
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let exact = values[(quantile * 10_000.0) as usize - 1] as f64;
            let found = histogram.quantile(quantile) as f64;
            assert!((found - exact).abs() <= exact / SUB as f64 + 1.0, "{quantile}: {found} against {exact}");
        }
    }

    #[test]
    fn what_is_packed_is_unpacked_again_and_nothing_else_is() {
        let mut histogram = Histogram::new();
        histogram.record_many(5, 2);
        histogram.record_many(u64::MAX, 70_000);
        let whole = histogram.to_json();
        let (indices, counts, total) = unpacked(whole["packed"].as_str().unwrap()).unwrap();
        let numbers = |bytes: &[u8]| -> Vec<i64> {
            bytes.chunks(8).map(|one| i64::from_ne_bytes(one.try_into().unwrap())).collect()
        };
        assert_eq!(numbers(&indices), [5, BUCKETS as i64 - 1]);
        assert_eq!((numbers(&counts), total), (vec![2, 70_000], histogram.count));
        assert_eq!(unpacked(""), Some((vec![], vec![], 0)));
        for wrong in
            ["00", "050000000200000", "g500000002000000", "+500000002000000", "0084000001000000", "ü5000000200000"]
        {
            assert_eq!(unpacked(wrong), None, "{wrong}");
        }
        assert!(unpacked("ff83000001000000").is_some());
    }

    #[test]
    fn merging_equals_counting_together() {
        let (mut left, mut right, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for i in 0..1000_u64 {
            if i % 3 == 0 {
                left.record(i * i);
            } else {
                right.record(i * i);
            }
            both.record(i * i);
        }
        left.merge(&right);
        assert_eq!(left.to_json(), both.to_json());
    }
}
