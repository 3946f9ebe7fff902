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
        for &byte in bytes {
            self.empty = byte == b'\n';
            match byte {
                b',' => self.commas += 1,
                b'\n' => {
                    let first = *self.first.get_or_insert(self.commas);
                    if self.commas != first {
                        return Err(format!("a line has {} values where the first has {}", self.commas + 1, first + 1));
                    }
                    self.commas = 0;
                }
                b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E' | b'\r' => {}
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

/// Fills `line` with the words that stand for each of `values`.
pub fn spell(values: &[u8], words: &[String], line: &mut Vec<u8>) {
    line.clear();
    for &value in values {
        line.extend_from_slice(words[value as usize].as_bytes());
    }
}
