//! A directory for a test, removed when the test ends.

use std::fs;
use std::path::{Path, PathBuf};

/// A directory for a test, removed when the test ends.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Temporary files are on a disk there as a rule, so that direct access can be tested.
    pub fn new(name: &str) -> Self {
        let base = std::env::var_os("HWDYNO_SCRATCH").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from);
        Self::below(&base, name)
    }

    /// A directory below `base`.
    #[allow(clippy::unwrap_used, reason = "only tests make one")]
    pub fn below(base: &Path, name: &str) -> Self {
        let path = base.join(format!("hwdyno-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A name inside it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
