//! One connection that sends a request at a time and waits for its answer: it is kept for the next one, and no wait is
//! without end.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use rustls::{CipherSuite, InvalidMessage};

use crate::contract::kernel::{Error, Stop};
use crate::network::chunks::{Chunks, Progress};
use crate::object::address::Place;
use crate::object::exchange::LAST_WORDS_NS;
use crate::object::failure::Failure;
use crate::object::limits::Limits;
use crate::object::options::Bucket;
use crate::object::paths::Paths;
use crate::object::request::{Body, Request, Writer};
use crate::object::response::{parse, Head, Length, Parsed, MAX_HEAD};
use crate::object::signing::Signer;
use crate::object::tls;
use crate::object::transport::{is_passing, Transport, MIN_WAKE};
use crate::object::worker::SLOWEST;
use crate::sys::net::{self, Options};
use crate::timing::clock::now_ns;

/// Bytes that are received at once, and as many as a TLS record needs behind a head.
const BUFFER: usize = 256 << 10;
/// Bytes of an error's body that are kept.
const KEPT: usize = 64 << 10;
/// Interim responses before a final one.
const MAX_INTERIM: u32 = 8;
/// How a record of TLS begins that says what is wrong.
const TLS_ALERT: &[u8] = &[0x15, 3];
/// Longest time until a connection is made, and until its handshake is over.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);
/// How long a store may leave a handshake open until it is tried by plain HTTP, ns.
const SILENT_NS: u64 = 1_000_000_000;
/// How often a wait looks at its deadline and at the stop.
const LOOK: Duration = Duration::from_millis(50);

/// One connection of one thread. It allocates when it is made and when it connects.
pub struct Caller {
    bucket: Bucket,
    writer: Writer,
    timeout: Duration,
    /// Which of the bucket's addresses it connects to.
    number: usize,
    transport: Option<Transport>,
    head: Vec<u8>,
    tail: Vec<u8>,
    buffer: Vec<u8>,
    /// The beginning of an error's body.
    kept: Vec<u8>,
    /// A request that was sent before its call.
    begun: Option<Begun>,
    /// What its connections are, or were, encrypted by.
    suite: Option<CipherSuite>,
    /// Connections that were made.
    pub connected: u64,
    /// Requests that were sent once more, because their connection was lost.
    pub repeated: u64,
}

/// A request that was sent, or why it could not be.
struct Begun {
    /// Whether it went over a connection that a store may have closed meanwhile.
    was_kept: bool,
    /// Its deadline, ns.
    until_ns: Result<u64, Failure>,
}

impl Caller {
    /// One that signs by `signer`, and waits at most this long for each answer besides its transfer.
    #[must_use]
    pub fn new(bucket: &Bucket, signer: Signer, timeout_s: f64, number: usize) -> Self {
        let writer = Writer::new(bucket.clone(), signer);
        Self {
            head: Vec::with_capacity(writer.room()),
            bucket: bucket.clone(),
            writer,
            timeout: Duration::from_secs_f64(timeout_s),
            number,
            transport: None,
            tail: Vec::with_capacity(256),
            buffer: vec![0; BUFFER + MAX_HEAD],
            kept: Vec::with_capacity(KEPT),
            begun: None,
            suite: None,
            connected: 0,
            repeated: 0,
        }
    }

    fn place(&self) -> Option<&Place> {
        let places = &self.bucket.places;
        places.get(self.number % places.len().max(1))
    }

    /// Adds what is known of its connection, and by what those that are gone were encrypted.
    pub fn look(&self, paths: &mut Paths) {
        self.transport.iter().for_each(|transport| transport.look(paths));
        paths.secure(self.suite);
    }

    /// Waits at most this long for each answer from now on, besides its transfer.
    pub fn limit(&mut self, timeout_s: f64) {
        self.timeout = Duration::from_secs_f64(timeout_s);
    }

