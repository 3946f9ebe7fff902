//! Reads batches of samples out of a data set's files, and checks them as they stream through one buffer.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use super::access::{Access, Failure, Files, Opened};
use super::check::stream::{u32_at, Piece};
use super::check::Check;
use super::dataset::Format;
use super::parquet::{self, Footer};
use super::random::Order;
use crate::contract::kernel::Stop;

/// Bytes of a parquet file that are read first, to find its footer.
const FOOTER: u64 = 64 << 10;
/// A footer beyond this is not believed.
const FOOTER_LIMIT: u64 = 1 << 30;

/// A column of a row group is held in memory to be checked; writers make them of some MiB.
const COLUMN_LIMIT: u64 = 1 << 30;

/// What to read and how; shared by all readers.
pub struct Source {
    /// The files, and how they are read.
    pub files: Files,
    /// Their format.
    pub format: Format,
    /// Samples in each.
    pub samples: u64,
    /// Samples in a batch.
    pub batch: u64,
    /// How many accelerators share the samples.
    pub ranks: u64,
    /// Whether each epoch has a random order.
    pub shuffled: bool,
    /// Seeds that order.
    pub seed: u64,
    /// Whether formats are parsed, or only read.
    pub full: bool,
    /// Parquet: how many columns are read; 0 for all.
    pub columns: usize,
    /// Bytes that each file of raw binary has, where it is known; 0 where not.
    pub file_bytes: u64,
    /// Mean size of the files.
    pub mean_bytes: f64,
}

/// A fault that a reader met; the batch goes on without the samples.
pub struct Trouble {
    /// `open`, `read`, `get` or `parse`.
    pub operation: &'static str,
    /// The system's number; 0 where the content is at fault.
    pub errno: i32,
    /// The failure in words, without the file.
    pub says: String,
    /// The file's number.
    pub file: u64,
}

impl Source {
    /// All samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.files.paths.len() as u64 * self.samples
    }

    /// Samples of accelerator `rank`: the sorted whole cut into contiguous parts of ceil(N / ranks).
    #[must_use]
    pub fn shard(&self, rank: u64) -> (u64, u64) {
        let part = self.total().div_ceil(self.ranks);
        let start = (rank * part).min(self.total());
        (start, (start + part).min(self.total()))
    }

    /// Steps of an epoch: the whole batches that every accelerator has.
    #[must_use]
    pub fn steps(&self) -> u64 {
        (0..self.ranks).map(|rank| self.shard(rank)).map(|(start, end)| (end - start) / self.batch).min().unwrap_or(0)
    }
}

/// One reading thread.
pub struct Reader<'a> {
    source: &'a Source,
    /// Its way to the files.
    pub access: Access<'a>,
    check: Check,
    footer: Option<(u64, Footer)>,
    scratch: Vec<u8>,
    stop: &'a Stop,
    /// Samples that were wanted and not delivered whole.
    pub lost: u64,
}

impl<'a> Reader<'a> {
    /// Allocates all that reading takes; `number` tells readers apart.
    #[must_use]
    pub fn new(source: &'a Source, number: u64, stop: &'a Stop) -> Self {
        Self {
            source,
            access: Access::new(&source.files, number, stop),
            check: Check::of(source.format, source.full),
            footer: None,
            scratch: Vec::with_capacity(FOOTER as usize),
            stop,
            lost: 0,
        }
    }

    /// Reads the batch of `rank` at `step` of `epoch`; `fault` receives what could not be read. False where the storage
    /// did not answer by its deadline: the others would only wait for theirs.
    pub fn batch(&mut self, rank: u64, epoch: u64, step: u64, mut fault: impl FnMut(Trouble)) -> bool {
        let source = self.source;
        let from = source.shard(rank).0 + step * source.batch;
        let to = from + source.batch;
        let shuffle = source.shuffled.then(|| source.seed.wrapping_add(epoch));
        let mut place = from;
        while place < to {
            let (file, within) = (place / source.samples, place % source.samples);
            let in_file = (source.samples - within).min(to - place);
            let (file, first, count) = match (shuffle, source.format) {
                // single samples, anywhere
                (Some(seed), format) if format.by_sample() && format != Format::Parquet => {
                    let sample = Order::new(source.total(), seed).at(place);
                    (sample / source.samples, sample % source.samples, 1)
                }
                (Some(seed), _) => (Order::new(source.files.paths.len() as u64, seed).at(file), within, in_file),
                (None, _) => (file, within, in_file),
            };
            if let Err((operation, errno, says)) = self.samples(file, first, count) {
                if self.stop.is_set() {
                    return true; // a read that was cut short says nothing
                }
                let is_silent = matches!(errno, libc::ETIMEDOUT | libc::EHOSTUNREACH);
                self.lost += if is_silent { to - place } else { count };
                fault(Trouble { operation, errno, says, file });
                if is_silent {
                    return false;
                }
            }
            place += count;
        }
        true
    }

