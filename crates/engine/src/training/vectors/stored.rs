//! What a vector index is read from, apart from its search: a file, or an object of a store.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

/// What is wrong with an index that ends before it should.
pub const CUT_SHORT: &str = "it is cut short: build it again";

/// A stored index.
pub trait Stored {
    /// Its bytes; in words why they are unknown.
    fn length(&mut self) -> Result<u64, String>;
    /// Reads its bytes from `at` on, as many as there is room for; in words why they are not there.
    fn fill(&mut self, at: u64, into: &mut [u8]) -> Result<(), String>;
}

impl Stored for File {
    fn length(&mut self) -> Result<u64, String> {
        self.metadata().map(|about| about.len()).map_err(|error| error.to_string())
    }

    fn fill(&mut self, at: u64, into: &mut [u8]) -> Result<(), String> {
        self.read_exact_at(into, at).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => CUT_SHORT.into(),
            _ => error.to_string(),
        })
    }
}
