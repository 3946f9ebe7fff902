//! Tests of loading into a GPU.

use serde_json::json;

use super::*;
use crate::contract::declare::Words;
use crate::here::opencl_cpu;
use crate::storage::scratch::Scratch;

const BLOCK: u64 = 64 << 10;

fn laid_out(scratch: &Scratch, size: u64) -> PathBuf {
    let path = scratch.path("data");
    crate::run("storage_layout", &json!({"path": path, "size": size}), &Stop::new()).unwrap();
    path
}

#[test]
fn every_part_arrives_whole_by_every_access() {
    let Some(_turn) = opencl_cpu() else { return };
    let scratch = Scratch::new("gpu-load");
    let path = laid_out(&scratch, 9 * BLOCK + 100);
    for (_, part, _) in Part::ALL {
        for (_, access, _) in Access::ALL.iter().filter(|one| one.0 != Access::Gds) {
            for (buffers, readers) in [(1, 1), (2, 1), (5, 3)] {
                // What is read once ends by itself.
                let runtime = if *access == "direct" || *part == "copy" { 0.02 } else { 600.0 };
                let given = json!({"on": "cpu", "path": path, "size": 9 * BLOCK + 100, "part": part, "block": BLOCK,
                    "access": access, "buffers": buffers, "readers": readers, "runtime": runtime});
                let reading = crate::run("gpu_load", &given, &Stop::new()).unwrap();
                let what = format!("{part} {access} {buffers} {readers}");
                assert_eq!(reading.details["verification"], "passed", "{what}");
                assert!(reading.details["verified_words"].as_u64().unwrap() >= BLOCK, "{what}");
                let stream = &reading.streams[0];
                assert_eq!(stream.bytes, stream.operations * BLOCK, "{what}");
                assert!(stream.latency_ns.contains_key("copy") != (*part == "read"), "{what}");
                assert!(!reading.interrupted);
                if *part != "copy" && *access != "direct" {
                    assert_eq!(stream.operations, 9, "{what}: once through the page cache");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_loaded_is_named() {
    let scratch = Scratch::new("gpu-load-not");
    let path = laid_out(&scratch, 4 * BLOCK);
    for (given, says) in [
        (json!({"path": path, "size": 5 * BLOCK, "block": BLOCK}), "has 262144 B"),
        (json!({"path": path, "size": BLOCK, "block": 2 * BLOCK}), "at most the 65536 B"),
        (json!({"path": path, "size": 2 * BLOCK, "block": BLOCK - 512}), "multiple of 4096"),
        (json!({"path": path, "size": BLOCK, "block": BLOCK, "access": "gds", "part": "read"}), "part = whole"),
    ] {
        let mut given = given;
        given["on"] = json!("cpu");
        let Some(_turn) = opencl_cpu() else { return };
        let why = crate::run("gpu_load", &given, &Stop::new()).unwrap_err().to_string();
        assert!(why.contains(says), "{why}");
    }
}
