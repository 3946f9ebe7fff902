//! `io_uring`: one ring a job, with the file and the buffers registered.

use std::io;

use serde_json::{json, Map, Value};

use super::access::{Access, Transfer};
use crate::storage::data::buffers::BufferPool;
use crate::storage::data::file_set::FileSet;
use crate::sys::uring::{Queues, Ring};

/// The access engine `io_uring`.
pub struct Uring<'a> {
    ring: Ring<'a>,
    file_set: FileSet<'a>,
}

impl<'a> Uring<'a> {
    /// Must be made and used by the thread that set up `queues`.
    /// Submits at most `batch` transfers a call.
    #[must_use]
    pub fn new(queues: &'a mut Queues, file_set: FileSet<'a>, pool: &'a BufferPool, batch: usize) -> Self {
        let ring = Ring::new(queues, pool.slots(), file_set.files(), pool.region(), pool.slot_length(), batch as u32);
        Self { ring, file_set }
    }
}

impl Access for Uring<'_> {
    const SYNCHRONOUS: bool = false;

    #[inline]
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        let (file, offset) = self.file_set.place(transfer.offset);
        self.ring.prepare(slot as u32, file, transfer.write, offset, transfer.at, transfer.length as u32);
    }

    #[inline]
    fn submit(&mut self) -> io::Result<()> {
        self.ring.submit()
    }

    #[inline]
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.ring.wait(at_least as u32)
    }

    #[inline]
    fn completions(&mut self, done: impl FnMut(usize, i64)) {
        self.ring.completions(done);
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file_set.sync_data()
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.file_set.sync_all()
    }

    fn calls(&self) -> u64 {
        self.ring.calls()
    }

    fn facts(&self, details: &mut Map<String, Value>) {
        let (file, buffers) = self.ring.registered();
        details.insert("io_uring_polled".into(), json!(self.ring.polled()));
        details.insert("io_uring_setup".into(), json!(self.ring.setup()));
        details.insert("io_uring_registered_file".into(), json!(file));
        details.insert("io_uring_registered_buffers".into(), json!(buffers));
    }
}
