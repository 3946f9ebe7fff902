//! The ways in which programs go through a file, as IOzone and IOR name them: first writes and rewrites, cold and
//! warm reads, backward, in strides, one record again and again, and through the C library's streams.

use std::path::{Path, PathBuf};

use crate::declare::{choice, cpus, flag, integer, interval_s, number, path};
use crate::kernel::{Error, Kernel, KernelInfo, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::io::fault_injection::PlannedFault;
use crate::storage::job::options::JobOptions;
use crate::storage::job::spec::{Engine, Job};
use crate::storage::raw::claim::Consent;

/// What IOzone's stride read takes unless told otherwise: every 17th record.
const STRIDE_RECORDS: u64 = 17;
const PATTERNS: [&str; 14] = [
    "write",
    "rewrite",
    "read",
    "reread",
    "randread",
    "randwrite",
    "backward_read",
    "record_rewrite",
    "stride",
    "fwrite",
    "frewrite",
    "fread",
    "freread",
    "randrw",
];

/// See the module.
pub struct StoragePatterns;

impl Kernel for StoragePatterns {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_patterns",
            measures: "one pass through a file in one of the patterns of IOzone and IOR, through the page cache unless direct",
            parameters: vec![
                path("an existing data file; new ones are made beside it and removed"),
                choice(
                    "pattern",
                    "write: into a new file; rewrite: into one that is there; read: not in the cache; reread: read before; \
                     backward_read, stride (every 17th record), record_rewrite (one record again and again); f…: by fread and fwrite",
                    &PATTERNS,
                ),
                integer("bs", "length of a record", "B", (1, 1 << 40), 65536),
                integer("numjobs", "threads, each with a part of the file (or a new file) of its own", "", (1, 1024), 1),
                integer("size", "what all threads together go through; 0 for the whole file", "B", (0, i64::MAX), 0),
                choice(
                    "ioengine",
                    "how records reach the file; f… are always the C library's",
                    &["psync", "mmap", "io_uring", "libaio"],
                ),
                flag("direct", "past the page cache (O_DIRECT), where the filesystem allows it", false),
                flag("end_fsync", "make durable what was written, inside the timed region", false),
                number("runtime", "a pass is cut after this; 0 for never", "s", (0.0, 604_800.0), 0.0),
                integer("seed", "decides random orders and the bytes written", "", (0, i64::MAX), 1),
                interval_s(),
                cpus("processors to run on, one job each in turn; empty for any"),
            ],
            pass: vec![("operations", "1"), ("bytes", "bs")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let pattern = parameters.text("pattern");
        let path = PathBuf::from(parameters.text("path"));
        let (block, jobs) = (parameters.integer("bs"), parameters.integer("numjobs"));
        let streams = matches!(pattern, "fwrite" | "frewrite" | "fread" | "freread");
        let plain = if streams { &pattern[1..] } else { pattern };
        let fresh = plain == "write";
        if !path.is_file() {
            return Err(Error::usage(format!("{} is no file: patterns go through a data file", path.display())));
        }
        let size = match parameters.integer("size") {
            0 => path.metadata().map_err(|e| Error::machine(format!("stat {}", path.display()), &e))?.len(),
            size => size,
        };
        let options = JobOptions {
            backward: plain == "backward_read",
            stride: if plain == "stride" { STRIDE_RECORDS * block } else { 0 },
            io_size: if plain == "record_rewrite" { size / block * block } else { 0 },
            ..JobOptions::default()
        };
        let job = Job {
            engine: if streams { Engine::Stdio } else { Engine::named(parameters.text("ioengine")) },
            read_percent: match plain {
                "read" | "reread" | "randread" | "backward_read" | "stride" => 100,
                "randrw" => 50,
                _ => 0,
            },
            random: plain.starts_with("rand"),
            block,
            depth: 1,
            jobs: jobs as usize,
            direct: parameters.flag("direct"),
            size: match plain {
                "record_rewrite" => block * jobs,
                "write" => (size / jobs).max(block),
                _ => size,
            },
            offset: 0,
            share_whole: false,
            runtime_s: parameters.number("runtime"),
            time_based: false,
            ramp_s: 0.0,
            delay_s: 0.0,
            seed: parameters.integer("seed"),
            interval_s: parameters.number("interval_s"),
            cpus: parameters.integers("cpus"),
            batch_submit: 0,
            batch_complete_min: 0,
            end_fsync: parameters.flag("end_fsync"),
            drop_cache: plain == "read",
            files: if fresh { beside(&path, jobs) } else { Vec::new() },
            fresh,
            consent: Consent::default(),
            fault: PlannedFault::from_environment(),
            options,
            path,
        };
        if plain == "read" {
            // Only clean pages can be dropped.
            let _ = std::fs::File::open(&job.path).and_then(|file| file.sync_data());
        }
        if plain == "reread" {
            Job { options: JobOptions::default(), ..job.clone() }.run(stop)?;
        }
        let reading = job.run(stop)?;
        Ok(Reading { kernel: "storage_patterns".into(), parameters: parameters.as_json(), ..reading })
    }
}

/// New names beside the data file, a thread each.
fn beside(path: &Path, jobs: u64) -> Vec<PathBuf> {
    let name = path.file_name().map_or_else(|| "data".into(), |name| name.to_string_lossy().into_owned());
    (0..jobs).map(|number| path.with_file_name(format!("{name}.fresh.{number}"))).collect()
}
