//! The processor: what it is, how it is laid out, which instructions it has, and how fast it really runs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{json, Value};

use super::arm_cores;
use super::memory::meminfo_bytes;
use super::scan::Survey;
use super::tree::{Ranges, Tree, MAX_NUMBERS};

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// The machine's `cpu`.
#[must_use]
pub fn survey(survey: &Survey) -> Value {
    let info = CpuInfo::read(&survey.tree);
    let online = online(survey, &info);
    let listed = listed(&survey.tree, &online);
    let layout = Layout::read(survey, &info, &listed);
    let no_topology = "neither /sys/devices/system/cpu/*/topology nor /proc/cpuinfo tells";
    json!({
        "model": survey.or("cpu.model", info.model(), "/proc/cpuinfo names none"),
        "vendor": survey.or("cpu.vendor", info.vendor(), "/proc/cpuinfo names none"),
        "sockets": survey.or("cpu.sockets", layout.sockets, no_topology),
        "cores": survey.or("cpu.cores", layout.cores, no_topology),
        "threads": survey.or(
            "cpu.threads",
            (!online.is_empty()).then(|| online.count()),
            "neither /sys/devices/system/cpu/online nor /proc/cpuinfo tells",
        ),
        "clock_hz": clock_hz(survey, &listed),
        "caches": caches(survey, &listed),
        "isa": survey.or("cpu.isa", info.isa(), "/proc/cpuinfo lists no flags or features"),
        "numa_nodes": numa_nodes(survey),
    })
}

/// `/proc/cpuinfo`, one map a processor; what is before the first or after the last is in `common`.
pub(super) struct CpuInfo {
    processors: Vec<BTreeMap<String, String>>,
    common: BTreeMap<String, String>,
}

impl CpuInfo {
    pub(super) fn read(tree: &Tree) -> Self {
        let mut info = Self { processors: Vec::new(), common: BTreeMap::new() };
        let text = tree.text("/proc/cpuinfo").unwrap_or_default();
        for block in text.split("\n\n") {
            let lines = block.lines().filter_map(|line| line.split_once(':'));
            let mut pairs = BTreeMap::new();
            pairs.extend(lines.map(|(key, value)| (key.trim().to_string(), value.trim().to_string())));
            if pairs.contains_key("processor") {
                info.processors.push(pairs);
            } else {
                info.common.extend(pairs);
            }
        }
        info
    }

    fn first(&self, key: &str) -> Option<&str> {
        self.processors.first().and_then(|pairs| pairs.get(key)).or_else(|| self.common.get(key)).map(String::as_str)
    }

    /// Whether a flag or feature is listed.
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags().is_some_and(|flags| flags.split_whitespace().any(|word| word == flag))
    }

    /// Whether it is an arm64 one.
    pub(super) fn is_arm(&self) -> bool {
        self.first("CPU implementer").is_some()
    }

    fn flags(&self) -> Option<&str> {
        self.first("flags").or_else(|| self.first("Features"))
    }

    fn vendor(&self) -> Option<String> {
        if let Some(code) = self.first("CPU implementer") {
            let name = hex(code).and_then(arm_cores::implementer);
            return Some(name.map_or_else(|| format!("implementer {code}"), str::to_string));
        }
        self.first("vendor_id").map(str::to_string)
    }

    /// The brand string; on arm64 the kinds of core, with their number where there are several kinds.
    fn model(&self) -> Option<String> {
        if !self.is_arm() {
            return self.first("model name").or_else(|| self.first("cpu")).map(str::to_string);
        }
        let mut kinds: Vec<(String, usize)> = Vec::new();
        let mut at: HashMap<String, usize> = HashMap::new();
        for pairs in &self.processors {
            let (Some(implementer), Some(part)) = (pairs.get("CPU implementer"), pairs.get("CPU part")) else {
                continue;
            };
            let name = hex(implementer)
                .zip(hex(part))
                .and_then(|(implementer, part)| arm_cores::core(implementer, part))
                .map_or_else(|| format!("implementer {implementer} part {part}"), str::to_string);
            let next = kinds.len();
            let known = *at.entry(name.clone()).or_insert(next);
            if known == next {
                kinds.push((name, 0));
            }
            kinds[known].1 += 1;
        }
        match kinds.as_slice() {
            [] => None,
            [(name, _)] => Some(name.clone()),
            several => Some(several.iter().map(|(name, n)| format!("{n} x {name}")).collect::<Vec<_>>().join(" + ")),
        }
    }

    /// Vector, matrix and cryptographic extensions, by the kernel's names; `pni` is given as `sse3`.
    fn isa(&self) -> Option<Vec<String>> {
        const X86: &[&str] = &[
            "sse",
            "sse2",
            "pni",
            "ssse3",
            "sse4_1",
            "sse4_2",
            "sse4a",
            "popcnt",
            "aes",
            "pclmulqdq",
            "f16c",
            "fma",
            "fma4",
            "xop",
            "bmi1",
            "bmi2",
            "sha_ni",
            "gfni",
            "vaes",
            "vpclmulqdq",
            "movdir64b",
            "serialize",
        ];
        const X86_FAMILIES: &[&str] = &["avx", "amx"];
        const ARM: &[&str] = &[
            "fp", "asimd", "fphp", "asimdhp", "asimdrdm", "asimddp", "asimdfhm", "aes", "pmull", "sha1", "sha2",
            "sha3", "sha512", "crc32", "atomics", "fcma", "i8mm", "bf16", "neon", "vfpv4", "lrcpc", "uscat",
        ];
        const ARM_FAMILIES: &[&str] = &["sve", "sme"];
        let (words, families) = if self.is_arm() { (ARM, ARM_FAMILIES) } else { (X86, X86_FAMILIES) };
        let flags: Vec<&str> = self.flags()?.split_whitespace().collect();
        let stated: HashSet<&str> = flags.iter().copied().collect();
        let known = words.iter().filter(|word| stated.contains(**word)).copied();
        let of_family = flags.iter().filter(|flag| families.iter().any(|family| flag.starts_with(family))).copied();
        let mut given = HashSet::new();
        let words = known.chain(of_family).map(|word| if word == "pni" { "sse3" } else { word });
        Some(words.filter(|word| given.insert(*word)).map(str::to_string).collect())
    }
}