    fn samples(&mut self, file: u64, first: u64, count: u64) -> Result<(), Failure> {
        let source = self.source;
        // the other samples of a whole file came with its first
        if !source.format.by_sample() && first > 0 {
            return Ok(());
        }
        let wrong = |says: String| ("parse", 0, says);
        let opened = self.access.open(file)?;
        let length = opened.length();
        if length == 0 {
            return Err(wrong("it is empty: truncated".into()));
        }
        match source.format {
            Format::Parquet => return self.groups(&opened, file, first, count),
            Format::Binary if source.file_bytes > 0 && length != source.file_bytes => {
                return Err(wrong(format!("it has {length} bytes where {} belong: truncated?", source.file_bytes)));
            }
            _ => {}
        }
        let (from, to) = match source.format {
            Format::Tfrecord => self.records(&opened, first, count)?,
            Format::Binary | Format::Hdf5 => {
                let part = |sample| (u128::from(length) * u128::from(sample) / u128::from(source.samples)) as u64;
                (part(first), part(first + count))
            }
            _ => (0, length),
        };
        let piece = Piece { file: opened.structure(), length, from, samples: count };
        self.check.start(&piece).map_err(|says| match self.check.errno() {
            0 => wrong(says),
            errno => ("read", errno, says),
        })?;
        let check = &mut self.check;
        self.access.stream(&opened, from..to, |piece| check.feed(piece).map_err(wrong))?;
        self.check.end().map_err(wrong)
    }

    /// The place of records `first..first + count`: by division where all have one size, else by walking.
    fn records(&self, opened: &Opened, first: u64, count: u64) -> Result<(u64, u64), Failure> {
        let (samples, length) = (self.source.samples, opened.length());
        let Some(file) = opened.structure() else { return records_of_object(samples, length, first, count) };
        let mut header = [0_u8; 8];
        let mut size_at = |at: u64| match file.read_exact_at(&mut header, at) {
            Ok(()) => Ok(u64::from_le_bytes(header)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Err(("parse", 0, format!("it ends before record {samples}: truncated, or of another workload")))
            }
            Err(error) => Err(("read", errno(&error), error.to_string())),
        };
        if length % samples == 0 && size_at(0)?.checked_add(16) == Some(length / samples) {
            return Ok((length / samples * first, length / samples * (first + count)));
        }
        let (mut at, mut from) = (0_u64, 0);
        for record in 0..first + count {
            if record == first {
                from = at;
            }
            at = at
                .checked_add(size_at(at)?)
                .and_then(|at| at.checked_add(16))
                .filter(|&at| at <= length)
                .ok_or_else(|| ("parse", 0, format!("record {record} reaches beyond its end: truncated")))?;
        }
        Ok((from, at))
    }

    /// Parquet: the chosen columns of the row groups that begin within these samples.
    fn groups(&mut self, opened: &Opened, number: u64, first: u64, count: u64) -> Result<(), Failure> {
        let footer = match self.footer.take() {
            Some((of, footer)) if of == number => footer,
            _ => self.read_footer(opened)?,
        };
        let result = self.group_range(opened, &footer, first, count);
        self.footer = Some((number, footer));
        result
    }

    fn group_range(&mut self, opened: &Opened, footer: &Footer, first: u64, count: u64) -> Result<(), Failure> {
        let wanted = if self.source.columns == 0 { footer.columns } else { self.source.columns.min(footer.columns) };
        let rows = footer.starts.last().copied().unwrap_or(0);
        if rows != self.source.samples {
            return Err(("parse", 0, format!("it has {rows} rows where {} belong", self.source.samples)));
        }
        let begin = footer.starts.partition_point(|&start| start < first);
        let end = footer.starts.partition_point(|&start| start < first + count).min(footer.starts.len() - 1);
        for group in begin..end {
            let chunks = &footer.chunks[group * footer.columns..][..wanted];
            // neighbours are read as one
            let mut at = 0;
            while at < chunks.len() {
                let (from, mut to, start) = (chunks[at].0, chunks[at].0 + chunks[at].1, at);
                at += 1;
                while !self.source.full && at < chunks.len() && chunks[at].0 == to {
                    to += chunks[at].1;
                    at += 1;
                }
                if self.source.full {
                    self.pages(opened, chunks[start])?;
                } else {
                    self.access.stream(opened, from..to, |_| Ok(()))?;
                }
            }
        }
        Ok(())
    }

