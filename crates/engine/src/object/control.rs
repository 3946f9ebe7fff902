//! Single requests outside of a timed region: each with one deadline, a bounded body, and one line for what went wrong.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

use rustls::InvalidMessage;

use crate::contract::kernel::Error;
use crate::network::chunks::{Chunks, Progress};
use crate::object::address::Place;
use crate::object::exchange::LAST_WORDS_NS;
use crate::object::failure::{text_of, Failure};
use crate::object::keys::{encode_query, Keys};
use crate::object::listing::{self, Page};
use crate::object::options::{Bucket, Checksum};
use crate::object::request::{listing_query, Body, Request, Subject, Writer};
use crate::object::response::{parse, Head, Length, Parsed};
use crate::object::signing::Signer;
use crate::object::tls;
use crate::object::transport::{is_passing, Transport};
use crate::sys::net::{self, Options};
use crate::timing::clock::now_ns;

/// Bytes of a body that are kept: a page of a listing has less than 2 MB.
const MAX_BODY: usize = 8 << 20;
/// Interim responses before a final one.
const MAX_INTERIM: u32 = 8;
/// Bytes that are received at once.
const BUFFER: usize = 256 << 10;
/// How a record of TLS begins that says what is wrong.
const TLS_ALERT: &[u8] = &[0x15, 3];

/// An answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its length by its head, where it states one.
    pub length: Option<u64>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Sends single requests to a bucket.
pub struct Control {
    bucket: Bucket,
    writer: Writer,
    timeout: Duration,
}

impl Control {
    /// One that signs by `signer`, and waits at most this long for each answer.
    #[must_use]
    pub fn new(bucket: &Bucket, signer: Signer, timeout_s: f64) -> Self {
        let writer = Writer::new(bucket.clone(), signer);
        Self { bucket: bucket.clone(), writer, timeout: Duration::from_secs_f64(timeout_s) }
    }