    /// The beginning of the last error's body.
    #[must_use]
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Connects where it is not connected, by TLS where the place has it.
    ///
    /// # Errors
    /// Machine: the store cannot be reached, or its certificate is refused.
    pub fn connect(&mut self, stop: &Stop) -> Result<(), Error> {
        if self.transport.is_some() {
            return Ok(());
        }
        let place = self.place().cloned().ok_or_else(|| Error::usage("the store has no endpoint"))?;
        let timeout = self.timeout.min(LONGEST_CONNECT);
        let unreached = |error: &io::Error| {
            let doing = format!("connect to the store at {}", place.url());
            Error::machine(doing, error).also(Failure::Unreachable.advice())
        };
        let options = Options { nodelay: true, ..Options::default() };
        let until_ns = now_ns() + timeout.as_nanos() as u64;
        let stream = net::connect(&place.address, &options, timeout).map_err(|error| unreached(&error))?;
        stream.set_read_timeout(Some(LOOK)).map_err(|error| unreached(&error))?;
        stream.set_write_timeout(Some(LOOK)).map_err(|error| unreached(&error))?;
        let mut transport = Transport::new(stream, place.security.as_ref()).map_err(|error| unreached(&error))?;
        let is_no_tls = |error: &io::Error| unreached(error).also("check that it is the store's port for TLS");
        let mut silent_ns = now_ns() + SILENT_NS.min(timeout.as_nanos() as u64 / 2);
        loop {
            // A server of plain HTTP waits for more of what it takes for a request.
            if now_ns() > silent_ns {
                silent_ns = u64::MAX;
                let left_ns = until_ns.saturating_sub(now_ns()).clamp(1, SILENT_NS);
                if answers_plain_http(&place, Duration::from_nanos(left_ns)) {
                    return Err(tls::refusal(&place.url(), &InvalidMessage::InvalidContentType.into()));
                }
            }
            match transport.shake(&mut self.buffer) {
                Ok(()) => break,
                Err(_) if stop.is_set() => return Err(Error::stopped()),
                Err(error) if is_passing(&error) && now_ns() < until_ns => {}
                Err(error) if is_passing(&error) => return Err(is_no_tls(&ErrorKind::TimedOut.into())),
                Err(error) => {
                    return Err(match transport.fault() {
                        Some(fault) => tls::refusal(&place.url(), fault),
                        None => is_no_tls(&error),
                    });
                }
            }
        }
        self.suite = transport.suite();
        self.transport = Some(transport);
        self.connected += 1;
        Ok(())
    }

    /// Sends a request, whose answer the next [`Caller::call`] receives: it must be of the same request. So one thread
    /// has as many requests in flight as it has connections.
    pub fn begin(&mut self, request: &Request<'_>, wanted: Option<u64>, stop: &Stop) {
        if self.begun.is_some() {
            // Its answer, which was not received, would be taken for the next one's.
            self.transport = None;
        }
        self.begun = Some(self.send(request, wanted, stop));
    }

