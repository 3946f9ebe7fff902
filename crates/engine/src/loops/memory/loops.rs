//! The loops that this machine has for the primitives.

use crate::loops::memory::portable;
use crate::loops::memory::primitive::{Loop, Primitive};

use super::operation::{Choice, Isa, Way, PAGES};
use super::simd;

/// Instruction sets with wide loops that this machine has, widest last.
#[must_use]
pub fn wide() -> Vec<Isa> {
    simd::available()
}

/// The loop for `primitive` on blocks of `bytes`; none where that instruction set or way is not here.
#[must_use]
pub fn find_loop(primitive: Primitive, choice: Choice, bytes: u64) -> Option<Loop> {
    if choice.isa == Isa::Scalar || bytes < 64 {
        return (choice.way == Way::Plain).then(|| portable::find_loop(primitive));
    }
    if choice.way == Way::Pages && bytes % PAGES != 0 {
        return None;
    }
    simd::available().contains(&choice.isa).then(|| simd::find_loop(primitive, choice)).flatten()
}