    /// The object at a key; none where there is none.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let answer = self.of_object("GET", key, Body::Empty)?;
        self.present(&answer, &format!("read the object {key}")).map(|there| there.then_some(answer.body))
    }

    /// The length of the object at a key; none where there is none.
    pub fn length(&mut self, key: &str) -> Result<Option<u64>, Error> {
        let answer = self.of_object("HEAD", key, Body::Empty)?;
        self.present(&answer, &format!("look at the object {key}")).map(|there| answer.length.filter(|_| there))
    }

    /// Writes an object.
    pub fn put(&mut self, key: &str, content: &[u8]) -> Result<(), Error> {
        let answer = self.of_object("PUT", key, Body::Bytes(content))?;
        self.succeeded(&answer, &format!("write the object {key}"))
    }

    /// Removes an object; one that is not there is no error.
    pub fn remove(&mut self, key: &str) -> Result<(), Error> {
        let answer = self.of_object("DELETE", key, Body::Empty)?;
        self.present(&answer, &format!("remove the object {key}")).map(drop)
    }

    /// A page of the keys that begin with a prefix.
    pub fn list(&mut self, prefix: &str, delimiter: &str, token: &str) -> Result<Page, Error> {
        let query = listing_query(prefix, delimiter, token, 1000);
        let answer = self.exchange("GET", Subject::Bucket(&query), Body::Empty)?;
        let doing = format!("list the bucket {}", self.bucket.name);
        self.succeeded(&answer, &doing)?;
        listing::read(&answer.body).ok_or_else(|| Error::Machine(format!("{doing}: the answer is no listing"), None))
    }

    /// The keys and names of some incomplete multipart uploads below a prefix, or why the store refuses to list them.
    ///
    /// # Errors
    /// Machine: no answer came.
    pub fn list_uploads(&mut self, prefix: &str) -> Result<Result<Vec<(String, String)>, Error>, Error> {
        let mut query = b"max-uploads=1000&prefix=".to_vec();
        encode_query(prefix, &mut query);
        query.extend_from_slice(b"&uploads=");
        let answer = self.exchange("GET", Subject::Bucket(&query), Body::Empty)?;
        if text_of(&answer.body, "Code") == b"NoSuchUpload" {
            // rclone says so where S3 gives an empty list.
            return Ok(Ok(Vec::new()));
        }
        let doing = format!("list the uploads in the bucket {}", self.bucket.name);
        let unread = || Error::Machine(format!("{doing}: the answer is no listing"), None);
        Ok(self.succeeded(&answer, &doing).and_then(|()| listing::read_uploads(&answer.body).ok_or_else(unread)))
    }

    /// Ends an upload without an object; one that is not there is no error.
    pub fn abort(&mut self, key: &str, upload: &str) -> Result<(), Error> {
        let mut query = b"uploadId=".to_vec();
        encode_query(upload, &mut query);
        let keys = Keys::listed(&[key.to_string()]);
        let answer = self.exchange("DELETE", Subject::Upload(&keys, 0, &query), Body::Empty)?;
        self.present(&answer, &format!("abort the upload of {key}")).map(drop)
    }

    /// Makes the bucket; whether it was not there before.
    pub fn make_bucket(&mut self) -> Result<bool, Error> {
        let answer = self.exchange("HEAD", Subject::Bucket(b""), Body::Empty)?;
        if (200..300).contains(&answer.status) {
            return Ok(false);
        }
        let answer = self.exchange("PUT", Subject::Bucket(b""), Body::Empty)?;
        let code = text_of(&answer.body, "Code");
        if code == b"BucketAlreadyOwnedByYou" {
            return Ok(false);
        }
        self.succeeded(&answer, &format!("make the bucket {}", self.bucket.name)).map(|()| true)
    }

    fn of_object(&mut self, method: &'static str, key: &str, body: Body<'_>) -> Result<Answer, Error> {
        let keys = Keys::listed(&[key.to_string()]);
        self.exchange(method, Subject::Object(&keys, 0), body)
    }

    /// Whether an answer is a success or says that the key is missing.
    fn present(&self, answer: &Answer, doing: &str) -> Result<bool, Error> {
        let missing_key = answer.status == 404 && text_of(&answer.body, "Code") != b"NoSuchBucket";
        if missing_key {
            return Ok(false);
        }
        self.succeeded(answer, doing).map(|()| true)
    }

    fn succeeded(&self, answer: &Answer, doing: &str) -> Result<(), Error> {
        let code = text_of(&answer.body, "Code");
        // Servers of Go and nginx answer plain HTTP at a port for TLS so.
        let is_plain = self.bucket.places.first().is_some_and(|place| place.security.is_none());
        if is_plain && answer.status == 400 && answer.body.windows(5).any(|text| text == b"HTTPS") {
            return Err(self.refusal(doing, Failure::Encrypted, b""));
        }
        Failure::of_response(answer.status, code).map_or(Ok(()), |failure| Err(self.refusal(doing, failure, code)))
    }

    /// One line for a failure. Of what the store wrote it has the code alone, because a message may repeat a signature.
    fn refusal(&self, doing: &str, failure: Failure, code: &[u8]) -> Error {
        let is_code = !code.is_empty() && code.len() <= 64 && code.iter().all(u8::is_ascii_alphanumeric);
        let code = if is_code { format!(" ({})", String::from_utf8_lossy(code)) } else { String::new() };
        let place = self.bucket.places.first().map_or("", |place| place.host.as_str());
        let error = Error::Machine(format!("{doing} at {place}: {}{code}", failure.says()), None);
        if failure.advice().is_empty() {
            error
        } else {
            error.also(failure.advice())
        }
    }

    /// Sends a request on a new connection, and receives the answer.
    fn exchange(&mut self, method: &'static str, subject: Subject<'_>, body: Body<'_>) -> Result<Answer, Error> {
        let until_ns = now_ns() + self.timeout.as_nanos() as u64;
        let (mut head, mut tail) = (Vec::with_capacity(self.writer.room()), Vec::new());
        let request = Request { method, subject, range: None, checksum: Checksum::Sha256, body };
        self.writer.write(&request, 0, &mut head, &mut tail);
        if let Body::Bytes(bytes) = body {
            head.extend_from_slice(bytes);
        }
        let Some(place) = self.bucket.places.first() else {
            return Err(Error::usage("the store has no endpoint"));
        };
        let mut line = Line::open(place, self.timeout, until_ns)?;
        let sent = send(&mut line, &head, until_ns);
        let received = sent.and_then(|until_ns| receive(&mut line, method == "HEAD", until_ns));
        received.map_err(|failure| {
            let refusal = self.refusal(&format!("{method} from the store"), failure, b"");
            if failure == Failure::Lost && place.security.is_none() {
                // versitygw ends a connection without a word that does not begin as TLS.
                return refusal.also("if the store uses TLS, use https:// in --endpoint");
            }
            refusal
        })
    }
}

/// Longest time until a connection is made, and until its handshake is over.
const LONGEST_CONNECT: Duration = Duration::from_secs(10);

/// How long a store may leave a handshake open until it is tried by plain HTTP, ns.
const SILENT_NS: u64 = 1_000_000_000;

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

/// A connection of one request.
struct Line {
    transport: Transport,
    buffer: Vec<u8>,
}

