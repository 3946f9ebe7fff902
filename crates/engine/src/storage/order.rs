//! Which block of which file comes next, and in which direction.

pub mod blocks;
pub mod distribution;
pub mod file_selection;
pub mod pattern;
