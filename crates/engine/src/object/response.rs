//! The head of an HTTP/1.1 response (RFC 9112), read without a copy.

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
    /// The object's CRC32C, where the store states it.
    pub crc32c: Option<u32>,
}

/// How far a head is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    let (mut length, mut chunked, mut closes, mut crc32c) = (None, false, version == b'0', None);
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
        } else if name.eq_ignore_ascii_case(b"x-amz-checksum-crc32c") {
            crc32c = from_base64(value);
        }
    }
    let length = match (length, chunked) {
        (Some(_), true) => return None,
        (Some(bytes), false) => Length::Bytes(bytes),
        (None, true) => Length::Chunks,
        (None, false) => Length::Open,
    };
    Some(Head { status, bytes, length, closes: closes || length == Length::Open, crc32c })
}

/// A whole number of decimal digits alone.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A checksum of four bytes in base64: eight characters, of which the last two fill up.
#[must_use]
pub fn to_base64(sum: u32) -> [u8; 8] {
    let bits = u64::from(sum) << 4;
    let mut text = *b"========";
    for (at, place) in text.iter_mut().take(6).enumerate() {
        *place = ALPHABET[(bits >> (30 - 6 * at) & 63) as usize];
    }
    text
}

fn from_base64(text: &[u8]) -> Option<u32> {
    let (digits, fill) = text.split_at_checked(6)?;
    let mut bits = 0_u64;
    for digit in digits {
        bits = bits << 6 | ALPHABET.iter().position(|known| known == digit)? as u64;
    }
    (fill == b"==").then_some((bits >> 4) as u32)
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

    #[test]
    fn checksums_are_written_and_read_in_base64() {
        // CRC32C of "123456789" (RFC 3720, appendix B.4, and the catalogue of CRCs).
        assert_eq!(&to_base64(0xe306_9283), b"4waSgw==");
        for sum in [0, 1, 0xe306_9283, u32::MAX] {
            assert_eq!(from_base64(&to_base64(sum)), Some(sum));
        }
        assert_eq!(from_base64(b"4waSg==="), None);
        assert_eq!(from_base64(b"short"), None);
    }
}
