//! One connection to a store: a request is sent, its response received into a buffer that all share, and both timed.

use std::io::{self, ErrorKind};

use crate::network::chunks::{Chunks, Progress};
use crate::object::address::Place;
use crate::object::checksum::Sum;
use crate::object::exchange::{Event, Expected, Moments, Sending, LAST_WORDS_NS};
use crate::object::failure::{text_of, Failure};
use crate::object::multipart::late_failure;
use crate::object::options::Checksum;
use crate::object::payload::Payload;
use crate::object::plan::Step;
use crate::object::response::{join, parse, Head, Length, Parsed, MAX_HEAD};
use crate::object::transport::{is_passing, Transport};
use crate::timing::clock::now_ns;

/// Reads of one connection in a row, so that none keeps the others waiting.
const READS_IN_A_ROW: usize = 4;
/// Bytes of an error's body that are kept for its code.
const KEPT: usize = 4096;
/// Bytes of an error's body after which the connection is given up.
const MAX_ERROR_BODY: u64 = 1 << 20;
/// Interim responses (1xx) before a final one.
const MAX_INTERIM: u32 = 8;

/// Bytes of the longest trailer.
const MIN_TAIL: usize = 128;

/// What a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Closed,
    Connecting,
    /// TLS begins.
    Shaking,
    Idle,
    Busy,
}

/// One connection.
pub struct Connection {
    transport: Option<Transport>,
    phase: Phase,
    /// The head of the request, and what follows the body.
    pub head: Vec<u8>,
    /// What follows the body.
    pub tail: Vec<u8>,
    sent: u64,
    sending: Sending,
    /// Part of a head, or the beginning of an error's body.
    inbox: Vec<u8>,
    answer: Option<Head>,
    chunks: Chunks,
    received: u64,
    sum: Sum,
    interim: u32,
    moments: Moments,
    /// When it began to connect, ns.
    pub began_ns: u64,
    /// Failures in a row.
    pub failures: u32,
    /// Whether it waits until it may write.
    pub waits_to_write: bool,
    wake_bytes: u64,
}

impl Connection {
    /// One that is closed, with room for heads of this many bytes and as many behind a body, and how much of a long body
    /// wakes its reader.
    #[must_use]
    pub fn new(room: usize, tail: usize, wake_bytes: u64) -> Self {
        let expected = Expected { bytes: None, keep: false, no_body: false, checksum: Checksum::Nothing };
        Self {
            transport: None,
            phase: Phase::Closed,
            head: Vec::with_capacity(room),
            tail: Vec::with_capacity(MIN_TAIL + tail),
            sent: 0,
            sending: Sending { step: Step::EMPTY, body_bytes: 0, content: 0, expected, deadline_ns: u64::MAX },
            inbox: Vec::with_capacity(MAX_HEAD),
            answer: None,
            chunks: Chunks::counted(),
            received: 0,
            sum: Sum::Nothing,
            interim: 0,
            moments: Moments::default(),
            began_ns: 0,
            failures: 0,
            waits_to_write: false,
            wake_bytes,
        }
    }

    /// Its socket and what is over that, if it has one.
    #[must_use]
    pub fn transport(&self) -> Option<&Transport> {
        self.transport.as_ref()
    }

