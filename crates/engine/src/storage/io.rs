//! Access engines behind one trait, and the loop that drives them.

pub mod access;
pub mod aio;
pub mod controls;
pub mod drive;
pub mod fault_injection;
pub mod mmap;
pub mod null;
pub mod psync;
pub mod setup_error;
pub mod stdio;
pub mod synchronous;
pub mod trim;
pub mod uring;
pub mod wrapped;
