//! Walks through the chunks of an HTTP body (RFC 9112, 7.1) as its pieces come: where their data are, which is last.

/// Digits of a chunk's size: far more than any answer has.
const MAX_DIGITS: u32 = 12;
/// Bytes of the line with a chunk's size.
const LONGEST_LINE: u32 = 1024;

/// How far a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More is to come.
    More,
    /// The last chunk came, and the empty line after it.
    Over,
    /// These are no chunks.
    Wrong,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// A size, of which this many digits came.
    Size {
        size: u64,
        digits: u32,
    },
    /// The rest of the line after a size; an extension begins with a semicolon.
    Rest {
        size: u64,
        in_extension: bool,
    },
    /// The second byte of that line's end.
    Feed {
        size: u64,
    },
    /// Data, of which this much is left.
    Data {
        left: u64,
    },
    /// The line end after data.
    Behind {
        in_end: bool,
    },
    /// The end after the last chunk: how many bytes of two line ends came.
    Trailer {
        matched: u8,
    },
    Ended(Progress),
}

/// The chunks of one body.
#[derive(Debug, Clone)]
pub struct Chunks {
    place: Place,
    /// Bytes before the next one.
    at: u64,
    line: u32,
    /// Bytes of data so far.
    data_bytes: u64,
    /// None where the data are only counted: then nothing is allocated.
    spans: Option<Vec<(u64, u64)>>,
}

impl Chunks {
    /// Those of a body that begins at byte `at` of its answer.
    #[must_use]
    pub fn new(at: u64) -> Self {
        Self { spans: Some(Vec::new()), at, ..Self::counted() }
    }

    /// Those of a body whose data are only counted.
    #[must_use]
    pub fn counted() -> Self {
        Self { place: Place::Size { size: 0, digits: 0 }, at: 0, line: 0, data_bytes: 0, spans: None }
    }

    /// How many bytes of data came so far.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Ranges of the data, in bytes of the answer: first, and one behind the last.
    #[must_use]
    pub fn spans(&self) -> &[(u64, u64)] {
        self.spans.as_deref().unwrap_or_default()
    }

    /// Takes the next bytes. What follows an end is not looked at.
    pub fn take(&mut self, mut bytes: &[u8]) -> Progress {
        while let Some(&byte) = bytes.first() {
            let taken = match self.place {
                Place::Ended(progress) => return progress,
                Place::Data { left } => self.data(left, bytes.len() as u64),
                _ => {
                    self.place = self.after(byte);
                    1
                }
            };
            self.at += taken;
            bytes = &bytes[taken as usize..];
        }
        match self.place {
            Place::Ended(progress) => progress,
            _ => Progress::More,
        }
    }

    /// Passes as much of a chunk's data as there is.
    fn data(&mut self, left: u64, there: u64) -> u64 {
        let taken = left.min(there);
        self.data_bytes += taken;
        if let Some(spans) = &mut self.spans {
            match spans.last_mut() {
                Some(last) if last.1 == self.at => last.1 += taken,
                _ => spans.push((self.at, self.at + taken)),
            }
        }
        self.place = match left - taken {
            0 => Place::Behind { in_end: false },
            left => Place::Data { left },
        };
        taken
    }

