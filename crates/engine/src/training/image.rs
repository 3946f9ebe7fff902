//! PNG and JPEG of noise, in the simplest form that every decoder reads.

use super::sink::{Halt, Sink};

/// Bytes of image data in one IDAT chunk.
const CHUNK: usize = 1 << 18;
/// The most that one stored deflate block holds.
const BLOCK: usize = 65_535;

fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut bytes = (data.len() as u32).to_be_bytes().to_vec();
    bytes.extend(kind);
    bytes.extend(data);
    bytes.extend(crc32fast::hash(&bytes[4..]).to_be_bytes());
    bytes
}

/// Bytes of the PNG that [`write_png`] makes.
#[must_use]
pub fn png_size(width: u64, height: u64) -> u64 {
    let raw = (width + 1) * height;
    let deflated = raw + 5 * raw.div_ceil(BLOCK as u64) + 2 + 4;
    8 + 25 + deflated + 12 * deflated.div_ceil(CHUNK as u64) + 12
}

/// Writes an 8-bit grey PNG with filter 0 and stored deflate blocks.
pub fn write_png(sink: &mut Sink<'_>, width: u64, height: u64) -> Result<(), Halt> {
    sink.put(b"\x89PNG\r\n\x1a\n")?;
    let mut header = (width as u32).to_be_bytes().to_vec();
    header.extend((height as u32).to_be_bytes());
    header.extend([8, 0, 0, 0, 0]); // 8 bits, grey, deflate, adaptive filters, not interlaced
    sink.put(&chunk(*b"IHDR", &header))?;
    let row = width as usize + 1;
    let mut left = row * height as usize;
    let mut at = 0; // within a row
    let mut adler = (1_u32, 0_u32);
    let mut ready = vec![0x78, 0x01]; // zlib: 32 KiB window, no compression
    while left > 0 {
        let length = left.min(BLOCK);
        left -= length;
        ready.push(u8::from(left == 0));
        ready.extend((length as u16).to_le_bytes());
        ready.extend((!(length as u16)).to_le_bytes());
        let from = ready.len();
        ready.resize(from + length, 0);
        sink.peek_noise(&mut ready[from..]);
        let mut place = if at == 0 { 0 } else { row - at };
        while place < length {
            ready[from + place] = 0; // the filter of a row
            place += row;
        }
        at = (at + length) % row;
        adler = adler32(adler, &ready[from..]);
        if left == 0 {
            ready.extend(((adler.1 << 16) | adler.0).to_be_bytes());
        }
        while ready.len() >= CHUNK || (left == 0 && !ready.is_empty()) {
            let rest = ready.split_off(ready.len().min(CHUNK));
            sink.put(&chunk(*b"IDAT", &ready))?;
            ready = rest;
        }
    }
    sink.put(&chunk(*b"IEND", &[]))
}

/// Adler-32 (RFC 1950), in runs short enough that 32 bits hold the sums.
fn adler32((mut a, mut b): (u32, u32), bytes: &[u8]) -> (u32, u32) {
    for run in bytes.chunks(5552) {
        for &byte in run {
            a += u32::from(byte);
            b += a;
        }
        a %= 65_521;
        b %= 65_521;
    }
    (a, b)
}

/// A JPEG block here is one bit for its DC difference of 0, then 63 coefficients of 8 bits: a Huffman
/// code of one bit (run 0, category 7) and 7 free bits.
const BLOCK_BITS: u64 = 1 + 63 * 8;
/// Eight blocks fill this many whole bytes.
const PERIOD: usize = BLOCK_BITS as usize;

fn segment(marker: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff, marker];
    bytes.extend((data.len() as u16 + 2).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// Everything before the coded data.
fn jpeg_head(width: u64, height: u64) -> Vec<u8> {
    let mut head = vec![0xff, 0xd8];
    head.extend(segment(0xe0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"));
    let mut quantizers = vec![0];
    quantizers.resize(65, 1);
    head.extend(segment(0xdb, &quantizers));
    let mut frame = vec![8];
    frame.extend((height as u16).to_be_bytes());
    frame.extend((width as u16).to_be_bytes());
    frame.extend([1, 1, 0x11, 0]); // one component, not subsampled, table 0
    head.extend(segment(0xc0, &frame));
    // each table has a single code, `0`: one code of length 1, none longer
    for (class, symbol) in [(0x00, 0x00), (0x10, 0x07)] {
        let mut table = vec![class, 1];
        table.resize(17, 0);
        table.push(symbol);
        head.extend(segment(0xc4, &table));
    }
    head.extend(segment(0xda, &[1, 1, 0, 0, 63, 0]));
    head
}

fn coded_bytes(width: u64, height: u64) -> u64 {
    (width.div_ceil(8) * height.div_ceil(8) * BLOCK_BITS).div_ceil(8)
}

/// Bytes of the JPEG that [`write_jpeg`] makes: about one a pixel.
#[must_use]
pub fn jpeg_size(width: u64, height: u64) -> u64 {
    jpeg_head(width, height).len() as u64 + coded_bytes(width, height) + 2
}

/// Writes a baseline grey JPEG of at most 65535 x 65535 pixels with random coefficients.
///
/// Each 8 bits have a 0 among them (the code of the next coefficient), so no byte is 0xff and none
/// needs stuffing.
pub fn write_jpeg(sink: &mut Sink<'_>, width: u64, height: u64) -> Result<(), Halt> {
    sink.put(&jpeg_head(width, height))?;
    let mut mask = [0xff_u8; PERIOD];
    for block in 0..8 {
        let first = block * PERIOD;
        // the bit of the DC code, then the first bit of each coefficient
        for bit in std::iter::once(first).chain((0..63).map(|i| first + 1 + 8 * i)) {
            mask[bit / 8] &= !(0x80 >> (bit % 8));
        }
    }
    let mut place = 0;
    sink.noise(coded_bytes(width, height), |piece| {
        for byte in piece {
            *byte &= mask[place];
            place = if place + 1 == PERIOD { 0 } else { place + 1 };
        }
    })?;
    sink.put(&[0xff, 0xd9])
}
