//! The engine's JSON: what kernels are given, tables of jobs, and the requests that an agent serves.

use serde_json::{json, Value};

/// What job tables are made of.
pub const WORDS: &[&str] = &[
    "storage_blocks",
    "\"bs\":",
    "\"rw\":",
    "randrw",
    "trimwrite",
    "\"bssplit\":",
    "4k/50:64k/50",
    "\"random_distribution\":",
    "zipf:1.1",
    "pareto:0.2",
    "normal:10",
    "zoned:60/10:30/20:8/30:2/40",
    "\"file_service_type\":",
    "roundrobin:4",
    "\"steadystate\":",
    "iops_slope:0.3%",
    "\"after\":[0]",
    "\"ends\":[1]",
    "\"rate\":",
    "\"rate_bytes\":",
    "\"thinktime\":",
    "\"io_size\":",
    "\"zonesize\":",
    "\"zonerange\":",
    "\"zoneskip\":",
    "\"gap\":",
    "\"stride\":",
    "\"blockalign\":",
    "\"offset\":",
    "\"size\":",
    "\"loops\":",
    "\"seed\":",
    "\"latency_target\":",
    "\"flow\":",
    "\"number_ios\":",
    "\"buffer_pattern\":",
    "\"verify\":\"crc32c\"",
    "\"norandommap\":true",
    "\"bs_unaligned\":true",
];
/// What requests are made of.
pub const VERBS: &[&str] = &[
    "\"do\":",
    "\"run\"",
    "\"survey\"",
    "\"kernels\"",
    "\"start\"",
    "\"stop\"",
    "\"clock\"",
    "\"files\"",
    "\"action\":\"claim\"",
    "\"action\":\"size\"",
    "\"action\":\"release\"",
    "\"path\":",
    "\"hold\":true",
    "\"start_at_ns\":",
    "\"at_ns\":",
    "\"kernel\":\"idle\"",
    "\n",
];

/// A kernel's name on a line, then its parameters.
pub mod parameters {
    use super::{json, Value};
    use crate::contract::parameter::Kind;
    use crate::fuzzing::checks::{accepted, first_line};
    use crate::kernels::TABLE;

    /// Checks them as a run does, and measures nothing.
    pub fn read(input: &[u8]) -> bool {
        let (name, given) = first_line(input);
        let Ok(given) = serde_json::from_slice::<Value>(given) else { return false };
        let kernel = TABLE.iter().find(|kernel| kernel.name().as_bytes() == name).unwrap_or(&TABLE[0]);
        accepted(kernel.check(&given))
    }

    /// Each kernel with all of its defaults.
    pub fn seeds() -> Vec<Vec<u8>> {
        let given = |kernel: &&dyn crate::contract::kernel::Entry| {
            let info = kernel.info();
            let defaults = info.parameters.iter().map(|parameter| {
                let required = match &parameter.kind {
                    Kind::Choice { choices } => Value::from(choices[0]),
                    Kind::Integer { min, .. } => Value::from(*min),
                    Kind::Integers => json!([]),
                    _ => Value::from("x"),
                };
                let value = if parameter.default.is_null() { required } else { parameter.default.clone() };
                (parameter.name.to_string(), value)
            });
            let defaults: serde_json::Map<String, Value> = defaults.collect();
            format!("{}\n{}", kernel.name(), Value::Object(defaults)).into_bytes()
        };
        TABLE.iter().map(given).collect()
    }
}

/// A table of storage jobs, run without a file.
pub mod jobs {
    use super::{json, Value};
    use crate::fuzzing::checks::accepted;
    use crate::Stop;

    /// What would touch a file, or take long.
    const LEFT_OUT: &[&str] = &[
        "path",
        "files",
        "journal",
        "read_iolog",
        "write_iolog",
        "destroy",
        "serial",
        "purge",
        "startdelay",
        "ramp_time",
        "cpus",
        "mem",
        "flow",
        "log",
        "verify",
    ];
    const MAX_BYTES: u64 = 1 << 20;

    /// Runs each for a moment; one that names large blocks, or many threads, is not run.
    pub fn read(input: &[u8]) -> bool {
        let Ok(Value::Array(mut given)) = serde_json::from_slice(input) else { return false };
        given.truncate(2);
        for job in given.iter_mut().filter_map(Value::as_object_mut) {
            job.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            for (name, value) in [("ioengine", json!("null")), ("runtime", json!(0.002)), ("path", json!("x"))] {
                job.insert(name.into(), value);
            }
            for (name, most) in [("bs", MAX_BYTES), ("iodepth", 64), ("numjobs", 3)] {
                if job.get(name).and_then(Value::as_u64).is_some_and(|value| value > most) {
                    return false;
                }
            }
            let lengths = ["bssplit", "bssplit_write"].map(|name| job.get(name).and_then(Value::as_str).unwrap_or(""));
            let longest = lengths.iter().filter_map(|text| crate::storage::order::pattern::lengths(text).ok());
            if longest.flatten().any(|(_, bytes)| bytes > MAX_BYTES) {
                return false;
            }
        }
        let given = json!({"jobs": Value::Array(given).to_string()});
        let reading = crate::run("storage_group", &given, &Stop::new());
        if let Ok(reading) = &reading {
            assert!(serde_json::to_string(reading).is_ok());
        }
        accepted(reading)
    }