    /// Where a byte leads that is not of data.
    fn after(&mut self, byte: u8) -> Place {
        match (self.place, byte) {
            (Place::Trailer { matched: 3 }, b'\n') => return Place::Ended(Progress::Over),
            (Place::Trailer { matched: 2 }, b'\r') => return Place::Trailer { matched: 3 },
            (Place::Trailer { .. }, b'\r') => return Place::Trailer { matched: 1 },
            (Place::Trailer { matched: 1 }, b'\n') => return Place::Trailer { matched: 2 },
            (Place::Trailer { .. }, _) => return Place::Trailer { matched: 0 },
            (Place::Behind { in_end: false }, b'\r') => return Place::Behind { in_end: true },
            (Place::Behind { in_end: true }, b'\n') => return Place::Size { size: 0, digits: 0 },
            _ => {}
        }
        self.line += 1;
        if self.line > LONGEST_LINE {
            return Place::Ended(Progress::Wrong);
        }
        match (self.place, byte) {
            (Place::Feed { size }, b'\n') => {
                self.line = 0;
                if size == 0 {
                    Place::Trailer { matched: 2 }
                } else {
                    Place::Data { left: size }
                }
            }
            (Place::Size { size, digits }, _) if byte.is_ascii_hexdigit() && digits < MAX_DIGITS => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                Place::Size { size: 16 * size + digit, digits: digits + 1 }
            }
            (Place::Size { size, digits: 1.. } | Place::Rest { size, .. }, b'\r') => Place::Feed { size },
            (Place::Rest { in_extension: true, .. }, _) if byte != b'\n' => self.place,
            (Place::Size { size, digits: 1.. } | Place::Rest { size, .. }, b' ' | b'\t') => {
                Place::Rest { size, in_extension: false }
            }
            (Place::Size { size, digits: 1.. } | Place::Rest { size, .. }, b';') => {
                Place::Rest { size, in_extension: true }
            }
            _ => Place::Ended(Progress::Wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a body, fed in pieces of every length, which must not matter.
    fn walked(body: &[u8]) -> (Progress, Vec<(u64, u64)>) {
        let in_pieces = |length: usize| {
            let mut chunks = Chunks::new(10);
            let last = body.chunks(length).map(|piece| chunks.take(piece)).last().unwrap();
            (last, chunks.spans().to_vec())
        };
        let whole = in_pieces(body.len());
        for length in 1..body.len() {
            assert_eq!(in_pieces(length), whole, "in pieces of {length} bytes");
        }
        whole
    }

    #[test]
    fn the_last_chunk_ends_a_body_and_nothing_else_does() {
        assert_eq!(walked(b"5\r\ndata:\r\n0\r\n\r\n"), (Progress::Over, vec![(13, 18)]));
        assert_eq!(walked(b"0\r\n\r\n"), (Progress::Over, vec![]));
        assert_eq!(walked(b"7\r\n0\r\n\r\nab\r\n"), (Progress::More, vec![(13, 20)]), "an end within data is none");
        assert_eq!(walked(b"2\r\nab\r\n1\r\nc\r\n000\r\n\r\nmore"), (Progress::Over, vec![(13, 15), (20, 21)]));
        assert_eq!(walked(b"A \t;x=\"1\"\r\n0123456789\r\n0;y\r\n\r\n"), (Progress::Over, vec![(21, 31)]));
        assert_eq!(walked(b"0\r\nServer-Timing: x\r\nA: b\r\n"), (Progress::More, vec![]));
        assert_eq!(walked(b"0\r\nServer-Timing: x\r\nA: b\r\r\n\r\n"), (Progress::Over, vec![]));
        assert_eq!(walked(b"f\r\nhalf"), (Progress::More, vec![(13, 17)]), "what came of a chunk lies there");
    }

    #[test]
    fn what_is_no_chunk_is_wrong_from_there_on() {
        for wrong in [
            &b"x\r\n"[..],
            b"\r\n",
            b";\r\n",
            b" 5\r\n",
            b"5\n",
            b"5 6\r\n",
            b"5\rx",
            b"5;a\nb",
            b"-1\r\n",
            b"0x5\r\n",
            b"1234567890123\r\n",
            b"1\r\nab\r\n",
            b"1\r\na\n",
        ] {
            let (found, _) = walked(wrong);
            assert_eq!(found, Progress::Wrong, "{:?}", wrong.escape_ascii().to_string());
        }
        assert_eq!(walked(b"123456789012\r\n").0, Progress::More);
        let mut chunks = Chunks::new(0);
        assert_eq!(chunks.take(b"5;"), Progress::More);
        assert_eq!(chunks.take(&[b'a'; LONGEST_LINE as usize - 2]), Progress::More);
        assert_eq!(chunks.take(b"a"), Progress::Wrong);
        assert_eq!(chunks.take(b"\r\n0\r\n\r\n"), Progress::Wrong);
    }
}
