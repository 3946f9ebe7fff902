//! What the storage kernels share, in rooms by the question that each answers.

pub mod data;
pub mod integrity;
pub mod io;
pub mod job;
pub mod metadata;
pub mod order;
pub mod pace;
pub mod raw;
pub mod results;
#[cfg(any(test, fuzzing))]
pub mod scratch;
pub mod trace;
