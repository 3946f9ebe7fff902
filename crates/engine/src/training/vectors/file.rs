//! The file of a vector index: a header, blocks of vectors that identify themselves, and what a search keeps in memory.

use std::io::{self, Write};

use serde_json::{json, Map, Value};

use super::stored::Stored;

/// Blocks are multiples of this, at multiples of this, so that each is read without the page cache.
pub const SECTOR: usize = 4096;
const MAGIC: &[u8; 8] = b"hwdynoVS";
/// The end of every block: its number, a magic word, and the CRC-32C of all before that.
const TRAILER: usize = 16;
const WORD: u32 = u32::from_le_bytes(*b"hdVB");

/// How entries are placed in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of an entry.
    pub entry: usize,
    /// Bytes of a block.
    pub block: usize,
    /// Entries of a block.
    pub entries: usize,
}

impl Layout {
    /// The smallest block of whole sectors that holds one entry, and the number of entries that fit into it.
    #[must_use]
    pub fn of(entry: usize) -> Self {
        let block = (entry + TRAILER).next_multiple_of(SECTOR);
        Self { entry, block, entries: (block - TRAILER) / entry }
    }

    /// Blocks for this many entries.
    #[must_use]
    pub fn blocks(&self, entries: usize) -> usize {
        entries.div_ceil(self.entries)
    }
}

/// What a file holds, from its header.
#[derive(Debug, Clone)]
pub struct Header(Map<String, Value>);

impl Header {
    /// A header with these fields.
    #[must_use]
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    /// A number.
    #[must_use]
    pub fn number(&self, name: &str) -> usize {
        self.0.get(name).and_then(Value::as_u64).unwrap_or(0) as usize
    }

    /// A word.
    #[must_use]
    pub fn word(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or("")
    }

    /// A number with a fraction.
    #[must_use]
    pub fn fraction(&self, name: &str) -> f32 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(0.0) as f32
    }

    /// Whether it was made from these fields: each has the same value here.
    #[must_use]
    pub fn has_fields(&self, fields: &Map<String, Value>) -> bool {
        fields.iter().all(|(name, value)| self.0.get(name) == Some(value))
    }

    fn encode(&self) -> Vec<u8> {
        let text = json!(self.0).to_string();
        let mut sector = Vec::with_capacity(SECTOR);
        sector.extend(MAGIC);
        sector.extend((text.len() as u32).to_le_bytes());
        sector.extend(crc32c::crc32c(text.as_bytes()).to_le_bytes());
        sector.extend(text.as_bytes());
        sector.resize(SECTOR, 0);
        sector
    }

    /// Reads the header of a stored index; in words what is wrong with it.
    pub fn read(stored: &mut impl Stored) -> Result<Self, String> {
        let mut sector = vec![0; SECTOR];
        stored.fill(0, &mut sector).map_err(|error| format!("its header cannot be read: {error}"))?;
        let half = |at: usize| sector[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let length = half(8) as usize;
        if &sector[..8] != MAGIC || length > SECTOR - 16 {
            return Err("it is no vector index of hwdyno".into());
        }
        let text = &sector[16..16 + length];
        if crc32c::crc32c(text) != half(12) {
            return Err("the CRC-32C of its header is wrong: corrupt".into());
        }
        match serde_json::from_slice(text) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            _ => Err("its header is not what hwdyno writes: corrupt".into()),
        }
    }
}

/// Writes an index from its beginning to its end.
pub struct Writer<W> {
    to: W,
    layout: Layout,
    block: Vec<u8>,
    buffered: usize,
    /// Blocks so far.
    pub blocks: u64,
    /// Bytes so far.
    pub bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header first.
    pub fn new(to: W, layout: Layout, header: &Header) -> io::Result<Self> {
        let mut writer =
            Self { to, layout, block: Vec::with_capacity(layout.block), buffered: 0, blocks: 0, bytes: SECTOR as u64 };
        writer.to.write_all(&header.encode())?;
        Ok(writer)
    }

    /// Adds an entry, which `fill` appends.
    pub fn entry(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        fill(&mut self.block);
        self.buffered += 1;
        self.block.resize(self.buffered * self.layout.entry, 0);
        if self.buffered == self.layout.entries {
            self.end_block()?;
        }
        Ok(())
    }

    /// Ends the block: the next entry begins a new one.
    pub fn end_block(&mut self) -> io::Result<()> {
        if self.buffered == 0 {
            return Ok(());
        }
        self.block.resize(self.layout.block - TRAILER, 0);
        self.block.extend(self.blocks.to_le_bytes());
        self.block.extend(WORD.to_le_bytes());
        let sum = crc32c::crc32c(&self.block);
        self.block.extend(sum.to_le_bytes());
        self.to.write_all(&self.block)?;
        self.bytes += self.block.len() as u64;
        self.blocks += 1;
        self.block.clear();
        self.buffered = 0;
        Ok(())
    }

