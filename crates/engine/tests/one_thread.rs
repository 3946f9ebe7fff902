//! Runs every kernel once with small parameters on one thread and checks what it returns.
//!
//! It has no test harness, because that makes a thread for each test, and under qemu-user, where the
//! aarch64 build is checked, making a thread hangs. A kernel without a check here runs with its defaults.

use std::path::PathBuf;

use hwdyno_engine::{kernels, run, Stop};
use serde_json::{json, Value};

type Check = (&'static str, fn(&Scratch) -> Value, fn(&Value) -> Result<(), String>);

/// One line a check: the kernel, its parameters, and what its reading must hold. Order matters: what
/// a later check reads, an earlier one wrote.
const CHECKS: &[Check] = &[
    ("memory_bandwidth", |_| bandwidth("triad", "2:1", "sequential"), verified),
    ("memory_bandwidth", |_| widest("read", "sequential"), verified),
    ("memory_bandwidth", |_| widest("copy", "random"), verified),
    ("memory_bandwidth", |_| widest("triad", "sequential"), verified),
    ("memory_bandwidth", |_| bandwidth("nt_add", "2:1", "random"), verified),
    ("memory_bandwidth", |_| bandwidth("mix", "3:2", "sequential"), verified),
    ("memory_bandwidth", |_| bandwidth("mix", "2:1-nt", "random"), verified),
    ("memory_bandwidth", |_| bandwidth("mix", "4:1", "random"), verified),
    ("memory_latency", |_| json!({"working_set": 1 << 17, "locality": "random", "runtime": 0.01}), verified),
    (
        "memory_latency",
        |_| json!({"working_set": 1 << 17, "locality": "local", "local_size": 4096, "runtime": 0.01}),
        verified,
    ),
    ("memory_loaded_latency", |_| json!({"threads": 0, "chase_set": 1 << 17, "runtime": 0.01}), verified),
    ("compute_flops", |_| flops("fma", "double"), verified),
    ("compute_flops", |_| flops("fma", "single"), verified),
    ("compute_flops", |_| widest_flops("double"), verified),
    ("compute_flops", |_| widest_flops("single"), verified),
    ("compute_flops", |_| flops("multiply", "int32"), verified),
    ("compute_flops", |_| flops("add", "int64"), verified),
    ("storage_layout", |scratch| json!({"path": scratch.file("data"), "size": 1 << 20}), counted),
    ("storage_blocks", |scratch| blocks(scratch, "randread", "psync"), counted),
    ("storage_blocks", |scratch| blocks(scratch, "randwrite", "psync"), counted),
    ("storage_blocks", |scratch| blocks(scratch, "read", "mmap"), counted),
    ("storage_blocks", |scratch| sealed(scratch, "randwrite"), counted),
    ("storage_blocks", |scratch| sealed(scratch, "read"), counted),
    ("storage_blocks", journaled, counted),
    ("storage_check", |scratch| json!({"journal": scratch.file("journal")}), counted),
    ("storage_blocks", |scratch| blocks(scratch, "rw", "stdio"), counted),
    ("storage_patterns", |scratch| json!({"path": scratch.file("data"), "pattern": "write", "bs": 777}), counted),
    ("storage_patterns", |scratch| json!({"path": scratch.file("data"), "pattern": "freread"}), counted),
    ("storage_metadata", |scratch| json!({"path": scratch.file("data"), "nrfiles": 10, "runtime": 0.01}), counted),
    ("storage_group", |scratch| json!({"jobs": json!([blocks(scratch, "randread", "psync")]).to_string()}), counted),
    (
        "training_generate",
        |scratch| json!({"path": scratch.file("set"), "files": 2, "record_bytes": 5000.0, "threads": 1}),
        counted,
    ),
    (
        "training_checkpoint",
        |scratch| json!({"path": scratch.file("ck"), "checkpoint_bytes": 100_000, "ranks": 1, "writes": 2, "reads": 2}),
        counted,
    ),
    (
        "training_loader",
        |scratch| {
            json!({"path": scratch.file("set"), "files": 2, "record_bytes": 5000.0, "read_threads": 0,
                   "batch_size": 1, "compute": 0.0})
        },
        counted,
    ),
    (
        "inference_kv_cache",
        |scratch| {
            json!({"path": scratch.file("kv"), "users": 1, "scale": 0.0001, "think": 0.0, "runtime": 0.5,
                   "capacity": 1 << 24, "memory": 1 << 18, "direct": false})
        },
        counted,
    ),
    ("inference_vector_index", |scratch| vectors(scratch, "diskann"), counted),
    ("inference_vector_search", |scratch| searched(scratch, "diskann"), recalled),
    ("inference_vector_index", |scratch| vectors(scratch, "hnsw"), counted),
    ("inference_vector_search", |scratch| searched(scratch, "hnsw"), recalled),
    ("inference_vector_index", |scratch| vectors(scratch, "ivf"), counted),
    ("inference_vector_search", |scratch| searched(scratch, "ivf"), recalled),
];

/// Kernels that need a second processor, and report so where they get one.
const NEED_TWO: &[&str] = &["memory_core_to_core"];

/// Kernels that cannot do without threads (both ends of a connection at once), or without a right that not everybody
/// has (ping); `tests/network.rs` runs them.
const NEED_THREADS: &[&str] = &["network_latency", "network_ping", "network_server", "network_throughput"];

/// Kernels that need an `OpenCL` driver, which makes threads; the tests beside them run them where there is one.
const NEED_DRIVER: &[&str] = &[
    "gpu_bandwidth",
    "gpu_flops",
    "gpu_latency",
    "gpu_launch",
    "gpu_load",
    "gpu_matrix",
    "gpu_roofline",
    "gpu_transfer",
];

fn bandwidth(operation: &str, mix: &str, pattern: &str) -> Value {
    json!({"operation": operation, "mix": mix, "pattern": pattern, "working_set": 300_000, "runtime": 0.01})
}

/// By the widest instructions that are here: `auto` may find others faster, and leave these unchecked.
fn widest(operation: &str, pattern: &str) -> Value {
    let mut asked = bandwidth(operation, "2:1", pattern);
    if let Some(isa) = hwdyno_engine::parts::wide().last() {
        asked["isa"] = json!(isa.word());
        // No multiple of a long register, so that the rest of a block is checked too.
        asked["block"] = json!(320);
    }
    asked
}

fn widest_flops(precision: &str) -> Value {
    let mut asked = flops("fma", precision);
    let loops = hwdyno_engine::parts::available();
    let fitting = loops.iter().filter(|one| one.operation.word() == "fma" && one.precision.word() == precision);
    if let Some(widest) = fitting.max_by_key(|one| one.operations) {
        asked["isa"] = json!(widest.isa);
    }
    asked
}

fn flops(operation: &str, precision: &str) -> Value {
    json!({"operation": operation, "precision": precision, "runtime": 0.01})
}

fn verified(reading: &Value) -> Result<(), String> {
    if reading["details"]["verification"] != "passed" {
        return Err(format!("verification: {}", reading["details"]["verification"]));
    }
    counted(reading)
}

fn blocks(scratch: &Scratch, rw: &str, ioengine: &str) -> Value {
    json!({"path": scratch.file("data"), "rw": rw, "ioengine": ioengine, "size": 1 << 20, "time_based": false})
}

fn sealed(scratch: &Scratch, rw: &str) -> Value {
    let mut asked = blocks(scratch, rw, "psync");
    asked["verify"] = json!("crc32c");
    asked["rate"] = json!(100_000.0);
    asked
}

fn journaled(scratch: &Scratch) -> Value {
    let mut asked = sealed(scratch, "randwrite");
    asked["journal"] = json!(scratch.file("journal"));
    asked
}

fn vectors(scratch: &Scratch, index: &str) -> Value {
    json!({"path": scratch.file("vs"), "index": index, "vectors": 400, "dim": 24, "degree": 16, "queries": 20,
           "threads": 1})
}

fn searched(scratch: &Scratch, index: &str) -> Value {
    let mut asked = vectors(scratch, index);
    asked["runtime"] = json!(0.05);
    asked["ioengine"] = json!("psync");
    asked["direct"] = json!(false);
    asked
}

fn recalled(reading: &Value) -> Result<(), String> {
    match reading["details"]["recall"].as_f64() {
        Some(recall) if recall > 0.8 => counted(reading),
        other => Err(format!("recall {other:?}")),
    }
}

fn counted(reading: &Value) -> Result<(), String> {
    let faults = reading["faults"].as_array().map_or(0, Vec::len);
    if faults > 0 {
        return Err(format!("faults: {}", reading["faults"]));
    }
    let operations: u64 =
        reading["streams"].as_array().into_iter().flatten().filter_map(|stream| stream["operations"].as_u64()).sum();
    if operations == 0 {
        return Err("nothing was counted".into());
    }
    Ok(())
}

/// A directory for this test alone, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn main() {
    let scratch = Scratch(std::env::temp_dir().join(format!("hwdyno-one-thread-{}", std::process::id())));
    if let Err(error) = std::fs::create_dir_all(&scratch.0) {
        println!("no directory for scratch: {error}");
        std::process::exit(1);
    }
    let (mut passed, mut failed) = (0, 0);
    let mut report = |name: &str, result: Result<(), String>| match result {
        Ok(()) => passed += 1,
        Err(why) => {
            failed += 1;
            println!("{name} FAILED: {why}");
        }
    };
    let result_of = |kernel: &str, parameters: &Value, check: fn(&Value) -> Result<(), String>| {
        run(kernel, parameters, &Stop::new())
            .map_err(|error| error.to_string())
            .and_then(|reading| serde_json::to_value(reading).map_err(|error| error.to_string()))
            .and_then(|reading| check(&reading))
    };
    for (kernel, parameters, check) in CHECKS {
        report(kernel, result_of(kernel, &parameters(&scratch), *check));
    }
    for kernel in NEED_TWO {
        let refused = run(kernel, &json!({"cpus": [0]}), &Stop::new()).is_err();
        report(kernel, if refused { Ok(()) } else { Err("ran on one processor".into()) });
    }
    for kernel in kernels() {
        let own = kernel.declaration.name;
        if NEED_DRIVER.contains(&own) {
            continue;
        }
        let checked =
            CHECKS.iter().any(|(name, ..)| *name == own) || NEED_TWO.contains(&own) || NEED_THREADS.contains(&own);
        if !checked {
            // Shortly, with its defaults; one that measures a file has none for its path.
            let mut parameters = json!({});
            for parameter in kernel.parameters {
                match parameter.name {
                    "runtime" => parameters["runtime"] = json!(0.01),
                    "path" => parameters["path"] = json!(scratch.file("data")),
                    _ => {}
                }
            }
            report(own, result_of(own, &parameters, counted));
        }
    }
    drop(scratch);
    println!("one_thread: {passed} passed, {failed} failed");
    std::process::exit(i32::from(failed > 0));
}
