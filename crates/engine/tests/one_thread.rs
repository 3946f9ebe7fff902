//! Runs every kernel once with small parameters on one thread and checks what it returns.
//!
//! It has no test harness, because that makes a thread for each test, and under qemu-user, where the
//! aarch64 build is checked, making a thread hangs. A kernel without a check here runs with its defaults.

use std::path::PathBuf;

use hwdyno_engine::parts::{Checksum, Sum};
use hwdyno_engine::{kernels, run, Stop};
use serde_json::{json, Value};

type Check = (&'static str, fn(&Scratch) -> Value, fn(&Value) -> Result<(), String>);

/// One line a check: the kernel, its parameters, and what its reading must hold. Order matters: what
/// a later check reads, an earlier one wrote.
const CHECKS: &[Check] = &[
    ("memory_latency", |_| json!({"working_set": 1 << 17, "locality": "random", "runtime": 0.01}), verified),
    (
        "memory_latency",
        |_| json!({"working_set": 1 << 17, "locality": "local", "local_size": 4096, "runtime": 0.01}),
        verified,
    ),
    ("memory_loaded_latency", |_| json!({"threads": 0, "chase_set": 1 << 17, "runtime": 0.01}), verified),
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

/// Published checksums of bodies of an object store, in base64: which, the pattern and how often it is repeated. Long ones
/// are summed by the processor's instructions for them, short ones by tables.
const CHECKSUMS: &[(Checksum, &[u8], usize, &str)] = &[
    // RFC 3720, B.4; AWS, "Signature calculations: including trailing headers".
    (Checksum::Crc32c, &[0], 32, "ipE2qg=="),
    (Checksum::Crc32c, &[0xff], 32, "YqirQw=="),
    (Checksum::Crc32c, b"a", 66_560, "sOO8/Q=="),
    // NVM Express, NVM Command Set Specification, the test cases of its 64-bit CRC; and the CRC catalogue's check value.
    (Checksum::Crc64Nvme, b"123456789", 1, "rosUhgp5mIg="),
    (Checksum::Crc64Nvme, &[0], 4096, "ZILTZ+sitk4="),
    (Checksum::Crc64Nvme, &[0xff], 4096, "wN26cwLso6w="),
    (Checksum::Crc64Nvme, &RISING, 16, "PnKfX2dQRJw="),
    // FIPS 180-2, B.1 and B.3.
    (Checksum::Sha256Trailer, b"abc", 1, "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="),
    (Checksum::Sha256Trailer, b"a", 1_000_000, "zcduXJkU+5KBocfihNc+Z/GAmkiklyAOBG05zMcRLNA="),
];
const RISING: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut at = 0;
    while at < 256 {
        bytes[at] = at as u8;
        at += 1;
    }
    bytes
};

/// Whether a checksum is the published one, of the whole and of two parts that divide it at no multiple of a register.
fn summed(checksum: Checksum, bytes: &[u8], published: &str) -> Result<(), String> {
    for cut in [0, bytes.len() / 3] {
        let mut sum = Sum::new(checksum);
        sum.add(&bytes[..cut]);
        sum.add(&bytes[cut..]);
        let found = String::from_utf8_lossy(sum.text().as_bytes()).into_owned();
        if found != published {
            return Err(format!("{} bytes, cut at {cut}: {found}, not {published}", bytes.len()));
        }
    }
    Ok(())
}

/// Kernels that need a second processor, and report so where they get one.
const NEED_TWO: &[&str] = &["memory_core_to_core"];

/// The names of kernels that cannot do without threads begin with these: both ends of a connection are there at once,
/// and an `OpenCL` driver makes some. `tests/network.rs` and the tests beside the kernels run them.
const NEED_THREADS: &[&str] = &["gpu_", "network_", "object_"];

/// Every memory operation and mix by each instruction set that is here, and all arithmetic that is.
fn loops() -> Vec<(&'static str, Value)> {
    let mut isas = vec!["scalar"];
    for isa in hwdyno_engine::parts::wide() {
        isas.push(isa.word());
    }
    let mut found = Vec::new();
    for kernel in kernels() {
        let declared = serde_json::to_value(&kernel.parameters).unwrap_or_default();
        let choices = |name: &str| -> Vec<Value> {
            let parameter = declared.as_array().into_iter().flatten().find(|one| one["name"] == name);
            parameter.and_then(|one| one["choices"].as_array().cloned()).unwrap_or_default()
        };
        match kernel.declaration.name {
            own @ "memory_bandwidth" => {
                let mixes = choices("mix").into_iter().map(|mix| json!({"operation": "mix", "mix": mix}));
                let named = choices("operation").into_iter().filter(|operation| operation != "mix");
                for asked in named.map(|operation| json!({"operation": operation})).chain(mixes) {
                    for isa in &isas {
                        found.extend(
                            choices("pattern").into_iter().map(|pattern| (own, traffic(&asked, isa, &pattern))),
                        );
                    }
                }
            }
            own @ "compute_flops" => found.extend(kernel.possible.into_iter().map(|mut asked| {
                asked["runtime"] = json!(0.002);
                (own, asked)
            })),
            _ => {}
        }
    }
    found
}

fn traffic(asked: &Value, isa: &str, pattern: &Value) -> Value {
    let mut asked = asked.clone();
    asked["isa"] = json!(isa);
    asked["pattern"] = pattern.clone();
    // No multiple of a long register, so that the rest of a block is checked too.
    asked["block"] = json!(320);
    asked["working_set"] = json!(300_000);
    asked["runtime"] = json!(0.002);
    asked
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
    // One query took over 0.05 s beside others.
    asked["runtime"] = json!(0.3);
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
    let walked = loops();
    for (kernel, parameters) in &walked {
        match result_of(kernel, parameters, verified) {
            // Not every set of instructions has a loop for every operation.
            Err(why) if why.contains("it has no loop for") => {}
            result => report(kernel, result.map_err(|why| format!("{parameters}: {why}"))),
        }
    }
    for (kernel, parameters, check) in CHECKS {
        report(kernel, result_of(kernel, &parameters(&scratch), *check));
    }
    for (checksum, pattern, times, published) in CHECKSUMS {
        report(&format!("{checksum:?}"), summed(*checksum, &pattern.repeat(*times), published));
    }
    for kernel in NEED_TWO {
        let refused = run(kernel, &json!({"cpus": [0]}), &Stop::new()).is_err();
        report(kernel, if refused { Ok(()) } else { Err("ran on one processor".into()) });
    }
    for kernel in kernels() {
        let own = kernel.declaration.name;
        let checked = CHECKS.iter().any(|(name, ..)| *name == own)
            || walked.iter().any(|(name, _)| *name == own)
            || NEED_TWO.contains(&own)
            || NEED_THREADS.iter().any(|begin| own.starts_with(begin));
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