    /// Adds what a search keeps in memory: its length, its CRC-32C, itself.
    pub fn section(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.end_block()?;
        self.to.write_all(&(bytes.len() as u64).to_le_bytes())?;
        self.to.write_all(&crc32c::crc32c(bytes).to_le_bytes())?;
        self.to.write_all(bytes)?;
        self.bytes += bytes.len() as u64 + 12;
        Ok(())
    }

    /// Flushes it; gives where it wrote to, and its bytes.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        self.to.flush()?;
        Ok((self.to, self.bytes))
    }
}

/// What is wrong with block `number`, in words.
pub fn inspect(block: &[u8], number: u64) -> Result<(), String> {
    let end = block.len() - TRAILER;
    let stored = block[end..end + 8].try_into().map_or(0, u64::from_le_bytes);
    let half = |at: usize| block[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    if half(end + 8) != WORD {
        return Err("lost: it was never a block of an index".into());
    }
    if half(end + 12) != crc32c::crc32c(&block[..end + 12]) {
        return Err("flipped: its CRC-32C is wrong".into());
    }
    if stored != number {
        return Err(format!("misplaced: it is block {stored}"));
    }
    Ok(())
}

/// Reads the sections that begin at byte `from`; in words what is wrong.
pub fn sections(stored: &mut impl Stored, from: u64, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let length = stored.length()?;
    let mut at = from;
    let mut found = Vec::with_capacity(count);
    for _ in 0..count {
        let mut head = [0_u8; 12];
        stored.fill(at, &mut head)?;
        let size = head[..8].try_into().map_or(0, u64::from_le_bytes);
        let sum = head[8..].try_into().map_or(0, u32::from_le_bytes);
        if size > length {
            return Err("a section is longer than itself: corrupt".into());
        }
        let mut bytes = vec![0; size as usize];
        stored.fill(at + 12, &mut bytes)?;
        if crc32c::crc32c(&bytes) != sum {
            return Err("the CRC-32C of a section is wrong: corrupt".into());
        }
        at += 12 + size;
        found.push(bytes);
    }
    Ok(found)
}

/// Little-endian words of four bytes, as bytes.
pub fn words<T: Copy>(values: &[T], as_bytes: impl Fn(T) -> [u8; 4]) -> Vec<u8> {
    values.iter().flat_map(|&value| as_bytes(value)).collect()
}

/// And back.
pub fn from_words<T>(bytes: &[u8], from_bytes: impl Fn([u8; 4]) -> T) -> Vec<T> {
    bytes.chunks_exact(4).map(|word| from_bytes([word[0], word[1], word[2], word[3]])).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn entries_share_sectors_or_take_several() {
        assert_eq!(Layout::of(772), Layout { entry: 772, block: 4096, entries: 5 });
        assert_eq!(Layout::of(4080), Layout { entry: 4080, block: 4096, entries: 1 });
        assert_eq!(Layout::of(6404), Layout { entry: 6404, block: 8192, entries: 1 });
        assert_eq!(Layout::of(772).blocks(11), 3);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_wrong_block_is_named() {
        let path = std::env::temp_dir().join(format!("hwdyno-index-{}", std::process::id()));
        let mut file = File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
        let layout = Layout::of(2000);
        let Value::Object(fields) = json!({"dim": 3, "kind": "x", "step": 0.5}) else { unreachable!() };
        let mut writer = Writer::new(&file, layout, &Header::new(fields.clone())).unwrap();
        for entry in 0..5_u8 {
            writer.entry(|into| into.extend([entry; 2000])).unwrap();
        }
        writer.section(&[1, 2, 3]).unwrap();
        assert_eq!(writer.finish().unwrap().1, 4096 * 4 + 15);
        let header = Header::read(&mut file).unwrap();
        assert!(header.has_fields(&fields));
        assert_eq!((header.number("dim"), header.word("kind"), header.fraction("step")), (3, "x", 0.5));
        assert_eq!(sections(&mut file, 4096 * 4, 1).unwrap(), [vec![1, 2, 3]]);
        let whole = std::fs::read(&path).unwrap();
        let mut block = whole[4096..8192].to_vec();
        assert_eq!((block[0], block[2000]), (0, 1));
        inspect(&block, 0).unwrap();
        assert_eq!(inspect(&block, 1).unwrap_err(), "misplaced: it is block 0");
        block[17] ^= 1;
        assert!(inspect(&block, 0).unwrap_err().starts_with("flipped"));
        assert!(inspect(&[0; 4096], 0).unwrap_err().starts_with("lost"));
        std::fs::write(&path, &whole[..4096 * 4 + 5]).unwrap();
        assert!(sections(&mut file, 4096 * 4, 1).unwrap_err().starts_with("it is cut short"));
        std::fs::write(&path, [7; 5000]).unwrap();
        assert_eq!(Header::read(&mut file).unwrap_err(), "it is no vector index of hwdyno");
        std::fs::remove_file(path).unwrap();
    }
}