    /// A table of each kind.
    pub fn seeds() -> Vec<Vec<u8>> {
        let size = 1 << 24;
        [
            json!([{"size": size, "bs": 4096}]),
            json!([{"size": size, "rw": "randrw", "rwmixread": 70, "iodepth": 4, "bssplit": "4k/60:8k/40"}, {"size": size, "rw": "write"}]),
            json!([{"size": size, "rw": "randread", "random_distribution": "zipf:1.1", "rate": 5000, "rate_process": "poisson"}]),
            json!([{"size": size, "rw": "randread", "random_distribution": "zoned:60/10:40/90", "norandommap": true}]),
            json!([{"size": size, "rw": "read", "zonesize": 65536, "zonerange": 131_072, "zoneskip": 4096, "loops": 2}]),
            json!([{"size": size, "rw": "rw", "gap": -8192, "positions_apart": true, "thinktime": 0.0001, "thinktime_blocks": 3}]),
            json!([{"size": size, "rw": "randread", "latency_target": 0.001, "latency_window": 0.001, "iodepth": 8}]),
            json!([{"size": size, "rw": "trimwrite", "fsync": 4, "number_ios": 100, "time_based": false}]),
            json!([{"size": size, "rw": "write", "buffer_compress_percentage": 50, "dedupe_percentage": 30, "buffer_pattern": "deadbeef"}]),
            json!([{"size": size, "rw": "randread", "bs_unaligned": true, "bssplit": "512/50:4k/50", "blockalign": 512}]),
            json!([{"size": size, "rw": "read", "pattern": "backward", "stride": 12288}]),
            json!([{"size": size, "rw": "randread", "sequential_read": 40, "rw_sequencer": "identical", "random_every": 4, "numjobs": 2, "share": "whole"}]),
        ]
        .iter()
        .map(|jobs| jobs.to_string().into_bytes())
        .collect()
    }
}

/// The lines that an agent reads.
pub mod agent {
    use std::io::{BufReader, Write};
    use std::sync::{Arc, Mutex, PoisonError};

    use super::{json, Value};
    use crate::agent::{serve, LONGEST_LINE};
    use crate::fuzzing::checks::accepted;
    use crate::storage::scratch::Scratch;

    #[derive(Clone, Default)]
    struct Answers(Arc<Mutex<Vec<u8>>>);

    impl Write for Answers {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// The line as it is, but that it touches no file outside of `scratch`, measures nothing, and surveys nothing.
    fn harmless(line: &[u8], scratch: &Scratch) -> Option<Vec<u8>> {
        let Ok(Value::Object(mut request)) = serde_json::from_slice(line) else { return Some(line.to_vec()) };
        match request.get("do").and_then(Value::as_str) {
            Some("survey" | "snapshot" | "kernels") => return None,
            // Gates belong to the process, and the engine's other tests run in the same one.
            Some("start") if cfg!(test) => return None,
            Some("run") => {
                if request.contains_key("kernel") {
                    request.insert("kernel".into(), json!("idle"));
                }
                if cfg!(test) {
                    request.retain(|name, _| name != "hold" && name != "start_at_ns");
                }
            }
            Some("files") if request.contains_key("path") => {
                request.insert("path".into(), json!(scratch.path("")));
            }
            _ => {}
        }
        Some(json!(request).to_string().into_bytes())
    }

    /// Each line is answered by a document, and at the end nothing runs and no file is left.
    pub fn read(input: &[u8]) -> bool {
        let scratch = Scratch::new("fuzz-agent");
        let lines = input.split(|&byte| byte == b'\n').filter_map(|line| harmless(line, &scratch));
        let requests = lines.collect::<Vec<_>>().join(&b'\n');
        let answers = Answers::default();
        serve(BufReader::with_capacity(64, requests.as_slice()), answers.clone());
        let answers = answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut refused = false;
        for line in answers.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            assert!(line.len() < 2 * LONGEST_LINE, "an answer of {} bytes", line.len());
            let answer: Value = serde_json::from_slice(line).unwrap_or(Value::Null);
            assert!(answer.is_object(), "no document: {}", String::from_utf8_lossy(line));
            if let Some(says) = answer["error"]["says"].as_str() {
                refused |= !accepted(Err::<(), _>(says));
            }
        }
        let left = std::fs::read_dir(scratch.path("")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{left} files are left");
        !refused
    }

    /// A conversation of each kind.
    pub fn seeds() -> Vec<Vec<u8>> {
        [
            "{\"id\":1,\"do\":\"clock\"}\n{\"id\":2,\"do\":\"stop\"}\n",
            "{\"id\":\"a\",\"do\":\"run\",\"kernel\":\"idle\",\"parameters\":{\"runtime\":0.001}}\n",
            "{\"id\":1,\"do\":\"run\",\"kernel\":\"idle\",\"hold\":true}\n{\"id\":2,\"do\":\"start\",\"at_ns\":5}\n{\"do\":\"stop\"}\n",
            "{\"id\":1,\"do\":\"run\",\"kernel\":\"idle\",\"start_at_ns\":18446744073709551615}\n{\"id\":3,\"do\":\"clock\"}\n",
            "{\"id\":4,\"do\":\"files\",\"action\":\"claim\",\"path\":\"/tmp\"}\n{\"id\":5,\"do\":\"files\",\"action\":\"size\",\"path\":\"/tmp\"}\n{\"do\":\"files\",\"action\":\"release\",\"path\":\"/tmp\"}\n",
        ]
        .iter()
        .map(|lines| lines.as_bytes().to_vec())
        .collect()
    }
}
