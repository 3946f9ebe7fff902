//! Record files: both CRC-32Cs of every record, and a walk through the `Example` that it holds.

use super::stream::{u32_at, u64_at, Gather, Piece};
use crate::training::tfrecord::masked;

#[derive(Clone, Copy)]
enum State {
    Header,
    Data(u64),
    Footer,
}

/// A check of a record file, record by record.
pub struct Tfrecord {
    state: State,
    gather: Gather,
    crc: u32,
    walk: Walk,
    records: u64,
    expected: u64,
}

impl Default for Tfrecord {
    fn default() -> Self {
        Self { state: State::Header, gather: Gather::default(), crc: 0, walk: Walk::default(), records: 0, expected: 0 }
    }
}

impl Tfrecord {
    pub fn start(&mut self, piece: &Piece<'_>) {
        self.state = State::Header;
        self.gather.clear();
        self.records = 0;
        self.expected = piece.samples;
    }

    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            match self.state {
                State::Header => {
                    if let Some(header) = self.gather.take(&mut bytes, 12) {
                        if masked(crc32c::crc32c(&header[..8])) != u32_at(header, 8) {
                            return Err(format!("the CRC-32C of record {}'s length is wrong: corrupt", self.records));
                        }
                        let length = u64_at(header, 0);
                        self.state = if length == 0 { State::Footer } else { State::Data(length) };
                        self.crc = 0;
                        self.walk.start(length);
                    }
                }
                State::Data(left) => {
                    let count = left.min(bytes.len() as u64);
                    let (data, rest) = bytes.split_at(count as usize);
                    self.crc = crc32c::crc32c_append(self.crc, data);
                    self.walk.feed(data)?;
                    bytes = rest;
                    self.state = if left == count { State::Footer } else { State::Data(left - count) };
                }
                State::Footer => {
                    if let Some(footer) = self.gather.take(&mut bytes, 4) {
                        if masked(self.crc) != u32_at(footer, 0) {
                            return Err(format!("the CRC-32C of record {} is wrong: corrupt", self.records));
                        }
                        self.records += 1;
                        self.state = State::Header;
                    }
                }
            }
        }
        Ok(())
    }

    pub fn end(&mut self) -> Result<(), String> {
        if !matches!(self.state, State::Header) || !self.gather.is_empty() {
            return Err(format!("it ends within record {}: truncated", self.records));
        }
        if self.records == self.expected {
            return Ok(());
        }
        Err(format!("{} records lie where {} should", self.records, self.expected))
    }
}

/// How deep an `Example` goes: itself, `Features`, a map entry, `Feature`, a list.
const DEPTH: usize = 5;

/// Walks the fields of an `Example`, stepping over what its values hold.
#[derive(Default)]
struct Walk {
    /// Where each open message ends; the first `open` count.
    ends: [u64; DEPTH],
    open: usize,
    at: u64,
    step_to: u64,
    number: u64,
    shift: u32,
    /// The tag whose length (or value) comes next; 0 when a tag does.
    tag: u64,
}

impl Walk {
    fn start(&mut self, length: u64) {
        *self = Self { open: 1, ..Self::default() };
        self.ends[0] = length;
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        let end = self.at + bytes.len() as u64;
        let begin = self.at;
        while self.at < end {
            if self.step_to > self.at {
                self.at = self.step_to.min(end);
                continue;
            }
            while self.open > 1 && self.at >= self.ends[self.open - 1] {
                self.open -= 1;
            }
            let byte = bytes[(self.at - begin) as usize];
            self.at += 1;
            self.number |= u64::from(byte & 0x7f).checked_shl(self.shift).unwrap_or(0);
            if byte >= 0x80 {
                self.shift += 7;
                if self.shift > 63 {
                    return Err("a record's Example holds a number that never ends".into());
                }
                continue;
            }
            let number = std::mem::take(&mut self.number);
            self.shift = 0;
            self.value(number)?;
        }
        Ok(())
    }

    fn value(&mut self, number: u64) -> Result<(), String> {
        let parent = self.ends[self.open - 1];
        if self.tag == 0 {
            match number & 7 {
                0 | 2 => self.tag = number,
                1 => self.step_to = self.at + 8,
                5 => self.step_to = self.at + 4,
                _ => return Err("a record does not hold a tf.train.Example".into()),
            }
            return Ok(());
        }
        let tag = std::mem::take(&mut self.tag);
        let (field, kind) = (tag >> 3, tag & 7);
        if kind == 0 {
            return Ok(()); // a plain number: its value was just read
        }
        let end = self.at.checked_add(number).filter(|&end| end <= parent);
        let end = end.ok_or("a field of a record's Example is longer than the message around it")?;
        // the key of a map entry is text; what a list holds is values
        let is_message = self.open < DEPTH && !(self.open == 3 && field == 1);
        if is_message {
            self.ends[self.open] = end;
            self.open += 1;
        } else {
            self.step_to = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::tfrecord::around;

    fn example() -> Vec<u8> {
        let (head, tail) = around(300);
        [head, vec![0xab; 300], tail].concat()
    }

    #[test]
    fn an_example_is_walked_in_pieces_of_any_size() {
        let example = example();
        for size in [1, 2, 7, 64, 1000] {
            let mut walk = Walk::default();
            walk.start(example.len() as u64);
            for piece in example.chunks(size) {
                walk.feed(piece).unwrap();
            }
            assert_eq!(walk.at, example.len() as u64);
        }
    }

    #[test]
    fn what_is_no_example_is_said() {
        let mut example = example();
        example[1] = 0x7f;
        example[2] = 0x7f;
        let mut walk = Walk::default();
        walk.start(example.len() as u64);
        assert!(walk.feed(&example).is_err());
    }
}
