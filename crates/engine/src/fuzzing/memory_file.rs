//! A file in memory that has a path, for readers that open one.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use rustix::fs::{memfd_create, MemfdFlags};

/// A file in memory that has a path.
pub struct MemoryFile(File);

impl MemoryFile {
    /// One with this content.
    #[allow(clippy::expect_used, reason = "without it nothing can be fuzzed")]
    pub fn new(content: &[u8]) -> Self {
        let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC).expect("a file in memory"));
        file.write_all(content).expect("room for an input");
        Self(file)
    }

    /// Where this process finds it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}
