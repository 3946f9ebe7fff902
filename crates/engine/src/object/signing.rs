//! Signatures of AWS, version 4, made piece by piece: nothing is allocated, and no canonical text is put together.

use sha2::{Digest, Sha256};

use crate::object::credentials::Credentials;

/// Bytes of a SHA-256.
const HASH: usize = 32;
/// Bytes of a block of SHA-256.
const BLOCK: usize = 64;
/// SHA-256 of nothing, in hexadecimal digits.
pub const EMPTY_HASH: &[u8; 64] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// HMAC-SHA-256 with a key whose two blocks are hashed already (RFC 2104).
#[derive(Clone)]
struct Hmac {
    inner: Sha256,
    outer: Sha256,
}

impl Hmac {
    fn new(parts: &[&[u8]]) -> Self {
        let mut block = [0; BLOCK];
        if parts.iter().map(|part| part.len()).sum::<usize>() > BLOCK {
            block[..HASH].copy_from_slice(&hash(parts));
        } else {
            let mut at = 0;
            for part in parts {
                block[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        let begin = |pad: u8| {
            let padded = block.map(|byte| byte ^ pad);
            Sha256::new().chain_update(padded)
        };
        Self { inner: begin(0x36), outer: begin(0x5c) }
    }

    fn sign(&self, parts: &[&[u8]]) -> [u8; HASH] {
        let mut inner = self.inner.clone();
        for part in parts {
            inner.update(part);
        }
        self.outer.clone().chain_update(inner.finalize()).finalize().into()
    }
}

/// SHA-256 of some parts as one text.
#[must_use]
pub fn hash(parts: &[&[u8]]) -> [u8; HASH] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Its hexadecimal digits.
#[must_use]
pub fn hexadecimal(bytes: &[u8; HASH]) -> [u8; 64] {
    let mut digits = [0; 64];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        (pair[0], pair[1]) = (DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]);
    }
    digits
}

/// A moment as signatures write it: `20130524T000000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    text: [u8; 16],
}

impl Stamp {
    /// The moment this many seconds after 1970 began.
    #[must_use]
    pub fn of(second: u64) -> Self {
        // Days to a date of the Gregorian calendar, by eras of 400 years that begin in March (Hinnant, `civil_from_days`).
        let days = second / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let clock = second % 86_400;
        let mut text = *b"00000000T000000Z";
        let mut write = |at: usize, width: usize, mut number: u64| {
            for place in (at..at + width).rev() {
                text[place] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        write(0, 4, year);
        write(4, 2, month);
        write(6, 2, day);
        write(9, 2, clock / 3600);
        write(11, 2, clock / 60 % 60);
        write(13, 2, clock % 60);
        Self { text }
    }

    /// Its 16 characters.
    #[must_use]
    pub fn text(&self) -> &[u8; 16] {
        &self.text
    }

    fn day(&self) -> &[u8] {
        &self.text[..8]
    }
}

/// What is signed of a request.
pub struct Canonical<'a> {
    /// `GET`, `PUT` …
    pub method: &'a str,
    /// The path, encoded.
    pub path: &'a [u8],
    /// The query, encoded and sorted by name; empty for none.
    pub query: &'a [u8],
    /// Names in lower case, sorted, and their values.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// What `x-amz-content-sha256` says.
    pub payload: &'a [u8],
}

/// Signs the requests of one key in one region.
pub struct Signer {
    credentials: Credentials,
    day: [u8; 8],
    key: Hmac,
}

impl Signer {
    /// One that signs as these credentials.
    #[must_use]
    pub fn new(credentials: Credentials) -> Self {
        let key = Hmac::new(&[]);
        Self { credentials, day: [0; 8], key }
    }

    /// The session's token, which is a header that is signed; empty for none.
    #[must_use]
    pub fn token(&self) -> &[u8] {
        self.credentials.token.reveal().as_bytes()
    }

    /// Bytes that a request's head needs at most for what identifies the signer.
    #[must_use]
    pub fn length(&self) -> usize {
        let Credentials { access_key, token, region, .. } = &self.credentials;
        access_key.reveal().len() + token.reveal().len() + region.len()
    }