fn hex(code: &str) -> Option<u32> {
    u32::from_str_radix(code.trim_start_matches("0x"), 16).ok()
}

/// Numbers of the processors that are online.
fn online(survey: &Survey, info: &CpuInfo) -> Ranges {
    let at = "cpu.threads";
    let list = survey.processors(at, &format!("{CPUS}/online")).filter(|list| !list.is_empty());
    if list.is_some() || survey.unknown.reason(at).is_some() {
        return list.unwrap_or_default();
    }
    let named = info.processors.iter().filter_map(|pairs| pairs.get("processor").cloned());
    survey.listed(at, "/proc/cpuinfo", &named.collect::<Vec<_>>().join(",")).unwrap_or_default()
}

/// Those of the processors that have a directory: a list may name many more, and each has a dozen files.
fn listed(tree: &Tree, online: &Ranges) -> Vec<u64> {
    let names = tree.list(CPUS);
    // Inserted one by one, here and elsewhere: what sorts the few of a `collect` is 4 kB of code for each type.
    let mut present: BTreeSet<u64> = BTreeSet::new();
    present.extend(names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<u64>().ok()));
    present.into_iter().filter(|cpu| online.contains(*cpu)).collect()
}

struct Layout {
    sockets: Option<usize>,
    cores: Option<usize>,
}

