//! What a kernel declares, takes and returns: parameters, its readings and its errors.

pub mod declare;
pub mod error;
pub mod kernel;
pub mod left_behind;
pub mod parameter;
pub mod reading;
