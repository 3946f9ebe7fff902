//! Writes the heads of requests, signed, into a buffer that is there.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::object::checksum::Text;
use crate::object::keys::{encode_query, write_number, Keys};
use crate::object::options::{Bucket, Checksum, Style};
use crate::object::payload::Payload;
use crate::object::signing::{hexadecimal, Canonical, Signer, Stamp, EMPTY_HASH};

/// Bytes of a head besides its key, its host and what identifies the signer.
const HEAD_ROOM: usize = 1024;
/// Headers of a request that are signed, at most.
const MAX_SIGNED: usize = 10;
const UNSIGNED: &[u8] = b"UNSIGNED-PAYLOAD";
const TRAILER: &[u8] = b"STREAMING-UNSIGNED-PAYLOAD-TRAILER";

/// What a request is about.
#[derive(Clone, Copy)]
pub enum Subject<'a> {
    /// The object of this number.
    Object(&'a Keys, u64),
    /// Likewise, with this query, encoded and sorted.
    Upload(&'a Keys, u64, &'a [u8]),
    /// The bucket, with this query.
    Bucket(&'a [u8]),
}

/// A request to be written.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// `GET`, `PUT` …
    pub method: &'static str,
    /// What it is about.
    pub subject: Subject<'a>,
    /// First and last byte of a range.
    pub range: Option<(u64, u64)>,
    /// What protects the body; a read asks for the store's checksum.
    pub checksum: Checksum,
    /// The body.
    pub body: Body<'a>,
}

/// The body of a request.
#[derive(Clone, Copy)]
pub enum Body<'a> {
    /// None.
    Empty,
    /// A made object: its number and length.
    Object(&'a Payload, u64, u64),
    /// These bytes, whose SHA-256 is signed.
    Bytes(&'a [u8]),
    /// These bytes, unsigned.
    Unsigned(&'a [u8]),
}

impl Body<'_> {
    /// Its bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Object(_, _, bytes) => *bytes,
            Self::Bytes(bytes) | Self::Unsigned(bytes) => bytes.len() as u64,
        }
    }

    fn sha256(&self) -> [u8; 64] {
        match self {
            Self::Empty => *EMPTY_HASH,
            Self::Object(payload, object, bytes) => hexadecimal(&payload.sha256(*object, *bytes)),
            Self::Bytes(bytes) | Self::Unsigned(bytes) => hexadecimal(&crate::object::signing::hash(&[bytes])),
        }
    }
}

/// Writes requests to a bucket. It allocates when it is made, and never again.
pub struct Writer {
    bucket: Bucket,
    signer: Signer,
    token: Vec<u8>,
    path: Vec<u8>,
    range: Vec<u8>,
    length: Vec<u8>,
}

impl Writer {
    /// One for a bucket.
    #[must_use]
    pub fn new(bucket: Bucket, signer: Signer) -> Self {
        let (path, range, length) = (Vec::with_capacity(4096), Vec::with_capacity(64), Vec::with_capacity(32));
        Self { bucket, token: signer.token().to_vec(), signer, path, range, length }
    }

    /// Bytes that a head takes at most.
    #[must_use]
    pub fn room(&self) -> usize {
        let host = self.bucket.places.iter().map(|place| place.host.len()).max().unwrap_or(0);
        4096 + HEAD_ROOM + host + self.signer.length()
    }

