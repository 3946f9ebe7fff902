//! The part of Thrift's compact protocol that Parquet's metadata uses.

/// Builds structures field by field.
pub struct Writer {
    /// What was written.
    pub bytes: Vec<u8>,
    last: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self { bytes: Vec::new(), last: vec![0] }
    }
}

impl Writer {
    /// Begins the outermost structure.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn field(&mut self, number: u8, kind: u8) {
        let before = self.last.last().copied().unwrap_or(0);
        self.bytes.push(((number - before) << 4) | kind);
        if let Some(last) = self.last.last_mut() {
            *last = number;
        }
    }

    /// A number outside any field: an element of a list.
    pub fn bare(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Text outside any field.
    pub fn bare_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend(text.bytes());
    }

    /// A 32-bit field.
    pub fn number(&mut self, field: u8, value: i64) {
        self.field(field, 5);
        self.bare(value);
    }

    /// A 64-bit field.
    pub fn long(&mut self, field: u8, value: i64) {
        self.field(field, 6);
        self.bare(value);
    }

    /// A text field.
    pub fn text(&mut self, field: u8, text: &str) {
        self.field(field, 8);
        self.bare_text(text);
    }

    /// Begins a list field of `count` elements of `kind`.
    pub fn list(&mut self, field: u8, kind: u8, count: usize) {
        self.field(field, 9);
        if count < 15 {
            self.bytes.push(((count as u8) << 4) | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(count as u64);
        }
    }

    /// Begins a structure field.
    pub fn open(&mut self, field: u8) {
        self.field(field, 12);
        self.last.push(0);
    }

    /// Begins a structure that is an element of a list.
    pub fn element(&mut self) {
        self.last.push(0);
    }

    /// Ends the innermost structure.
    pub fn close(&mut self) {
        self.bytes.push(0);
        self.last.pop();
    }
}

/// Walks structures; every step is checked against the end of the bytes.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Begins at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were walked.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied().ok_or("its metadata ends too early")?;
        self.at += 1;
        Ok(byte)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("its metadata holds a number that never ends".into())
    }

    /// A number.
    pub fn number(&mut self) -> Result<i64, String> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Calls `see` with each field's number and kind; it must walk or skip what the field holds.
    pub fn fields(&mut self, mut see: impl FnMut(i64, u8, &mut Self) -> Result<(), String>) -> Result<(), String> {
        let mut last = 0_i64;
        loop {
            let byte = self.byte()?;
            if byte == 0 {
                return Ok(());
            }
            last = if byte >> 4 == 0 { self.number()? } else { last.saturating_add(i64::from(byte >> 4)) };
            see(last, byte & 15, self)?;
        }
    }

    /// Calls `see` for each element of a list.
    pub fn each(&mut self, mut see: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        let (_, count) = self.list()?;
        for _ in 0..count {
            see(self)?;
        }
        Ok(())
    }

    fn list(&mut self) -> Result<(u8, u64), String> {
        let byte = self.byte()?;
        let count = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
        Ok((byte & 15, count))
    }

    /// Steps over a field of `kind`.
    pub fn skip(&mut self, kind: u8) -> Result<(), String> {
        self.skip_at(kind, 0)
    }

    fn skip_at(&mut self, kind: u8, depth: u8) -> Result<(), String> {
        if depth > 16 {
            return Err("its metadata is nested too deep".into());
        }
        match kind {
            1 | 2 => Ok(()),
            3 => self.byte().map(|_| ()),
            4..=6 => self.varint().map(|_| ()),
            7 => self.step(8),
            8 => {
                let length = self.varint()?;
                self.step(length)
            }
            9 | 10 => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| match kind {
                    1 | 2 => self.step(1),
                    _ => self.skip_at(kind, depth + 1),
                })
            }
            12 => self.fields(|_, kind, reader| reader.skip_at(kind, depth + 1)),
            _ => Err(format!("its metadata holds a field of unknown kind {kind}")),
        }
    }

    fn step(&mut self, count: u64) -> Result<(), String> {
        if count > (self.bytes.len() - self.at) as u64 {
            return Err("its metadata ends too early".into());
        }
        self.at += count as usize;
        Ok(())
    }
}
