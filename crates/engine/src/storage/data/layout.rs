//! Writes data files: whole, incompressible, without unwritten extents or holes, and nothing of anybody else's.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::{Note, Reading, Samples, Stream};
use crate::loops::memory::allocation;
use crate::safe_files::{self, Made};
use crate::storage::data::data_files;
use crate::storage::results::metrics::Metrics;
use crate::sys::files::{self, Advice};
use crate::sys::filesystem::free_bytes;
use crate::sys::memory::{mark, Region};
use crate::timing::clock::Clock;
use crate::timing::cpu_time;

/// Bytes a write.
const CHUNK: u64 = 4 << 20;
/// Chunks with bytes of their own; after this many the bytes repeat but for the marks of their sectors.
const CHUNKS: u64 = 8;
/// Write-back is started after this much, and two such windows are under way at a time: enough to keep a device
/// busy, little enough to leave the rest of the page cache alone.
const WINDOW: u64 = 32 << 20;

/// Makes `path` a file of at least `size` bytes of incompressible data, all of it on the device.
///
/// A missing file is made. One that a layout began (its first sector says so) is finished: holes are
/// filled, and it goes on from its end. Any other file is left as it is: enough if it is long enough, else
/// an error. When the room runs out, what was added is taken away again.
///
/// # Errors
/// [`Error::Usage`] for a file that is not ours and too short; [`Error::Machine`] for what the system refused.
pub fn lay_out(path: &Path, size: u64, seed: u64, stop: &Stop) -> Result<Reading, Error> {
    let (file, made) = open(path, size)?;
    let before = file.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e))?.len();
    let result = Target { path, file: &file, before, size }.fill(seed, stop);
    if result.is_err() {
        if let Some(made) = made {
            made.remove(); // it was not there before
        } else if file.metadata().is_ok_and(|now| now.len() > before) {
            let _ = file.set_len(before); // gives back the room that was not enough
        }
    }
    result
}

