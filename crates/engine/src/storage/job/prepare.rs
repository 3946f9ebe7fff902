//! Prepares a job: opens or creates its files, checks its region, and examines what is allocated and cached there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use serde_json::{json, Map, Value};

use super::spec::{Engine, Job};
use crate::contract::kernel::Error;
use crate::contract::reading::Note;
use crate::safe_files::{self, Made};
use crate::storage::data::data_files;
use crate::storage::order::blocks::Span;
use crate::storage::raw::claim::{self, Claim};
use crate::storage::results::counters::Device;
use crate::sys::files::{self, Advice, Durable};
use crate::sys::filesystem;
use crate::sys::memory::Region;

/// A share of a range of a file; none where the system does not tell.
pub(super) type ShareOf = fn(&File, u64, u64) -> Option<f64>;

/// A prepared job: files open, region known.
pub(super) struct Prepared {
    /// Keeps everybody else off a raw device that is written, as long as the run lasts.
    _claim: Option<Claim>,
    /// The files of each thread.
    pub files: Vec<Vec<File>>,
    /// The region of all files together; with several, that of each is as long.
    pub span: Span,
    /// Blocks of one file.
    pub file_blocks: u64,
    /// The device below the first file.
    pub device: Option<Device>,
    /// Remarks.
    pub notes: Vec<Note>,
    /// Figures beside the measurement.
    pub details: Map<String, Value>,
    _made: TemporaryFiles,
}

/// Files created for this run, removed after it.
#[derive(Default)]
struct TemporaryFiles(Vec<Made>);

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        self.0.iter().for_each(Made::remove);
    }
}

impl Job {
    /// A job for the engine that touches no file.
    pub(super) fn without_files(&self) -> Prepared {
        let span = Span { offset: 0, blocks: (self.size / self.block).max(1), block: self.block };
        let (notes, details) = (Vec::new(), Map::new());
        Prepared {
            _claim: None,
            files: Vec::new(),
            span,
            file_blocks: span.blocks,
            device: None,
            notes,
            details,
            _made: TemporaryFiles::default(),
        }
    }

    pub(super) fn prepare(&self) -> Result<Prepared, Error> {
        let mut notes = Vec::new();
        let mut details = Map::new();
        let paths = self.paths();
        let claim = self.claim(&paths)?;
        if self.options.purge {
            notes.push(purged(claim.as_ref()));
        }
        let made = if self.fresh { make(&paths)? } else { TemporaryFiles::default() };
        let (mut size, mut device, mut raw) = (u64::MAX, None, false);
        for path in &paths {
            let (length, metadata, is_device) = self.measure_region(path, claim.as_ref())?;
            size = size.min(length);
            device = device.or_else(|| Device::of(&metadata, is_device));
            raw |= is_device;
        }
        let count = paths.len() as u64;
        let file_blocks = size / self.block;
        let span = Span { offset: self.offset, blocks: file_blocks * count, block: self.block };
        let least = if self.share_whole || count > 1 { 1 } else { self.jobs as u64 };
        if file_blocks < least {
            return Err(Error::usage(format!(
                "a region of {size} B holds {file_blocks} blocks of {} B, but {least} are needed: use a larger size \
                or a smaller bs{}",
                self.block,
                if self.share_whole { "" } else { ", or share=whole" }
            )));
        }
        notes.extend(self.split_note());
        let covered = file_blocks * span.block;
        if let Some((iolog, _)) = &self.options.replay {
            iolog.check(paths.len(), if count > 1 { covered } else { self.offset + size }, self.block)?;
            if self.engine == Engine::Mmap || self.jobs > 1 {
                return Err(Error::usage("a trace runs with one job, and not with mmap"));
            }
        }
        let mut direct = self.direct;
        if direct {
            let first = self.open(paths[0], claim.as_ref(), false)?;
            if let Some(why) = self.direct_refused(paths[0], &first, claim.as_ref(), span) {
                direct = false;
                notes.push(Note::new("direct_refused", format!("{why}; every figure includes the page cache")));
            }
        }
        details.insert("direct_used".into(), json!(direct));
        let all = self.open_all(&paths, claim.as_ref(), direct, span.offset, covered)?;
        if !self.fresh {
            let under = allocation(&paths, span.offset, covered)?;
            if !raw {
                details.insert("extent_written_bytes".into(), json!(under.map(|f| f.written)));
                details.insert("extent_unwritten_bytes".into(), json!(under.map(|f| f.unwritten)));
                details.insert("extent_hole_bytes".into(), json!(under.map(|f| f.hole)));
                details.insert("extent_encoded_bytes".into(), json!(under.map(|f| f.encoded)));
            }
            let before = self.region_share(&all, span.offset, file_blocks, files::cached_share);
            details.insert("cached_share_before".into(), json!(before));
        }
        self.options.check_polling(self.engine == Engine::Uring, direct, device.as_ref())?;
        Ok(Prepared { _claim: claim, files: all, span, file_blocks, device, notes, details, _made: made })
    }

