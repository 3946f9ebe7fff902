//! Numbers in lines of text, as a CSV file has them.

/// Looks at a text as it streams by: digits, commas, and as many values in each line.
#[derive(Debug, Default)]
pub struct Csv {
    commas: u64,
    first: Option<u64>,
    empty: bool,
}

impl Csv {
    /// Looks at the next bytes.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), String> {
        // A block without a line's end needs no look at one byte after the other.
        for block in bytes.chunks(64) {
            let (mut commas, mut plain) = (0_u8, true);
            for &byte in block {
                commas += u8::from(byte == b',');
                plain &= byte == b',' || is_of_a_number(byte);
            }
            if plain {
                self.commas += u64::from(commas);
            } else {
                self.look_at(block)?;
            }
        }
        self.empty = bytes.last().map_or(self.empty, |&last| last == b'\n');
        Ok(())
    }

    fn look_at(&mut self, bytes: &[u8]) -> Result<(), String> {
        for &byte in bytes {
            match byte {
                b',' => self.commas += 1,
                b'\n' => {
                    let first = *self.first.get_or_insert(self.commas);
                    if self.commas != first {
                        return Err(format!("a line has {} values where the first has {}", self.commas + 1, first + 1));
                    }
                    self.commas = 0;
                }
                _ if is_of_a_number(byte) => {}
                _ => return Err("it holds what is no number".into()),
            }
        }
        Ok(())
    }

    /// Whether the text ends here.
    ///
    /// # Errors
    /// It does not.
    pub fn end(&mut self) -> Result<(), String> {
        self.empty.then_some(()).ok_or_else(|| "its last line does not end: truncated".into())
    }
}

fn is_of_a_number(byte: u8) -> bool {
    byte.is_ascii_digit() | matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E' | b'\r')
}

/// Fills `line` with the words of each of `values`.
pub fn spell(values: &[u8], words: &[String], line: &mut Vec<u8>) {
    line.clear();
    for &value in values {
        line.extend_from_slice(words[value as usize].as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &[u8], piece: usize) -> Result<(), String> {
        let mut csv = Csv::default();
        text.chunks(piece).try_for_each(|bytes| csv.feed(bytes))?;
        csv.end()
    }

    #[test]
    fn lines_are_held_to_each_other_however_the_text_is_cut() {
        let line = "-1.5e+3,".repeat(30) + "7\r\n";
        let fewer = "-1.5e+3,".repeat(29) + "7\r\n";
        for piece in [1, 7, 63, 64, 65, 1000] {
            assert_eq!(look(line.repeat(9).as_bytes(), piece), Ok(()));
            let ragged = look((line.repeat(3) + &fewer + &line).as_bytes(), piece);
            assert_eq!(ragged, Err("a line has 30 values where the first has 31".into()));
            let wrong = look((line.repeat(3) + "x" + &line).as_bytes(), piece);
            assert_eq!(wrong, Err("it holds what is no number".into()));
            let cut = look(&line.repeat(3).as_bytes()[..700], piece);
            assert_eq!(cut, Err("its last line does not end: truncated".into()));
        }
    }
}