fn open(path: &Path, size: u64) -> Result<(File, Option<Made>), Error> {
    if crate::storage::raw::claim::is_block_device(path) {
        return Err(Error::usage(format!("{} is a raw device; only files can be laid out", path.display())));
    }
    match safe_files::open_to_write(path, 0) {
        Ok(file) => return Ok((file, None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Error::machine(format!("open {} for writing", path.display()), &error)),
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    enough_room(path, parent, size)?;
    match safe_files::create(path) {
        Ok((file, made)) => Ok((file, Some(made))),
        Err(error) => Err(Error::filesystem(format!("create {}; use a writable path", path.display()), parent, &error)),
    }
}

fn enough_room(path: &Path, on: &Path, needed: u64) -> Result<(), Error> {
    match free_bytes(on) {
        Ok(free) if free < needed => Err(no_room(path, needed, free)),
        _ => Ok(()), // unknown room is found out by writing
    }
}

fn no_room(path: &Path, needed: u64, free: u64) -> Error {
    Error::Machine(
        format!(
            "{} needs {} MiB more but its filesystem has {} MiB free: use a smaller size or another path",
            path.display(),
            needed.div_ceil(1 << 20),
            free >> 20
        ),
        Some(libc::ENOSPC),
    )
}

/// The file that is laid out.
struct Target<'a> {
    path: &'a Path,
    file: &'a File,
    /// Its length before.
    before: u64,
    size: u64,
}

impl Target<'_> {
    fn failed(&self, doing: &str, error: &io::Error) -> Error {
        Error::machine(format!("{doing} {}", self.path.display()), error)
    }

    fn fill(&self, seed: u64, stop: &Stop) -> Result<Reading, Error> {
        if !self.file.metadata().map_err(|e| self.failed("stat", &e))?.is_file() {
            return Err(Error::usage(format!("{} is not a regular file", self.path.display())));
        }
        let clock = Clock::best();
        let mut reading = Reading { concurrency_requested: 1.0, ..Reading::default() };
        let gaps = self.gaps(&mut reading.notes)?;
        let needed: u64 = gaps.iter().map(|(from, to)| to - from).sum();
        enough_room(self.path, self.path, needed)?;
        allocation::fits(CHUNK * CHUNKS, "free memory, or raise its limit")?;
        let buffers = Region::new((CHUNK * CHUNKS) as usize).map_err(|e| self.failed("map buffers for", &e))?;
        buffers.fill_random(seed);

        let mut metrics = Metrics::new(100_000_000);
        crate::timing::start::hold_once();
        let cpu = cpu_time::of_this_thread();
        let mut now = clock.now();
        metrics.begin(now);
        let mut writer = Writer { file: self.file, buffers: &buffers, seed, chunks: 0 };
        let mut written = 0_u64;
        'gaps: for &(from, to) in &gaps {
            let (mut at, mut window) = (from, from);
            while at < to {
                if stop.is_set() {
                    reading.interrupted = true;
                    break 'gaps;
                }
                let length = CHUNK.min(to - at);
                writer.write(at, length).map_err(|error| self.refusal(&error, needed - written))?;
                at += length;
                written += length;
                if at - window >= WINDOW {
                    self.write_back(from, window, at).map_err(|e| self.failed("write back", &e))?;
                    window = at;
                }
                let then = std::mem::replace(&mut now, clock.now());
                metrics.completed(true, now - then, now - then, 1);
                metrics.tick(now);
            }
        }
        if written > 0 {
            self.file.sync_all().map_err(|e| self.failed("fsync", &e))?;
            files::advise(self.file, 0, self.size, Advice::DontNeed);
        }
        let synced = clock.now();
        metrics.end(synced);
        reading.cpu = cpu_time::of_this_thread().since(cpu);
        add_writes(&metrics, written, &mut reading);
        reading.detail("existing_bytes", self.before);
        reading.detail("fsync_s", (synced - now) as f64 / 1e9);
        let found = files::extents(self.file, 0, self.size);
        reading.detail("extent_written_bytes", found.map(|f| f.written));
        reading.detail("extent_unwritten_bytes", found.map(|f| f.unwritten));
        reading.detail("extent_hole_bytes", found.map(|f| f.hole));
        Ok(reading)
    }

    /// The ranges that have to be written: holes, and what is beyond the end. A file that is not ours has none, if it
    /// is long enough.
    fn gaps(&self, notes: &mut Vec<Note>) -> Result<Vec<(u64, u64)>, Error> {
        let &Self { path, file, before, size } = self;
        if before == 0 || data_files::has_mark(file, 0).map_err(|e| self.failed("read", &e))? {
            data_files::remember(file);
            let mut gaps = files::holes(file, before.min(size)).map_err(|e| self.failed("seek in", &e))?;
            if size > before {
                gaps.push((before, size));
            }
            return Ok(gaps);
        }
        if before < size {
            return Err(Error::usage(format!(
                "{} exists with {before} B and is not a hwdyno data file: use another path, or a size up to that",
                path.display()
            )));
        }
        notes.push(Note {
            code: "kept_existing".into(),
            says: format!("{} already exists and is long enough; nothing was written", path.display()),
        });
        Ok(Vec::new())
    }

    /// Why a write failed while `left` bytes were still to be written.
    fn refusal(&self, error: &io::Error, left: u64) -> Error {
        match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => match free_bytes(self.path) {
                Ok(free) if free < left => no_room(self.path, left, free),
                _ => self.failed("write", error), // a quota, or what else keeps the room from this file
            },
            _ => self.failed("write", error),
        }
    }

    /// Starts to write back the window that ends at `at`, and drops the one before it, in a gap that begins at `from`.
    fn write_back(&self, from: u64, window: u64, at: u64) -> io::Result<()> {
        files::write_back(self.file, window, at - window, false)?;
        if window >= from + WINDOW {
            let behind = window - WINDOW;
            files::write_back(self.file, behind, WINDOW, true)?;
            files::advise(self.file, behind, WINDOW, Advice::DontNeed);
        }
        Ok(())
    }
}

/// Adds the time, the stream and the samples of what was written, a chunk a write.
fn add_writes(metrics: &Metrics, written: u64, reading: &mut Reading) {
    reading.elapsed_s = (metrics.ended_ns - metrics.began_ns) as f64 / 1e9;
    let direction = &metrics.directions[1];
    let mut stream =
        Stream { name: "write".into(), operations: direction.total.count(), bytes: written, ..Stream::default() };
    stream.add_latency("total", &direction.total);
    reading.streams.push(stream);
    reading.samples = Samples {
        interval_s: metrics.interval_ns as f64 / 1e9,
        operations: vec![direction.progress.clone()],
        bytes: vec![direction.progress.iter().map(|count| count * CHUNK).collect()],
    };
}

/// Writes chunks of random bytes.
struct Writer<'a> {
    file: &'a File,
    buffers: &'a Region,
    seed: u64,
    chunks: u64,
}

