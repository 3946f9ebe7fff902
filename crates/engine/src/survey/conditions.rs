//! The conditions right now: load, governor, turbo, steal, swapping, free memory, temperature, congestion control.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{json, Value};

use super::memory::meminfo_bytes;
use super::scan::Survey;
use super::tree::Tree;

/// How long others' work, steal and swapping are watched; at 100 ticks a second the least share seen of a processor is 2%.
const WINDOW_NS: u64 = 500_000_000;
/// Counters taken when the engine was loaded serve a survey for so long: what ended earlier is not what goes on now.
const LOADED_NS: u64 = 1_500_000_000;
/// The kernel counts swapping in pages of the processor's base size; 4 KiB on all but few arm64 kernels.
const PAGE_BYTES: u64 = 4096;
const CPUS: &str = "/sys/devices/system/cpu";

static LOADED: OnceLock<Before> = OnceLock::new();

/// Takes the counters once, when the engine is loaded: a survey soon after has its window behind it.
pub fn watch() {
    LOADED.get_or_init(|| Before::now(&Tree::open(Path::new("/"))));
}

/// The counters at the start of the window; the survey's own time is part of it.
#[derive(Clone, Copy)]
pub struct Before {
    taken: Option<Counters>,
    at_ns: u64,
}

#[derive(Clone, Copy)]
struct Counters {
    ticks: u64,
    idle_ticks: u64,
    stolen_ticks: u64,
    /// CPU time of this process and its ended children, which is no work of others.
    spent_s: f64,
    pages_in: u64,
    pages_out: u64,
}

impl Before {
    /// The counters since the engine was loaded, if that was lately, or now; none where they cannot be read twice.
    #[must_use]
    pub fn take(survey: &Survey) -> Self {
        let is_late = |loaded: &&Self| crate::timing::clock::now_ns().saturating_sub(loaded.at_ns) <= LOADED_NS;
        let loaded = LOADED.get().filter(|_| survey.tree.is_live()).filter(is_late);
        loaded.copied().unwrap_or_else(|| Self::now(&survey.tree))
    }

    fn now(tree: &Tree) -> Self {
        let taken = tree.is_live().then(|| Counters::read(tree)).flatten();
        Self { taken, at_ns: crate::timing::clock::now_ns() }
    }

    /// The machine's `conditions`.
    #[must_use]
    pub fn finish(self, survey: &Survey) -> Value {
        let tree = &survey.tree;
        let after = self.taken.and_then(|_| {
            let left = WINDOW_NS.saturating_sub(crate::timing::clock::now_ns().saturating_sub(self.at_ns));
            std::thread::sleep(std::time::Duration::from_nanos(left));
            Counters::read(tree)
        });
        let both = self.taken.zip(after);
        let window_s = crate::timing::clock::now_ns().saturating_sub(self.at_ns) as f64 / 1e9;
        let steal = both.and_then(|(before, after)| {
            let ticks = after.ticks.saturating_sub(before.ticks);
            (ticks > 0).then(|| after.stolen_ticks.saturating_sub(before.stolen_ticks) as f64 / ticks as f64)
        });
        let others = both.and_then(|(before, after)| {
            let ticks = after.ticks.saturating_sub(before.ticks) as f64;
            let quiet = after.idle_ticks.saturating_sub(before.idle_ticks)
                + after.stolen_ticks.saturating_sub(before.stolen_ticks);
            let processors = tree.list(CPUS).iter().filter(|name| super::link::is_numbered(name, "cpu")).count();
            let ours = (after.spent_s - before.spent_s) / (window_s * processors.max(1) as f64);
            (ticks > 0.0).then(|| (1.0 - quiet as f64 / ticks - ours).max(0.0))
        });
        let swapped = |of: fn(Counters) -> u64| {
            both.map(|(before, after)| {
                of(after).saturating_sub(of(before)).saturating_mul(PAGE_BYTES) as f64 / window_s
            })
        };
        let or = |key: &str, value: Option<Value>, why: &str| survey.or(&format!("conditions.{key}"), value, why);
        let watched =
            if tree.is_live() { "/proc/stat or /proc/vmstat cannot be read" } else { "a recorded tree stands still" };
        let load = tree.text("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        json!({
            "load_1m": or("load_1m", load.map(Value::from), "/proc/loadavg is missing"),
            "governor": or("governor", governor(tree).map(Value::from), "no cpufreq in /sys: the hypervisor or firmware keeps the clock to itself"),
            "turbo": or("turbo", turbo(tree).map(Value::from), "neither intel_pstate/no_turbo nor cpufreq/boost is there"),
            "others_cpu_share": or("others_cpu_share", others.map(Value::from), watched),
            "steal_share": or("steal_share", steal.map(Value::from), watched),
            "swap_in_bytes_s": or("swap_in_bytes_s", swapped(|c| c.pages_in).map(Value::from), watched),
            "swap_out_bytes_s": or("swap_out_bytes_s", swapped(|c| c.pages_out).map(Value::from), watched),
            "memory_available_bytes": or(
                "memory_available_bytes",
                meminfo_bytes(tree, "/proc/meminfo", "MemAvailable").map(Value::from),
                "/proc/meminfo has no MemAvailable",
            ),
            "temperature_c": or("temperature_c", temperature_c(tree).map(Value::from), "no sensor of the processor in hwmon or thermal"),
            "tcp_congestion_control": survey.text_or("conditions.tcp_congestion_control", "/proc/sys/net/ipv4/tcp_congestion_control"),
        })
    }
}

