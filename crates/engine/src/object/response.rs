//! The head of an HTTP/1.1 response (RFC 9112), read without a copy.

use crate::object::checksum::Stated;

/// Bytes of a head; AWS's have about 500.
pub const MAX_HEAD: usize = 16 << 10;
const END: &[u8] = b"\r\n\r\n";

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// This many bytes.
    Bytes(u64),
    /// The sum of its chunks.
    Chunks,
    /// All until the connection ends.
    Open,
}

/// Characters of an `ETag` that are kept; S3's have 34 to 40.
const MAX_ETAG: usize = 64;

/// An `ETag` with its quotes; empty where it is none or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Etag {
    characters: [u8; MAX_ETAG],
    length: u8,
}

impl Default for Etag {
    fn default() -> Self {
        Self { characters: [0; MAX_ETAG], length: 0 }
    }
}

impl Etag {
    fn of(value: &[u8]) -> Self {
        let mut etag = Self::default();
        if value.len() <= MAX_ETAG {
            etag.characters[..value.len()].copy_from_slice(value);
            etag.length = value.len() as u8;
        }
        etag
    }

    /// Its characters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.characters[..usize::from(self.length)]
    }
}

/// What a head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its status, 100 to 599.
    pub status: u16,
    /// Its own bytes, with the empty line.
    pub bytes: usize,
    /// The body's length.
    pub length: Length,
    /// Whether the connection ends after it.
    pub closes: bool,
    /// Its `ETag`; empty where there is none.
    pub etag: Etag,
    /// The object's checksums, where the store states them.
    pub stated: Stated,
}

/// How far a head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one is on the stack at a time, and a box would be an allocation")]
pub enum Parsed {
    /// It has no end yet.
    Partial,
    /// It is whole.
    Whole(Head),
    /// It is no head, or too long.
    Wrong,
}

/// Reads the head at the beginning of some bytes.
#[must_use]
pub fn parse(bytes: &[u8]) -> Parsed {
    let begin = &bytes[..bytes.len().min(7)];
    if !b"HTTP/1.".starts_with(begin) && begin != b"HTTP/1." {
        return Parsed::Wrong;
    }
    let searched = &bytes[..bytes.len().min(MAX_HEAD)];
    let Some(end) = searched.windows(END.len()).position(|four| four == END) else {
        return if bytes.len() < MAX_HEAD { Parsed::Partial } else { Parsed::Wrong };
    };
    whole(&bytes[..end], end + END.len()).map_or(Parsed::Wrong, Parsed::Whole)
}

fn whole(head: &[u8], bytes: usize) -> Option<Head> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let status_line = lines.next()?;
    let digits = status_line.get(8..12)?;
    let version = *status_line.get(7)?;
    if digits[0] != b' ' || !version.is_ascii_digit() {
        return None;
    }
    let status = number(&digits[1..])? as u16;
    if !(100..=599).contains(&status) || !matches!(status_line.get(12), None | Some(b' ')) {
        return None;
    }
    let (mut length, mut chunked, mut closes, mut stated) = (None, false, version == b'0', Stated::default());
    let mut etag = Etag::default();
    for line in lines {
        let at = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = (&line[..at], line[at + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            let bytes = number(value)?;
            // Two lengths that differ are a mistake or an attack.
            if length.replace(bytes).is_some_and(|before| before != bytes) {
                return None;
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = value.eq_ignore_ascii_case(b"chunked").then_some(true)?;
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes |= value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case(b"etag") {
            etag = Etag::of(value);
        } else {
            stated.take(name, value);
        }
    }
    let length = match (length, chunked) {
        (Some(_), true) => return None,
        (Some(bytes), false) => Length::Bytes(bytes),
        (None, true) => Length::Chunks,
        (None, false) => Length::Open,
    };
    Some(Head { status, bytes, length, closes: closes || length == Length::Open, etag, stated })
}

/// Leaves of a body the data of its chunks, where it has chunks.
pub fn join(body: &mut Vec<u8>, spans: &[(u64, u64)]) {
    let mut length = 0;
    for &(from, end) in spans {
        let (from, end) = (from as usize, (end as usize).min(body.len()));
        if from < end {
            body.copy_within(from..end, length);
            length += end - from;
        }
    }
    if !spans.is_empty() {
        body.truncate(length);
    }
}

/// A whole number of decimal digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Option<Head> {
        match parse(text.as_bytes()) {
            Parsed::Whole(head) => Some(head),
            _ => None,
        }
    }

    #[test]
    fn a_head_states_its_body() {
        let found =
            head("HTTP/1.1 206 Partial Content\r\nContent-Length: 10\r\nETag: \"x\"\r\n\r\n0123456789").unwrap();
        assert_eq!((found.status, found.length, found.closes), (206, Length::Bytes(10), false));
        assert_eq!(found.bytes, 63);
        let chunked = head("HTTP/1.1 200\r\ntransfer-encoding: Chunked\r\nconnection: close\r\n\r\n").unwrap();
        assert_eq!((chunked.length, chunked.closes), (Length::Chunks, true));
        assert_eq!(head("HTTP/1.0 200 OK\r\n\r\n").unwrap().length, Length::Open);
    }

    #[test]
    fn what_is_no_head_is_wrong_at_once() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 99 x\r\n\r\n",
            "HTTP/1.1 2000 x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n",
        ] {
            assert_eq!(parse(text.as_bytes()), Parsed::Wrong, "{text}");
        }
        for text in ["", "HTT", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nx: y\r\n\r"] {
            assert_eq!(parse(text.as_bytes()), Parsed::Partial, "{text}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(MAX_HEAD));
        assert_eq!(parse(endless.as_bytes()), Parsed::Wrong);
    }
}
