//! The keys of objects as a request's path has them: encoded once, with the number of the object behind.

use crate::contract::kernel::Error;

/// Digits of an object's number in its key.
const DIGITS: usize = 8;
/// Bytes of a key (Amazon S3's limit).
const MAX_KEY: usize = 1024;

/// Encodes what a path has of a key (RFC 3986): everything but unreserved characters and slashes.
pub fn encode_path(key: &str, into: &mut Vec<u8>) {
    encode(key, b"-._~/", into);
}

/// Encodes the value of a query, slashes included.
pub fn encode_query(value: &str, into: &mut Vec<u8>) {
    encode(value, b"-._~", into);
}

fn encode(text: &str, plain: &[u8], into: &mut Vec<u8>) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            into.push(byte);
        } else {
            let digit =
                |bits: u8| char::from_digit(u32::from(bits), 16).map_or(b'0', |digit| digit.to_ascii_uppercase() as u8);
            into.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

/// Appends a number's decimal digits.
pub fn write_number(number: u64, into: &mut Vec<u8>) {
    write_digits(number, 1, into);
}

fn write_digits(mut number: u64, least: usize, into: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    while number > 0 || digits.len() - at < least {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    into.extend_from_slice(&digits[at..]);
}

/// The keys of some objects, by number.
#[derive(Debug, Clone)]
pub enum Keys {
    /// A prefix, encoded, and the number.
    Numbered(Vec<u8>),
    /// Any keys, encoded.
    Listed(Vec<Vec<u8>>),
}

impl Keys {
    /// Those that begin with a prefix.
    ///
    /// # Errors
    /// Usage: the prefix leaves no room for a number.
    pub fn numbered(prefix: &str) -> Result<Self, Error> {
        if prefix.len() + DIGITS > MAX_KEY {
            return Err(Error::usage(format!("prefix: a key has at most {MAX_KEY} bytes; use a shorter one")));
        }
        let mut encoded = Vec::new();
        encode_path(prefix, &mut encoded);
        Ok(Self::Numbered(encoded))
    }

    /// Those in a listing.
    #[must_use]
    pub fn listed(keys: &[String]) -> Self {
        let encode_key = |key: &String| {
            let mut encoded = Vec::new();
            encode_path(key, &mut encoded);
            encoded
        };
        Self::Listed(keys.iter().map(encode_key).collect())
    }

    /// Appends the key of an object.
    pub fn write(&self, object: u64, into: &mut Vec<u8>) {
        match self {
            Self::Numbered(prefix) => {
                into.extend_from_slice(prefix);
                write_digits(object, DIGITS, into);
            }
            Self::Listed(keys) => into.extend_from_slice(keys.get(object as usize).map_or(&b""[..], Vec::as_slice)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_as_signatures_need() {
        let mut into = Vec::new();
        encode_path("a/ü b+~%.txt", &mut into);
        into.push(b' ');
        encode_query("a/b=", &mut into);
        assert_eq!(into, b"a/%C3%BC%20b%2B~%25.txt a%2Fb%3D");
        let mut key = Vec::new();
        Keys::numbered("p $/").unwrap().write(1234, &mut key);
        Keys::numbered("").unwrap().write(123_456_789, &mut key);
        assert_eq!(key, b"p%20%24/00001234123456789");
        let listed = Keys::listed(&["a b".into()]);
        listed.write(0, &mut key);
        listed.write(7, &mut key);
        assert!(key.ends_with(b"a%20b"));
        assert!(Keys::numbered(&"x".repeat(1020)).is_err());
    }

    #[test]
    fn numbers_have_their_digits() {
        let mut into = Vec::new();
        for number in [0, 7, u64::MAX] {
            write_number(number, &mut into);
            into.push(b' ');
        }
        assert_eq!(into, b"0 7 18446744073709551615 ");
    }
}