    /// Sends a request, unless it has begun, and receives its answer. The body of a success has `wanted` bytes, where they
    /// are known, and goes to `see` piece by piece, until that wants no more.
    ///
    /// A store may have closed a connection that was kept: then the request is sent once more, on a new one.
    ///
    /// # Errors
    /// Why there is no whole answer; the connection is closed then.
    pub fn call(
        &mut self,
        request: &Request<'_>,
        wanted: Option<u64>,
        stop: &Stop,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Head, Failure> {
        if stop.is_set() {
            if self.begun.take().is_some() {
                self.transport = None;
            }
            return Err(Failure::Timeout);
        }
        let has_seen = Cell::new(false);
        let mut see = |piece: &[u8]| {
            has_seen.set(true);
            see(piece)
        };
        let begun = self.begun.take().map(|begun| {
            // It may have come long ago, while the answers of other connections were received.
            let min_ns = now_ns() + LAST_WORDS_NS;
            Begun { until_ns: begun.until_ns.map(|until_ns| until_ns.max(min_ns)), ..begun }
        });
        let Begun { was_kept, until_ns } = begun.unwrap_or_else(|| self.send(request, wanted, stop));
        let answer = self.receive(request, until_ns, wanted, stop, &mut see);
        let is_stale = was_kept && request.method != "POST" && !stop.is_set();
        match answer {
            Err(Failure::Lost) if is_stale && !has_seen.get() => {
                self.repeated += 1;
                let until_ns = self.send(request, wanted, stop).until_ns;
                self.receive(request, until_ns, wanted, stop, &mut see)
            }
            answer => answer,
        }
    }

    fn send(&mut self, request: &Request<'_>, wanted: Option<u64>, stop: &Stop) -> Begun {
        let was_kept = self.transport.is_some();
        let until_ns = self.write(request, wanted, stop);
        if until_ns.is_err() {
            self.transport = None;
        }
        Begun { was_kept, until_ns }
    }

    /// Connects, and writes a request; gives the deadline of its answer, ns.
    fn write(&mut self, request: &Request<'_>, wanted: Option<u64>, stop: &Stop) -> Result<u64, Failure> {
        self.connect(stop).map_err(|_| Failure::Unreachable)?;
        let bytes = request.body.length().max(wanted.unwrap_or(0));
        let until_ns = now_ns() + self.timeout.as_nanos() as u64 + bytes / SLOWEST * 1_000_000_000;
        self.writer.write(request, self.number, &mut self.head, &mut self.tail);
        let body = match request.body {
            Body::Bytes(body) | Body::Unsigned(body) => body,
            Body::Empty | Body::Object(..) => b"",
        };
        let mut limits = Limits::new(until_ns, self.timeout, request.body.length() > 0, stop);
        self.write_out(body, &mut limits)?;
        Ok(limits.until_ns)
    }

    fn receive(
        &mut self,
        request: &Request<'_>,
        until_ns: Result<u64, Failure>,
        wanted: Option<u64>,
        stop: &Stop,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Head, Failure> {
        let limits = Limits::new(until_ns?, self.timeout, request.body.length() > 0, stop);
        let answer = self.receive_head(&limits).and_then(|(head, filled)| {
            if request.method == "HEAD" || matches!(head.status, 204 | 304) {
                let has_more = filled > head.bytes || (head.closes && head.length != Length::Open);
                return Ok(Head { closes: has_more, ..head });
            }
            let is_right = (200..300).contains(&head.status);
            match (head.length, wanted) {
                // An object of another length is not read to its end: it may be a terabyte.
                (Length::Bytes(length), Some(wanted)) if is_right && length != wanted => Err(Failure::Length),
                _ => self.receive_body(head, filled, &limits, see),
            }
        });
        if answer.as_ref().map_or(true, |head| head.closes) {
            self.transport = None;
        }
        answer
    }

    /// Writes the head and a body.
    fn write_out(&mut self, body: &[u8], limits: &mut Limits<'_>) -> Result<(), Failure> {
        let Some(transport) = &mut self.transport else { return Err(Failure::Lost) };
        let (head, total) = (self.head.len(), self.head.len() + body.len());
        let mut sent = 0;
        while sent < total || transport.is_sending() {
            let parts = [&self.head[sent.min(head)..], &body[sent.saturating_sub(head)..], b""];
            match transport.write(parts) {
                Ok(0) if sent < total => return Err(Failure::Lost),
                Ok(count) => {
                    sent += count;
                    limits.moved();
                }
                Err(error) if is_passing(&error) => limits.check()?,
                // The store may have answered before it closed: then the answer is there.
                Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                    limits.until_ns = limits.until_ns.min(now_ns() + LAST_WORDS_NS);
                    break;
                }
                Err(_) => return Err(Failure::Lost),
            }
        }
        Ok(())
    }

    /// Receives behind the first `filled` bytes of the buffer; 0 bytes at the end of the connection.
    fn read(&mut self, filled: usize, limits: &Limits<'_>) -> Result<usize, Failure> {
        let Some(transport) = &mut self.transport else { return Err(Failure::Lost) };
        loop {
            limits.check()?;
            match transport.read(&mut self.buffer[filled..]) {
                Ok(count) => {
                    limits.moved();
                    return Ok(count);
                }
                Err(error) if is_passing(&error) => {}
                Err(_) => return Err(if transport.fault().is_some() { Failure::Tls } else { Failure::Lost }),
            }
        }
    }

    /// Receives the head of a final answer; it is at the beginning of the buffer, which is filled up to the number given.
    fn receive_head(&mut self, limits: &Limits<'_>) -> Result<(Head, usize), Failure> {
        self.kept.clear();
        let (mut filled, mut interim) = (0, 0);
        loop {
            match parse(&self.buffer[..filled]) {
                Parsed::Whole(head) if head.status < 200 && head.status != 101 && interim < MAX_INTERIM => {
                    interim += 1;
                    self.buffer.copy_within(head.bytes..filled, 0);
                    filled -= head.bytes;
                }
                Parsed::Whole(head) if head.status >= 200 => return Ok((head, filled)),
                Parsed::Partial => match self.read(filled, limits)? {
                    0 => return Err(if filled == 0 { Failure::Lost } else { Failure::Malformed }),
                    count => filled += count,
                },
                _ if self.buffer[..filled].starts_with(TLS_ALERT) => return Err(Failure::Encrypted),
                _ => return Err(Failure::Malformed),
            }
        }
    }

    /// Receives the body, whose first bytes are in the buffer behind the head, up to `filled`.
    fn receive_body(
        &mut self,
        head: Head,
        filled: usize,
        limits: &Limits<'_>,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Head, Failure> {
        let is_right = (200..300).contains(&head.status);
        let mut body = Received { head, chunks: Chunks::new(0), bytes: 0 };
        let (mut from, mut to) = (head.bytes, filled);
        loop {
            let mut goes_on = true;
            let Self { buffer, kept, transport, .. } = self;
            let is_over = body.take(&buffer[from..to], &mut |piece| {
                if is_right {
                    goes_on = goes_on && see(piece);
                } else {
                    let room = KEPT.saturating_sub(kept.len());
                    kept.extend_from_slice(&piece[..piece.len().min(room)]);
                    goes_on = piece.len() <= room;
                }
            })?;
            if is_over {
                return Ok(head);
            }
            if !goes_on {
                return Ok(Head { closes: true, ..head });
            }
            if let (Some(transport), Length::Bytes(length)) = (transport.as_mut(), head.length) {
                transport.wake_at(length - body.bytes, MIN_WAKE);
            }
            let count = self.read(0, limits)?;
            if count == 0 {
                return if head.length == Length::Open {
                    Ok(Head { closes: true, ..head })
                } else {
                    Err(Failure::Lost)
                };
            }
            (from, to) = (0, count);
        }
    }
}

/// How far the body of an answer is.
struct Received {
    head: Head,
    chunks: Chunks,
    bytes: u64,
}

impl Received {
    /// Takes the next bytes, and gives those of the object to `see`; whether they were the last ones.
    fn take(&mut self, bytes: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<bool, Failure> {
        let begin = self.bytes;
        self.bytes += bytes.len() as u64;
        match self.head.length {
            Length::Chunks => {
                let progress = self.chunks.take(bytes);
                for &(from, to) in self.chunks.spans() {
                    let (from, to) = (from.max(begin), to.min(self.bytes));
                    if from < to {
                        see(&bytes[(from - begin) as usize..(to - begin) as usize]);
                    }
                }
                match progress {
                    Progress::Wrong => Err(Failure::Malformed),
                    progress => Ok(progress == Progress::Over),
                }
            }
            Length::Bytes(length) if self.bytes > length => Err(Failure::Length),
            length => {
                if !bytes.is_empty() {
                    see(bytes);
                }
                Ok(length == Length::Bytes(self.bytes))
            }
        }
    }
}

/// Whether a server answers plain HTTP. One for TLS is silent, closes, or refuses it with 400, as those of Go and nginx.
fn answers_plain_http(place: &Place, timeout: Duration) -> bool {
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", place.host);
    let mut begin = [0; 12];
    let answer = net::connect(&place.address, &Options::default(), timeout).and_then(|mut stream| {
        stream.set_read_timeout(Some(timeout))?;
        stream.write_all(request.as_bytes())?;
        stream.read_exact(&mut begin)
    });
    answer.is_ok() && begin.starts_with(b"HTTP/1.") && !begin.ends_with(b"400")
}
