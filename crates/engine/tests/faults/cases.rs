//! A short run of every kernel, and what has to be there before it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::LazyLock;

use hwdyno_engine::{kernels, KernelInfo};
use serde_json::{json, Value};

/// A kernel and its parameters, for files below a folder.
type Step = (&'static str, fn(&Path) -> Value);

/// A run to be disturbed.
#[derive(Clone, Copy)]
pub struct Case {
    /// The case's name in the table of counts; the kernel's name is its first word.
    pub name: &'static str,
    /// The parameters, for files below the folder.
    pub parameters: fn(&Path) -> Value,
    /// Kernels that run undisturbed before, in this order.
    pub before: &'static [Step],
}

const fn case(name: &'static str, parameters: fn(&Path) -> Value) -> Case {
    Case { name, parameters, before: &[] }
}

const fn after(name: &'static str, parameters: fn(&Path) -> Value, before: &'static [Step]) -> Case {
    Case { name, parameters, before }
}

impl Case {
    /// Which kernel it runs; `survey` is a separate verb.
    pub fn kernel(&self) -> &'static str {
        self.name.split(' ').next().unwrap_or(self.name)
    }
}

const BLOCK_BYTES: u64 = 32 * 4096;

fn layout(folder: &Path) -> Value {
    json!({"path": folder.join("data"), "size": BLOCK_BYTES})
}

fn blocks(folder: &Path, rw: &str, ioengine: &str) -> Value {
    json!({"path": folder.join("data"), "rw": rw, "ioengine": ioengine, "time_based": false})
}

fn deep(folder: &Path, rw: &str, ioengine: &str) -> Value {
    let mut asked = blocks(folder, rw, ioengine);
    asked["iodepth"] = json!(4);
    asked["direct"] = json!(true);
    asked["end_fsync"] = json!(rw.contains("write"));
    asked
}

fn journaled(folder: &Path) -> Value {
    let mut asked = blocks(folder, "randwrite", "psync");
    asked["verify"] = json!("crc32c");
    asked["journal"] = json!(folder.join("journal"));
    asked["end_fsync"] = json!(true);
    asked
}

fn metadata(folder: &Path, operation: &str) -> Value {
    json!({"path": folder, "operation": operation, "nrfiles": 6, "runtime": 0.0, "fsync": "file"})
}

fn set(folder: &Path, format: &str) -> Value {
    json!({"path": folder.join("set"), "files": 2, "record_bytes": 5000.0, "threads": 1, "format": format})
}

fn loader(folder: &Path, format: &str) -> Value {
    json!({"path": folder.join("set"), "files": 2, "record_bytes": 5000.0, "read_threads": 1, "format": format,
           "batch_size": 1, "epochs": 1, "compute": 0.0})
}

fn vectors(folder: &Path, index: &str) -> Value {
    json!({"path": folder.join("vs"), "index": index, "vectors": 200, "dim": 16, "degree": 8, "queries": 5,
           "threads": 1})
}

fn searched(folder: &Path, index: &str, ioengine: &str) -> Value {
    let mut asked = vectors(folder, index);
    asked["runtime"] = json!(0.06); // Traced and beside others, one query took over 0.02 s.
    asked["ioengine"] = json!(ioengine);
    asked["direct"] = json!(false);
    asked
}

fn cache(folder: &Path) -> Value {
    json!({"path": folder.join("kv"), "users": 1, "scale": 0.0001, "think": 0.0, "runtime": 0.02,
           "capacity": 1 << 24, "memory": 1 << 18, "direct": false})
}

