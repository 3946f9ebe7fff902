//! Parquet: files of required columns in plain, uncompressed pages with CRCs, and the footer of anybody's file.

use super::sink::{Halt, Sink};
use super::thrift::{Reader, Writer};

/// Values of a page fill at most this, unless a single one is larger.
const PAGE: u64 = 1 << 20;
const INT32: i64 = 1;
const FIXED_BYTES: i64 = 7;

/// The shape of a file: how many rows there are, and what each holds.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Rows (samples) in a file.
    pub rows: u64,
    /// Rows in a group.
    pub group: u64,
    /// Bytes of a row over all columns.
    pub record: u64,
    /// How many columns share them.
    pub columns: u64,
}

impl Shape {
    /// Bytes of each column's value: as many of 4 as fit, first, then of 1; what is left over the last one has.
    fn widths(&self) -> Vec<u64> {
        if self.record >= 4 * self.columns || self.columns <= 1 {
            let last = self.columns.max(1) as usize - 1;
            let mut widths = vec![4; last];
            widths.push(self.record.saturating_sub(4 * last as u64).max(1));
            return widths;
        }
        let wide = (self.record.saturating_sub(self.columns) / 3).min(self.columns);
        (0..self.columns).map(|at| if at < wide { 4 } else { 1 }).collect()
    }

    /// An upper estimate of a file's bytes: a page header is under 40 bytes, a chunk's metadata under 60.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let groups = self.rows.div_ceil(self.group.max(1));
        let pages = groups * self.columns.max(1) + self.rows * self.record / PAGE + 1;
        self.rows * self.record + pages * 100 + 4096
    }
}

/// Writes one file of noise.
pub fn write(sink: &mut Sink<'_>, shape: Shape) -> Result<(), Halt> {
    let widths = shape.widths();
    let mut page = Vec::new();
    let mut groups = Vec::new();
    sink.put(b"PAR1")?;
    let mut left = shape.rows;
    while left > 0 {
        let rows = left.min(shape.group.max(1));
        left -= rows;
        let mut chunks = Vec::with_capacity(widths.len());
        for &width in &widths {
            let offset = sink.position();
            let mut values = rows;
            while values > 0 {
                let count = values.min((PAGE / width).max(1));
                values -= count;
                page.resize((count * width) as usize, 0);
                sink.peek_noise(&mut page);
                sink.put(&page_header(count, &page))?;
                sink.put(&page)?;
            }
            chunks.push((offset, sink.position() - offset));
        }
        groups.push((rows, chunks));
    }
    let footer = footer(shape.rows, &widths, &groups);
    sink.put(&footer)?;
    sink.put(&(footer.len() as u32).to_le_bytes())?;
    sink.put(b"PAR1")
}

fn page_header(count: u64, data: &[u8]) -> Vec<u8> {
    let mut header = Writer::new();
    header.number(1, 0); // a data page
    header.number(2, data.len() as i64);
    header.number(3, data.len() as i64);
    header.number(4, i64::from(crc32fast::hash(data) as i32));
    header.open(5);
    header.number(1, count as i64);
    header.number(2, 0); // plain
    header.number(3, 3); // levels by run length; required columns have none
    header.number(4, 3);
    header.close();
    header.close();
    header.bytes
}

type Group = (u64, Vec<(u64, u64)>);

fn footer(rows: u64, widths: &[u64], groups: &[Group]) -> Vec<u8> {
    let kind = |width: u64| if width == 4 { INT32 } else { FIXED_BYTES };
    let name = |at: usize| format!("c{at:03}");
    let mut meta = Writer::new();
    meta.number(1, 2); // version
    meta.list(2, 12, widths.len() + 1);
    meta.element();
    meta.text(4, "schema");
    meta.number(5, widths.len() as i64);
    meta.close();
    for (at, &width) in widths.iter().enumerate() {
        meta.element();
        meta.number(1, kind(width));
        if width != 4 {
            meta.number(2, width as i64);
        }
        meta.number(3, 0); // required
        meta.text(4, &name(at));
        meta.close();
    }
    meta.long(3, rows as i64);
    meta.list(4, 12, groups.len());
    for (rows, chunks) in groups {
        meta.element();
        meta.list(1, 12, chunks.len());
        for (at, &(offset, length)) in chunks.iter().enumerate() {
            meta.element();
            meta.long(2, offset as i64);
            meta.open(3);
            meta.number(1, kind(widths[at]));
            meta.list(2, 5, 1);
            meta.bare(0);
            meta.list(3, 8, 1);
            meta.bare_text(&name(at));
            meta.number(4, 0); // not compressed
            meta.long(5, *rows as i64);
            meta.long(6, length as i64);
            meta.long(7, length as i64);
            meta.long(9, offset as i64);
            meta.close();
            meta.close();
        }
        meta.long(2, chunks.iter().map(|chunk| chunk.1 as i64).sum());
        meta.long(3, *rows as i64);
        meta.close();
    }
    meta.text(6, "hwdyno");
    meta.close();
    meta.bytes
}

