//! A file that records which writes of each block were acknowledged and covered by a sync, and that survives its
//! process.
//!
//! It is mapped and allocated before the timed region. Each block has a word, stored when a write is submitted and when
//! it completes (see [`super::ledger`]): no call, lock or allocation. Stored words are in the page cache, which
//! outlives the process. It does not outlive the machine: to judge a power cut, the journal must be where the power
//! stays on. Its words are of this machine's byte order.
//!
//! ```text
//! word 0  magic          4  nonce of the blocks     8...  path of the file, NUL-padded
//!      1  words in all   5  length of the path   1024...  a job each, 8 words: offset, blocks, syncs
//!      2  block, B       6  1 when the run ended          then a word a block, job after job
//!      3  jobs                                            then a second word a block
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use super::ledger::Ledger;
use super::verify::MIN_BLOCK;
use crate::contract::kernel::Error;
use crate::safe_files;
use crate::storage::order::blocks::Span;
use crate::sys::filesystem::free_bytes;
use crate::sys::words::Words;

const MAGIC: u64 = u64::from_ne_bytes(*b"hwdynoJ1");
const TOTAL: usize = 1;
const BLOCK: usize = 2;
const JOBS: usize = 3;
const NONCE: usize = 4;
const PATH_LENGTH: usize = 5;
const ENDED: usize = 6;
const PATH: usize = 8;
const PARTS: usize = 1024;
const A_PART: usize = 8;
const OFFSET: usize = 0;
const BLOCKS: usize = 1;
const SYNCS: usize = 2;
const LONGEST_PATH: usize = (PARTS - PATH) * 8;
const MAX_JOBS: u64 = 1 << 20;
/// Lengths of a block that a run of ours verifies.
const BLOCK_BYTES: RangeInclusive<u64> = MIN_BLOCK..=1 << 30;
/// No file is longer: offsets are signed.
const LONGEST_FILE: u64 = i64::MAX as u64;
/// The file is written this much at a time.
const CHUNK: usize = 1 << 20;

/// A record of acknowledged writes.
#[derive(Debug, Clone)]
pub struct Journal {
    words: Arc<Words>,
}

impl Journal {
    /// Makes one at `path` for the `parts` (a job each) of `file`, with blocks marked by `nonce`.
    ///
    /// An existing file is left alone, unless it is the journal of a run that ended.
    ///
    /// # Errors
    /// Which file is in the way, or what the system refused.
    pub fn create(path: &Path, file: &Path, nonce: u32, parts: &[Span]) -> Result<Self, Error> {
        let failed = |e: &std::io::Error| Error::machine(format!("create the journal {}", path.display()), e);
        let name = fs::canonicalize(file).map_err(|e| failed(&e))?;
        let name = name.as_os_str().as_bytes();
        if name.len() > LONGEST_PATH {
            return Err(Error::usage(format!("{} is too long for a journal path", file.display())));
        }
        make_way(path)?;
        let blocks: u64 = parts.iter().map(|part| part.blocks).sum();
        let total = PARTS + A_PART * parts.len() + 2 * blocks as usize;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let needed = total as u64 * 8;
        if free_bytes(parent).is_ok_and(|free| free < needed) {
            return Err(Error::Machine(
                format!("the journal {} needs {} MiB, which are not free", path.display(), needed.div_ceil(1 << 20)),
                Some(libc::ENOSPC),
            ));
        }
        let (mut journal, made) = safe_files::create(path).map_err(|e| failed(&e))?;
        // Written, not only lengthened: a page that finds no room when it is touched would end the process.
        let zeroes = vec![0_u8; CHUNK];
        let mut left = total * 8;
        while left > 0 {
            let length = left.min(CHUNK);
            journal.write_all(&zeroes[..length]).map_err(|e| {
                made.remove(); // it was not there before
                failed(&e)
            })?;
            left -= length;
        }
        let words = Words::of_file(&journal, total, true).map_err(|e| failed(&e))?;
        let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
        // Each page is touched now, and not first in the timed region.
        for at in (0..total).step_by(512) {
            set(at, 0);
        }
        set(TOTAL, total as u64);
        set(BLOCK, parts.first().map_or(0, |part| part.block));
        set(JOBS, parts.len() as u64);
        set(NONCE, u64::from(nonce));
        set(PATH_LENGTH, name.len() as u64);
        for (at, bytes) in name.chunks(8).enumerate() {
            let mut word = [0_u8; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            set(PATH + at, u64::from_ne_bytes(word));
        }
        for (at, part) in parts.iter().enumerate() {
            set(PARTS + A_PART * at + OFFSET, part.offset);
            set(PARTS + A_PART * at + BLOCKS, part.blocks);
        }
        words[0].store(MAGIC, Ordering::Release);
        Ok(Self { words: Arc::new(words) })
    }

    /// Reads the one at `path`.
    ///
    /// # Errors
    /// That it is none, or what the system refused.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file =
            File::open(path).map_err(|error| Error::machine(format!("read the journal {}", path.display()), &error))?;
        Self::of_file(&file, path)
    }

