//! The table of kernels: one line each.

use crate::kernel::Kernel;

mod idle;
mod storage_blocks;
mod storage_layout;
mod training_generate;

/// Every kernel that the engine has.
pub static TABLE: &[&dyn Kernel] =
    &[&idle::Idle, &storage_blocks::StorageBlocks, &storage_layout::StorageLayout, &training_generate::Generate];
