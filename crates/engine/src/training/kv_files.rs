//! Entries of a KV cache as files or objects, in blocks that identify themselves, so that a wrong one is named and not served.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ledger::Ledger;
use super::target::{key, Target};
use crate::contract::kernel::Stop;
use crate::object::line_totals::LineTotals;
use crate::object::place::Line;
use crate::sys::files;
use crate::sys::memory::Region;
use crate::timing::clock::now_ns;

mod objects;

/// Length of a block, and what `O_DIRECT` wants addresses and lengths to be multiples of.
pub const BLOCK: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"hwdynoKV");
/// Magic, entry, block, run and the body's CRC-32C; then the CRC-32C of all five.
const HEADED: usize = 32;
const HEAD: usize = HEADED + 4;
/// Blocks that are named; more are only counted.
const NAMED: u64 = 16;

/// The layer between a transfer and the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Nothing (`O_DIRECT`), or as `Emptied` where the storage refuses that.
    Direct,
    /// The page cache, emptied of an entry before that is read.
    Emptied,
    /// The page cache as it is.
    Cached,
}

/// Where the entries are and how they are moved.
pub struct Shelf {
    target: Target,
    way: Way,
    fsync: bool,
    verify: bool,
    /// Tells this run's blocks from those of another one.
    run: u32,
    /// Set when the storage refused to bypass the page cache.
    pub direct_refused: AtomicBool,
    /// Blocks that were not what was written.
    pub corrupt: AtomicU64,
}

/// One user's memory: to write from and to read into.
pub struct Buffers {
    out: Region,
    bodies: Vec<u32>,
    back: Region,
    length: usize,
    /// The user's connection to a store.
    line: RefCell<Option<Line>>,
    stop: Stop,
}

impl Buffers {
    /// Buffers for transfers of `length` bytes, a multiple of a block.
    pub fn new(length: usize, seed: u64) -> io::Result<Self> {
        let (out, back) = (Region::new(length)?, Region::new(length)?);
        out.fill_random(seed);
        let bodies = out
            .lend(0, length, |bytes| bytes.chunks_exact(BLOCK).map(|block| crc32c::crc32c(&block[HEAD..])).collect());
        Ok(Self { out, bodies, back, length, line: RefCell::new(None), stop: Stop::new() })
    }

    /// The same with a connection to a store, whose waits end by `stop`.
    #[must_use]
    pub fn with_line(self, line: Option<Line>, stop: &Stop) -> Self {
        Self { line: RefCell::new(line), stop: stop.clone(), ..self }
    }

    /// Adds the connection to a store.
    pub fn add_to(&self, lines: &mut LineTotals) {
        if let Some(line) = &*self.line.borrow() {
            lines.add(line);
        }
    }
}

/// Why a transfer ended early.
pub enum Ended {
    /// It was stopped, or the time is over.
    Halted,
    /// What failed, the system's number, and words.
    Failed(&'static str, i32, String),
}

impl Ended {
    fn io(operation: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::Failed(operation, error.raw_os_error().unwrap_or(0), format!("{}: {error}", path.display()))
    }
}

impl Shelf {
    /// A shelf; `run` distinguishes its blocks from another run's.
    #[must_use]
    pub fn new(target: Target, way: Way, fsync: bool, verify: bool, run: u32) -> Self {
        Self { target, way, fsync, verify, run, direct_refused: AtomicBool::new(false), corrupt: AtomicU64::new(0) }
    }

    /// The file of an entry.
    #[must_use]
    pub fn path(&self, entry: u64) -> PathBuf {
        self.target.show(&entry_name(entry)).into()
    }

    /// Removes an entry's file; one that is gone already is as good, and what stays goes with the folder.
    pub fn remove(&self, entry: u64, buffers: &Buffers) {
        let name = entry_name(entry);
        match (&self.target, buffers.line.borrow_mut().as_mut()) {
            (Target::Folder(folder), _) => folder.remove(&name),
            (Target::Store(place), Some(line)) => drop(line.remove(&key(place, &name), 0, &buffers.stop)),
            (Target::Store(_), None) => {}
        }
    }

