//! What the storage kernels share: access engines behind one small trait, and the loop that drives them.

pub mod access;
pub mod aio;
pub mod asked;
pub mod check;
pub mod choice;
pub mod counters;
pub mod drive;
pub mod extras;
pub mod failing;
pub mod job;
pub mod journal;
pub mod layout;
pub mod ledger;
pub mod many;
pub mod mmap;
pub mod names;
pub mod null;
pub mod one_at_a_time;
pub mod order;
pub mod outcome;
pub mod pace;
pub mod pool;
pub mod psync;
pub mod raw;
pub mod ready;
pub mod record;
pub mod refused;
#[cfg(test)]
mod scratch;
pub mod set;
pub mod signatures;
pub mod stdio;
pub mod steady;
pub mod uring;
pub mod verify;
