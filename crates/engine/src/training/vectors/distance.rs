//! How far apart two vectors are.

/// Squared Euclidean distance.
#[must_use]
pub fn distance(a: &[f32], b: &[f32]) -> f32 {
    // sixteen sums side by side, which compilers turn into SIMD without reordering any of them
    let mut sums = [0.0_f32; 16];
    let (mut left, mut right) = (a.chunks_exact(16), b.chunks_exact(16));
    for (x, y) in (&mut left).zip(&mut right) {
        for lane in 0..16 {
            let apart = x[lane] - y[lane];
            sums[lane] += apart * apart;
        }
    }
    let rest: f32 = left.remainder().iter().zip(right.remainder()).map(|(x, y)| (x - y) * (x - y)).sum();
    sums.iter().sum::<f32>() + rest
}

/// Squared Euclidean distance of vectors that are kept in 8 bits a dimension.
#[must_use]
pub fn distance_coded(a: &[u8], b: &[u8]) -> u32 {
    a.iter()
        .zip(b)
        .map(|(&x, &y)| {
            let apart = i32::from(x) - i32::from(y);
            (apart * apart) as u32
        })
        .sum()
}

/// A vector out of its little-endian bytes.
pub fn decode(bytes: &[u8], values: &mut [f32]) {
    for (value, word) in values.iter_mut().zip(bytes.chunks_exact(4)) {
        *value = f32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
}

/// Adds the distances of entries of `entry` bytes, each a number and its vector, to `found`, by way of `values`.
///
/// Distances are not negative, so that their bits are in their order.
pub fn scan(bytes: &[u8], entry: usize, query: &[f32], values: &mut [f32], found: &mut Vec<(u32, u32)>) {
    for one in bytes.chunks_exact(entry) {
        let Some((number, vector)) = one.split_first_chunk() else { break };
        decode(vector, values);
        found.push((distance(query, values).to_bits(), u32::from_le_bytes(*number)));
    }
}

/// What was found, nearest first, and each vector once.
pub fn rank(found: &mut Vec<(u32, u32)>) {
    found.sort_unstable();
    found.dedup_by_key(|one| one.1);
}

/// Which of some vectors, one after the other, is nearest to one.
#[must_use]
pub fn nearest(vectors: &[f32], to: &[f32]) -> u32 {
    let mut best = (f32::INFINITY, 0);
    for (at, vector) in vectors.chunks_exact(to.len()).enumerate() {
        let far = distance(to, vector);
        if far < best.0 {
            best = (far, at as u32);
        }
    }
    best.1
}

/// The `most` of some vectors, one after the other, that are nearest to one, nearest first.
#[must_use]
pub fn nearest_ones(vectors: &[f32], to: &[f32], most: usize) -> Vec<u32> {
    let mut best: Vec<(f32, u32)> = Vec::with_capacity(most + 1);
    for (at, vector) in vectors.chunks_exact(to.len()).enumerate() {
        let far = distance(to, vector);
        if best.len() < most || best.last().is_some_and(|last| far < last.0) {
            let place = best.partition_point(|one| one.0 <= far);
            best.insert(place, (far, at as u32));
            best.truncate(most);
        }
    }
    best.into_iter().map(|(_, at)| at).collect()
}
