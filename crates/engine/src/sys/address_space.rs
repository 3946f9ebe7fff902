//! What this process's limits leave of its address space (`ulimit -v`, `ulimit -d`).

use std::fs;

use rustix::process::{getrlimit, Resource};

/// A limit, with the field of proc(5)'s `status` that counts against it, and the shell's option.
const LIMITS: [(Resource, &str, &str); 2] = [(Resource::As, "VmSize:", "-v"), (Resource::Data, "VmData:", "-d")];

/// A limit of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limit {
    option: &'static str,
    bytes: u64,
    used: u64,
}

impl Limit {
    fn left(&self) -> u64 {
        self.bytes.saturating_sub(self.used)
    }
}

/// The limit that leaves the least; none where there is none, or no `/proc`.
fn tightest() -> Option<Limit> {
    let bounded = LIMITS
        .into_iter()
        .filter_map(|(resource, field, option)| getrlimit(resource).current.map(|bytes| (field, option, bytes)));
    let bounded: Vec<_> = bounded.collect();
    if bounded.is_empty() {
        return None;
    }
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let limits = bounded
        .into_iter()
        .filter_map(|(field, option, bytes)| Some(Limit { option, bytes, used: kib(&status, field)? << 10 }));
    limits.min_by_key(Limit::left)
}

/// The number of a line such as `VmSize:   12345 kB`.
fn kib(status: &str, field: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

/// Bytes that are left; none where there is no limit.
#[must_use]
pub fn left_bytes() -> Option<u64> {
    tightest().map(|limit| limit.left())
}

/// The limit in words; none where there is none.
#[must_use]
pub fn description() -> Option<String> {
    tightest().map(|Limit { option, bytes, used }| {
        format!(
            "`ulimit {option}` allows this process {} MiB of memory, of which {} MiB are in use; raise it",
            bytes >> 20,
            used >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_field_is_read() {
        let status = "VmPeak:\t  100 kB\nVmSize:\t   12345 kB\nVmData:\tnone\n";
        assert_eq!((kib(status, "VmSize:"), kib(status, "VmData:"), kib(status, "VmRSS:")), (Some(12345), None, None));
    }

    #[test]
    fn what_is_left_is_never_negative() {
        assert_eq!(Limit { option: "-v", bytes: 5, used: 7 }.left(), 0);
    }
}
