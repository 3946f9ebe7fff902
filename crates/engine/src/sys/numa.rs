//! Which processors belong to a NUMA node.

use std::fs;

/// The numbers of the processors of node `number`, as the system lists them; none where there is no such node.
/// A system without NUMA is one node, 0, of all its processors.
#[must_use]
pub fn processors(number: usize) -> Vec<u64> {
    match fs::read_to_string(format!("/sys/devices/system/node/node{number}/cpulist")) {
        Ok(text) => list(&text),
        Err(_) if number == 0 => super::affinity::allowed().into_iter().map(|cpu| cpu as u64).collect(),
        Err(_) => Vec::new(),
    }
}

/// Numbers and ranges, such as `0-3,8`.
fn list(text: &str) -> Vec<u64> {
    text.trim()
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some(from.trim().parse::<u64>().ok()?..=to.trim().parse::<u64>().ok()?.min(1 << 16))
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_ranges_is_read() {
        assert_eq!(list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(list("\n"), [] as [u64; 0]);
    }

    #[test]
    fn node_0_has_processors_and_one_far_off_has_none() {
        assert!(!processors(0).is_empty());
        assert!(processors(5000).is_empty());
    }
}
