//! What the measuring threads spend their time in: small loops that depend on nothing else of the engine.
//!
//! This crate is compiled for speed, and the engine, most of whose code runs before and after a timed region, for
//! size. What belongs here is a loop over numbers in memory, whose speed is the compiler's work. Loops in assembly and
//! loops of system calls are the engine's. What the engine calls is never inlined where that matters: in a function of its own
//! it would be compiled for size, too.

pub mod clock_chain;
pub mod csv;
pub mod distance;
pub mod graph;
pub mod memory;
pub mod nearest;
pub mod noise;
pub mod order;
pub mod rng;
pub mod time;
