//! The ways in which programs go through a file, as IOzone and IOR name them: first writes and rewrites, cold and
//! warm reads, backward, in strides, one record again and again, and through the C library's streams.

use std::path::{Path, PathBuf};

use crate::contract::declare::{choice, flag, integer, number, required, Words, CPUS, INTERVAL_S, SEED, THREADS};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::parameter::{Role, Trait};
use crate::contract::reading::Reading;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::job::options::JobOptions;
use crate::storage::job::spec::{Engine, Job};
use crate::{parameters, words};

/// What IOzone's stride read takes by default: every 17th record.
const STRIDE_RECORDS: u64 = 17;
/// The kernel `storage_patterns`.
pub struct StoragePatterns;

words! {
    /// A way through a file, as IOzone and IOR name it.
    pub enum Pattern {
        /// Writes to a new file.
        Write = "write": Writes,
        /// Writes to an existing file.
        Rewrite = "rewrite": Writes,
        /// Not in the cache.
        Read = "read": Reads,
        /// Read right before.
        Reread = "reread": Reads,
        /// Reads at random.
        Randread = "randread": Reads Random,
        /// Writes at random.
        Randwrite = "randwrite": Writes Random,
        /// Reads from the end down.
        BackwardRead = "backward_read": Reads,
        /// One record again and again.
        RecordRewrite = "record_rewrite": Writes,
        /// Every 17th record.
        Stride = "stride": Reads,
        /// [`Pattern::Write`] through the C library's streams.
        Fwrite = "fwrite": Writes PageCache,
        /// [`Pattern::Rewrite`] through the C library's streams.
        Frewrite = "frewrite": Writes PageCache,
        /// [`Pattern::Read`] through the C library's streams.
        Fread = "fread": Reads PageCache,
        /// [`Pattern::Reread`] through the C library's streams.
        Freread = "freread": Reads PageCache,
        /// Both at random, half and half.
        Randrw = "randrw": Reads Writes Random,
    }
}

impl Pattern {
    /// The way itself, whoever goes it.
    fn plain(self) -> Self {
        match self {
            Self::Fwrite => Self::Write,
            Self::Frewrite => Self::Rewrite,
            Self::Fread => Self::Read,
            Self::Freread => Self::Reread,
            other => other,
        }
    }

    fn read_percent(self) -> u64 {
        match (self.is(Trait::Reads), self.is(Trait::Writes)) {
            (true, true) => 50,
            (reads, _) => 100 * u64::from(reads),
        }
    }
}

parameters! {
    /// What `storage_patterns` takes.
    pub struct Parameters {
        path: PathBuf = required("an existing data file; new ones are created beside it and removed"),
        pattern: Pattern = choice("write: a new file; rewrite: an existing one; read: uncached; reread: cached; \
            backward_read; stride: every 17th record; record_rewrite: one record repeatedly; f…: with fread and fwrite"),
        bs: u64 = integer("record size", "B", (1, 1 << 40), 65536).role(Role::Size),
        numjobs: usize = THREADS.means("threads, each with its own part of the file or its own new file"),
        size: u64 = integer("bytes of all threads together; 0 for the whole file", "B", (0, i64::MAX), 0),
        ioengine: Engine = choice("I/O engine; f… always use the C library")
            .only(&[Engine::Psync, Engine::Mmap, Engine::Uring, Engine::Aio]),
        direct: bool = flag("bypass the page cache (O_DIRECT), if the filesystem allows it", false),
        end_fsync: bool = flag("sync written data at the end, inside the timed region", false),
        runtime: f64 = number("time limit of a pass; 0 for none", "s", (0.0, 604_800.0), 0.0),
        seed: u64 = SEED.means("seed of random orders and of the data written"),
        interval_s: f64 = INTERVAL_S,
        cpus: Vec<u64> = CPUS.means("CPUs to run on, one job each in turn; empty for any"),
    }
}

impl Kernel for StoragePatterns {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "bs")],
        writes: Writes::File,
        stateful: true,
        ..Declaration::new(
            "storage_patterns",
            "one pass over a file in a pattern of IOzone or IOR, through the page cache unless direct",
            "I/O",
        )
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { pattern, bs: block, numjobs, .. } = *parameters;
        let (path, jobs) = (parameters.path.clone(), numjobs as u64);
        let plain = pattern.plain();
        let fresh = plain == Pattern::Write;
        if !path.is_file() {
            return Err(Error::usage(format!("{} is not a file: patterns need a data file", path.display())));
        }
        let size = match parameters.size {
            0 => path.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e))?.len(),
            size => size,
        };
        let options = JobOptions {
            backward: plain == Pattern::BackwardRead,
            stride: if plain == Pattern::Stride { STRIDE_RECORDS * block } else { 0 },
            io_size: if plain == Pattern::RecordRewrite { size / block * block } else { 0 },
            ..JobOptions::default()
        };
        let job = Job {
            engine: if pattern.is(Trait::PageCache) { Engine::Stdio } else { parameters.ioengine },
            read_percent: pattern.read_percent(),
            random: pattern.is(Trait::Random),
            block,
            jobs: numjobs,
            direct: parameters.direct,
            size: match plain {
                Pattern::RecordRewrite => block * jobs,
                Pattern::Write => (size / jobs).max(block),
                _ => size,
            },
            runtime_s: parameters.runtime,
            seed: parameters.seed,
            interval_s: parameters.interval_s,
            cpus: parameters.cpus.clone(),
            end_fsync: parameters.end_fsync,
            drop_cache: plain == Pattern::Read,
            files: if fresh { new_files(&path, jobs) } else { Vec::new() },
            fresh,
            fault: PlannedFault::from_environment(),
            options,
            path,
            ..Job::default()
        };
        if plain == Pattern::Read {
            // Only clean pages can be dropped.
            let _ = std::fs::File::open(&job.path).and_then(|file| file.sync_data());
        }
        if plain == Pattern::Reread {
            Job { options: JobOptions::default(), ..job.clone() }.run(stop)?;
        }
        job.run(stop)
    }
}

/// Names of new files in the data file's folder, one for each thread.
fn new_files(path: &Path, jobs: u64) -> Vec<PathBuf> {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy().into_owned());
    (0..jobs).map(|number| path.with_file_name(format!("{name}.fresh.{number}"))).collect()
}
