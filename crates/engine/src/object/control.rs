//! Single requests outside of a timed region: each with one deadline, a bounded body, and one line for what went wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::contract::kernel::Error;
use crate::network::chunks::{Chunks, Progress};
use crate::object::exchange::LAST_WORDS_NS;
use crate::object::failure::{text_of, Failure};
use crate::object::keys::Keys;
use crate::object::listing::{self, Page};
use crate::object::options::{Bucket, Checksum};
use crate::object::request::{listing_query, Body, Request, Subject, Writer};
use crate::object::response::{parse, Head, Length, Parsed};
use crate::object::signing::Signer;
use crate::sys::net::{self, Options};
use crate::timing::clock::now_ns;

/// Bytes of a body that are kept: a page of a listing has less than 2 MB.
const MAX_BODY: usize = 8 << 20;
/// Interim responses before a final one.
const MAX_INTERIM: u32 = 8;

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
        let Some(place) = self.bucket.places.first() else { return Err(Error::usage("the store has no endpoint")) };
        let options = Options { nodelay: true, ..Options::default() };
        let connected = net::connect(&place.address, &options, self.timeout.min(Duration::from_secs(10)));
        let doing = format!("connect to the store at http://{}", place.host);
        let stream = connected.map_err(|error| Error::machine(doing, &error).also(Failure::Unreachable.advice()))?;
        let received = send(&stream, &head, until_ns).and_then(|until_ns| receive(&stream, method == "HEAD", until_ns));
        received.map_err(|failure| self.refusal(&format!("{method} from the store"), failure, b""))
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
fn send(mut stream: &TcpStream, mut bytes: &[u8], until_ns: u64) -> Result<u64, Failure> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until_ns)?)).map_err(|_| Failure::Lost)?;
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted || error.kind() == ErrorKind::WouldBlock => {}
            // The store may have answered before it closed: then the answer is there.
            Err(error) if matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                return Ok(until_ns.min(now_ns() + LAST_WORDS_NS));
            }
            Err(_) => return Err(Failure::Lost),
        }
    }
    Ok(until_ns)
}

fn receive(mut stream: &TcpStream, no_body: bool, until_ns: u64) -> Result<Answer, Failure> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; 64 << 10];
    let mut read = |bytes: &mut Vec<u8>| -> Result<bool, Failure> {
        loop {
            stream.set_read_timeout(Some(left(until_ns)?)).map_err(|_| Failure::Lost)?;
            match stream.read(&mut piece) {
                Ok(count) => {
                    bytes.extend_from_slice(&piece[..count]);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted || error.kind() == ErrorKind::WouldBlock => {}
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