impl Line {
    /// Connects, by TLS where the place has it.
    fn open(place: &Place, timeout: Duration, until_ns: u64) -> Result<Self, Error> {
        let options = Options { nodelay: true, ..Options::default() };
        let timeout = timeout.min(LONGEST_CONNECT);
        let connected = net::connect(&place.address, &options, timeout);
        let unreached = |error: &io::Error| {
            let doing = format!("connect to the store at {}", place.url());
            Error::machine(doing, error).also(Failure::Unreachable.advice())
        };
        let stream = connected.map_err(|error| unreached(&error))?;
        let transport = Transport::new(stream, place.security.as_ref()).map_err(|error| unreached(&error))?;
        let mut line = Self { transport, buffer: vec![0; BUFFER] };
        let until_ns = until_ns.min(now_ns() + timeout.as_nanos() as u64);
        let mut silent_ns = now_ns() + SILENT_NS.min(timeout.as_nanos() as u64 / 2);
        loop {
            let mut left = left(until_ns).map_err(|_| {
                unreached(&ErrorKind::TimedOut.into()).also("check that it is the store's port for TLS")
            })?;
            // A server of plain HTTP waits for more of what it takes for a request.
            match silent_ns.saturating_sub(now_ns()) {
                0 if answers_plain_http(place, left.min(Duration::from_nanos(SILENT_NS))) => {
                    return Err(tls::refusal(&place.url(), &InvalidMessage::InvalidContentType.into()));
                }
                0 => silent_ns = u64::MAX,
                silent => left = left.min(Duration::from_nanos(silent)),
            }
            let stream = line.transport.stream();
            stream.set_read_timeout(Some(left)).map_err(|error| unreached(&error))?;
            stream.set_write_timeout(Some(left)).map_err(|error| unreached(&error))?;
            match line.transport.shake(&mut line.buffer) {
                Ok(()) => return Ok(line),
                Err(error) if is_passing(&error) => {}
                Err(error) => {
                    return Err(match line.transport.fault() {
                        Some(fault) => tls::refusal(&place.url(), fault),
                        None => unreached(&error).also("check that it is the store's port for TLS"),
                    });
                }
            }
        }
    }

    /// Receives to the end of some bytes; gives how many.
    fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let count = self.transport.read(&mut self.buffer)?;
        into.extend_from_slice(&self.buffer[..count]);
        Ok(count)
    }
}

/// Time that is left, at least a moment, because 0 would be without a limit.
fn left(until_ns: u64) -> Result<Duration, Failure> {
    match until_ns.saturating_sub(now_ns()) {
        0 => Err(Failure::Timeout),
        left => Ok(Duration::from_nanos(left.max(1_000_000))),
    }
}

/// Sends a request; gives the time until which its answer may come.
fn send(line: &mut Line, mut bytes: &[u8], until_ns: u64) -> Result<u64, Failure> {
    while !bytes.is_empty() || line.transport.is_sending() {
        line.transport.stream().set_write_timeout(Some(left(until_ns)?)).map_err(|_| Failure::Lost)?;
        match line.transport.write([bytes, b"", b""]) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_passing(&error) => {}
            // The store may have answered before it closed: then the answer is there.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                return Ok(until_ns.min(now_ns() + LAST_WORDS_NS));
            }
            Err(_) => return Err(Failure::Lost),
        }
    }
    Ok(until_ns)
}

fn receive(line: &mut Line, no_body: bool, until_ns: u64) -> Result<Answer, Failure> {
    let mut bytes = Vec::new();
    let mut read = |bytes: &mut Vec<u8>| -> Result<bool, Failure> {
        loop {
            line.transport.stream().set_read_timeout(Some(left(until_ns)?)).map_err(|_| Failure::Lost)?;
            match line.read(bytes) {
                Ok(count) => return Ok(count > 0),
                Err(error) if is_passing(&error) => {}
                Err(_) => return Err(Failure::Lost),
            }
        }
    };
    let mut interim = 0;
    let head: Head = loop {
        match parse(&bytes) {
            Parsed::Whole(head) if head.status < 200 && head.status != 101 && interim < MAX_INTERIM => {
                interim += 1;
                bytes.drain(..head.bytes);
            }
            Parsed::Whole(head) if head.status >= 200 => break head,
            Parsed::Partial => {
                if !read(&mut bytes)? {
                    return Err(if bytes.is_empty() { Failure::Lost } else { Failure::Malformed });
                }
            }
            _ if bytes.starts_with(TLS_ALERT) => return Err(Failure::Encrypted),
            _ => return Err(Failure::Malformed),
        }
    };
    bytes.drain(..head.bytes);
    let length = match head.length {
        Length::Bytes(length) => Some(length),
        _ => None,
    };
    if no_body || matches!(head.status, 204 | 304) {
        return Ok(Answer { status: head.status, length, body: Vec::new() });
    }
    let mut chunks = Chunks::new(0);
    let mut fed = 0;
    loop {
        if bytes.len() > MAX_BODY {
            return Err(Failure::Length);
        }
        let is_over = match head.length {
            Length::Bytes(length) => bytes.len() as u64 >= length,
            Length::Open => false,
            Length::Chunks => {
                let progress = chunks.take(&bytes[fed..]);
                fed = bytes.len();
                if progress == Progress::Wrong {
                    return Err(Failure::Malformed);
                }
                progress == Progress::Over
            }
        };
        if is_over {
            break;
        }
        if !read(&mut bytes)? {
            if head.length == Length::Open {
                break;
            }
            return Err(Failure::Lost);
        }
    }
    let body = match head.length {
        Length::Bytes(length) => bytes[..length as usize].to_vec(),
        Length::Open => bytes,
        Length::Chunks => {
            chunks.spans().iter().flat_map(|span| &bytes[span.0 as usize..span.1 as usize]).copied().collect()
        }
    };
    Ok(Answer { status: head.status, length, body })
}
