//! When the next operation may start, how many may be in flight, and when the rate ends the run.

pub mod depth_search;
pub mod flow;
pub mod rate;
pub mod steady_state;
