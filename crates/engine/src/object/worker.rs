//! One thread of a run: its connections at an epoll, each with one request at a time.

use std::io;

use crate::contract::kernel::Error;
use crate::object::connection::Connection;
use crate::object::exchange::Event;
use crate::object::failure::Failure;
use crate::object::limits::GRACE_NS;
use crate::object::multipart::{count_parts, Uploads, PART_ROOM};
use crate::object::options::Operation;
use crate::object::paths::Paths;
use crate::object::plan::{Plan, Stage, Step};
use crate::object::poller::{is_writable, Poller, LOOK_NS};
use crate::object::request::{listing_query, Body, Writer};
use crate::object::shared::Shared;
use crate::object::tally::Tally;
use crate::object::tls;
use crate::object::transport::{Transport, MIN_WAKE};
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;

/// Bytes that are read at once. Fewer reads acknowledge less often, and each acknowledgement on loopback does the sender's
/// work in the reader's time: 1 MiB costs a fifth less CPU time than 256 KiB, and 2 MiB hardly less than that.
const BUFFER: usize = 1 << 20;
/// What all connections of a thread may let wait for their wakes: the system holds twice as much for each of them.
const MAX_WAITING: u64 = 16 << 20;
/// Events that are served before the time is looked at again.
const MAX_EVENTS: usize = 128;
/// The slowest transfer that a deadline allows, bytes a second.
pub const SLOWEST: u64 = 64 << 10;
/// The rest after a failure, doubled by each in a row up to a second.
const REST_NS: u64 = 10_000_000;
const LONGEST_REST_NS: u64 = 1_000_000_000;
/// Keys in a page of a listing.
const PAGE: u64 = 1000;

/// One thread.
pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    writer: Writer,
    plan: Plan,
    poller: Poller,
    connections: Vec<Connection>,
    /// Connections that rest, each until when, ns.
    rests: Vec<(usize, u64)>,
    /// Connections without a request that may take one.
    free: Vec<usize>,
    buffer: Vec<u8>,
    query: Vec<u8>,
    /// The body that completes a multipart upload.
    parts: Vec<u8>,
    uploads: Option<Uploads>,
    /// Number of the first connection among those of all threads.
    first: usize,
    busy: usize,
    moved: u64,
    /// Bytes that each connection's request had transferred when they last changed, and when that was seen, ns.
    activity: Vec<(u64, u64)>,
    /// When a stop was seen, ns.
    stopped_ns: u64,
    /// What this thread counts.
    pub tally: Tally,
}

impl<'a> Worker<'a> {
    /// One with this many connections, of which the first has number `first` among those of all threads.
    pub fn new(
        shared: &'a Shared<'a>,
        writer: Writer,
        plan: Plan,
        (first, count): (usize, usize),
        mut tally: Tally,
    ) -> Result<Self, Error> {
        tally.paths = Paths::new(shared.bucket.places.len());
        let room = writer.room();
        let is_multipart = shared.work.operation == Operation::Multipart;
        let uploads = is_multipart.then(|| Uploads::new(shared.work, count));
        let parts = if is_multipart {
            count_parts(shared.work.object_size, shared.work.part_size) as usize * PART_ROOM
        } else {
            0
        };
        let wake_bytes = (MAX_WAITING / count.max(1) as u64).clamp(MIN_WAKE, BUFFER as u64);
        Ok(Self {
            shared,
            writer,
            plan,
            poller: Poller::new()?,
            connections: (0..count).map(|_| Connection::new(room, parts, wake_bytes)).collect(),
            rests: Vec::with_capacity(count),
            free: Vec::with_capacity(count),
            buffer: vec![0; BUFFER],
            query: listing_query(&shared.stored.prefix, "", "", PAGE),
            parts: Vec::with_capacity(parts),
            uploads,
            first,
            busy: 0,
            moved: 0,
            activity: vec![(0, 0); count],
            stopped_ns: u64::MAX,
            tally,
        })
    }

