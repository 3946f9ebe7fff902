//! The inner loops that kernels time: arithmetic, and accesses of memory.

pub mod compute;
pub mod memory;
