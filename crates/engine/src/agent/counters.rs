//! The system's counters as the files that hold them, so that one parser on the other side reads every host.

use std::path::Path;

use serde_json::{Map, Value};

const FILES: [&str; 4] = ["proc/stat", "proc/loadavg", "proc/meminfo", "proc/vmstat"];
const CPUS: &str = "sys/devices/system/cpu";
const ZONES: &str = "sys/class/thermal";

/// Each file's text by its path below `root`; a file that is missing or cannot be read is left out.
#[must_use]
pub fn read(root: &Path) -> Value {
    let mut paths: Vec<String> = FILES.iter().map(ToString::to_string).collect();
    for (directory, start, rest) in [(CPUS, "cpu", "cpufreq/scaling_cur_freq"), (ZONES, "thermal_zone", "temp")] {
        let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let numbered =
            names.filter(|name| name.strip_prefix(start).is_some_and(|number| number.parse::<u32>().is_ok()));
        paths.extend(numbered.map(|name| format!("{directory}/{name}/{rest}")));
    }
    let texts = paths.into_iter().filter_map(|path| {
        let text = std::fs::read_to_string(root.join(&path)).ok()?;
        Some((path, Value::from(text)))
    });
    Value::Object(texts.collect::<Map<_, _>>())
}