/// Where an error may go unsaid: the case, the call, which of its uses on files of the test, and why.
pub const WITHOUT_WEIGHT: &[(&str, &str, RangeInclusive<u64>, &str)] = &[
    ("storage_blocks io_uring randread", "pread64", 1..=1, "it shows whether blocks are aligned; they are read again"),
    ("storage_blocks libaio randread", "pread64", 1..=1, "likewise"),
    ("storage_group", "pread64", 1..=2, "likewise, by each of its jobs"),
    ("storage_check", "pread64", 1..=1, "likewise"),
    ("storage_blocks io_uring randwrite", "pread64", 2..=2, "likewise, after the mark was read; they are written over"),
    ("storage_blocks libaio randwrite", "pread64", 2..=2, "likewise"),
    ("network_", "connect", 1..=9, "it is tried again, as for a server that just begins to listen"),
    ("network_ping", "bind", 1..=1, "the address family of localhost is looked up"),
    ("object_", "connect", 1..=9, "the address family of loopback and the interface that leads there are looked up"),
    ("object_", "bind", 1..=9, "likewise"),
    ("object_layout", "recvfrom", 1..=99, "the null server looks for a next request on a connection that has none"),
    ("object_fetch", "recvfrom", 1..=99, "likewise"),
    ("object_upload", "recvfrom", 1..=99, "likewise"),
    ("object_removal", "recvfrom", 1..=99, "likewise"),
    ("object_listing", "recvfrom", 1..=99, "likewise"),
    ("object_requests", "recvfrom", 1..=99, "likewise, and a connection without a request is made anew"),
    ("network_server", "recvfrom", 1..=4, "a connection that breaks before it names its test belongs to none"),
    ("inference_", "unlink", 1..=99, "a file is removed at the second try"),
    ("training_", "unlink", 1..=99, "likewise"),
    ("training_generate", "write", 1..=1, "without its mark nothing in the folder is removed for a dead run's"),
    ("training_generate", "openat", 1..=2, "likewise"),
    ("inference_vector_index", "write", 1..=1, "likewise"),
    ("training_generate", "flock", 1..=2, "where there are no locks, another run's part is not told from a dead one's"),
    ("inference_vector_index", "flock", 1..=1, "likewise"),
    ("training_checkpoint", "getdents64", 1..=9, "a folder is cleared at the second try"),
    ("inference_kv_cache", "getdents64", 1..=9, "the folder is listed a second time"),
    ("inference_vector_index", "openat", 1..=1, "an index that cannot be opened is built anew"),
    ("storage_patterns freread", "read", 1..=2, "the C library's seek fills its buffer; the bytes are read again"),
    ("storage_patterns freread", "lseek", 1..=1, "the C library looks where it is, and seeks again"),
    ("storage_patterns write", "unlink", 1..=1, "a file is removed at the second try"),
    ("storage_metadata create", "getdents64", 1..=9, "a tree is removed at the second try"),
    ("storage_metadata rename", "getdents64", 1..=9, "likewise"),
    ("storage_metadata unlink", "getdents64", 1..=9, "likewise"),
    ("storage_metadata readdir", "getdents64", 3..=9, "the tree is removed at the second try"),
];

const LAYOUT: &[Step] = &[("storage_layout", layout)];

/// Every kernel at least once: those of the table, and the others by their defaults.
pub static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let others = by_defaults().into_iter().map(|kernel| kernel.declaration.name);
    NAMED.iter().copied().chain(others.map(|name| case(name, |_| json!({"runtime": 0.01})))).collect()
});

/// The kernels that have no row. A GPU's have no case at all: every system call is its driver's.
pub fn by_defaults() -> Vec<KernelInfo> {
    let named: BTreeSet<&str> = NAMED.iter().map(Case::kernel).collect();
    let has_row = |name: &str| name.starts_with("gpu_") || named.contains(name);
    kernels().into_iter().filter(|kernel| !has_row(kernel.declaration.name)).collect()
}

