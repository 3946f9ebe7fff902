//! What the machine is made of and shut in by: board, operating system, hypervisor, container and its limits.

use std::path::Path;

use serde_json::{json, Value};

use super::cpu::CpuInfo;
use super::memory::meminfo_bytes;
use super::mounts::{self, Mount};
use super::record::{LONGEST_PATH, MAX_LEVELS};
use super::scan::Survey;
use super::tree::{parent, Ranges, Tree};
use crate::sys::address_space;
use crate::sys::uring::Queues;

/// cgroup v1 writes "no limit" as the greatest multiple of a page below 2^63; no machine has that much memory.
const NO_LIMIT_BYTES: u64 = 1 << 60;

/// The board's or the whole machine's name, by DMI or the device tree.
#[must_use]
pub fn board(tree: &Tree) -> Option<String> {
    let dmi = |file: &str| {
        let text = tree.text(&format!("/sys/class/dmi/id/{file}"))?;
        (!matches!(
            text.as_str(),
            "To Be Filled By O.E.M." | "System Product Name" | "System manufacturer" | "Default string"
        ))
        .then_some(text)
    };
    tree.text("/proc/device-tree/model").or_else(|| tree.text("/sys/firmware/devicetree/base/model")).or_else(
        || match (dmi("sys_vendor"), dmi("product_name")) {
            (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
            (vendor, product) => product.or(vendor).or_else(|| dmi("board_name")),
        },
    )
}

/// The machine's `os`.
#[must_use]
pub fn os(survey: &Survey) -> Value {
    let tree = &survey.tree;
    let info = CpuInfo::read(tree);
    let architecture = tree.text("/proc/sys/kernel/arch").or_else(|| match () {
        () if tree.is_live() => Some(std::env::consts::ARCH.to_string()),
        () if info.is_arm() => Some("aarch64".into()),
        () if info.has("lm") => Some("x86_64".into()),
        () => None,
    });
    let release = tree.text("/etc/os-release").or_else(|| tree.text("/usr/lib/os-release"));
    let distribution = release.and_then(|text| {
        let field = |key: &str| {
            text.lines().find_map(|line| Some(line.strip_prefix(key)?.trim_matches(['"', '\'']).to_string()))
        };
        field("PRETTY_NAME=").or_else(|| field("NAME="))
    });
    let io_uring = tree.is_live().then(|| json!(Queues::new(1, false).is_ok()));
    json!({
        "kernel": survey.text_or("os.kernel", "/proc/sys/kernel/osrelease"),
        "distribution": survey.or("os.distribution", distribution, "/etc/os-release is missing"),
        "architecture": survey.or("os.architecture", architecture, "/proc/sys/kernel/arch is missing, as before Linux 6.1"),
        "io_uring": survey.or("os.io_uring", io_uring, "a recorded tree makes no calls"),
    })
}

/// The hypervisor's name; `null` without a reason on bare metal.
#[must_use]
pub fn hypervisor(survey: &Survey) -> Value {
    let tree = &survey.tree;
    let flagged = CpuInfo::read(tree).has("hypervisor");
    let signature = tree.is_live().then(crate::sys::filesystem::hypervisor_signature).flatten();
    let by_signature = signature.as_deref().and_then(|signature| {
        // each vendor's own documentation of CPUID leaf 40000000h
        Some(match signature {
            "KVMKVMKVM" | "Linux KVM Hv" => "kvm",
            "Microsoft Hv" => "hyper-v",
            "VMwareVMware" => "vmware",
            "XenVMMXenVMM" => "xen",
            "TCGTCGTCGTCG" => "qemu",
            "VBoxVBoxVBox" => "virtualbox",
            "bhyve bhyve" => "bhyve",
            "ACRNACRNACRN" => "acrn",
            _ => return None,
        })
    });
    let kernel = tree.text("/proc/sys/kernel/osrelease").unwrap_or_default().to_ascii_lowercase();
    let product = format!(
        "{} {}",
        tree.text("/sys/class/dmi/id/sys_vendor").unwrap_or_default(),
        tree.text("/sys/class/dmi/id/product_name").unwrap_or_default()
    );
    let by_product = [
        ("KVM", "kvm"),
        ("QEMU", "kvm"),
        ("Amazon EC2", "amazon (nitro or xen)"),
        ("Google Compute Engine", "kvm"),
        ("OpenStack", "kvm"),
        ("DigitalOcean", "kvm"),
        ("Firecracker", "kvm"),
        ("VMware", "vmware"),
        ("VirtualBox", "virtualbox"),
        ("Microsoft Corporation Virtual Machine", "hyper-v"),
        ("Xen", "xen"),
        ("Parallels", "parallels"),
        ("Apple Virtualization", "apple"),
    ];
    let by_product = || by_product.iter().find(|(word, _)| product.contains(word)).map(|(_, name)| *name);
    let found = if kernel.contains("microsoft") {
        Some("hyper-v (WSL)".to_string())
    } else {
        by_signature
            .map(str::to_string)
            .or_else(|| tree.text("/sys/hypervisor/type"))
            .or_else(|| tree.text("/proc/device-tree/hypervisor/compatible").map(|text| text.replace('\0', " ")))
            // metal instances of a cloud carry its name and no hypervisor
            .or_else(|| (flagged || CpuInfo::read(tree).is_arm()).then(by_product).flatten().map(str::to_string))
    };
    if found.is_none() && flagged {
        return survey.or(
            "hypervisor",
            None::<String>,
            "the processor says that there is one, which does not give its name",
        );
    }
    json!(found)
}

/// The machine's `container`: its kind, and the limits that hold inside it or inside a service's cgroup.
#[must_use]
pub fn container(survey: &Survey) -> Value {
    let tree = &survey.tree;
    let groups = Groups::read(tree);
    let at = "container.cpuset";
    let allowed = groups.cpuset(survey, at).or_else(|| {
        let status = tree.text("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        survey.listed(at, "/proc/self/status", list.trim())
    });
    let allowed = allowed.map(|list| json!(list.numbers().collect::<Vec<_>>()));
    json!({
        "kind": container_kind(tree),
        "cpu_limit": groups.cpu_limit(tree),
        "cpuset": survey.or(at, allowed, "neither a cgroup nor /proc/self/status tells"),
        "memory_limit_bytes": groups.memory_limit_bytes(tree),
        "memory_left_bytes": groups.memory_left_bytes(tree),
    })
}

fn container_kind(tree: &Tree) -> Option<String> {
    const BY_GROUP: &[(&str, &str)] = &[
        ("kubepods", "kubernetes"),
        ("docker", "docker"),
        ("libpod", "podman"),
        ("lxc", "lxc"),
        ("containerd", "containerd"),
    ];
    let groups = tree.text("/proc/self/cgroup").unwrap_or_default();
    if let Some((_, kind)) = BY_GROUP.iter().find(|(word, _)| groups.contains(word)) {
        return Some((*kind).to_string());
    }
    let root = mounts::read(tree).into_iter().rfind(|mount| mount.point == "/");
    // a machine that was started from a container's image has the marks below and a separate filesystem
    if root.as_ref().is_some_and(|root| root.has_device() && root.root == "/") {
        return None;
    }
    let marks = [
        ("/var/run/secrets/kubernetes.io", "kubernetes"),
        ("/run/secrets/kubernetes.io", "kubernetes"),
        ("/run/.containerenv", "podman"),
        ("/.dockerenv", "docker"),
    ];
    let by_mark = marks.iter().find(|(mark, _)| tree.exists(mark)).map(|(_, kind)| (*kind).to_string());
    by_mark
        .or_else(|| tree.text("/run/systemd/container"))
        .or_else(|| (root?.filesystem == "overlay").then(|| "unnamed (the root is an overlay)".into()))
}

/// Directories with the limits of this process: one a controller, each with those above it.
struct Groups {
    unified: Vec<String>,
    cpu: Vec<String>,
    memory: Vec<String>,
    cpuset: Vec<String>,
}

impl Groups {
    fn read(tree: &Tree) -> Self {
        let mounts = mounts::read(tree);
        let groups = tree.text("/proc/self/cgroup").unwrap_or_default();
        let of = |controller: &str| {
            let kind = if controller.is_empty() { "cgroup2" } else { "cgroup" };
            let mount = mounts.iter().find(|mount| {
                mount.filesystem == kind
                    && (controller.is_empty() || mount.options.iter().any(|option| option == controller))
            })?;
            let path = groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let (controllers, path) = (fields.next()?, fields.next()?);
                controllers.split(',').any(|name| name == controller).then(|| path.to_string())
            })?;
            Some(upwards(mount, &path))
        };
        let of = |controller: &str| of(controller).unwrap_or_default();
        Self { unified: of(""), cpu: of("cpu"), memory: of("memory"), cpuset: of("cpuset") }
    }

    /// The limit in processors; the tightest of all levels.
    fn cpu_limit(&self, tree: &Tree) -> Option<f64> {
        let unified = self.unified.iter().filter_map(|directory| {
            let text = tree.text(&format!("{directory}/cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            share(quota.parse().ok()?, period.parse().ok()?)
        });
        let old = self.cpu.iter().filter_map(|directory| {
            share(
                tree.number(&format!("{directory}/cpu.cfs_quota_us"))?,
                tree.number(&format!("{directory}/cpu.cfs_period_us"))?,
            )
        });
        unified.chain(old).min_by(f64::total_cmp)
    }

    fn memory_limit_bytes(&self, tree: &Tree) -> Option<u64> {
        let unified = self.unified.iter().map(|directory| format!("{directory}/memory.max"));
        let old = self.memory.iter().map(|directory| format!("{directory}/memory.limit_in_bytes"));
        unified.chain(old).filter_map(|file| tree.number::<u64>(&file)).filter(|bytes| *bytes < NO_LIMIT_BYTES).min()
    }

    /// What the tightest level still grants: its limit less what is used, but for the page cache, which gives way.
    fn memory_left_bytes(&self, tree: &Tree) -> Option<u64> {
        let unified = self.unified.iter().map(|directory| (directory, "memory.max", "memory.current", ""));
        let old =
            self.memory.iter().map(|directory| (directory, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"));
        let left = unified.chain(old).filter_map(|(directory, limit, used, prefix)| {
            let limit = tree.number::<u64>(&format!("{directory}/{limit}")).filter(|bytes| *bytes < NO_LIMIT_BYTES)?;
            let used = tree.number::<u64>(&format!("{directory}/{used}"))?;
            let figures = tree.text(&format!("{directory}/memory.stat")).unwrap_or_default();
            let cached: u64 = figures
                .lines()
                .filter_map(|line| {
                    let (name, bytes) = line.strip_prefix(prefix)?.split_once(' ')?;
                    matches!(name, "active_file" | "inactive_file").then(|| bytes.parse::<u64>().ok())?
                })
                .sum();
            Some(limit.saturating_sub(used.saturating_sub(cached)))
        });
        left.min()
    }

    fn cpuset(&self, survey: &Survey, at: &str) -> Option<Ranges> {
        let unified = self.unified.iter().map(|directory| format!("{directory}/cpuset.cpus.effective"));
        let old = self
            .cpuset
            .iter()
            .flat_map(|directory| [format!("{directory}/cpuset.effective_cpus"), format!("{directory}/cpuset.cpus")]);
        unified.chain(old).find_map(|file| survey.processors(at, &file)).filter(|list| !list.is_empty())
    }
}

/// What may be taken on this machine without swapping: free memory, or less where a limit of a control group or of this
/// process is nearer; none where the system does not say.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    let limits = [available_in(&Tree::open(Path::new("/"))), address_space::left_bytes()];
    limits.into_iter().flatten().min()
}

fn available_in(tree: &Tree) -> Option<u64> {
    let free = meminfo_bytes(tree, "/proc/meminfo", "MemAvailable")?;
    Some(Groups::read(tree).memory_left_bytes(tree).map_or(free, |left| left.min(free)))
}

/// Processors that a quota in a period allows; a quota of -1 is no limit.
fn share(quota_us: f64, period_us: f64) -> Option<f64> {
    (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
}

/// The group's directory and those above it, up to the mount.
fn upwards(mount: &Mount, path: &str) -> Vec<String> {
    // what is mounted is a group itself where the container has no namespace
    let inner = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
    let mut directories = Vec::new();
    let directory = format!("{}/{}", mount.point.trim_end_matches('/'), inner.trim_matches('/'));
    let mut directory = directory.trim_end_matches('/');
    // What is longer or deeper leads nowhere, and is left out.
    loop {
        if directory.len() <= LONGEST_PATH && directory.split('/').count() <= MAX_LEVELS + 1 {
            directories.push(directory.to_string());
        }
        match parent(directory) {
            Some(above) if above.len() >= mount.point.len() => directory = above.trim_end_matches('/'),
            _ => return directories,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::scan::Unknown;

    fn limits(record: &str) -> (Option<f64>, Option<u64>, Option<Vec<u64>>) {
        let survey = Survey { tree: Tree::of_record(record), unknown: Unknown::default() };
        let groups = Groups::read(&survey.tree);
        let cpuset = groups.cpuset(&survey, "container.cpuset").map(|list| list.numbers().collect());
        (groups.cpu_limit(&survey.tree), groups.memory_limit_bytes(&survey.tree), cpuset)
    }

    #[test]
    fn the_tightest_group_of_version_2_limits() {
        let found = limits(
            "/proc/self/mountinfo: 30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n/proc/self/cgroup: 0::/a.slice/b.service\n\
             /sys/fs/cgroup/a.slice/cpu.max: 150000 100000\n/sys/fs/cgroup/a.slice/b.service/cpu.max: max 100000\n\
             /sys/fs/cgroup/a.slice/memory.max: 1073741824\n/sys/fs/cgroup/a.slice/b.service/memory.max: max\n\
             /sys/fs/cgroup/cpuset.cpus.effective: 0-3\n",
        );
        assert_eq!(found, (Some(1.5), Some(1 << 30), Some(vec![0, 1, 2, 3])));
    }

    #[test]
    fn what_a_group_still_grants_counts_the_page_cache_as_free() {
        let unified = Tree::of_record(
            "/proc/self/mountinfo: 30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n/proc/self/cgroup: 0::/a\n\
             /proc/meminfo: MemAvailable: 8388608 kB\n/sys/fs/cgroup/a/memory.max: 1000000\n\
             /sys/fs/cgroup/a/memory.current: 700000\n\
             /sys/fs/cgroup/a/memory.stat:\n\tanon 400000\n\tinactive_file 200000\n\tactive_file 100000\n",
        );
        assert_eq!(available_in(&unified), Some(600_000));
        let old = Tree::of_record(
            "/proc/self/mountinfo: 32 1 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             /proc/self/cgroup: 4:memory:/b\n/proc/meminfo: MemAvailable: 8388608 kB\n\
             /sys/fs/cgroup/memory/memory.limit_in_bytes: 9223372036854771712\n\
             /sys/fs/cgroup/memory/memory.usage_in_bytes: 5\n/sys/fs/cgroup/memory/b/memory.limit_in_bytes: 1000000\n\
             /sys/fs/cgroup/memory/b/memory.usage_in_bytes: 900000\n\
             /sys/fs/cgroup/memory/b/memory.stat:\n\tinactive_file 1\n\ttotal_inactive_file 100000\n",
        );
        assert_eq!(available_in(&old), Some(200_000));
        let free = Tree::of_record("/proc/meminfo: MemAvailable: 8 kB\n");
        assert_eq!(available_in(&free), Some(8192));
    }

    #[test]
    fn groups_of_version_1_with_the_container_mounted_as_root() {
        let found = limits(
            "/proc/self/mountinfo:\n\t31 1 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             \t32 1 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
             /proc/self/cgroup:\n\t4:memory:/docker/abc\n\t3:cpu,cpuacct:/docker/abc\n\
             /sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us: 250000\n/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us: 100000\n\
             /sys/fs/cgroup/memory/memory.limit_in_bytes: 9223372036854771712\n",
        );
        assert_eq!(found, (Some(2.5), None, None));
    }
}