    /// Opens a file past the page cache if requested, and through it where the storage refuses.
    fn open(&self, name: &Path, is_new: bool) -> io::Result<File> {
        let Target::Folder(folder) = &self.target else { return Err(io::ErrorKind::Unsupported.into()) };
        let way = |direct| if is_new { folder.create(name, direct) } else { folder.folder().read(name, direct) };
        if self.way == Way::Direct && !self.direct_refused.load(Ordering::Relaxed) {
            match way(true) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                    self.direct_refused.store(true, Ordering::Relaxed);
                }
                answer => return answer,
            }
        }
        way(false)
    }

    /// The content of an entry's blocks from `block` on, written into `buffers` with their heads.
    fn stamp(&self, buffers: &Buffers, entry: u64, block: u64, length: usize) {
        buffers.out.lend(0, length, |bytes| {
            for (at, place) in bytes.chunks_exact_mut(BLOCK).enumerate() {
                place[..8].copy_from_slice(&MAGIC.to_le_bytes());
                place[8..16].copy_from_slice(&entry.to_le_bytes());
                place[16..24].copy_from_slice(&(block + at as u64).to_le_bytes());
                place[24..28].copy_from_slice(&self.run.to_le_bytes());
                place[28..HEADED].copy_from_slice(&buffers.bodies[at].to_le_bytes());
                let sum = crc32c::crc32c(&place[..HEADED]);
                place[HEADED..HEAD].copy_from_slice(&sum.to_le_bytes());
            }
        });
    }

    /// An entry as it is kept in memory: real bytes, the same as on storage.
    #[must_use]
    pub fn compose(&self, entry: u64, length: u64, buffers: &Buffers) -> Vec<u8> {
        let mut whole = Vec::with_capacity(length as usize);
        while (whole.len() as u64) < length {
            let piece = (length - whole.len() as u64).min(buffers.length as u64) as usize;
            self.stamp(buffers, entry, (whole.len() / BLOCK) as u64, piece);
            buffers.out.lend(0, piece, |bytes| whole.extend_from_slice(bytes));
        }
        whole
    }

    /// Writes an entry of `length` bytes, from `memory` or made here; gives the time that the storage took, ns.
    pub fn write(
        &self,
        entry: u64,
        length: u64,
        memory: Option<&[u8]>,
        buffers: &Buffers,
        ledger: &Ledger,
        halt: &dyn Fn() -> bool,
    ) -> Result<u64, Ended> {
        if let Target::Store(place) = &self.target {
            return self.put(place, (entry, length), memory, buffers, ledger, halt);
        }
        let (path, name) = (self.path(entry), entry_name(entry));
        let begun = now_ns();
        let file = self.open(&name, true).map_err(|error| Ended::io("open", &path, &error))?;
        let mut took = now_ns() - begun;
        let mut at = 0_u64;
        while at < length {
            if halt() {
                return Err(Ended::Halted);
            }
            let piece = (length - at).min(buffers.length as u64) as usize;
            let region = self.fill(buffers, (entry, at, piece), memory);
            let mut done = 0_usize;
            let begun = now_ns();
            while done < piece {
                match files::write_at(&file, region, done, piece - done, at + done as u64) {
                    moved if moved > 0 => done += moved as usize,
                    0 => return Err(Ended::Failed("write", 0, format!("{}: nothing was taken", path.display()))),
                    failed if -failed == i64::from(libc::EINTR) => {}
                    failed => {
                        return Err(Ended::io("write", &path, &io::Error::from_raw_os_error(-failed as i32)));
                    }
                }
            }
            let now = now_ns();
            took += now - begun;
            ledger.done(now, 0, piece as u64);
            at += piece as u64;
        }
        let begun = now_ns();
        if self.fsync {
            file.sync_all().map_err(|error| Ended::io("fsync", &path, &error))?;
        }
        drop(file);
        let now = now_ns();
        ledger.done(now, 1, 0);
        Ok(took + now - begun)
    }

    /// Puts the piece of an entry at `at` into a buffer, from `memory` or made here.
    fn fill<'b>(
        &self,
        buffers: &'b Buffers,
        (entry, at, piece): (u64, u64, usize),
        memory: Option<&[u8]>,
    ) -> &'b Region {
        let Some(memory) = memory else {
            self.stamp(buffers, entry, at / BLOCK as u64, piece);
            return &buffers.out;
        };
        buffers.back.lend(0, piece, |bytes| bytes.copy_from_slice(&memory[at as usize..at as usize + piece]));
        &buffers.back
    }

    /// Reads an entry of `length` bytes and holds its blocks against what was written; gives the storage's time, ns.
    ///
    /// A block that is not what was written is counted and named, and the rest is read on.
    pub fn read(
        &self,
        entry: u64,
        length: u64,
        buffers: &Buffers,
        ledger: &Ledger,
        halt: &dyn Fn() -> bool,
    ) -> Result<u64, Ended> {
        if let Target::Store(place) = &self.target {
            return self.get(place, (entry, length), buffers, ledger, halt);
        }
        let (path, name) = (self.path(entry), entry_name(entry));
        let begun = now_ns();
        let file = self.open(&name, false).map_err(|error| Ended::io("open", &path, &error))?;
        let mut took = now_ns() - begun;
        if self.way == Way::Emptied || self.direct_refused.load(Ordering::Relaxed) {
            files::forget(&file);
        }
        let mut at = 0_u64;
        while at < length {
            if halt() {
                return Err(Ended::Halted);
            }
            let piece = (length - at).min(buffers.length as u64) as usize;
            let mut done = 0_usize;
            let begun = now_ns();
            while done < piece {
                match files::read_at(&file, &buffers.back, done, piece - done, at + done as u64) {
                    moved if moved > 0 => done += moved as usize,
                    0 => {
                        let there = at + done as u64;
                        let says = format!("{}: it ends at byte {there} of {length}: cut short", path.display());
                        return Err(Ended::Failed("read", 0, says));
                    }
                    failed if -failed == i64::from(libc::EINTR) => {}
                    failed => {
                        return Err(Ended::io("read", &path, &io::Error::from_raw_os_error(-failed as i32)));
                    }
                }
            }
            let now = now_ns();
            took += now - begun;
            ledger.done(now, 0, piece as u64);
            if self.verify {
                buffers.back.lend(0, piece, |bytes| self.verify(entry, at, bytes, &path, ledger));
            }
            at += piece as u64;
        }
        ledger.done(now_ns(), 1, 0);
        Ok(took)
    }

    fn verify(&self, entry: u64, from: u64, bytes: &[u8], path: &Path, ledger: &Ledger) {
        for (at, block) in bytes.chunks_exact(BLOCK).enumerate() {
            let number = from / BLOCK as u64 + at as u64;
            if let Err(what) = self.inspect(entry, number, block) {
                if self.corrupt.fetch_add(1, Ordering::Relaxed) < NAMED {
                    ledger.fault("verify", 0, format!("{}: block {number} is {what}", path.display()));
                }
            }
        }
    }

    fn inspect(&self, entry: u64, number: u64, block: &[u8]) -> Result<(), String> {
        let word = |at: usize| block[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let half = |at: usize| block[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        if word(0) != MAGIC {
            return Err("lost: it was never a block of a KV cache".into());
        }
        if half(HEADED) != crc32c::crc32c(&block[..HEADED]) || half(28) != crc32c::crc32c(&block[HEAD..]) {
            return Err("flipped: its CRC-32C is wrong".into());
        }
        if half(24) != self.run {
            return Err("stale: an earlier run wrote it".into());
        }
        if (word(8), word(16)) != (entry, number) {
            return Err(format!("misplaced: it is block {} of entry {}", word(16), word(8)));
        }
        Ok(())
    }
}

/// The name of an entry's file.
fn entry_name(entry: u64) -> PathBuf {
    format!("kv-{entry:08}.hwdyno").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe_files::scratch::Private;
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    fn shelf(name: &str) -> (Shelf, PathBuf) {
        let folder = std::env::temp_dir().join(format!("hwdyno-kv-{name}-{}", std::process::id()));
        (Shelf::new(Target::Folder(Private::at(&folder).unwrap()), Way::Emptied, false, true, 7), folder)
    }

    fn read(shelf: &Shelf, entry: u64, length: u64, ledger: &Ledger) -> Result<u64, Ended> {
        shelf.read(entry, length, &Buffers::new(2 * BLOCK, 9).unwrap(), ledger, &|| false)
    }

    #[test]
    fn what_was_written_is_read_whole_from_memory_or_made() {
        let (shelf, folder) = shelf("whole");
        let (buffers, ledger) = (Buffers::new(2 * BLOCK, 1).unwrap(), Ledger::new(0.1));
        let length = 5 * BLOCK as u64;
        let memory = shelf.compose(4, length, &buffers);
        shelf.write(3, length, None, &buffers, &ledger, &|| false).ok().unwrap();
        shelf.write(4, length, Some(&memory), &buffers, &ledger, &|| false).ok().unwrap();
        assert_eq!(std::fs::read(shelf.path(4)).unwrap(), memory);
        for entry in [3, 4] {
            read(&shelf, entry, length, &ledger).ok().unwrap();
        }
        assert!(ledger.faults().is_empty());
        drop(shelf);
        std::fs::remove_dir(folder).unwrap();
    }

    #[test]
    fn a_wrong_block_is_named_by_what_is_wrong_with_it() {
        let (shelf, folder) = shelf("wrong");
        let (buffers, ledger) = (Buffers::new(2 * BLOCK, 1).unwrap(), Ledger::new(0.1));
        let length = 6 * BLOCK as u64;
        shelf.write(1, length, None, &buffers, &ledger, &|| false).ok().unwrap();
        let file = OpenOptions::new().read(true).write(true).open(shelf.path(1)).unwrap();
        let mut other = vec![0; BLOCK];
        file.read_exact_at(&mut other, 0).unwrap();
        file.write_all_at(&[0x55], BLOCK as u64 + 3000).unwrap();
        file.write_all_at(&other, 2 * BLOCK as u64).unwrap();
        file.write_all_at(&[0; BLOCK], 3 * BLOCK as u64).unwrap();
        read(&shelf, 1, length, &ledger).ok().unwrap();
        let old = Shelf::new(Target::Folder(Private::at(&folder).unwrap()), Way::Cached, false, true, 8);
        std::fs::hard_link(shelf.path(1), old.path(1)).unwrap();
        read(&old, 1, BLOCK as u64, &ledger).ok().unwrap();
        let says: Vec<String> = ledger.faults().into_iter().map(|fault| fault.says).collect();
        assert_eq!(says.len(), 4, "{says:?}");
        assert!(says[0].ends_with("block 1 is flipped: its CRC-32C is wrong"), "{}", says[0]);
        assert!(says[1].ends_with("block 2 is misplaced: it is block 0 of entry 1"), "{}", says[1]);
        assert!(says[2].contains("block 3 is lost"), "{}", says[2]);
        assert!(says[3].contains("block 0 is stale"), "{}", says[3]);
        file.set_len(BLOCK as u64 + 100).unwrap();
        let Err(Ended::Failed(_, _, says)) = read(&shelf, 1, length, &ledger) else { panic!("read whole") };
        assert!(says.ends_with("it ends at byte 4196 of 24576: cut short"), "{says}");
        shelf.remove(1, &buffers);
        let Err(Ended::Failed(operation, errno, _)) = read(&shelf, 1, length, &ledger) else { panic!("read whole") };
        assert_eq!((operation, errno), ("open", libc::ENOENT));
        drop((shelf, old));
        std::fs::remove_dir(folder).unwrap();
    }
}
