//! What the threads of a run measure, and the one reading made of it.

pub mod counters;
pub mod metrics;
pub mod summary;