    /// Connects all connections, before time begins.
    ///
    /// # Errors
    /// Machine: a connection cannot be made by the deadline.
    pub fn connect_all(&mut self) -> Result<(), Error> {
        for number in 0..self.connections.len() {
            self.connect(number).map_err(|error| self.unreached(number, &error))?;
        }
        let until_ns = now_ns() + self.shared.timeout_ns;
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let mut left = self.connections.len();
        while left > 0 {
            if self.shared.stop.is_set() {
                return Err(Error::stopped());
            }
            if now_ns() > until_ns {
                let open = self.connections.iter().position(|connection| !connection.is_open());
                return Err(self.unreached(open.unwrap_or(0), &io::Error::from_raw_os_error(libc::ETIMEDOUT)));
            }
            self.poller.wait(&mut events, LOOK_NS)?;
            for event in &events {
                let number = { event.data }.u64() as usize;
                match self.go_on(number, true) {
                    Event::Connected => {
                        self.connected(number);
                        left -= 1;
                    }
                    Event::Pending => self.watch(number, self.connections[number].waits_to_write),
                    _ => return Err(self.unreached(number, &io::Error::from_raw_os_error(libc::ECONNREFUSED))),
                }
            }
        }
        Ok(())
    }

    fn unreached(&self, number: usize, error: &io::Error) -> Error {
        let places = &self.shared.bucket.places;
        let place = &places[(self.first + number) % places.len()];
        if let Some(fault) = self.connections[number].tls_fault() {
            return tls::refusal(&place.url(), fault);
        }
        Error::machine(format!("connect to the store at {}", place.url()), error).also(Failure::Unreachable.advice())
    }