/// Kernels that need parameters, and those of storage with each of their engines.
const NAMED: &[Case] = &[
    case("survey", |_| Value::Null),
    case("compute_flops", |_| json!({"runtime": 0.01, "threads": 2})),
    case("memory_bandwidth", |_| json!({"working_set": 300_000, "runtime": 0.01, "threads": 2})),
    case("memory_latency", |_| json!({"working_set": 1 << 17, "runtime": 0.01})),
    case("memory_loaded_latency", |_| json!({"chase_set": 1 << 17, "runtime": 0.01, "threads": 1})),
    case("storage_layout", layout),
    after("storage_blocks io_uring randread", |at| deep(at, "randread", "io_uring"), LAYOUT),
    after("storage_blocks io_uring randwrite", |at| deep(at, "randwrite", "io_uring"), LAYOUT),
    after("storage_blocks libaio randread", |at| deep(at, "randread", "libaio"), LAYOUT),
    after("storage_blocks libaio randwrite", |at| deep(at, "randwrite", "libaio"), LAYOUT),
    after("storage_blocks psync read", |at| blocks(at, "read", "psync"), LAYOUT),
    after("storage_blocks psync randwrite", |at| blocks(at, "randwrite", "psync"), LAYOUT),
    after("storage_blocks psync trim", |at| blocks(at, "trim", "psync"), LAYOUT),
    after("storage_blocks stdio rw", |at| blocks(at, "rw", "stdio"), LAYOUT),
    after("storage_blocks mmap randrw", |at| blocks(at, "randrw", "mmap"), LAYOUT),
    after("storage_blocks with a journal", journaled, LAYOUT),
    after(
        "storage_check",
        |at| json!({"journal": at.join("journal")}),
        &[("storage_layout", layout), ("storage_blocks", journaled)],
    ),
    after(
        "storage_group",
        // One writes, so that the other's look at the alignment is the only `pread64`, at any time.
        |at| json!({"jobs": json!([blocks(at, "randwrite", "psync"), deep(at, "randread", "io_uring")]).to_string()}),
        LAYOUT,
    ),
    after("storage_patterns write", |at| json!({"path": at.join("data"), "pattern": "write", "bs": 7777}), LAYOUT),
    after("storage_patterns freread", |at| json!({"path": at.join("data"), "pattern": "freread"}), LAYOUT),
    case("storage_metadata create", |at| metadata(at, "create")),
    case("storage_metadata readdir", |at| metadata(at, "readdir")),
    case("storage_metadata rename", |at| metadata(at, "rename")),
    case("storage_metadata unlink", |at| metadata(at, "unlink")),
    case("training_generate npz", |at| set(at, "npz")),
    case("training_generate hdf5", |at| set(at, "hdf5")),
    after("training_loader npz", |at| loader(at, "npz"), &[("training_generate", |at| set(at, "npz"))]),
    after("training_loader tfrecord", |at| loader(at, "tfrecord"), &[("training_generate", |at| set(at, "tfrecord"))]),
    after("training_loader parquet", |at| loader(at, "parquet"), &[("training_generate", |at| set(at, "parquet"))]),
    case("training_checkpoint", |at| {
        json!({"path": at.join("ck"), "checkpoint_bytes": 100_000, "ranks": 2, "writes": 2, "reads": 2,
               "transfer_size": 16384})
    }),
    case("inference_kv_cache", cache),
    case("inference_vector_index", |at| vectors(at, "diskann")),
    after(
        "inference_vector_search diskann",
        |at| searched(at, "diskann", "io_uring"),
        &[("inference_vector_index", |at| vectors(at, "diskann"))],
    ),
    after(
        "inference_vector_search ivf",
        |at| searched(at, "ivf", "psync"),
        &[("inference_vector_index", |at| vectors(at, "ivf"))],
    ),
    case("network_throughput tcp", |_| json!({"bytes": 1 << 20, "interval_s": 0.02})),
    case("network_throughput tcp both", |_| json!({"direction": "both", "bytes": 1 << 20, "zero_copy": true})),
    case("network_throughput udp", |_| json!({"protocol": "udp", "rate": 20_000_000, "runtime": 0.05})),
    case("network_latency echo", |_| json!({"runtime": 0.02, "load_streams": 1, "waiting": "sleep"})),
    case("network_latency connect", |_| json!({"runtime": 0.02, "exchange": "connect"})),
    case("network_latency udp", |_| json!({"runtime": 0.02, "protocol": "udp"})),
    case("network_ping", |_| json!({"runtime": 0.02, "rate": 500.0})),
    case("object_requests get", |_| json!({"object_size": 100_000, "concurrency": 2, "runtime": 0.02})),
    case("object_requests put", |_| {
        json!({"operation": "put", "object_size": 100_000, "runtime": 0.02,
                                           "concurrency": 2, "checksum": "crc32c"})
    }),
    case("object_layout", |_| json!({"object_size": 5000, "objects": 3, "concurrency": 2})),
    case("object_fetch", |_| json!({"threads": 2, "chunk": 400_000, "keep": true})),
    after("object_upload", |at| json!({"file": at.join("data")}), LAYOUT),
    case("object_removal", |_| json!({})),
    case("object_listing", |_| json!({})),
    case("object_server", |_| json!({"runtime": 0.05, "port": 9123})),
    case("network_server", |at| json!({"runtime": 3.0, "once": true, "log": at.join("log")})),
];
