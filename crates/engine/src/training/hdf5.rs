//! HDF5 in its oldest layout: a version 0 superblock, `records_0` (uint8) and `labels` (int64), contiguous.
//!
//! Field by field after the HDF5 File Format Specification 3.0, sections II.A, IV.A.1 and IV.A.2.

use super::sink::{Halt, Sink};

const UNDEFINED: u64 = u64::MAX;
const SUPERBLOCK: u64 = 96;

fn message(kind: u16, mut data: Vec<u8>) -> Vec<u8> {
    data.resize(data.len().next_multiple_of(8), 0);
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((data.len() as u16).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(data);
    bytes
}

fn object(messages: &[Vec<u8>]) -> Vec<u8> {
    let length: usize = messages.iter().map(Vec::len).sum();
    let mut bytes = vec![1, 0];
    bytes.extend((messages.len() as u16).to_le_bytes());
    bytes.extend(1_u32.to_le_bytes()); // references
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend([0; 4]);
    for message in messages {
        bytes.extend(message);
    }
    bytes
}

fn dataset(shape: &[u64], element: u32, signed: bool, address: u64) -> Vec<u8> {
    let mut space = vec![1, shape.len() as u8, 0, 0, 0, 0, 0, 0];
    space.extend(shape.iter().flat_map(|d| d.to_le_bytes()));
    let mut kind = vec![0x10, if signed { 8 } else { 0 }, 0, 0]; // version 1, fixed point, little endian
    kind.extend(element.to_le_bytes());
    kind.extend([0, 0]);
    kind.extend((element as u16 * 8).to_le_bytes());
    let size = shape.iter().product::<u64>() * u64::from(element);
    let mut layout = vec![3, 1]; // version 3, contiguous
    layout.extend(address.to_le_bytes());
    layout.extend(size.to_le_bytes());
    object(&[message(1, space), message(3, kind), message(5, vec![2, 2, 0, 0]), message(8, layout)])
}

fn link(name: &str, address: u64) -> Vec<u8> {
    let mut data = vec![1, 0, name.len() as u8];
    data.extend(name.bytes());
    data.extend(address.to_le_bytes());
    message(6, data)
}

/// All but the data: superblock, root group, both object headers; and the file's size.
fn head(rows: u64, columns: u64, samples: u64) -> (Vec<u8>, u64) {
    let group = |records: u64, labels: u64| {
        let mut info = vec![0, 0];
        info.extend(UNDEFINED.to_le_bytes());
        info.extend(UNDEFINED.to_le_bytes());
        object(&[message(2, info), message(10, vec![0, 0]), link("records_0", records), link("labels", labels)])
    };
    let shape = [samples, rows, columns];
    let records = SUPERBLOCK + group(0, 0).len() as u64;
    let labels = records + dataset(&shape, 1, false, 0).len() as u64;
    let data = (labels + dataset(&[samples], 8, true, 0).len() as u64).next_multiple_of(512);
    let label_data = (data + rows * columns * samples).next_multiple_of(8);
    let end = label_data + 8 * samples;

    let mut bytes = b"\x89HDF\r\n\x1a\n".to_vec();
    bytes.extend([0, 0, 0, 0, 0, 8, 8, 0]); // versions; offsets and lengths of 8 bytes
    bytes.extend(4_u16.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes());
    bytes.extend([0; 4]);
    for address in [0, UNDEFINED, end, UNDEFINED] {
        bytes.extend(address.to_le_bytes());
    }
    bytes.extend(0_u64.to_le_bytes()); // the root's entry: no name, its header, nothing cached
    bytes.extend(SUPERBLOCK.to_le_bytes());
    bytes.extend([0; 24]);
    bytes.extend(group(records, labels));
    bytes.extend(dataset(&shape, 1, false, data));
    bytes.extend(dataset(&[samples], 8, true, label_data));
    bytes.resize(data as usize, 0);
    (bytes, end)
}

/// Bytes of the file that [`write`] makes.
#[must_use]
pub fn size(rows: u64, columns: u64, samples: u64) -> u64 {
    head(rows, columns, samples).1
}

/// Writes records of noise and labels of zero.
pub fn write(sink: &mut Sink<'_>, rows: u64, columns: u64, samples: u64) -> Result<(), Halt> {
    let (bytes, end) = head(rows, columns, samples);
    sink.put(&bytes)?;
    sink.noise(rows * columns * samples, |_| ())?;
    let rest = end - sink.position();
    sink.put(&vec![0; rest as usize])
}

/// The end of the file that a superblock of version 0 to 3 states, given the first 64 bytes.
pub fn stated_end(start: &[u8]) -> Result<u64, String> {
    if start.len() < 64 || &start[..8] != b"\x89HDF\r\n\x1a\n" {
        return Err("it does not begin as HDF5 does".into());
    }
    let at = match start[8] {
        0 => 40,
        1 => 44,
        2 | 3 => 28,
        version => return Err(format!("its superblock has version {version}, of which nothing is known")),
    };
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&start[at..at + 8]);
    Ok(u64::from_le_bytes(bytes))
}