    fn paths(&self) -> Vec<&Path> {
        if self.files.is_empty() {
            vec![&self.path]
        } else {
            self.files.iter().map(PathBuf::as_path).collect()
        }
    }

    /// Claims the raw device that is written; none where files are.
    fn claim(&self, paths: &[&Path]) -> Result<Option<Claim>, Error> {
        match paths.iter().find(|path| self.changes() && claim::is_block_device(path)) {
            Some(_) if paths.len() > 1 => Err(Error::usage("a raw device is written by itself: name no other file")),
            Some(device) => claim::claim(device, &self.consent).map(Some),
            None => Ok(None),
        }
    }

    /// The remark that a block takes several system calls, where it does.
    fn split_note(&self) -> Option<Note> {
        let is_split = self.block > files::LARGEST_CALL && self.engine != Engine::Mmap;
        let calls = self.block.div_ceil(files::LARGEST_CALL);
        is_split.then(|| {
            let (block, largest) = (self.block, files::LARGEST_CALL);
            Note::new("block_split", format!("a block of {block} B needs {calls} system calls of at most {largest} B"))
        })
    }

    /// Opens the files of each thread, and prepares the page cache for `length` bytes of each from `offset` on.
    fn open_all(
        &self,
        paths: &[&Path],
        claim: Option<&Claim>,
        direct: bool,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Vec<File>>, Error> {
        let mut all = Vec::with_capacity(self.jobs);
        for number in 0..self.jobs {
            let share = if self.share_whole || paths.len() == 1 { paths.len() } else { paths.len() / self.jobs };
            let from = if share == paths.len() { 0 } else { number * share };
            let mut files_of_thread = Vec::with_capacity(share);
            for path in &paths[from..from + share] {
                // A separate file description for each job: it has the state of the read-ahead.
                let file = self.open(path, claim, direct)?;
                if !direct {
                    let advice = if self.random { Advice::Random } else { Advice::Sequential };
                    files::advise(&file, offset, length, advice);
                }
                if self.drop_cache {
                    files::advise(&file, offset, length, Advice::DontNeed);
                }
                if self.options.pre_read && number == 0 {
                    files::read_ahead(&open(path)?, offset, length);
                }
                files_of_thread.push(file);
            }
            all.push(files_of_thread);
        }
        Ok(all)
    }

    /// The length of the region of one file, what the system says of it, and whether it is a block device.
    fn measure_region(&self, path: &Path, claim: Option<&Claim>) -> Result<(u64, fs::Metadata, bool), Error> {
        let file = self.open(path, claim, false)?;
        let metadata = file.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e))?;
        let kind = metadata.file_type();
        let is_device = kind.is_block_device();
        if !is_device && !kind.is_file() {
            return Err(Error::usage(format!("{} is neither a regular file nor a block device", path.display())));
        }
        if self.fresh {
            return Ok((self.size, metadata, false));
        }
        let length = if is_device { files::device_size(&file).unwrap_or(0) } else { metadata.len() };
        let size = if self.size == 0 { length.saturating_sub(self.offset) } else { self.size };
        if self.offset.checked_add(size).is_none_or(|end| end > length) || size == 0 {
            return Err(Error::usage(format!(
                "{} has {length} B, but offset {} + size {size} needs more: lay the file out first, or use less",
                path.display(),
                self.offset
            )));
        }
        Ok((size, metadata, is_device))
    }

    /// Opens a file as this job needs it; a device for writing by its claim alone.
    fn open(&self, path: &Path, claim: Option<&Claim>, direct: bool) -> Result<File, Error> {
        if let Some(claim) = claim {
            return claim.open(path, direct, self.options.durable);
        }
        let written_from = self.changes().then_some(self.offset);
        let file = open_as(path, written_from, direct, self.options.durable)?;
        // The path may lead elsewhere than a moment ago; what cannot be looked at is not written to.
        let now = || file.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e));
        if self.changes() && now()?.file_type().is_block_device() {
            return Err(Error::usage(format!("{} became a block device while it was opened", path.display())));
        }
        Ok(file)
    }

    /// A share of the region, over all files.
    pub(super) fn region_share(&self, all: &[Vec<File>], offset: u64, blocks: u64, of: ShareOf) -> Option<f64> {
        let opened: Vec<&File> =
            if self.share_whole { all.first()?.iter().collect() } else { all.iter().flatten().collect() };
        // One file that all jobs share is looked at once.
        let opened = if self.files.len() > 1 { &opened[..] } else { opened.get(..1)? };
        let shares = opened.iter().map(|file| of(file, offset, blocks * self.block));
        let shares = shares.collect::<Option<Vec<f64>>>()?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// Why the file cannot be read directly in these blocks; none if it can.
    fn direct_refused(&self, path: &Path, buffered: &File, claim: Option<&Claim>, span: Span) -> Option<String> {
        match self.engine {
            Engine::Mmap => return Some("a mapping always goes through the page cache".into()),
            Engine::Stdio => return Some("the C library's streams copy through a buffer of their own".into()),
            _ => {}
        }
        // The node of a device is in a filesystem in memory (devtmpfs), and the device is not.
        let is_device = buffered.metadata().is_ok_and(|about| about.file_type().is_block_device());
        if !is_device && filesystem::in_memory_only(buffered) {
            return Some("this filesystem is in memory and has no device".into());
        }
        let direct = match self.open(path, claim, true) {
            Ok(file) => file,
            Err(error) => return Some(format!("O_DIRECT was refused ({error})")),
        };
        // A read of one block shows whether its alignment will do; a longer one adds nothing.
        let block = self.options.shortest(self.block);
        let length = if block <= 1 << 20 { block as usize } else { 4096 + block as usize % 4096 };
        let probe = Region::new(length).ok()?;
        if self.fresh {
            let whole = block % 512 == 0 && span.offset % 512 == 0;
            return (!whole).then(|| format!("blocks of {block} B at offset {} are not whole sectors", span.offset));
        }
        let answer = files::read_at(&direct, &probe, 0, length, span.offset);
        (answer == -i64::from(libc::EINVAL))
            .then(|| format!("blocks of {block} B at offset {} do not fit the device's for O_DIRECT", span.offset))
    }
}