    /// Does its part until time is over and all its requests are.
    pub fn run(&mut self) -> Result<(), Error> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        let cpu = cpu_time::of_this_thread();
        let begin = now_ns();
        self.plan.start(begin);
        self.tally.progress.start(begin);
        (self.tally.begin_ns, self.tally.last_ns) = (begin, begin);
        let mut looked = begin;
        loop {
            let now = now_ns();
            while let Some(number) = self.free.pop() {
                let Some(step) = self.take(now) else {
                    self.free.push(number);
                    break;
                };
                self.begin(number, step);
            }
            if self.busy == 0 && self.rests.is_empty() && self.is_over(now) {
                break;
            }
            let due = self.plan.next_due_ns().filter(|_| !self.free.is_empty() && !self.tally.stopped);
            let left = due.map_or(LOOK_NS, |due| due.saturating_sub(now).min(LOOK_NS));
            self.poller.wait(&mut events, left)?;
            for event in &events {
                self.serve({ event.data }.u64() as usize, is_writable(event));
            }
            let now = now_ns();
            if self.moved > 0 {
                self.tally.progress.add(now, 0, std::mem::take(&mut self.moved));
            }
            if now - looked >= LOOK_NS {
                looked = now;
                if self.is_cut(now) {
                    break;
                }
                self.look(now);
            }
        }
        self.tally.late = self.plan.late(self.plan.end_ns());
        self.tally.cpu = cpu_time::of_this_thread().since(cpu);
        for transport in self.connections.iter().filter_map(Connection::transport) {
            transport.look(&mut self.tally.paths);
        }
        Ok(())
    }

    /// Whether a stop ends it now: what is being written is awaited for a moment, as the store may finish it after its removal.
    fn is_cut(&mut self, now: u64) -> bool {
        if !self.shared.stop.is_set() && !self.shared.broken.is_set() {
            return false;
        }
        self.tally.stopped = true;
        self.stopped_ns = self.stopped_ns.min(now);
        let writes = self.connections.iter().any(|connection| connection.is_busy() && connection.sending().writes());
        !writes || now >= self.stopped_ns + GRACE_NS
    }

    /// The next request that may begin now: what is left of uploads comes before what another operation begins.
    fn take(&mut self, now: u64) -> Option<Step> {
        if self.tally.stopped {
            return None;
        }
        let Some(uploads) = &mut self.uploads else { return self.plan.take(now) };
        if let Some(step) = uploads.take_end() {
            return Some(step);
        }
        if uploads.wants_more(self.connections.len()) {
            if let Some(step) = self.plan.take(now) {
                return uploads.begin(step);
            }
        }
        uploads.take_part(now)
    }

    /// Whether no request will begin any more.
    fn is_over(&mut self, now: u64) -> bool {
        if self.uploads.as_ref().is_some_and(|uploads| !uploads.is_empty()) {
            return false;
        }
        if now >= self.plan.end_ns() {
            return true;
        }
        // Without a rate, a free connection means that there was no request for it.
        self.shared.work.once && !self.free.is_empty()
    }

    fn connect(&mut self, number: usize) -> io::Result<()> {
        let places = &self.shared.bucket.places;
        let place = &places[(self.first + number) % places.len()];
        let connection = &mut self.connections[number];
        connection.connect(place)?;
        if let Some(stream) = connection.transport().map(Transport::stream) {
            self.poller.add(stream, number)?;
        }
        connection.waits_to_write = true;
        Ok(())
    }

    /// It is connected: from now on only what comes is of interest.
    fn connected(&mut self, number: usize) {
        self.note_connected(number);
        self.connections[number].waits_to_write = false;
        self.watch(number, false);
        self.free.push(number);
    }

    /// Notes how long a connection took to make, and what encrypts it.
    fn note_connected(&mut self, number: usize) {
        let connection = &self.connections[number];
        self.tally.connect.record(now_ns() - connection.began_ns);
        self.tally.paths.secure(connection.transport().and_then(Transport::suite));
    }

    fn watch(&self, number: usize, writes: bool) {
        if let Some(stream) = self.connections[number].transport().map(Transport::stream) {
            self.poller.watch(stream, number, writes);
        }
    }

    fn go_on(&mut self, number: usize, writable: bool) -> Event {
        self.connections[number].go_on(writable, self.shared.payload, &mut self.buffer, &mut self.moved)
    }

    /// Begins a request on a connection that has none.
    fn begin(&mut self, number: usize, step: Step) {
        self.busy += 1;
        if self.connections[number].transport().is_none() {
            if let Err(_error) = self.connect(number) {
                self.connections[number].close();
                self.end_failed(number, step, Failure::Unreachable);
                return;
            }
        }
        let (shared, payload) = (self.shared, self.shared.payload);
        let bytes = self.uploads.as_ref().map_or_else(|| shared.bytes(&step), |uploads| uploads.bytes(&step));
        if let Some(uploads) = &self.uploads {
            uploads.write_query(&step, &mut self.query);
            if step.stage == Stage::Complete {
                uploads.write_parts(&step, shared.checksum.kind(), &mut self.parts);
            }
        }
        let request = shared.request(&step, bytes, &self.query, &self.parts);
        let connection = &mut self.connections[number];
        self.writer.write(&request, self.first + number, &mut connection.head, &mut connection.tail);
        if let Body::Bytes(parts) = request.body {
            connection.tail.extend_from_slice(parts);
        }
        let now = now_ns();
        self.activity[number] = (0, now);
        let deadline_ns = now + shared.timeout_ns + bytes / SLOWEST * 1_000_000_000;
        let sending = shared.sending(step, bytes, deadline_ns);
        let was_writing = connection.waits_to_write;
        let event = connection.send(sending, payload, &mut self.moved);
        self.follow(number, event, was_writing);
    }

    /// Serves a connection that can be read or written.
    fn serve(&mut self, number: usize, writable: bool) {
        let was_busy = self.connections[number].is_busy();
        let was_writing = self.connections[number].waits_to_write;
        let was_connecting = self.connections[number].is_connecting();
        let event = self.go_on(number, writable);
        if was_connecting
            && !matches!(event, Event::Failed(Failure::Unreachable | Failure::Tls))
            && !self.connections[number].is_connecting()
        {
            self.note_connected(number);
        }
        if was_busy {
            self.follow(number, event, was_writing);
        } else if matches!(event, Event::Closed | Event::Failed(_)) {
            // A store may close what it has waited for long enough; the next request opens it again.
            self.connections[number].close();
        }
    }

    fn follow(&mut self, number: usize, event: Event, was_writing: bool) {
        match event {
            Event::Pending | Event::Connected | Event::Closed => {
                let writes = self.connections[number].waits_to_write;
                if writes != was_writing {
                    self.watch(number, writes);
                }
            }
            Event::Done => {
                self.busy -= 1;
                if was_writing {
                    self.watch(number, false);
                }
                let connection = &mut self.connections[number];
                connection.failures = 0;
                let moments = connection.moments();
                self.tally.paths.complete(self.first + number, moments.last_ns.saturating_sub(moments.due_ns));
                self.count(number);
                if !self.shared.keep_alive {
                    self.connections[number].close();
                }
                self.free.push(number);
            }
            Event::Failed(failure) => {
                let step = self.connections[number].sending().step;
                // What else the response brings would be taken for the next one's.
                if !self.connections[number].is_open() {
                    self.connections[number].close();
                }
                self.end_failed(number, step, failure);
            }
        }
    }

    /// Counts a complete request, or takes what it brought for its upload.
    fn count(&mut self, number: usize) {
        let connection = &self.connections[number];
        let (step, moments) = (connection.sending().step, connection.moments());
        let Some(uploads) = &mut self.uploads else {
            self.plan.end(&step, true);
            return self.tally.complete(step.operation, connection.sending().moved_bytes(), &moments);
        };
        match step.stage {
            Stage::Create => {
                if let Err(due_ns) = uploads.created(&step, connection.kept()) {
                    self.tally.fail(step.operation, Failure::Malformed, due_ns, moments.last_ns);
                }
            }
            Stage::Part(_) => {
                let etag = connection.answer().map(|head| head.etag);
                uploads.received(&step, etag.unwrap_or_default(), &connection.tail);
                self.tally.part.record(moments.last_ns.saturating_sub(moments.due_ns));
            }
            Stage::Complete => {
                uploads.end(&step);
                self.tally.complete(step.operation, self.shared.work.object_size, &moments);
            }
            Stage::Whole | Stage::Abort => uploads.end(&step),
        }
    }

    /// Counts a failure, and lets its connection rest.
    fn end_failed(&mut self, number: usize, step: Step, failure: Failure) {
        self.busy -= 1;
        let now = now_ns();
        let connection = &mut self.connections[number];
        connection.failures += 1;
        let rest = (REST_NS << connection.failures.min(8)) / 2;
        self.rests.push((number, now + rest.min(LONGEST_REST_NS)));
        if step.failures + 1 < self.shared.work.attempts {
            self.tally.repeated += 1;
            self.plan.repeat(step);
            return;
        }
        self.plan.end(&step, false);
        let due_ns = self.uploads.as_mut().map_or(Some(step.due_ns), |uploads| uploads.fail(&step));
        if let Some(due_ns) = due_ns {
            self.tally.fail(step.operation, failure, due_ns, now);
        }
        self.tally.paths.fail(self.first + number);
    }

    /// Ends what is past its deadline or moves nothing, and the rests that are over.
    fn look(&mut self, now: u64) {
        for number in 0..self.connections.len() {
            let connection = &self.connections[number];
            if !connection.is_busy() {
                continue;
            }
            let (before, since_ns) = &mut self.activity[number];
            if *before != connection.transferred_bytes() {
                (*before, *since_ns) = (connection.transferred_bytes(), now);
            }
            if now > connection.sending().deadline_ns || now > *since_ns + self.shared.timeout_ns {
                let step = connection.sending().step;
                self.connections[number].close();
                self.end_failed(number, step, Failure::Timeout);
            }
        }
        let is_over = now >= self.plan.end_ns();
        let mut at = 0;
        while at < self.rests.len() {
            if self.rests[at].1 <= now || is_over {
                let (number, _) = self.rests.swap_remove(at);
                self.free.push(number);
            } else {
                at += 1;
            }
        }
    }
}
