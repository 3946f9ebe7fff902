//! TensorFlow's record files: framed by masked CRC32Cs, each record an `Example` of `image` and `size`.

use super::sink::{Halt, Sink};

/// Bytes of framing a record: its length, the length's CRC, and the data's.
pub const FRAME: u64 = 16;

/// The CRC as TensorFlow stores it: rotated and offset, so that a CRC of CRCs is sound.
#[must_use]
pub fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn field(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

/// The bytes before and after the image in a serialized `Example` whose image has `length` bytes.
///
/// Field numbers are those of `tensorflow/core/example/{example,feature}.proto`.
#[must_use]
pub fn around(length: u64) -> (Vec<u8>, Vec<u8>) {
    // each message's prefix is its tag, its length, and what it holds before the image
    let mut head = Vec::new();
    let mut inner = length;
    for (tag, before) in [
        (0x0a, Vec::new()),            // BytesList.value
        (0x0a, Vec::new()),            // Feature.bytes_list
        (0x12, field(0x0a, b"image")), // entry: the key, then the value
    ] {
        let mut prefix = before;
        prefix.push(tag);
        varint(inner, &mut prefix);
        inner += prefix.len() as u64;
        prefix.extend(&head);
        head = prefix;
    }
    let mut number = Vec::new();
    varint(length, &mut number);
    let list = field(0x1a, &field(0x0a, &number));
    let mut entry = field(0x0a, b"size");
    entry.extend(field(0x12, &list));
    let tail = field(0x0a, &entry);
    let mut prefix = vec![0x0a]; // Features.feature
    varint(inner, &mut prefix);
    let features = inner + prefix.len() as u64 + tail.len() as u64;
    let mut whole = vec![0x0a]; // Example.features
    varint(features, &mut whole);
    whole.extend(prefix);
    whole.extend(head);
    (whole, tail)
}

/// Bytes of one framed record whose image has `length` bytes.
#[must_use]
pub fn record_size(length: u64) -> u64 {
    let (head, tail) = around(length);
    FRAME + head.len() as u64 + length + tail.len() as u64
}

/// Writes `samples` records.
pub fn write(sink: &mut Sink<'_>, length: u64, samples: u64) -> Result<(), Halt> {
    let (head, tail) = around(length);
    let size = (head.len() as u64 + length + tail.len() as u64).to_le_bytes();
    let size_crc = masked(crc32c::crc32c(&size)).to_le_bytes();
    for _ in 0..samples {
        sink.put(&size)?;
        sink.put(&size_crc)?;
        sink.put(&head)?;
        let mut crc = crc32c::crc32c(&head);
        sink.noise(length, |piece| crc = crc32c::crc32c_append(crc, piece))?;
        sink.put(&tail)?;
        sink.put(&masked(crc32c::crc32c_append(crc, &tail)).to_le_bytes())?;
    }
    Ok(())
}
