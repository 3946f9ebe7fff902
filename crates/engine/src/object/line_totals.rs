//! What the kept connections of all threads did, and what is known of the way that they took.

use crate::contract::reading::Reading;
use crate::object::paths::{Flow, Paths};
use crate::object::place::{Line, Place};

/// Sums over the connections of a kernel that uses a store as it uses files.
#[derive(Debug, Clone, Default)]
pub struct LineTotals {
    /// Requests that were sent.
    requests: u64,
    /// Those of them that were sent again.
    repeated: u64,
    /// Connections that were made.
    connected: u64,
    paths: Paths,
}

impl LineTotals {
    /// Adds a connection, at the end of its thread's work.
    pub fn add(&mut self, line: &Line) {
        self.requests += line.requests;
        self.repeated += line.repeated;
        self.connected += line.connected();
        line.look(&mut self.paths);
    }

    /// Adds those of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.repeated += other.repeated;
        self.connected += other.connected;
        self.paths.merge(&other.paths);
    }

    /// Adds them to a reading, the requests by this name, and the way to the place on which `threads` threads sent objects.
    pub fn describe(&self, place: &Place, requests: &str, threads: usize, flow: Flow, reading: &mut Reading) {
        reading.detail(requests, self.requests);
        reading.detail("requests_repeated", self.repeated);
        reading.detail("connections_made", self.connected);
        reading.detail("client_threads", threads as u64);
        place.describe_path(&mut reading.details);
        self.paths.describe(flow, reading);
    }
}
