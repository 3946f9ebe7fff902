//! Traces of operations: recorded from a run, or replayed.

pub mod iolog;
