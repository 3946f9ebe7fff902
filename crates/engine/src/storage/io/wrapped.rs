//! An access engine behind a pointer, for what wraps one: trims and planted faults.
//!
//! The loop is compiled for each access engine, but not once more for each with its wrappers. Their users pay for an
//! indirect call where a system call follows; all others pay for nothing.

use std::io;

use serde_json::{Map, Value};

use super::access::{Access, Transfer};

/// [`Access`] as a table of functions.
trait Indirect {
    fn prepare(&mut self, slot: usize, transfer: &Transfer);
    fn submit(&mut self) -> io::Result<()>;
    fn wait(&mut self, at_least: usize) -> io::Result<()>;
    fn completions(&mut self, done: &mut dyn FnMut(usize, i64));
    fn sync(&mut self) -> io::Result<()>;
    fn sync_whole(&mut self) -> io::Result<()>;
    fn finish(&mut self) -> io::Result<()>;
    fn calls(&self) -> u64;
    fn facts(&self, details: &mut Map<String, Value>);
}

/// An access engine behind a pointer; whether it is synchronous is known to the loop that is compiled for it.
pub struct Wrapped<'a, const SYNCHRONOUS: bool>(Box<dyn Indirect + 'a>);

impl<'a, const SYNCHRONOUS: bool> Wrapped<'a, SYNCHRONOUS> {
    /// Wraps an access engine that is as synchronous as the type says.
    pub fn new<A: Access + 'a>(access: A) -> Self {
        debug_assert_eq!(A::SYNCHRONOUS, SYNCHRONOUS);
        Self(Box::new(access))
    }
}

impl<A: Access> Indirect for A {
    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        Access::prepare(self, slot, transfer);
    }
    fn submit(&mut self) -> io::Result<()> {
        Access::submit(self)
    }
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        Access::wait(self, at_least)
    }
    fn completions(&mut self, done: &mut dyn FnMut(usize, i64)) {
        Access::completions(self, done);
    }
    fn sync(&mut self) -> io::Result<()> {
        Access::sync(self)
    }
    fn sync_whole(&mut self) -> io::Result<()> {
        Access::sync_whole(self)
    }
    fn finish(&mut self) -> io::Result<()> {
        Access::finish(self)
    }
    fn calls(&self) -> u64 {
        Access::calls(self)
    }
    fn facts(&self, details: &mut Map<String, Value>) {
        Access::facts(self, details);
    }
}

impl<const SYNCHRONOUS: bool> Access for Wrapped<'_, SYNCHRONOUS> {
    const SYNCHRONOUS: bool = SYNCHRONOUS;
    const PLAIN: bool = false;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        self.0.prepare(slot, transfer);
    }
    fn submit(&mut self) -> io::Result<()> {
        self.0.submit()
    }
    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.0.wait(at_least)
    }
    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        self.0.completions(&mut done);
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
    fn sync_whole(&mut self) -> io::Result<()> {
        self.0.sync_whole()
    }
    fn finish(&mut self) -> io::Result<()> {
        self.0.finish()
    }
    fn calls(&self) -> u64 {
        self.0.calls()
    }
    fn facts(&self, details: &mut Map<String, Value>) {
        self.0.facts(details);
    }
}