impl Layout {
    fn read(survey: &Survey, info: &CpuInfo, online: &[u64]) -> Self {
        let tree = &survey.tree;
        let mut sockets = BTreeSet::new();
        let (mut cores, mut of_info) = (BTreeSet::new(), BTreeSet::new());
        for cpu in online {
            let topology = format!("{CPUS}/cpu{cpu}/topology");
            sockets.extend(tree.text(&format!("{topology}/physical_package_id")));
            let names = ["core_cpus_list", "thread_siblings_list"];
            cores.extend(names.iter().find_map(|name| survey.processors("cpu.cores", &format!("{topology}/{name}"))));
        }
        if cores.is_empty() {
            for pairs in &info.processors {
                if let (Some(socket), Some(core)) = (pairs.get("physical id"), pairs.get("core id")) {
                    sockets.insert(socket.clone());
                    of_info.insert((number(socket), number(core)));
                }
            }
        }
        // older arm64 kernels number clusters of cores as packages; boards with a device tree have one socket
        if info.is_arm() && tree.exists("/proc/device-tree/model") && !sockets.is_empty() {
            sockets.clear();
            sockets.insert("0".to_string());
        }
        let count = |n: usize| (n > 0).then_some(n);
        Self { sockets: count(sockets.len()), cores: count(cores.len().max(of_info.len())) }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

fn clock_hz(survey: &Survey, online: &[u64]) -> Value {
    let tree = &survey.tree;
    let khz = |file: &str| {
        let files = online.iter().map(|cpu| format!("{CPUS}/cpu{cpu}/cpufreq/{file}"));
        files.filter_map(|file| tree.number::<u64>(&file)).max().map(|khz| khz.saturating_mul(1000))
    };
    let nominal = || {
        let files = online.iter().map(|cpu| format!("{CPUS}/cpu{cpu}/acpi_cppc/nominal_freq"));
        files.filter_map(|file| tree.number::<u64>(&file)).max().map(|mhz| mhz.saturating_mul(1_000_000))
    };
    let measured = tree.is_live().then(crate::sys::clock_chain::hertz).flatten();
    let no_cpufreq = "no cpufreq in /sys: the hypervisor or firmware keeps the clock to itself";
    json!({
        "measured": survey.or("cpu.clock_hz.measured", measured, if tree.is_live() {
            "no dependent chain is written for this architecture"
        } else {
            "a recorded tree cannot be timed"
        }),
        "base": survey.or(
            "cpu.clock_hz.base",
            khz("base_frequency").or_else(nominal).filter(|hz| *hz > 0),
            "neither cpufreq/base_frequency nor acpi_cppc/nominal_freq is there",
        ),
        "max": survey.or("cpu.clock_hz.max", khz("cpuinfo_max_freq").filter(|hz| *hz > 0), no_cpufreq),
    })
}

fn caches(survey: &Survey, online: &[u64]) -> Value {
    let tree = &survey.tree;
    let mut found: BTreeMap<(u64, String, u64), BTreeSet<Ranges>> = BTreeMap::new();
    for cpu in online {
        let directory = format!("{CPUS}/cpu{cpu}/cache");
        for index in tree.list(&directory) {
            let file = |name: &str| tree.text(&format!("{directory}/{index}/{name}"));
            let (Some(level), Some(size)) =
                (file("level").and_then(|text| text.parse().ok()), file("size").and_then(|text| binary_size(&text)))
            else {
                continue;
            };
            let kind = file("type").unwrap_or_default().to_ascii_lowercase();
            let name = format!("{directory}/{index}/shared_cpu_list");
            let list = tree.text(&name).unwrap_or_else(|| cpu.to_string());
            let Some(shared) = survey.listed("cpu.caches", &name, &list) else { continue };
            found.entry((level, kind, size)).or_default().insert(shared);
        }
    }
    if found.is_empty() {
        let why = "/sys/devices/system/cpu/*/cache is missing: the kernel was told of none";
        return survey.or("cpu.caches", None::<Value>, why);
    }
    let caches = found.into_iter().map(|((level, kind, size), shares)| {
        json!({
            "level": level,
            "type": kind,
            "size_bytes": size,
            "shared_threads": shares.iter().map(Ranges::count).max(),
            "instances": shares.len(),
        })
    });
    caches.collect()
}

/// A size such as `32K` or `2M` in bytes, as the kernel writes those of caches.
fn binary_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

fn numa_nodes(survey: &Survey) -> Value {
    let tree = &survey.tree;
    // A processor belongs to one node.
    let mut room = MAX_NUMBERS;
    let nodes: Vec<Value> = tree
        .list(NODES)
        .iter()
        .filter_map(|name| Some((name, name.strip_prefix("node")?.parse::<u64>().ok()?)))
        .map(|(name, node)| {
            let file = format!("{NODES}/{name}/cpulist");
            let list = survey.processors("cpu.numa_nodes", &file).unwrap_or_default();
            let Some(left) = room.checked_sub(list.count()) else {
                let why = format!("/sys/devices/system/node lists more than {MAX_NUMBERS} processors");
                survey.unknown.note("cpu.numa_nodes", &why);
                return json!({"node": node, "cpus": [], "memory_bytes": null});
            };
            room = left;
            let cpus: Vec<u64> = list.numbers().collect();
            let memory = meminfo_bytes(tree, &format!("{NODES}/{name}/meminfo"), "MemTotal");
            let memory = survey.or(&format!("cpu.numa_nodes.{node}.memory_bytes"), memory, "its meminfo is missing");
            json!({"node": node, "cpus": cpus, "memory_bytes": memory})
        })
        .collect();
    let known = (!nodes.is_empty()).then_some(Value::Array(nodes));
    survey.or("cpu.numa_nodes", known, "/sys/devices/system/node is missing: the kernel is built without NUMA")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_caches() {
        assert_eq!(binary_size("48K"), Some(48 << 10));
        assert_eq!(binary_size("2M"), Some(2 << 20));
        assert_eq!(binary_size("0K"), None);
        assert_eq!(binary_size("K"), None);
        assert_eq!(binary_size("99999999999999999999K"), None);
    }

    #[test]
    fn unlike_cores_are_counted() {
        let tree = Tree::of_record(
            "/proc/cpuinfo:\n\tprocessor\t: 0\n\tFeatures\t: fp asimd sve2\n\tCPU implementer\t: 0x41\n\tCPU part\t: 0xd05\n\t\n\
             \tprocessor\t: 1\n\tCPU implementer\t: 0x41\n\tCPU part\t: 0xd0b\n\t\n\
             \tprocessor\t: 2\n\tCPU implementer\t: 0x41\n\tCPU part\t: 0xd0b\n",
        );
        let info = CpuInfo::read(&tree);
        assert_eq!(info.model().as_deref(), Some("1 x Cortex-A55 + 2 x Cortex-A76"));
        assert_eq!(info.vendor().as_deref(), Some("Arm"));
        assert_eq!(info.isa().unwrap_or_default(), ["fp", "asimd", "sve2"]);
    }
}