    /// Whether it has neither a request nor a connection under way.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether its connection is being made.
    #[must_use]
    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Shaking)
    }

    /// What is wrong with its TLS.
    #[must_use]
    pub fn tls_fault(&self) -> Option<&rustls::Error> {
        self.transport.as_ref()?.fault()
    }

    /// Whether a request is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.phase == Phase::Busy || (self.is_connecting() && !self.head.is_empty())
    }

    /// The request under way or just over.
    #[must_use]
    pub fn sending(&self) -> &Sending {
        &self.sending
    }

    /// Bytes of the request that were sent and of the response's body that came.
    #[must_use]
    pub fn transferred_bytes(&self) -> u64 {
        self.sent + self.received
    }

    /// The head of the last response.
    #[must_use]
    pub fn answer(&self) -> Option<Head> {
        self.answer
    }

    /// The body of the last response, where it was kept.
    #[must_use]
    pub fn kept(&self) -> &[u8] {
        &self.inbox
    }

    /// The moments of the request that is over.
    #[must_use]
    pub fn moments(&self) -> Moments {
        self.moments
    }

    /// Begins to connect.
    pub fn connect(&mut self, place: &Place) -> io::Result<()> {
        self.transport = Some(Transport::connect(place)?);
        self.phase = Phase::Connecting;
        self.began_ns = now_ns();
        Ok(())
    }

    /// Closes it. A request under way is lost.
    pub fn close(&mut self) {
        self.transport = None;
        self.phase = Phase::Closed;
        self.waits_to_write = false;
        self.head.clear();
    }

    /// Begins a request whose head was written; the bytes of the object that were sent at once are added to `moved`. Where it is not connected yet, as soon as it is.
    pub fn send(&mut self, sending: Sending, payload: &Payload, moved: &mut u64) -> Event {
        self.sending = sending;
        (self.sent, self.received, self.interim) = (0, 0, 0);
        self.sum = Sum::new(sending.expected.checksum);
        self.inbox.clear();
        self.answer = None;
        self.chunks = if sending.expected.keep { Chunks::new(0) } else { Chunks::counted() };
        self.moments = Moments { due_ns: sending.step.due_ns, first_ns: 0, last_ns: 0 };
        match self.phase {
            Phase::Connecting | Phase::Shaking => Event::Pending,
            Phase::Idle => {
                self.phase = Phase::Busy;
                self.write_on(payload, moved)
            }
            Phase::Closed | Phase::Busy => Event::Failed(Failure::Lost),
        }
    }

    /// Goes on, because the socket can be read or written; the bytes of objects that moved are added to `moved`.
    pub fn go_on(&mut self, mut writable: bool, payload: &Payload, buffer: &mut [u8], moved: &mut u64) -> Event {
        if self.phase == Phase::Connecting {
            if !writable {
                return Event::Pending;
            }
            let refused = self.transport().and_then(|transport| transport.stream().take_error().transpose());
            if refused.is_some() {
                return Event::Failed(Failure::Unreachable);
            }
            self.phase = Phase::Shaking;
        }
        if self.phase == Phase::Shaking {
            if let Some(event) = self.shake(buffer) {
                return event;
            }
            writable = true;
            if self.head.is_empty() {
                self.phase = Phase::Idle;
                return Event::Connected;
            }
            self.phase = Phase::Busy;
        }
        if self.phase == Phase::Idle {
            return self.drain_idle(buffer);
        }
        if writable && self.is_sending() {
            if let Event::Failed(failure) = self.write_on(payload, moved) {
                return Event::Failed(failure);
            }
        }
        for _ in 0..READS_IN_A_ROW {
            match self.receive(buffer) {
                Ok(0) => return self.ended(),
                Ok(length) => {
                    let event = self.take(&buffer[..length], moved);
                    if event != Event::Pending || length < buffer.len() {
                        return event;
                    }
                }
                Err(error) if is_passing(&error) => return Event::Pending,
                Err(_) if self.tls_fault().is_some() => return Event::Failed(Failure::Tls),
                Err(_) => return Event::Failed(Failure::Lost),
            }
        }
        Event::Pending
    }

    /// Goes on with the handshake of TLS; none when it is over, or where there is no TLS.
    fn shake(&mut self, buffer: &mut [u8]) -> Option<Event> {
        let transport = self.transport.as_mut()?;
        let answer = transport.shake(buffer);
        self.waits_to_write = transport.is_sending();
        match answer {
            Ok(()) => None,
            Err(error) if is_passing(&error) => Some(Event::Pending),
            Err(_) => Some(Event::Failed(Failure::Tls)),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.transport.as_mut().map_or(Err(ErrorKind::NotConnected.into()), |transport| transport.read(buffer))
    }

    /// A connection without a request has nothing to say but its end.
    fn drain_idle(&mut self, buffer: &mut [u8]) -> Event {
        match self.receive(buffer) {
            Err(error) if is_passing(&error) => Event::Pending,
            _ => Event::Closed,
        }
    }

    fn total(&self) -> u64 {
        self.head.len() as u64 + self.sending.body_bytes + self.tail.len() as u64
    }

    fn is_sending(&self) -> bool {
        self.sent < self.total() || self.transport.as_ref().is_some_and(Transport::is_sending)
    }

    /// Writes as much of the request as the socket takes.
    fn write_on(&mut self, payload: &Payload, moved: &mut u64) -> Event {
        let (head, body) = (self.head.len() as u64, self.sending.body_bytes);
        let total = self.total();
        while self.is_sending() {
            let Some(transport) = &mut self.transport else {
                return Event::Failed(Failure::Lost);
            };
            let in_head = &self.head[self.sent.min(head) as usize..];
            let at = self.sent.saturating_sub(head).min(body);
            let piece = payload.piece(self.sending.content, at, body - at);
            let is_last = at + piece.len() as u64 == body;
            let in_tail = &self.tail[self.sent.saturating_sub(head + body) as usize..];
            match transport.write([in_head, piece, if is_last { in_tail } else { b"" }]) {
                Ok(0) if self.sent < total => return Event::Failed(Failure::Lost),
                Ok(count) => {
                    self.sent += count as u64;
                    *moved += self.sent.saturating_sub(head).min(body) - at;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The store may have answered before it closed: its response says why.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    self.sent = total;
                    self.sending.deadline_ns = self.sending.deadline_ns.min(now_ns() + LAST_WORDS_NS);
                    break;
                }
                Err(_) => return Event::Failed(Failure::Lost),
            }
        }
        self.waits_to_write = self.is_sending();
        Event::Pending
    }

    /// Takes the next bytes of the response.
    fn take(&mut self, bytes: &[u8], moved: &mut u64) -> Event {
        if self.moments.first_ns == 0 {
            self.moments.first_ns = now_ns();
        }
        if let Some(head) = self.answer {
            return self.take_body(head, bytes, moved);
        }
        if self.inbox.is_empty() {
            match parse(bytes) {
                Parsed::Whole(head) => return self.take_head(head, &bytes[head.bytes..], moved),
                Parsed::Wrong => return Event::Failed(Failure::Malformed),
                Parsed::Partial => {}
            }
        }
        let room = MAX_HEAD - self.inbox.len();
        let taken = bytes.len().min(room);
        let before = self.inbox.len();
        self.inbox.extend_from_slice(&bytes[..taken]);
        match parse(&self.inbox) {
            Parsed::Whole(head) => {
                let from = head.bytes - before;
                self.inbox.clear();
                self.take_head(head, &bytes[from..], moved)
            }
            Parsed::Partial if taken == bytes.len() => Event::Pending,
            _ => Event::Failed(Failure::Malformed),
        }
    }

    fn take_head(&mut self, head: Head, body: &[u8], moved: &mut u64) -> Event {
        if (100..200).contains(&head.status) {
            self.interim += 1;
            if self.interim > MAX_INTERIM || head.status == 101 {
                return Event::Failed(Failure::Malformed);
            }
            self.moments.first_ns = 0;
            return if body.is_empty() { Event::Pending } else { self.take(body, moved) };
        }
        self.answer = Some(head);
        let no_body = self.sending.expected.no_body || matches!(head.status, 204 | 304);
        if no_body {
            let head = Head { length: Length::Bytes(0), closes: head.closes && head.length != Length::Open, ..head };
            self.answer = Some(head);
            return self.take_body(head, body, moved);
        }
        let is_right = (200..300).contains(&head.status);
        if let (true, Length::Bytes(bytes), Some(wanted)) = (is_right, head.length, self.sending.expected.bytes) {
            // An object of another length is not read to its end: it may be a terabyte.
            if bytes != wanted {
                return Event::Failed(Failure::Length);
            }
        }
        self.take_body(head, body, moved)
    }

    fn take_body(&mut self, head: Head, bytes: &[u8], moved: &mut u64) -> Event {
        let is_right = (200..300).contains(&head.status);
        if !is_right || self.sending.expected.keep {
            let room = KEPT.saturating_sub(self.inbox.len());
            self.inbox.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let before = self.received;
        let is_over = match head.length {
            Length::Bytes(length) => {
                self.received += bytes.len() as u64;
                if self.received > length {
                    return Event::Failed(Failure::Length);
                }
                if let Some(transport) = &mut self.transport {
                    transport.wake_at(length - self.received, self.wake_bytes);
                }
                self.received == length
            }
            Length::Chunks => {
                let progress = self.chunks.take(bytes);
                self.received = self.chunks.data_bytes();
                match progress {
                    Progress::More => false,
                    Progress::Over => true,
                    Progress::Wrong => return Event::Failed(Failure::Malformed),
                }
            }
            Length::Open => {
                self.received += bytes.len() as u64;
                false
            }
        };
        if is_right && head.length != Length::Chunks {
            self.sum.add(bytes);
        }
        if is_right && self.sending.expected.bytes.is_some() && self.sending.body_bytes == 0 {
            *moved += self.received - before;
        }
        let wanted = self.sending.expected.bytes.unwrap_or(u64::MAX);
        if is_right && self.received > wanted {
            return Event::Failed(Failure::Length);
        }
        if is_over || (!is_right && self.received > MAX_ERROR_BODY) {
            self.over(if is_over { head } else { Head { closes: true, ..head } })
        } else {
            Event::Pending
        }
    }

    /// The store ended the connection.
    fn ended(&mut self) -> Event {
        match self.answer {
            Some(head) if head.length == Length::Open => self.over(head),
            _ => Event::Failed(Failure::Lost),
        }
    }

    /// The response is whole.
    fn over(&mut self, head: Head) -> Event {
        self.moments.last_ns = now_ns();
        // A store may answer before it has read the whole body; the connection is of no use then.
        let is_unread = self.is_sending();
        self.phase = Phase::Idle;
        self.waits_to_write = false;
        self.head.clear();
        if self.sending.expected.keep {
            join(&mut self.inbox, self.chunks.spans());
        }
        let failure =
            Failure::of_response(head.status, text_of(&self.inbox, "Code")).or_else(|| self.content_fault(head));
        if head.closes || is_unread {
            self.close();
        }
        failure.map_or(Event::Done, Event::Failed)
    }

    fn content_fault(&self, head: Head) -> Option<Failure> {
        let Expected { bytes, checksum, .. } = self.sending.expected;
        if bytes.is_some_and(|bytes| bytes != self.received) {
            return Some(Failure::Length);
        }
        let stated = checksum.kind().filter(|_| head.length != Length::Chunks).and_then(|kind| head.stated.of(kind));
        if self.sending.expected.keep {
            return late_failure(&self.inbox);
        }
        let is_other = stated.is_some_and(|stated| stated != self.sum.text());
        is_other.then_some(Failure::Checksum)
    }
}
