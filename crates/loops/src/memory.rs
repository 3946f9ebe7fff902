//! The loops of the memory kernels that are written in Rust; those in assembly are the engine's.

pub mod lane;
pub mod paced;
pub mod places;
pub mod portable;
pub mod primitive;
pub mod route;
