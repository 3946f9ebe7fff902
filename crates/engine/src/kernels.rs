//! The table of kernels: one line each.

use crate::kernel::Kernel;

mod idle;
mod training_generate;

/// Every kernel that the engine has.
pub static TABLE: &[&dyn Kernel] = &[&idle::Idle, &training_generate::Generate];