    /// Appends the value of `Authorization`.
    pub fn authorize(&mut self, into: &mut Vec<u8>, request: &Canonical<'_>, stamp: &Stamp) {
        self.turn_to(stamp);
        let mut canonical = Sha256::new();
        for part in [request.method.as_bytes(), b"\n", request.path, b"\n", request.query, b"\n"] {
            canonical.update(part);
        }
        for (name, value) in request.headers {
            canonical.update(name);
            canonical.update(b":");
            canonical.update(value);
            canonical.update(b"\n");
        }
        canonical.update(b"\n");
        for (at, (name, _)) in request.headers.iter().enumerate() {
            canonical.update(if at == 0 { "" } else { ";" });
            canonical.update(name);
        }
        canonical.update(b"\n");
        canonical.update(request.payload);
        let canonical = hexadecimal(&canonical.finalize().into());
        let region = self.credentials.region.as_bytes();
        let signature = self.key.sign(&[
            b"AWS4-HMAC-SHA256\n",
            stamp.text(),
            b"\n",
            stamp.day(),
            b"/",
            region,
            b"/s3/aws4_request\n",
            &canonical,
        ]);
        into.extend_from_slice(b"AWS4-HMAC-SHA256 Credential=");
        into.extend_from_slice(self.credentials.access_key.reveal().as_bytes());
        for part in [b"/", stamp.day(), b"/", region, b"/s3/aws4_request, SignedHeaders="] {
            into.extend_from_slice(part);
        }
        for (at, (name, _)) in request.headers.iter().enumerate() {
            into.extend_from_slice(if at == 0 { b"" } else { b";" });
            into.extend_from_slice(name.as_bytes());
        }
        into.extend_from_slice(b", Signature=");
        into.extend_from_slice(&hexadecimal(&signature));
    }

    /// Derives the day's key, where the day is another one.
    fn turn_to(&mut self, stamp: &Stamp) {
        if self.day == *stamp.day() {
            return;
        }
        self.day.copy_from_slice(stamp.day());
        let secret = self.credentials.secret_key.reveal().as_bytes();
        let mut key = Hmac::new(&[b"AWS4", secret]);
        for part in [stamp.day(), self.credentials.region.as_bytes(), b"s3", b"aws4_request"] {
            key = Hmac::new(&[&key.sign(&[part])]);
        }
        self.key = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS, "Signature calculations: transferring payload in a single chunk", its examples of Amazon S3.
    const DAY: u64 = 1_369_353_600;

    fn signer() -> Signer {
        let found = crate::object::credentials::read_section(
            "[a]\nk=AKIAIOSFODNN7EXAMPLE\ns=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "a",
        );
        Signer::new(Credentials::of_texts(&found["k"], &found["s"], "us-east-1"))
    }

    fn signature(method: &str, path: &str, query: &str, headers: &[(&str, &str)], payload: &[u8]) -> String {
        let mut into = Vec::new();
        let mut bytes: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let stamp = Stamp::of(DAY);
        bytes.push(("host", b"examplebucket.s3.amazonaws.com"));
        bytes.push(("x-amz-content-sha256", payload));
        bytes.push(("x-amz-date", stamp.text()));
        bytes.sort_unstable();
        let canonical = Canonical { method, path: path.as_bytes(), query: query.as_bytes(), headers: &bytes, payload };
        signer().authorize(&mut into, &canonical, &stamp);
        let text = String::from_utf8(into).unwrap();
        assert!(text.contains("Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "), "{text}");
        text.rsplit_once("Signature=").unwrap().1.to_string()
    }

    #[test]
    fn examples_of_aws_have_their_signatures() {
        let get = signature("GET", "/test.txt", "", &[("range", "bytes=0-9")], EMPTY_HASH);
        assert_eq!(get, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        let hash = hexadecimal(&hash(&[b"Welcome to ", b"Amazon S3."]));
        let headers = [("date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        let put = signature("PUT", "/test%24file.text", "", &headers, &hash);
        assert_eq!(put, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
        let lifecycle = signature("GET", "/", "lifecycle=", &[], EMPTY_HASH);
        assert_eq!(lifecycle, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        let list = signature("GET", "/", "max-keys=2&prefix=J", &[], EMPTY_HASH);
        assert_eq!(list, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    }

    #[test]
    fn keyed_hashes_are_those_of_rfc_4231() {
        let of =
            |key: &[u8], data: &[u8]| String::from_utf8(hexadecimal(&Hmac::new(&[key]).sign(&[data])).into()).unwrap();
        assert_eq!(
            of(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            of(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn moments_are_dates_of_the_calendar() {
        for (second, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (DAY, "20130524T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(Stamp::of(second).text(), text.as_bytes());
        }
    }
}
