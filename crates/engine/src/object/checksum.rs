//! The checksums of bodies: those that follow a body in its trailer, and those that a store states of an object.

use crc64fast_nvme::Digest as Crc64Nvme;
use sha2::{Digest, Sha256};

use crate::object::options::Checksum;

/// Characters of the longest one, of SHA-256.
const MAX_TEXT: usize = 44;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A kind that a trailer carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The header's name.
    pub header: &'static str,
    /// The word of `x-amz-checksum-algorithm`.
    pub algorithm: &'static str,
    /// The element in the parts of a multipart upload.
    pub element: &'static str,
    /// Characters in base64.
    length: usize,
}

/// All kinds, in the order of [`Stated`].
pub const KINDS: [Kind; 3] = [
    Kind { header: "x-amz-checksum-crc32c", algorithm: "CRC32C", element: "ChecksumCRC32C", length: 8 },
    Kind { header: "x-amz-checksum-crc64nvme", algorithm: "CRC64NVME", element: "ChecksumCRC64NVME", length: 12 },
    Kind { header: "x-amz-checksum-sha256", algorithm: "SHA256", element: "ChecksumSHA256", length: MAX_TEXT },
];

impl Checksum {
    /// The kind that its trailer has; none where there is no trailer.
    #[must_use]
    pub fn kind(self) -> Option<&'static Kind> {
        let number = match self {
            Self::Nothing | Self::Sha256 => return None,
            Self::Crc32c => 0,
            Self::Crc64Nvme => 1,
            Self::Sha256Trailer => 2,
        };
        Some(&KINDS[number])
    }
}

/// A checksum in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    characters: [u8; MAX_TEXT],
    length: u8,
}

impl Text {
    /// The text of a checksum's bytes.
    fn of(bytes: &[u8]) -> Self {
        let mut text = Self { characters: [b'='; MAX_TEXT], length: (bytes.len().div_ceil(3) * 4) as u8 };
        for (three, four) in bytes.chunks(3).zip(text.characters.chunks_exact_mut(4)) {
            let bits = three.iter().fold(0, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - three.len()));
            for (at, place) in four.iter_mut().take(three.len() + 1).enumerate() {
                *place = ALPHABET[bits >> (18 - 6 * at) & 63];
            }
        }
        text
    }

    /// Its characters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.characters[..usize::from(self.length)]
    }
}

/// What the head of a response states of an object: a checksum of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stated([Option<Text>; 3]);

impl Stated {
    /// Takes a header, if it is a checksum's. That of a multipart object made of its parts' (`…-3`) is none of its bytes.
    pub fn take(&mut self, name: &[u8], value: &[u8]) {
        let known = KINDS.iter().zip(&mut self.0).find(|(kind, _)| name.eq_ignore_ascii_case(kind.header.as_bytes()));
        if let Some((kind, place)) = known {
            if value.len() == kind.length {
                let mut text = Text { characters: [b'='; MAX_TEXT], length: kind.length as u8 };
                text.characters[..value.len()].copy_from_slice(value);
                *place = Some(text);
            }
        }
    }

    /// That of a kind, where the store states it.
    #[must_use]
    pub fn of(&self, kind: &Kind) -> Option<Text> {
        KINDS.iter().zip(self.0).find(|(known, _)| *known == kind)?.1
    }
}

/// A checksum that goes on over some bytes.
#[derive(Clone)]
pub enum Sum {
    /// None.
    Nothing,
    /// CRC32C.
    Crc32c(u32),
    /// CRC64NVME.
    Crc64Nvme(Crc64Nvme),
    /// SHA-256.
    Sha256(Sha256),
}

impl Sum {
    /// A checksum of no bytes yet.
    #[must_use]
    pub fn new(checksum: Checksum) -> Self {
        match checksum {
            Checksum::Nothing | Checksum::Sha256 => Self::Nothing,
            Checksum::Crc32c => Self::Crc32c(0),
            Checksum::Crc64Nvme => Self::Crc64Nvme(Crc64Nvme::new()),
            Checksum::Sha256Trailer => Self::Sha256(Sha256::new()),
        }
    }

    /// Goes on over more bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Self::Nothing => {}
            Self::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Self::Crc64Nvme(sum) => sum.write(bytes),
            Self::Sha256(sum) => sum.update(bytes),
        }
    }

    /// What it is now.
    #[must_use]
    pub fn text(&self) -> Text {
        match self {
            Self::Nothing => Text::of(&[]),
            Self::Crc32c(sum) => Text::of(&sum.to_be_bytes()),
            Self::Crc64Nvme(sum) => Text::of(&sum.sum64().to_be_bytes()),
            Self::Sha256(sum) => Text::of(&sum.clone().finalize()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(checksum: Checksum, parts: &[&str]) -> String {
        let mut sum = Sum::new(checksum);
        for part in parts {
            sum.add(part.as_bytes());
        }
        String::from_utf8(sum.text().as_bytes().to_vec()).unwrap()
    }

    /// AWS's SDKs test their checksums with these (smithy, `RequestChecksumCalculationTest`).
    #[test]
    fn examples_of_aws_have_their_checksums() {
        for (checksum, text, sum) in [
            (Checksum::Crc32c, "", "AAAAAA=="),
            (Checksum::Crc32c, "abc", "Nks/tw=="),
            (Checksum::Crc32c, "Hello world", "crUfeA=="),
            (Checksum::Crc64Nvme, "", "AAAAAAAAAAA="),
            (Checksum::Crc64Nvme, "abc", "BeXKuz/B+us="),
            (Checksum::Crc64Nvme, "Hello world", "OOJZ0D8xKts="),
            (Checksum::Sha256Trailer, "", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
            (Checksum::Sha256Trailer, "Hello world", "ZOyIygCyaOW6GjVnihtTFtIS9PNmskdyMlNKiuyjfzw="),
            (Checksum::Sha256, "abc", ""),
        ] {
            assert_eq!(of(checksum, &[text]), sum, "{checksum:?} of '{text}'");
            let (begin, end) = text.split_at(text.len() / 2);
            assert_eq!(of(checksum, &[begin, end]), sum, "{checksum:?} of '{text}' in two parts");
        }
        // AWS, "Signature calculations: including trailing headers": 66,560 bytes of the letter a.
        assert_eq!(of(Checksum::Crc32c, &[&"a".repeat(66_560)]), "sOO8/Q==");
    }

    #[test]
    fn only_a_checksum_of_the_whole_object_is_taken() {
        let mut stated = Stated::default();
        for (name, value) in [
            ("X-Amz-Checksum-CRC32C", "crUfeA=="),
            ("x-amz-checksum-crc64nvme", "OOJZ0D8xKts=-3"),
            ("x-amz-checksum-sha256", "short"),
            ("etag", "crUfeA=="),
        ] {
            stated.take(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(stated.of(&KINDS[0]).unwrap().as_bytes(), b"crUfeA==");
        assert!(stated.of(&KINDS[1]).is_none() && stated.of(&KINDS[2]).is_none());
    }
}