    /// The journal in an open file, which errors call by its path.
    fn of_file(file: &File, path: &Path) -> Result<Self, Error> {
        let failed = |e: &std::io::Error| Error::machine(format!("read the journal {}", path.display()), e);
        let about = file.metadata().map_err(|e| failed(&e))?;
        let none = || Error::usage(format!("{} is not a journal of acknowledged writes", path.display()));
        let total = about.len() as usize / 8;
        if !about.is_file() || total < PARTS {
            return Err(none());
        }
        let journal = Self { words: Arc::new(Words::of_file(file, total, false).map_err(|e| failed(&e))?) };
        let fits = journal.at(0) == MAGIC
            && journal.at(TOTAL) == total as u64
            && journal.at(JOBS) <= MAX_JOBS
            && BLOCK_BYTES.contains(&journal.at(BLOCK))
            && journal.at(PATH_LENGTH) as usize <= LONGEST_PATH
            && PARTS + A_PART * journal.jobs() <= total;
        let blocks = || (0..journal.jobs()).try_fold(0_u64, |sum, job| sum.checked_add(journal.part(job).blocks));
        let reach = |part: Span| part.blocks.checked_mul(part.block)?.checked_add(part.offset);
        let fits =
            fits && (0..journal.jobs()).all(|job| reach(journal.part(job)).is_some_and(|end| end <= LONGEST_FILE));
        let fits = fits && blocks().and_then(|all| all.checked_mul(2)) == Some((total - journal.first_entry()) as u64);
        if fits {
            Ok(journal)
        } else {
            Err(none())
        }
    }

    fn at(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn first_entry(&self) -> usize {
        PARTS + A_PART * self.jobs()
    }

    /// Length of a block, B.
    #[must_use]
    pub fn block(&self) -> u64 {
        self.at(BLOCK)
    }

    /// How many jobs wrote.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.at(JOBS) as usize
    }

    /// What marks the blocks of its run.
    #[must_use]
    pub fn nonce(&self) -> u32 {
        self.at(NONCE) as u32
    }

    /// The file that was written.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        let length = self.at(PATH_LENGTH) as usize;
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|at| self.at(PATH + at).to_ne_bytes()).collect();
        bytes.truncate(length);
        PathBuf::from(OsStr::from_bytes(&bytes))
    }

    /// The blocks of a job.
    #[must_use]
    pub fn part(&self, job: usize) -> Span {
        let part = PARTS + A_PART * job;
        Span { offset: self.at(part + OFFSET), blocks: self.at(part + BLOCKS), block: self.block() }
    }

    /// What is known of a job's blocks.
    #[must_use]
    pub fn ledger(&self, job: usize) -> Ledger {
        let all: u64 = (0..self.jobs()).map(|job| self.part(job).blocks).sum();
        let before: u64 = (0..job).map(|job| self.part(job).blocks).sum();
        let from = self.first_entry() + before as usize;
        let entries = from..from + self.part(job).blocks as usize;
        Ledger::within(Arc::clone(&self.words), entries, from + all as usize, PARTS + A_PART * job + SYNCS)
    }

    /// The run ended: nothing was in flight any more.
    pub fn end(&self) {
        self.words[ENDED].store(1, Ordering::Release);
    }

    /// Whether it did.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.at(ENDED) == 1
    }
}

