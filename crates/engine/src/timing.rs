//! Time and threads: clocks, pinned threads that start together, what each had of a processor, and whole histograms.

pub mod clock;
pub mod cpu_time;
pub mod crew;
pub mod histogram;
pub mod rng;
pub mod run_time;
pub mod stalls;
pub mod start;
pub mod team;