/// The places of a file's row groups.
#[derive(Debug, Default)]
pub struct Footer {
    /// Rows before each group, and all of them at the end.
    pub starts: Vec<u64>,
    /// Offset and length of each column chunk, group after group.
    pub chunks: Vec<(u64, u64)>,
    /// Column chunks in a group.
    pub columns: usize,
    /// Length of the file.
    file_bytes: u64,
}

impl Footer {
    /// Reads the footer, which is `bytes`, of a file of `file_bytes`.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<Self, String> {
        let mut footer = Self { starts: vec![0], file_bytes, ..Self::default() };
        let mut reader = Reader::new(bytes);
        reader.fields(|field, kind, reader| match field {
            4 => reader.each(|reader| footer.group(reader)),
            _ => reader.skip(kind),
        })?;
        Ok(footer)
    }

    fn group(&mut self, reader: &mut Reader<'_>) -> Result<(), String> {
        let (mut rows, before) = (0, self.chunks.len());
        reader.fields(|field, kind, reader| match field {
            1 => reader.each(|reader| {
                let (mut data, mut dictionary, mut length) = (0, i64::MAX, 0);
                reader.fields(|field, kind, reader| match field {
                    3 => reader.fields(|field, kind, reader| {
                        match field {
                            7 => length = reader.number()?,
                            9 => data = reader.number()?,
                            11 => dictionary = reader.number()?,
                            _ => reader.skip(kind)?,
                        }
                        Ok(())
                    }),
                    _ => reader.skip(kind),
                })?;
                // a dictionary precedes the data; writers that have none may say 0
                let start = if dictionary > 0 { data.min(dictionary) } else { data };
                let place = |value: i64| u64::try_from(value).map_err(|_| "a negative offset".to_string());
                let (start, length) = (place(start)?, place(length)?);
                if start.checked_add(length).is_none_or(|end| end > self.file_bytes) {
                    return Err("a column reaches beyond its end: truncated, or corrupt".into());
                }
                self.chunks.push((start, length));
                Ok(())
            }),
            3 => {
                rows = reader.number()?;
                Ok(())
            }
            _ => reader.skip(kind),
        })?;
        let columns = self.chunks.len() - before;
        if self.starts.len() > 1 && columns != self.columns {
            return Err(format!("a group with {columns} columns behind one with {}", self.columns));
        }
        self.columns = columns;
        let rows = u64::try_from(rows).ok().and_then(|rows| rows.checked_add(self.starts.last().copied().unwrap_or(0)));
        self.starts.push(rows.ok_or("a group with an impossible number of rows")?);
        Ok(())
    }
}

/// One page's header: its own length, the length of its data, and the data's CRC if the writer gave one.
pub fn page(bytes: &[u8]) -> Result<(usize, u64, Option<u32>), String> {
    let (mut length, mut crc) = (0, None);
    let mut reader = Reader::new(bytes);
    reader.fields(|field, kind, reader| {
        match field {
            3 => length = reader.number()?,
            4 => crc = Some(reader.number()? as u32),
            _ => reader.skip(kind)?,
        }
        Ok(())
    })?;
    Ok((reader.position(), u64::try_from(length).map_err(|_| "a page of negative length".to_string())?, crc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_footer_says_where_its_groups_lie() {
        let groups: Vec<Group> = vec![(6, vec![(4, 100), (104, 50)]), (2, vec![(154, 30), (184, 20)])];
        let footer = Footer::parse(&footer(8, &[4, 1], &groups), 204).unwrap();
        assert_eq!(footer.starts, [0, 6, 8]);
        assert_eq!(footer.chunks, [(4, 100), (104, 50), (154, 30), (184, 20)]);
        assert_eq!(footer.columns, 2);
    }

    #[test]
    fn a_footer_that_contradicts_its_file_or_itself_is_refused() {
        let says = |groups: Vec<Group>| Footer::parse(&footer(8, &[4, 1], &groups), 204).unwrap_err();
        assert!(says(vec![(6, vec![(4, 100), (104, 101)])]).contains("beyond its end"));
        assert!(says(vec![(6, vec![(4, i64::MAX as u64)])]).contains("beyond its end"));
        assert!(
            says(vec![(6, vec![(4, 100), (104, 50)]), (2, vec![(154, 30)])]).contains("1 columns behind one with 2")
        );
        let most = i64::MAX as u64;
        assert!(says(vec![(most, vec![(4, 1)]), (most, vec![(4, 1)]), (most, vec![(4, 1)])]).contains("impossible"));
    }

    #[test]
    fn a_page_header_reads_back() {
        let data = [7; 300];
        let header = page_header(75, &data);
        assert_eq!(page(&header).unwrap(), (header.len(), 300, Some(crc32fast::hash(&data))));
        assert!(page(&header[..5]).is_err());
    }

    #[test]
    fn columns_share_a_record() {
        let widths = Shape { rows: 1, group: 1, record: 761, columns: 200 }.widths();
        assert_eq!(Shape { rows: 1, group: 1, record: 100, columns: 3 }.widths(), [4, 4, 92]);
        assert_eq!(Shape { rows: 1, group: 1, record: 0, columns: 1 }.widths(), [1]);
        assert_eq!((widths.len(), widths.iter().sum::<u64>(), widths[39], widths[199]), (200, 761, 4, 1));
    }
}
