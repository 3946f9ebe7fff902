//! Does nothing at once, to show what the loop itself costs.

use std::io;

use super::access::{Access, Transfer};

/// Completes every transfer in full, in batches, without a system call.
#[derive(Debug, Default)]
pub struct Null {
    complete: Vec<(u32, i64)>,
}

impl Null {
    /// One for up to `depth` transfers at once.
    #[must_use]
    pub fn new(depth: usize) -> Self {
        Self { complete: Vec::with_capacity(depth) }
    }
}

impl Access for Null {
    const SYNCHRONOUS: bool = false;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.complete.push((slot as u32, transfer.length as i64));
    }

    fn submit(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _at_least: usize) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        for &(slot, length) in &self.complete {
            done(slot as usize, length);
        }
        self.complete.clear();
    }
}
