//! `NumPy`'s `.npy` and `.npz`: a stored zip of `x` (uint8) and `y` (int64 labels), as `numpy.savez` writes it.

use super::sink::{Halt, Sink};

const LIMIT: u64 = 0xffff_ffff;
/// Local header of an entry: 30 bytes, its name, and 20 bytes of zip64 sizes.
const LOCAL: u64 = 30 + 5 + 20;

/// The header of a `.npy` file (version 1.0): padded to a multiple of 64 bytes.
#[must_use]
pub fn header(descr: &str, shape: &[u64]) -> Vec<u8> {
    let dimensions: Vec<_> = shape.iter().map(u64::to_string).collect();
    let comma = if shape.len() == 1 { "," } else { "" };
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}{comma}), }}", dimensions.join(", "));
    let padding = 64 - (10 + text.len() + 1) % 64;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(((text.len() + padding % 64 + 1) as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes.resize(bytes.len() + padding % 64, b' ');
    bytes.push(b'\n');
    bytes
}

struct Entry {
    name: &'static str,
    offset: u64,
    size: u64,
    crc: u32,
}

fn local(entry: &Entry) -> Vec<u8> {
    let mut bytes = b"PK\x03\x04".to_vec();
    bytes.extend(45_u16.to_le_bytes()); // version needed: zip64
    bytes.extend([0; 4]); // flags, method: stored
    bytes.extend([0, 0, 0x21, 0]); // 1980-01-01 00:00
    bytes.extend(entry.crc.to_le_bytes());
    bytes.extend((LIMIT as u32).to_le_bytes());
    bytes.extend((LIMIT as u32).to_le_bytes());
    bytes.extend((entry.name.len() as u16).to_le_bytes());
    bytes.extend(20_u16.to_le_bytes());
    bytes.extend(entry.name.bytes());
    bytes.extend([1, 0, 16, 0]); // the zip64 extra field: 16 bytes follow
    bytes.extend(entry.size.to_le_bytes());
    bytes.extend(entry.size.to_le_bytes());
    bytes
}

fn directory(entries: &[Entry], at: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in entries {
        let big = entry.size >= LIMIT || entry.offset >= LIMIT;
        let shown = |value: u64| if big { LIMIT as u32 } else { value as u32 };
        bytes.extend(b"PK\x01\x02");
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend([0, 0, 0x21, 0]);
        bytes.extend(entry.crc.to_le_bytes());
        bytes.extend(shown(entry.size).to_le_bytes());
        bytes.extend(shown(entry.size).to_le_bytes());
        bytes.extend((entry.name.len() as u16).to_le_bytes());
        bytes.extend((if big { 28_u16 } else { 0 }).to_le_bytes());
        bytes.extend([0; 10]); // comment, disk, attributes
        bytes.extend(shown(entry.offset).to_le_bytes());
        bytes.extend(entry.name.bytes());
        if big {
            bytes.extend([1, 0, 24, 0]);
            bytes.extend(entry.size.to_le_bytes());
            bytes.extend(entry.size.to_le_bytes());
            bytes.extend(entry.offset.to_le_bytes());
        }
    }
    let length = bytes.len() as u64;
    let count = entries.len() as u16;
    if at >= LIMIT {
        bytes.extend(b"PK\x06\x06");
        bytes.extend(44_u64.to_le_bytes());
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(u64::from(count).to_le_bytes());
        bytes.extend(u64::from(count).to_le_bytes());
        bytes.extend(length.to_le_bytes());
        bytes.extend(at.to_le_bytes());
        bytes.extend(b"PK\x06\x07");
        bytes.extend([0; 4]);
        bytes.extend((at + length).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    bytes.extend(b"PK\x05\x06");
    bytes.extend([0; 4]);
    bytes.extend(count.to_le_bytes());
    bytes.extend(count.to_le_bytes());
    bytes.extend((length as u32).to_le_bytes());
    bytes.extend((at.min(LIMIT) as u32).to_le_bytes());
    bytes.extend([0; 2]);
    bytes
}

fn entries(rows: u64, columns: u64, samples: u64) -> ([Entry; 2], [Vec<u8>; 2]) {
    let headers = [header("|u1", &[rows, columns, samples]), header("<i8", &[samples])];
    let x = Entry { name: "x.npy", offset: 0, size: headers[0].len() as u64 + rows * columns * samples, crc: 0 };
    let y = Entry { name: "y.npy", offset: LOCAL + x.size, size: headers[1].len() as u64 + 8 * samples, crc: 0 };
    ([x, y], headers)
}

/// Bytes of the file that [`write`] makes.
#[must_use]
pub fn size(rows: u64, columns: u64, samples: u64) -> u64 {
    let (entries, _) = entries(rows, columns, samples);
    let at = entries[1].offset + LOCAL + entries[1].size;
    at + directory(&entries, at).len() as u64
}

/// Writes `x` of noise and `y` of zeroes.
pub fn write(sink: &mut Sink<'_>, rows: u64, columns: u64, samples: u64) -> Result<(), Halt> {
    let (mut entries, headers) = entries(rows, columns, samples);
    sink.put(&local(&entries[0]))?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&headers[0]);
    sink.put(&headers[0])?;
    sink.noise(rows * columns * samples, |piece| crc.update(piece))?;
    entries[0].crc = crc.finalize();
    let mut labels = headers[1].clone();
    labels.resize(labels.len() + 8 * samples as usize, 0);
    entries[1].crc = crc32fast::hash(&labels);
    sink.put(&local(&entries[1]))?;
    sink.put(&labels)?;
    let at = sink.position();
    sink.put(&directory(&entries, at))?;
    sink.patch(0, &local(&entries[0]))
}

/// Bytes of the `.npy` file that [`write_npy`] makes.
#[must_use]
pub fn npy_size(rows: u64, columns: u64, samples: u64) -> u64 {
    header("|u1", &[rows, columns, samples]).len() as u64 + rows * columns * samples
}

/// Writes one `.npy` array of noise.
pub fn write_npy(sink: &mut Sink<'_>, rows: u64, columns: u64, samples: u64) -> Result<(), Halt> {
    sink.put(&header("|u1", &[rows, columns, samples]))?;
    sink.noise(rows * columns * samples, |_| ())
}