/// Takes away the journal of a run that has ended; anything else is not ours to remove.
fn make_way(path: &Path) -> Result<(), Error> {
    let (file, found) = match safe_files::found(path) {
        Ok(found) => found,
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
            return Err(Error::usage(format!("{} is a symbolic link: name a file that is free", path.display())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::machine(format!("create the journal {}", path.display()), &error)),
    };
    match Journal::of_file(&file, path) {
        Ok(journal) if journal.has_ended() => {
            found.remove();
            Ok(())
        }
        Ok(_) => Err(Error::usage(format!(
            "{0} is the journal of an unfinished run: run `hwdyno storage check {0}`, then remove it",
            path.display()
        ))),
        Err(_) => Err(Error::usage(format!("{} already exists and is not a journal: use a new name", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::scratch::Scratch;

    fn parts() -> [Span; 2] {
        [Span { offset: 4096, blocks: 3, block: 4096 }, Span { offset: 4 * 4096, blocks: 2, block: 4096 }]
    }

    #[test]
    fn what_one_process_stored_another_reads_job_by_job() {
        let scratch = Scratch::new("journal");
        let (path, data) = (scratch.path("journal"), scratch.path("data of ours"));
        fs::write(&data, "x").unwrap();
        let kept = Journal::create(&path, &data, 77, &parts()).unwrap();
        let (first, second) = (kept.ledger(0), kept.ledger(1));
        assert_eq!((first.begin_write(2, 1), second.begin_write(0, 9), second.begin_write(1, 9)), (1, 9, 9));
        first.end(2, true);
        second.end(0, true);
        second.synced();
        let read = Journal::open(&path).unwrap();
        assert_eq!((read.jobs(), read.nonce(), read.file()), (2, 77, data.canonicalize().unwrap()));
        assert_eq!([read.part(0), read.part(1)], parts());
        let state = |job: usize, number| {
            let entry = read.ledger(job).entry(number);
            (entry.begun, entry.acknowledged, entry.covered)
        };
        assert_eq!([state(0, 0), state(0, 2), state(1, 0), state(1, 1)], [(0, 0, 0), (1, 1, 0), (9, 9, 9), (9, 0, 0)]);
    }

    #[test]
    fn only_the_journal_of_a_run_that_ended_is_replaced() {
        let scratch = Scratch::new("journal-way");
        let (path, data) = (scratch.path("journal"), scratch.path("data"));
        fs::write(&data, "x").unwrap();
        let kept = Journal::create(&path, &data, 1, &parts()).unwrap();
        let says = Journal::create(&path, &data, 2, &parts()).unwrap_err().to_string();
        assert!(says.contains("hwdyno storage check"), "{says}");
        kept.end();
        assert_eq!(Journal::create(&path, &data, 2, &parts()).unwrap().nonce(), 2);
        assert_eq!(kept.nonce(), 1, "who has the old one keeps it");
        for alien in [&data, &scratch.path("")] {
            assert!(Journal::create(alien, &data, 2, &parts()).is_err());
        }
        assert_eq!(fs::read(&data).unwrap(), b"x");
        assert!(Journal::create(&scratch.path("nowhere/journal"), &data, 2, &parts()).is_err());
    }

    #[test]
    fn what_is_cut_or_garbled_is_no_journal() {
        let scratch = Scratch::new("journal-garbled");
        let (path, data, other) = (scratch.path("journal"), scratch.path("data"), scratch.path("other"));
        fs::write(&data, "x").unwrap();
        let _kept = Journal::create(&path, &data, 1, &parts()).unwrap();
        let good = fs::read(&path).unwrap();
        assert!(Journal::open(&path).is_ok());
        for length in [0, 7, 8192, good.len() - 8] {
            fs::write(&other, &good[..length]).unwrap();
            assert!(matches!(Journal::open(&other), Err(Error::Usage(_))), "{length} B");
        }
        for word in [0, TOTAL, BLOCK, JOBS, PATH_LENGTH, PARTS + BLOCKS, PARTS + A_PART + BLOCKS] {
            for value in [0, 1, u64::MAX / 2, u64::MAX] {
                let mut bad = good.clone();
                bad[8 * word..8 * word + 8].copy_from_slice(&value.to_ne_bytes());
                fs::write(&other, &bad).unwrap();
                let fits = Journal::open(&other).is_ok();
                assert!(!fits || word == PATH_LENGTH, "word {word} is {value}");
            }
        }
    }
}
