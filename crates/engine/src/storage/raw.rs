//! The guard before a raw block device is written.

pub mod claim;
pub mod signatures;
