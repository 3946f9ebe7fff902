//! Memory: how much there is, how much is free, swap and huge pages.

use serde_json::{json, Value};

use super::scan::Survey;
use super::tree::Tree;

/// The machine's `memory`.
#[must_use]
pub fn survey(survey: &Survey) -> Value {
    let known = |key: &str, name: &str| {
        survey.or(
            &format!("memory.{key}"),
            meminfo_bytes(&survey.tree, "/proc/meminfo", name),
            &format!("/proc/meminfo has no {name}"),
        )
    };
    json!({
        "total_bytes": known("total_bytes", "MemTotal"),
        "available_bytes": known("available_bytes", "MemAvailable"),
        "swap_total_bytes": known("swap_total_bytes", "SwapTotal"),
        "huge_page_bytes": known("huge_page_bytes", "Hugepagesize"),
        "transparent_huge_pages": survey.or(
            "memory.transparent_huge_pages",
            survey.tree.text("/sys/kernel/mm/transparent_hugepage/enabled").and_then(|text| chosen(&text)),
            "the kernel offers none (/sys/kernel/mm/transparent_hugepage is missing)",
        ),
    })
}

/// A line of a meminfo file in bytes; the kernel counts in KiB and writes `kB`.
#[must_use]
pub fn meminfo_bytes(tree: &Tree, file: &str, name: &str) -> Option<u64> {
    let text = tree.text(file)?;
    let rest = text.lines().find_map(|line| {
        let (head, rest) = line.split_once(':')?;
        // a node's own meminfo writes "Node 0 MemTotal:"
        (head.rsplit(' ').next() == Some(name)).then_some(rest)
    })?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The word in brackets of a line such as `always [madvise] never`.
#[must_use]
pub fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_string())
}