    /// Reads a column chunk and holds each page against its CRC-32, where the writer gave one.
    fn pages(&mut self, opened: &Opened, (from, length): (u64, u64)) -> Result<(), Failure> {
        if length > COLUMN_LIMIT {
            return Err(("parse", 0, format!("a column of {length} bytes in one group is too long to be checked")));
        }
        self.scratch.clear();
        let Self { access, scratch, .. } = self;
        let keep = |piece: &[u8]| {
            scratch.extend_from_slice(piece);
            Ok(())
        };
        access.stream(opened, from..from + length, keep)?;
        let mut rest = &self.scratch[..];
        while !rest.is_empty() {
            let (header, size, crc) = parquet::page(rest).map_err(|says| ("parse", 0, says))?;
            let data = rest.get(header..header + size as usize);
            let data = data.ok_or(("parse", 0, "a page reaches beyond its column: corrupt".to_string()))?;
            if crc.is_some_and(|crc| crc != crc32fast::hash(data)) {
                return Err(("parse", 0, "the CRC-32 of one of its pages is wrong: corrupt".into()));
            }
            rest = &rest[header + size as usize..];
        }
        Ok(())
    }

    fn read_footer(&mut self, opened: &Opened) -> Result<Footer, Failure> {
        let length = opened.length();
        let wrong = |says: &str| ("parse", 0, says.to_string());
        let mut want = length.min(FOOTER);
        loop {
            self.scratch.resize(want as usize, 0);
            self.access.fill(opened, length - want, &mut self.scratch)?;
            self.access.bytes += want;
            let end = self.scratch.len().checked_sub(8).ok_or_else(|| wrong("it is too short: truncated"))?;
            if &self.scratch[end + 4..] != b"PAR1" {
                return Err(wrong("it does not end as parquet does: truncated"));
            }
            let size = u64::from(u32_at(&self.scratch, end));
            if size + 8 > length || size > FOOTER_LIMIT {
                return Err(wrong("its footer is longer than itself: corrupt"));
            }
            if size + 8 <= want {
                let from = end - size as usize;
                return Footer::parse(&self.scratch[from..end], length).map_err(|says| ("parse", 0, says));
            }
            want = size + 8;
        }
    }
}

/// The place of an object's records, which are found by division alone: to walk would take a request for each. Whether
/// they have one size is seen where they are checked.
fn records_of_object(samples: u64, length: u64, first: u64, count: u64) -> Result<(u64, u64), Failure> {
    if first == 0 && count == samples {
        return Ok((0, length));
    }
    if length % samples != 0 {
        return Err(("parse", 0, "its records have several sizes, so they cannot be read by ranges".into()));
    }
    Ok((length / samples * first, length / samples * (first + count)))
}

fn errno(error: &std::io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn source(files: usize, samples: u64, ranks: u64, batch: u64) -> Source {
        Source {
            files: Files {
                paths: vec![PathBuf::new(); files],
                objects: None,
                direct: false,
                transfer: 4096,
                direct_refused: AtomicBool::new(false),
            },
            format: Format::Tfrecord,
            samples,
            batch,
            ranks,
            shuffled: false,
            seed: 1,
            full: true,
            columns: 0,
            file_bytes: 0,
            mean_bytes: 0.0,
        }
    }

    #[test]
    fn shards_are_contiguous_and_the_last_may_be_short() {
        let source = source(10, 1, 4, 1);
        let shards: Vec<_> = (0..4).map(|rank| source.shard(rank)).collect();
        assert_eq!(shards, [(0, 3), (3, 6), (6, 9), (9, 10)]);
        assert_eq!(source.steps(), 1);
    }

    #[test]
    fn more_ranks_than_samples_have_no_steps() {
        assert_eq!(source(2, 1, 5, 1).steps(), 0);
        assert_eq!(source(168, 1, 1, 7).steps(), 24);
    }
}
