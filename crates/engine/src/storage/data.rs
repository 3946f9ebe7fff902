//! The files of a job, the buffers in memory, and the bytes that are written.

pub mod buffers;
pub mod content;
pub mod data_files;
pub mod file_set;
pub mod layout;
