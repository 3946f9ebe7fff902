//! What the system itself counted: bytes at the process and at the device, and CPU time of the process.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{json, Map, Value};

use crate::sys::filesystem::major_minor;

/// Where to find the counters of the device under a file.
#[derive(Debug, Clone)]
pub struct Device {
    stat: String,
}

impl Device {
    /// The device that holds the file with this metadata (or that it is); none for filesystems without one
    /// of their own, such as tmpfs or a network's.
    #[must_use]
    pub fn of(metadata: &fs::Metadata, is_device: bool) -> Option<Self> {
        let number = if is_device { metadata.rdev() } else { metadata.dev() };
        Self::numbered(number).or_else(|| Self::mounted(number))
    }

    /// Whether its queue lets completions be polled for; on one that does not, a polling loop would never end.
    #[must_use]
    pub fn polls(&self) -> bool {
        let folder = self.stat.trim_end_matches("stat");
        // A partition shares its disk's queue.
        ["queue/io_poll", "../queue/io_poll"]
            .iter()
            .find_map(|place| fs::read_to_string(format!("{folder}{place}")).ok())
            .is_some_and(|text| text.trim() == "1")
    }

    fn numbered(number: u64) -> Option<Self> {
        let (major, minor) = major_minor(number);
        let stat = format!("/sys/dev/block/{major}:{minor}/stat");
        fs::metadata(&stat).is_ok().then_some(Self { stat })
    }

    /// Filesystems such as btrfs number themselves; their mount names the device.
    fn mounted(number: u64) -> Option<Self> {
        let (major, minor) = major_minor(number);
        let wanted = format!("{major}:{minor}");
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let source = mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            (left.split(' ').nth(2) == Some(&wanted)).then(|| right.split(' ').nth(1)).flatten()
        })?;
        Self::numbered(fs::metadata(source).ok()?.rdev())
    }
}

/// The counters at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// (name in the reading, value), in the unit of the name.
    values: Vec<(&'static str, f64)>,
}

impl Snapshot {
    /// Reads the counters now.
    #[must_use]
    pub fn take(device: Option<&Device>) -> Self {
        let mut values = Vec::with_capacity(20);
        if let Ok(text) = fs::read_to_string("/proc/self/io") {
            process(&text, &mut values);
        }
        if let Some(text) = device.and_then(|device| fs::read_to_string(&device.stat).ok()) {
            block_device(&text, &mut values);
        }
        let cpu = crate::sys::time::process_cpu_time();
        values.push(("process_cpu_user_s", cpu.user_s));
        values.push(("process_cpu_system_s", cpu.system_s));
        Self { values }
    }

    /// What was counted since `earlier`: whole numbers but for the times.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Map<String, Value> {
        let mut all = Map::new();
        for &(name, value) in &self.values {
            if let Some(&(_, before)) = earlier.values.iter().find(|(other, _)| *other == name) {
                let passed = (value - before).max(0.0);
                let passed = if name.ends_with("_s") { json!(passed) } else { json!(passed as u64) };
                all.insert(name.to_string(), passed);
            }
        }
        all
    }
}

/// `/proc/self/io`, see its manual page: `read_bytes` and `write_bytes` are what reached the block layer.
fn process(text: &str, values: &mut Vec<(&'static str, f64)>) {
    const NAMES: [(&str, &str); 5] = [
        ("read_bytes", "process_read_bytes"),
        ("write_bytes", "process_write_bytes"),
        ("rchar", "process_read_call_bytes"),
        ("wchar", "process_write_call_bytes"),
        ("cancelled_write_bytes", "process_cancelled_write_bytes"),
    ];
    for line in text.lines() {
        if let Some((key, value)) = line.split_once(": ") {
            if let Some((_, name)) = NAMES.iter().find(|(known, _)| *known == key) {
                values.push((name, value.trim().parse().unwrap_or(0.0)));
            }
        }
    }
}

/// `/sys/dev/block/*/stat` (Documentation/block/stat.rst): sectors are of 512 B, times in ms.
fn block_device(text: &str, values: &mut Vec<(&'static str, f64)>) {
    let fields: Vec<f64> = text.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let mut add = |name, at: usize, factor: f64| {
        if let Some(field) = fields.get(at) {
            values.push((name, field * factor));
        }
    };
    add("device_read_operations", 0, 1.0);
    add("device_read_merges", 1, 1.0);
    add("device_read_bytes", 2, 512.0);
    add("device_read_time_s", 3, 1e-3);
    add("device_write_operations", 4, 1.0);
    add("device_write_merges", 5, 1.0);
    add("device_write_bytes", 6, 512.0);
    add("device_write_time_s", 7, 1e-3);
    add("device_busy_s", 9, 1e-3);
    add("device_queue_s", 10, 1e-3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_polls_only_where_it_says_so() {
        let root = std::env::temp_dir().join(format!("hwdyno-polls-{}", std::process::id()));
        let part = root.join("disk/part");
        fs::create_dir_all(root.join("disk/queue")).unwrap();
        fs::create_dir_all(&part).unwrap();
        let of = |folder: &std::path::Path| Device { stat: folder.join("stat").to_str().unwrap().into() };
        for (says, polls) in [("1\n", true), ("0\n", false)] {
            fs::write(root.join("disk/queue/io_poll"), says).unwrap();
            assert_eq!(of(&root.join("disk")).polls(), polls);
            assert_eq!(of(&part).polls(), polls, "a partition has its disk's queue");
        }
        assert!(!of(&root).polls(), "unknown is no");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn the_files_of_the_system_are_read_in_their_units() {
        let snapshot = |io: &str, stat: &str| {
            let mut values = Vec::new();
            process(io, &mut values);
            block_device(stat, &mut values);
            Snapshot { values }
        };
        let before = snapshot("rchar: 10\nread_bytes: 4096\nwrite_bytes: 0\n", "1 0 8 2 0 0 0 0 0 5 7");
        let after = snapshot("rchar: 30\nread_bytes: 12288\nwrite_bytes: 512\n", "3 1 24 4 2 0 16 1 1 15 1007");
        let passed = after.since(&before);
        assert_eq!(passed["process_read_bytes"], json!(8192));
        assert_eq!(passed["process_read_call_bytes"], json!(20));
        assert_eq!(passed["device_read_bytes"], json!(16 * 512));
        assert_eq!(passed["device_write_bytes"], json!(16 * 512));
        assert_eq!(passed["device_read_operations"], json!(2));
        assert!((passed["device_busy_s"].as_f64().unwrap() - 0.010).abs() < 1e-9);
        assert!((passed["device_queue_s"].as_f64().unwrap() - 1.0).abs() < 1e-9);
    }
}
