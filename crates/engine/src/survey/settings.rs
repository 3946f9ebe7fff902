//! Settings that slow figures down: the environment of libraries, limits, priority, mitigations, debug kernels.

use std::env::vars_os;

use rustix::process::{getpriority_process, getrlimit, Resource};
use serde_json::{json, Map, Value};

use super::tree::Tree;

/// Variables that numeric libraries, their threads and the allocator obey, by how they begin.
const PREFIXES: [&str; 9] = ["OPENBLAS_", "GOTO_", "OMP_", "GOMP_", "KMP_", "MKL_", "BLIS_", "VECLIB_", "MALLOC_"];
const NAMES: [&str; 2] = ["LD_PRELOAD", "GLIBC_TUNABLES"];
/// Characters of a variable that are kept.
const LONGEST: usize = 200;
/// Resource limits by the word of ulimit's manual.
const LIMITS: [(&str, Resource); 6] = [
    ("memlock", Resource::Memlock),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("stack", Resource::Stack),
    ("as", Resource::As),
    ("cpu", Resource::Cpu),
];
/// Files that a kernel built for debugging makes, by the check.
const SIGNS: [(&str, &str); 2] = [("lockdep", "/proc/lockdep"), ("kmemleak", "/sys/kernel/debug/kmemleak")];
/// Words of the kernel's command line that start a check, alone or with a value.
const WORDS: [(&str, &str); 3] =
    [("slub_debug", "slub_debug"), ("page_poison", "page_poison"), ("debug_pagealloc", "debug_pagealloc=on")];

/// The machine's `settings`, without what cannot be read; a recorded tree has no process, and so no environment, priority or limits.
#[must_use]
pub fn survey(tree: &Tree) -> Value {
    let mut settings = Map::new();
    if tree.is_live() {
        let variables =
            vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
        settings.insert("environment".into(), environment(variables));
        if let Ok(nice) = getpriority_process(None) {
            settings.insert("nice".into(), json!(nice));
        }
        settings.insert("limits".into(), limits());
    }
    if let Some(smt) = tree.text("/sys/devices/system/cpu/smt/control") {
        settings.insert("smt".into(), json!(smt));
    }
    settings.insert("mitigations".into(), mitigations(tree));
    settings.insert("debug_kernel".into(), json!(debug_checks(tree)));
    settings.into()
}

fn environment(variables: impl Iterator<Item = (String, String)>) -> Value {
    let obeyed = |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let kept = variables.filter(|(name, _)| obeyed(name));
    kept.map(|(name, value)| (name, json!(value.chars().take(LONGEST).collect::<String>())))
        .collect::<Map<_, _>>()
        .into()
}

/// The soft limits: a number, of bytes where it is memory, or `unlimited`.
fn limits() -> Value {
    let soft = |resource| getrlimit(resource).current.map_or("unlimited".to_string(), |limit| limit.to_string());
    LIMITS.into_iter().map(|(name, resource)| (name.to_string(), json!(soft(resource)))).collect::<Map<_, _>>().into()
}

/// The processor's vulnerabilities that are worked around (Documentation/admin-guide/hw-vuln).
fn mitigations(tree: &Tree) -> Value {
    const FOLDER: &str = "/sys/devices/system/cpu/vulnerabilities";
    let around = |name: String| {
        let says = tree.text(&format!("{FOLDER}/{name}"))?;
        let how = says.strip_prefix("Mitigation")?;
        Some((name, json!(how.trim_start_matches([':', ' ']))))
    };
    tree.list(FOLDER).into_iter().filter_map(around).collect::<Map<_, _>>().into()
}

/// The checks of a kernel that was built or started for debugging.
fn debug_checks(tree: &Tree) -> Vec<&'static str> {
    let release = tree.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let line = tree.text("/proc/cmdline").unwrap_or_default();
    let given = |sign: &str| {
        line.split_whitespace()
            .any(|word| word.strip_prefix(sign).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    let built = ["-debug", "+debug", ".debug"].iter().any(|word| release.contains(word)).then_some("debug build");
    let made = SIGNS.iter().filter(|(_, file)| tree.exists(file)).map(|(check, _)| *check);
    let started = WORDS.iter().filter(|(_, sign)| given(sign)).map(|(check, _)| *check);
    built.into_iter().chain(made).chain(started).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_that_libraries_obey_are_kept_and_long_ones_cut() {
        let variables = [
            ("OPENBLAS_CORETYPE", "Haswell"),
            ("HOME", "/root"),
            ("MKL_NUM_THREADS", "2"),
            ("LD_PRELOAD", &"x".repeat(999)),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()));
        let kept = environment(variables.into_iter());
        assert_eq!(
            kept,
            json!({"OPENBLAS_CORETYPE": "Haswell", "MKL_NUM_THREADS": "2", "LD_PRELOAD": "x".repeat(200)})
        );
    }

    #[test]
    fn this_process_has_a_priority_and_limits() {
        let found = survey(&Tree::open(std::path::Path::new("/")));
        assert!(found["nice"].is_i64());
        assert!(LIMITS.iter().all(|(name, _)| found["limits"][name].is_string()));
    }
}
