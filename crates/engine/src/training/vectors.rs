//! A vector index on storage: its vectors, a graph or lists over them, the file, and queries that search it.

pub mod data;
pub mod file;
pub mod graph;
pub mod index;
pub mod layers;
pub mod lists;
pub mod search;

/// Squared Euclidean distance.
#[inline]
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
#[inline]
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

/// Does `work` for each of `0..count` on `threads` threads and gives the results in order.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, crate::kernel::Error> {
    let parts = threads.clamp(1, count.max(1));
    let made = crate::team::run(parts, &[], |member| {
        let (from, to) = (count * member.number / parts, count * (member.number + 1) / parts);
        (from..to).map(&work).collect::<Vec<T>>()
    })?;
    Ok(made.into_iter().flatten().collect())
}