impl Counters {
    fn read(tree: &Tree) -> Option<Self> {
        let stat = tree.text("/proc/stat")?;
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        // user nice system idle iowait irq softirq steal; the guests' times after them are in user and nice already
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
        let vmstat = tree.text("/proc/vmstat")?;
        let spent = [crate::sys::time::process_cpu_time(), crate::sys::time::children_cpu_time()];
        let pages = |name: &str| vmstat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Self {
            ticks: ticks.iter().fold(0, |sum, ticks| sum.saturating_add(*ticks)),
            idle_ticks: ticks.get(3)?.saturating_add(*ticks.get(4)?),
            stolen_ticks: ticks.get(7).copied()?,
            spent_s: spent.iter().map(|time| time.user_s + time.system_s).sum(),
            pages_in: pages("pswpin ").unwrap_or(0),
            pages_out: pages("pswpout ").unwrap_or(0),
        })
    }
}

/// The governor; all of them where they differ.
fn governor(tree: &Tree) -> Option<String> {
    let names = tree.list(CPUS);
    let numbered = names.iter().filter(|name| super::link::is_numbered(name, "cpu"));
    let mut governors = BTreeSet::new();
    governors.extend(numbered.filter_map(|cpu| tree.text(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor"))));
    (!governors.is_empty()).then(|| governors.into_iter().collect::<Vec<_>>().join(", "))
}

fn turbo(tree: &Tree) -> Option<bool> {
    let off = tree.number::<u8>(&format!("{CPUS}/intel_pstate/no_turbo")).map(|flag| flag == 0);
    off.or_else(|| tree.number::<u8>(&format!("{CPUS}/cpufreq/boost")).map(|flag| flag != 0))
}

/// The hottest sensor of the processor in °C.
fn temperature_c(tree: &Tree) -> Option<f64> {
    let hwmon = tree.list("/sys/class/hwmon").into_iter().flat_map(|sensor| {
        let directory = format!("/sys/class/hwmon/{sensor}");
        let name = tree.text(&format!("{directory}/name")).unwrap_or_default();
        let of_processor = matches!(name.as_str(), "coretemp" | "k10temp" | "zenpower" | "cpu_thermal" | "soc_thermal");
        let inputs = if of_processor { tree.list(&directory) } else { Vec::new() };
        inputs
            .into_iter()
            .filter(|file| file.starts_with("temp") && file.ends_with("_input"))
            .filter_map(|file| tree.number::<f64>(&format!("{directory}/{file}")))
            .collect::<Vec<_>>()
    });
    let zones = tree.list("/sys/class/thermal").into_iter().filter_map(|zone| {
        let directory = format!("/sys/class/thermal/{zone}");
        let kind = tree.text(&format!("{directory}/type"))?.to_ascii_lowercase();
        (kind.contains("cpu") || kind.contains("x86_pkg") || kind.contains("soc"))
            .then(|| tree.number::<f64>(&format!("{directory}/temp")))?
    });
    // in thousandths; sensors that are off read far out of this range
    let real =
        hwmon.chain(zones).map(|thousandths| thousandths / 1000.0).filter(|celsius| (-40.0..=150.0).contains(celsius));
    real.max_by(f64::total_cmp)
}
