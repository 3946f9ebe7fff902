//! Raw system calls: all `unsafe` but that of the SIMD loops lives below here.

pub mod affinity;
pub mod clock_chain;
pub mod filesystem;
pub mod page_cache;
pub mod pause;
pub mod room;
pub mod time;
