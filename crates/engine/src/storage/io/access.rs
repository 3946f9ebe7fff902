//! How operations reach a file: the one trait that every access engine implements.

use std::io;

use serde_json::{Map, Value};

/// One transfer between a file and memory; no longer than one system call carries.
#[derive(Debug, Clone, Copy, Default)]
pub struct Transfer {
    /// Whether it writes to the file.
    pub write: bool,
    /// Where in the file, B.
    pub offset: u64,
    /// Where in the pool's region, B.
    pub at: usize,
    /// How much, B.
    pub length: usize,
}

/// An access engine. One file in this folder each; the loop in [`super::drive`] is compiled for each.
///
/// The loop calls `prepare` for every free slot, `submit` once for all of them, `wait` until something is complete,
/// and `completions` to reap it.
pub trait Access {
    /// A transfer is complete when `submit` returns: there is no submission apart from completion.
    const SYNCHRONOUS: bool;
    /// The loop is also compiled for it without controls, for blocks at full speed.
    const PLAIN: bool = true;

    /// Puts a transfer into the batch; `slot` is not in flight.
    fn prepare(&mut self, slot: usize, transfer: &Transfer);
    /// Submits the batch.
    fn submit(&mut self) -> io::Result<()>;
    /// Waits until `at_least` transfers (no more than are in flight) are complete.
    fn wait(&mut self, at_least: usize) -> io::Result<()>;
    /// Calls `done` for each complete transfer: its slot, and the bytes moved or minus the errno.
    fn completions(&mut self, done: impl FnMut(usize, i64));
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// Makes durable also what describes the file, such as its times.
    fn sync_whole(&mut self) -> io::Result<()> {
        self.sync()
    }
    /// Flushes what the engine itself still buffers; inside the timed region.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
    /// System calls made so far to submit and to wait.
    fn calls(&self) -> u64 {
        0
    }
    /// Facts about the engine, such as the set-up flags in use.
    fn facts(&self, _details: &mut Map<String, Value>) {}
}