/// What is allocated in this range of all files together; none where the system does not tell.
fn allocation(paths: &[&Path], offset: u64, length: u64) -> Result<Option<files::Extents>, Error> {
    let mut under = Some(files::Extents::default());
    for path in paths {
        let found = files::extents(&open(path)?, offset, length);
        under = under.zip(found).map(|(sum, found)| sum + found);
    }
    Ok(under)
}

/// Discards the whole device, and reports whether that worked.
fn purged(claim: Option<&Claim>) -> Note {
    match claim.map(Claim::purge) {
        Some(Ok(())) => Note::new("purged", "the whole device was discarded (BLKDISCARD)"),
        Some(Err(error)) => Note::new("not_purged", format!("the device cannot be purged by a discard ({error})")),
        None => Note::new(
            "not_purged",
            "a file cannot be purged: its drive keeps the old data; use the raw device with \
                --destroy",
        ),
    }
}

/// Creates the files of a run that needs fresh ones; none of them may exist.
fn make(paths: &[&Path]) -> Result<TemporaryFiles, Error> {
    let mut made = TemporaryFiles::default();
    for path in paths {
        let (file, name) = safe_files::create(path).map_err(|error| {
            let parent = path.parent().unwrap_or(path);
            Error::filesystem(format!("create {}; use a writable path", path.display()), parent, &error)
        })?;
        data_files::remember(&file);
        made.0.push(name);
    }
    Ok(made)
}

fn open(path: &Path) -> Result<File, Error> {
    open_as(path, None, false, Durable::Later)
}

/// Opens a file to read, or to be written over from an offset on.
fn open_as(path: &Path, written_from: Option<u64>, direct: bool, durable: Durable) -> Result<File, Error> {
    let flags = files::flags(direct, durable);
    let refused = |error: &io::Error| {
        let remedy = match error.kind() {
            io::ErrorKind::NotFound => ": lay the file out first",
            io::ErrorKind::PermissionDenied => ": use a path that you may access",
            _ => "",
        };
        let purpose = if written_from.is_some() { " for writing" } else { "" };
        Error::machine(format!("open {}{purpose}{remedy}", path.display()), error)
    };
    match written_from {
        Some(offset) => data_files::open_to_write(path, flags, offset, refused),
        None => files::open_to_read(path, flags).map_err(|error| refused(&error)),
    }
}
