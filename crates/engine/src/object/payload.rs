//! The bytes of the objects that are written: one buffer for all, which each object begins at another place.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::object::checksum::{Sum, Text};
use crate::object::options::Checksum;
use crate::timing::rng::mix;

/// Bytes of the buffer: it stays in a cache of the second or third level.
const LENGTH: usize = 1 << 20;
/// Objects begin this far apart in the buffer.
const STEP: u64 = 4096 + 64;

/// The content of all objects, which no store can compress.
#[derive(Clone)]
pub struct Payload(Arc<[u8]>);

impl Payload {
    /// The same content for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let words = (0..LENGTH as u64 / 8).map(|word| mix(seed.wrapping_add(word)).to_le_bytes());
        Self(words.flatten().collect())
    }

    /// The bytes of an object from `at` on that follow each other in the buffer, at most `left` of them.
    #[must_use]
    pub fn piece(&self, object: u64, at: u64, left: u64) -> &[u8] {
        let from = ((object.wrapping_mul(STEP)).wrapping_add(at) % LENGTH as u64) as usize;
        let length = (LENGTH - from).min(usize::try_from(left).unwrap_or(LENGTH));
        &self.0[from..from + length]
    }

    fn pieces(&self, object: u64, bytes: u64, mut take: impl FnMut(&[u8])) {
        let mut at = 0;
        while at < bytes {
            let piece = self.piece(object, at, bytes - at);
            take(piece);
            at += piece.len() as u64;
        }
    }

    /// SHA-256 of a whole object.
    #[must_use]
    pub fn sha256(&self, object: u64, bytes: u64) -> [u8; 32] {
        let mut hasher = Sha256::new();
        self.pieces(object, bytes, |piece| hasher.update(piece));
        hasher.finalize().into()
    }

    /// The checksum that follows a whole object.
    #[must_use]
    pub fn checksum(&self, checksum: Checksum, object: u64, bytes: u64) -> Text {
        let mut sum = Sum::new(checksum);
        self.pieces(object, bytes, |piece| sum.add(piece));
        sum.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_goes_round_the_buffer() {
        let payload = Payload::new(1);
        let (object, bytes) = (250, LENGTH as u64 + 1000);
        let mut whole = Vec::new();
        payload.pieces(object, bytes, |piece| whole.extend_from_slice(piece));
        assert_eq!(whole.len() as u64, bytes);
        assert_eq!(whole[..1000], whole[LENGTH..]);
        let mut sum = Sum::new(Checksum::Crc64Nvme);
        sum.add(&whole);
        assert_eq!(payload.checksum(Checksum::Crc64Nvme, object, bytes), sum.text());
        assert_eq!(payload.sha256(object, bytes), <[u8; 32]>::from(Sha256::digest(&whole)));
        assert_ne!(payload.piece(0, 0, 64), payload.piece(1, 0, 64));
        assert!(payload.piece(3, 5, 0).is_empty());
    }
}
