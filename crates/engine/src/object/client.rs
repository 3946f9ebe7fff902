//! Drives a store with some threads, and sums up what they counted.

use crate::contract::kernel::{Error, Stop};
use crate::object::credentials::Credentials;
use crate::object::options::{Bucket, Checksum};
use crate::object::payload::Payload;
use crate::object::plan::{Plan, Work};
use crate::object::request::Writer;
use crate::object::shared::Shared;
use crate::object::signing::Signer;
use crate::object::stored::Stored;
use crate::object::tally::{sum, Tally};
use crate::object::worker::Worker;
use crate::timing::team;

/// How a store is driven.
pub struct Load<'a> {
    /// The bucket.
    pub bucket: &'a Bucket,
    /// Who signs.
    pub credentials: &'a Credentials,
    /// The objects.
    pub stored: &'a Stored,
    /// Those that are put and deleted.
    pub written: &'a Stored,
    /// What is done with them.
    pub work: Work,
    /// What protects bodies.
    pub checksum: Checksum,
    /// Requests in flight, of which each has a connection.
    pub concurrency: usize,
    /// Threads, of which each has at least one connection.
    pub threads: usize,
    /// Deadline of a request beside its transfer, s.
    pub timeout_s: f64,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// Length of a sampling interval, s.
    pub interval_s: f64,
}

impl Load<'_> {
    /// How many threads take part: none is without a connection.
    #[must_use]
    pub fn count_threads(&self) -> usize {
        self.threads.clamp(1, self.concurrency.max(1))
    }

    /// Drives the store until the work is done.
    ///
    /// # Errors
    /// Machine: a connection cannot be made before time begins, or the system has no more descriptors or threads.
    pub fn run(&self, stop: &Stop) -> Result<Tally, Error> {
        let (threads, broken) = (self.count_threads(), Stop::new());
        let payload = Payload::new(self.work.seed);
        let shared = Shared {
            bucket: self.bucket,
            stored: self.stored,
            written: self.written,
            work: &self.work,
            checksum: self.checksum,
            payload: &payload,
            timeout_ns: (self.timeout_s * 1e9) as u64,
            keep_alive: self.keep_alive,
            stop,
            broken: &broken,
        };
        let tallies = team::run(threads, &[], |member| -> Result<Tally, Error> {
            let mine = |number: usize| self.concurrency * number / threads;
            let (first, end) = (mine(member.number), mine(member.number + 1));
            let plan = Plan::new(&self.work, member.number, threads, end - first);
            let writer = Writer::new(self.bucket.clone(), Signer::new(self.credentials.clone()));
            let tally = Tally::new(&self.work.operations(), self.work.runtime_s, self.interval_s);
            let made = Worker::new(&shared, writer, plan, (first, end - first), tally)
                .and_then(|mut worker| worker.connect_all().map(|()| worker));
            if made.is_err() {
                broken.set();
            }
            member.wait_for_start();
            let mut worker = made?;
            worker.run()?;
            Ok(worker.tally)
        })?;
        let mut whole = Vec::with_capacity(threads);
        for tally in tallies {
            whole.push(tally?);
        }
        sum(whole).ok_or_else(Error::stopped)
    }
}