    /// Writes a head, and what comes before and after the body where that is in a chunk.
    pub fn write(&mut self, request: &Request<'_>, place: usize, head: &mut Vec<u8>, tail: &mut Vec<u8>) {
        head.clear();
        tail.clear();
        self.write_path(request);
        let Self { bucket, signer, token, path, range, length } = self;
        let query = match request.subject {
            Subject::Bucket(query) | Subject::Upload(_, _, query) => query,
            Subject::Object(..) => b"",
        };
        let bytes = request.body.length();
        let kind = request.checksum.kind();
        let in_trailer = kind.is_some() && matches!(request.body, Body::Object(..));
        let hash;
        let payload: &[u8] = match (&request.body, request.checksum) {
            (Body::Empty, _) => EMPTY_HASH,
            _ if in_trailer => TRAILER,
            (Body::Object(..), Checksum::Nothing) | (Body::Unsigned(_), _) => UNSIGNED,
            _ => {
                hash = request.body.sha256();
                &hash
            }
        };
        let stamp = now();
        length.clear();
        write_number(bytes, length);
        range.clear();
        if let Some((first, last)) = request.range {
            range.extend_from_slice(b"bytes=");
            write_number(first, range);
            range.push(b'-');
            write_number(last, range);
        }
        let host = bucket.places[place % bucket.places.len()].host.as_bytes();
        let has_no_body = kind.is_some() && matches!(request.body, Body::Empty);
        let (reads_sum, begins_upload) =
            (has_no_body && request.method != "POST", has_no_body && request.method == "POST");
        // In the order of their names, as they are signed.
        let candidates: [(bool, &str, &[u8]); MAX_SIGNED] = [
            (in_trailer, "content-encoding", b"aws-chunked"),
            (true, "host", host),
            (request.range.is_some(), "range", range),
            (begins_upload, "x-amz-checksum-algorithm", kind.map_or(b"", |kind| kind.algorithm.as_bytes())),
            (reads_sum, "x-amz-checksum-mode", b"ENABLED"),
            (true, "x-amz-content-sha256", payload),
            (true, "x-amz-date", stamp.text()),
            (in_trailer, "x-amz-decoded-content-length", length),
            (!token.is_empty(), "x-amz-security-token", token),
            (in_trailer, "x-amz-trailer", kind.map_or(b"", |kind| kind.header.as_bytes())),
        ];
        let mut signed: [(&str, &[u8]); MAX_SIGNED] = [("", &[]); MAX_SIGNED];
        let mut count = 0;
        for (_, name, value) in candidates.into_iter().filter(|candidate| candidate.0) {
            signed[count] = (name, value);
            count += 1;
        }
        let signed = &signed[..count];
        write_line(head, request.method, path, query);
        for (name, value) in signed {
            write_header(head, name, value);
        }
        head.extend_from_slice(b"authorization: ");
        let canonical = Canonical { method: request.method, path, query, headers: signed, payload };
        signer.authorize(head, &canonical, &stamp);
        head.extend_from_slice(b"\r\n");
        if let (Some(kind), Body::Object(payload, object, bytes)) = (kind, request.body) {
            let text = payload.checksum(request.checksum, object, bytes);
            write_chunk(kind.header, &text, bytes, head, tail);
        } else {
            if matches!(request.method, "PUT" | "POST") {
                write_header(head, "content-length", length);
            }
            head.extend_from_slice(b"\r\n");
        }
    }

    fn write_path(&mut self, request: &Request<'_>) {
        self.path.clear();
        self.path.push(b'/');
        if self.bucket.style == Style::Path {
            self.path.extend_from_slice(self.bucket.name.as_bytes());
        }
        if let Subject::Object(keys, object) | Subject::Upload(keys, object, _) = request.subject {
            if self.bucket.style == Style::Path {
                self.path.push(b'/');
            }
            keys.write(object, &mut self.path);
        }
    }
}

/// The query of a listing.
#[must_use]
pub fn listing_query(prefix: &str, delimiter: &str, token: &str, max_keys: u64) -> Vec<u8> {
    let mut query = Vec::new();
    for (name, value) in [("continuation-token", token), ("delimiter", delimiter)] {
        if !value.is_empty() {
            query.extend_from_slice(name.as_bytes());
            query.push(b'=');
            encode_query(value, &mut query);
            query.push(b'&');
        }
    }
    query.extend_from_slice(b"list-type=2&max-keys=");
    write_number(max_keys, &mut query);
    query.extend_from_slice(b"&prefix=");
    encode_query(prefix, &mut query);
    query
}

fn write_line(head: &mut Vec<u8>, method: &str, path: &[u8], query: &[u8]) {
    head.extend_from_slice(method.as_bytes());
    head.push(b' ');
    head.extend_from_slice(path);
    if !query.is_empty() {
        head.push(b'?');
        head.extend_from_slice(query);
    }
    head.extend_from_slice(b" HTTP/1.1\r\n");
}

fn write_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    head.extend_from_slice(name.as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value);
    head.extend_from_slice(b"\r\n");
}

/// Ends a head whose body is one chunk with a trailer, begins that chunk, and writes what follows it.
fn write_chunk(name: &str, text: &Text, bytes: u64, head: &mut Vec<u8>, tail: &mut Vec<u8>) {
    let mut size = [0; 16];
    let mut at = size.len();
    let mut left = bytes;
    while left > 0 {
        at -= 1;
        size[at] = b"0123456789abcdef"[(left & 15) as usize];
        left >>= 4;
    }
    if bytes > 0 {
        tail.extend_from_slice(b"\r\n");
    }
    for part in [b"0\r\n", name.as_bytes(), b":", text.as_bytes()] {
        tail.extend_from_slice(part);
    }
    tail.extend_from_slice(b"\r\n\r\n");
    let before = if bytes > 0 { size.len() - at + 2 } else { 0 };
    head.extend_from_slice(b"content-length: ");
    write_number(before as u64 + bytes + tail.len() as u64, head);
    head.extend_from_slice(b"\r\n\r\n");
    if bytes > 0 {
        head.extend_from_slice(&size[at..]);
        head.extend_from_slice(b"\r\n");
    }
}

/// This second by the system's clock.
fn now() -> Stamp {
    Stamp::of(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}
