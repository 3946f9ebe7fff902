//! A vector index on storage: its vectors, a graph or lists over them, the file or object, and queries that search it.

pub mod data;
pub mod distance;
pub mod file;
pub mod graph;
pub mod index;
pub mod layers;
pub mod lists;
pub mod nearest;
pub mod object;
pub mod search;
pub mod stored;
pub mod walk;

/// Does `work` for each of `0..count` on `threads` threads and gives the results in order.
pub fn each<T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>, crate::contract::kernel::Error> {
    let parts = threads.clamp(1, count.max(1));
    let made = crate::timing::team::run(parts, &[], |member| {
        let (from, to) = (count * member.number / parts, count * (member.number + 1) / parts);
        (from..to).map(&work).collect::<Vec<T>>()
    })?;
    Ok(made.into_iter().flatten().collect())
}