impl Writer<'_> {
    /// Writes `length` bytes, at most a chunk, at `offset`.
    fn write(&mut self, offset: u64, length: u64) -> io::Result<()> {
        let at = (self.chunks % CHUNKS * CHUNK) as usize;
        self.chunks += 1;
        self.buffers.stamp(at, length as usize, offset, mark(self.seed ^ self.chunks));
        let mut done = 0;
        while done < length {
            let moved =
                files::write_at(self.file, self.buffers, at + done as usize, (length - done) as usize, offset + done);
            match moved {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                moved if moved > 0 => done += moved as u64,
                errno => match io::Error::from_raw_os_error(-errno as i32) {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::storage::scratch::Scratch;
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    fn go(path: &Path, size: u64) -> Result<Reading, Error> {
        lay_out(path, size, 7, &Stop::new())
    }

    #[test]
    fn a_file_is_whole_incompressible_and_every_sector_its_own() {
        let scratch = Scratch::new("layout-whole");
        let path = scratch.path("data");
        let size = 9 * (1 << 20) + 777;
        let reading = go(&path, size).unwrap();
        assert_eq!(reading.streams[0].bytes, size);
        let data = fs::read(&path).unwrap();
        assert_eq!(data.len() as u64, size);
        let mut sectors: Vec<&[u8]> = data.chunks_exact(512).collect();
        let count = sectors.len();
        sectors.sort_unstable();
        sectors.dedup();
        assert_eq!(sectors.len(), count, "two sectors are alike");
        let mut counts = [0_u64; 256];
        for byte in data {
            counts[usize::from(byte)] += 1;
        }
        let entropy: f64 =
            counts.iter().map(|&n| n as f64 / size as f64).filter(|&p| p > 0.0).map(|p| -p * p.log2()).sum();
        assert!(entropy > 7.99, "{entropy} bits a byte");
        assert_eq!(reading.details["extent_hole_bytes"].as_u64().unwrap_or(0), 0);
        assert_eq!(reading.details["extent_unwritten_bytes"].as_u64().unwrap_or(0), 0);
    }

    #[test]
    fn what_was_begun_is_finished_and_what_is_there_stays() {
        let scratch = Scratch::new("layout-resume");
        let path = scratch.path("data");
        go(&path, 1_000_000).unwrap();
        let begun = fs::read(&path).unwrap();
        let reading = go(&path, 3_000_000).unwrap();
        assert_eq!(reading.streams[0].bytes, 2_000_000);
        assert_eq!(fs::read(&path).unwrap()[..1_000_000], begun);
        let again = go(&path, 2_000_000).unwrap();
        assert_eq!((again.streams[0].bytes, fs::metadata(&path).unwrap().len()), (0, 3_000_000));
    }

    #[test]
    fn holes_that_a_crash_left_are_filled() {
        let scratch = Scratch::new("layout-holes");
        let path = scratch.path("data");
        go(&path, 64 << 10).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"end", (8 << 20) - 3).unwrap();
        if files::holes(&file, 8 << 20).unwrap().is_empty() {
            return crate::here::absent("a filesystem with holes at /var/tmp");
        }
        go(&path, 8 << 20).unwrap();
        let data = fs::read(&path).unwrap();
        assert!(data.chunks(4096).all(|page| page.iter().any(|&byte| byte != 0)));
        assert!(data.ends_with(b"end"));
    }

    #[test]
    fn a_file_of_somebody_else_is_never_touched() {
        let scratch = Scratch::new("layout-alien");
        let path = scratch.path("thesis");
        fs::write(&path, vec![b'x'; 5000]).unwrap();
        assert!(matches!(go(&path, 10_000), Err(Error::Usage(_))));
        let reading = go(&path, 4000).unwrap();
        assert_eq!(reading.notes[0].code, "kept_existing");
        assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 5000]);
    }

    #[test]
    fn no_room_says_how_much_is_missing_and_leaves_nothing() {
        let scratch = Scratch::new("layout-room");
        let path = scratch.path("data");
        let error = go(&path, 1 << 60).unwrap_err();
        assert!(matches!(&error, Error::Machine(says, Some(libc::ENOSPC)) if says.contains("MiB free")), "{error}");
        assert!(!path.exists());
    }

    #[test]
    fn asked_to_stop_it_leaves_what_can_be_finished() {
        let scratch = Scratch::new("layout-stop");
        let path = scratch.path("data");
        let stop = Stop::new();
        stop.set();
        let reading = lay_out(&path, 1 << 20, 7, &stop).unwrap();
        assert!(reading.interrupted);
        assert_eq!(go(&path, 1 << 20).unwrap().streams[0].bytes, 1 << 20);
    }
}
