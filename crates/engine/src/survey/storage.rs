//! The storage behind a path, followed through mount, partition, LVM, RAID, loop and overlay down to the disks.
//!
//! `chain` lists the layers from the path to the disks. Each element's `on` names what is directly below it (elements
//! or disks), and a RAID's `level` names how it spreads over them.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{json, Value};

use super::mounts::{self, Mount};
use super::scan::Survey;
use super::tree::{base, parent, Tree};
use super::{block, link, object_mounts};

/// No sane machine stacks devices deeper; a garbled tree could, for ever.
const DEEPEST: usize = 16;
/// Disks and layers together that are followed, as a bound against a garbled tree.
const MAX_ELEMENTS: usize = 256;

/// Filesystems that a server keeps.
const NETWORK: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "ceph",
    "9p",
    "virtiofs",
    "lustre",
    "glusterfs",
    "fuse.glusterfs",
    "fuse.sshfs",
    "fuse.ceph",
    "beegfs",
    "gpfs",
    "wekafs",
    "afs",
    "orangefs",
    "fuse.juicefs",
];
/// Filesystems in memory.
const MEMORY: &[&str] = &["tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "proc", "sysfs"];
/// How a path begins that is a place in an object store, also where its slashes were taken for those of a folder.
const OBJECT_STORE: &str = "s3:/";
/// What container engines mount into a container from the disk that holds its layers.
const OF_THE_ENGINE: &[&str] = &["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/termination-log"];

/// The machine's `storage`: the layers and disks behind `path`.
#[must_use]
pub fn survey(survey: &Survey, path: Option<&str>) -> Value {
    if let Some(place) = path.and_then(|path| path.strip_prefix(OBJECT_STORE)) {
        return of_object_store(survey, place.trim_start_matches('/'));
    }
    let tree = &survey.tree;
    let path = located(survey, path);
    let mut walk = Walk {
        survey,
        mounts: mounts::read(tree),
        chain: Vec::new(),
        disks: Vec::new(),
        seen: BTreeSet::new(),
        mapped: OnceCell::new(),
    };
    let raw = raw_device(tree, &path);
    let mount = match &raw {
        Some(_) => None,
        None => mounts::of_path(&walk.mounts, &path).cloned(),
    };
    if let Some(device) = &raw {
        walk.device(device, 0);
    } else if let Some(mount) = &mount {
        walk.mount(mount, 0);
    }
    let (chain, disks) = (walk.chain, walk.disks);
    if disks.is_empty() {
        let known = survey.unknown.reason("storage.disks");
        if known.is_none() {
            survey.unknown.note(
                "storage.disks",
                "no disk was found below the path: its filesystem names no block device in /sys",
            );
        }
    }
    let room = tree.is_live().then(|| crate::sys::filesystem::size_and_free_bytes(Path::new(&path))).flatten();
    let why = match (&raw, mount.is_some()) {
        (Some(_), _) => "the path is a raw device without a filesystem",
        (None, true) => "a recorded tree does not hold it",
        (None, false) => "no mount in /proc/self/mountinfo holds the path",
    };
    let known = |key: &str, value: Option<Value>| survey.or(&format!("storage.{key}"), value, why);
    json!({
        "path": path,
        "mount_point": known("mount_point", mount.as_ref().map(|mount| mount.point.clone().into())),
        "filesystem": known("filesystem", mount.as_ref().map(|mount| mount.filesystem.clone().into())),
        "options": known("options", mount.as_ref().map(|mount| json!(mount.options))),
        "source": known("source", mount.as_ref().map(|mount| mount.source.clone().into())),
        "size_bytes": known("size_bytes", room.map(|(size, _)| size.into())),
        "free_bytes": known("free_bytes", room.map(|(_, free)| free.into())),
        "chain": chain,
        "disks": disks,
    })
}

/// The storage of a place in an object store, of which this machine knows nothing.
fn of_object_store(survey: &Survey, place: &str) -> Value {
    for name in ["disks", "mount_point", "options", "size_bytes", "free_bytes"] {
        survey.unknown.note(&format!("storage.{name}"), "the path is a place in an object store");
    }
    let path = format!("s3://{place}");
    json!({
        "path": path, "mount_point": null, "filesystem": "s3", "options": null, "source": path,
        "size_bytes": null, "free_bytes": null, "chain": [], "disks": [],
    })
}

/// The path without links; on this machine the nearest directory above it that exists.
fn located(survey: &Survey, path: Option<&str>) -> String {
    if !survey.tree.is_live() {
        return path.unwrap_or("/").to_string();
    }
    let given = PathBuf::from(path.unwrap_or("."));
    let absolute = std::path::absolute(&given).unwrap_or(given);
    let existing =
        absolute.ancestors().find_map(|path| path.canonicalize().ok().map(|real| (path.to_path_buf(), real)));
    let (found, real) = existing.unwrap_or_else(|| (PathBuf::from("/"), PathBuf::from("/")));
    if found != absolute {
        let says = format!("{} does not exist; {} is described", absolute.display(), found.display());
        survey.unknown.note("storage.path", &says);
    }
    real.to_string_lossy().into_owned()
}

/// The directory below `/sys/devices` of the block device that the path itself is.
fn raw_device(tree: &Tree, path: &str) -> Option<String> {
    if tree.is_live() {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = std::fs::metadata(path).ok()?;
        let (major, minor) = crate::sys::filesystem::major_minor(metadata.rdev());
        return metadata
            .file_type()
            .is_block_device()
            .then(|| tree.resolve(&format!("/sys/dev/block/{major}:{minor}")))?;
    }
    tree.resolve(&format!("/sys/class/block/{}", path.strip_prefix("/dev/")?))
}

struct Walk<'a> {
    survey: &'a Survey,
    mounts: Vec<Mount>,
    chain: Vec<Value>,
    disks: Vec<Value>,
    /// Devices that were passed already, so that each is listed once.
    seen: BTreeSet<String>,
    /// Directories of mapped devices by their names, read when the first is requested.
    mapped: OnceCell<HashMap<String, String>>,
}

impl Walk<'_> {
    /// Follows the filesystem of a mount; gives the names of what is directly below it.
    fn mount(&mut self, mount: &Mount, depth: usize) -> Vec<String> {
        if depth > DEEPEST {
            self.give_up("the layers below the path are deeper than 16, or go in a circle");
            return Vec::new();
        }
        let kind = mount.filesystem.as_str();
        if kind == "overlay" {
            return self.overlay(mount, depth);
        }
        if let Some(found) = object_mounts::find(&self.survey.tree, mount) {
            let link = link::of_server(self.survey, None, &format!("storage.disks.{}", self.disks.len()));
            return vec![self.remote(mount, "fuse", Some(found.program), &found.detail, &link)];
        }
        if NETWORK.contains(&kind) {
            return vec![self.server(mount)];
        }
        if MEMORY.contains(&kind) {
            self.push(&mount.point, "memory", &format!("{kind} lies in memory"), &[]);
            self.give_up(&format!("{kind} lies in memory, on no disk"));
            return Vec::new();
        }
        if mount.root != "/" {
            let what = if kind == "btrfs" { "subvolume" } else { "directory" };
            let detail = format!("{what} {} of the filesystem on {}", mount.root, mount.source);
            let at = self.push(&mount.point, "bind", &detail, &[]);
            let below = self.devices(mount, depth);
            self.set_below(at, &below);
            return vec![mount.point.clone()];
        }
        self.devices(mount, depth)
    }

    /// The block devices of a mounted filesystem.
    fn devices(&mut self, mount: &Mount, depth: usize) -> Vec<String> {
        let tree = &self.survey.tree;
        if mount.has_device() {
            if let Some(path) = tree.resolve(&format!("/sys/dev/block/{}", mount.device)) {
                return self.device(&path, depth + 1).into_iter().collect();
            }
        }
        let named = mount.source.split(':').take(MAX_ELEMENTS);
        let sources: Vec<String> = named.filter_map(|source| self.by_source(source)).collect();
        if mount.filesystem == "btrfs" && !sources.is_empty() {
            return self.btrfs(&sources, depth);
        }
        if sources.is_empty() {
            self.give_up(match mount.filesystem.as_str() {
                "zfs" => "the kernel does not list a ZFS pool's disks in /sys (zpool status does)",
                _ if mount.has_device() => {
                    "/sys/dev/block does not hold the filesystem's device (a container may hide it)"
                }
                _ => "the filesystem names no block device that /sys holds",
            });
        }
        sources.iter().filter_map(|path| self.device(path, depth + 1)).collect()
    }

    /// A btrfs may span more devices than the one that its mount names.
    fn btrfs(&mut self, sources: &[String], depth: usize) -> Vec<String> {
        let tree = &self.survey.tree;
        let named: HashSet<&str> = sources.iter().map(|path| base(path)).collect();
        let filesystems = tree.list("/sys/fs/btrfs");
        let members = filesystems
            .iter()
            .map(|id| tree.list(&format!("/sys/fs/btrfs/{id}/devices")))
            .find(|members| members.iter().any(|member| named.contains(member.as_str())))
            .filter(|members| members.len() > 1);
        let Some(members) = members else {
            return sources.iter().filter_map(|path| self.device(path, depth + 1)).collect();
        };
        let paths: Vec<String> =
            members.iter().filter_map(|name| tree.resolve(&format!("/sys/class/block/{name}"))).collect();
        let at = self.push(
            "btrfs",
            "btrfs",
            &format!("over {} devices; /sys does not tell its profile", members.len()),
            &[],
        );
        let below: Vec<String> = paths.iter().filter_map(|path| self.device(path, depth + 1)).collect();
        self.set_below(at, &below);
        vec!["btrfs".into()]
    }

    /// The device that a source such as `/dev/mapper/vg-root` names.
    fn by_source(&self, source: &str) -> Option<String> {
        let tree = &self.survey.tree;
        let name = source.strip_prefix("/dev/")?;
        let direct = tree.resolve(&format!("/sys/class/block/{}", base(name)));
        direct
            .or_else(|| self.mapped.get_or_init(|| mapped_devices(tree)).get(base(name)).cloned())
            .or_else(|| tree.resolve(&format!("/sys/class/block/{}", base(&tree.resolve(source)?))))
    }

    fn overlay(&mut self, mount: &Mount, depth: usize) -> Vec<String> {
        let Some(upper) = mount.option("upperdir") else {
            let at =
                self.push(&mount.point, "overlay", "no upper directory: it is read-only, or its engine hides it", &[]);
            let below = self.engines_disk(at, depth);
            self.set_below(at, &below);
            return vec![mount.point.clone()];
        };
        let at = self.push(&mount.point, "overlay", &format!("writes go to {upper}"), &[]);
        let holder = mounts::of_path(&self.mounts, upper).cloned();
        // a container sees its own overlay at `/`, and not the host's directory that it writes to
        let below = match holder {
            Some(holder) if holder.id != mount.id && holder.filesystem != "overlay" => self.mount(&holder, depth + 1),
            _ => self.engines_disk(at, depth),
        };
        self.set_below(at, &below);
        vec![mount.point.clone()]
    }

    /// The disk behind the files that the container's engine mounts from outside of its layers.
    fn engines_disk(&mut self, at: usize, depth: usize) -> Vec<String> {
        let mount =
            self.mounts.iter().find(|mount| OF_THE_ENGINE.contains(&mount.point.as_str()) && mount.has_device());
        let Some(mount) = mount.cloned() else {
            self.give_up("the overlay's upper directory lies outside this container");
            return Vec::new();
        };
        if let Some(element) = self.chain.get_mut(at) {
            let detail = element["detail"].as_str().unwrap_or("").to_string();
            element["detail"] =
                json!(format!("{detail}; outside this container, taken to be on the disk of {}", mount.point));
        }
        self.devices(&mount, depth + 1)
    }

    /// A filesystem that a server keeps is listed as a disk whose link is the network.
    fn server(&mut self, mount: &Mount) -> String {
        let at = format!("storage.disks.{}", self.disks.len());
        let host = match mount.filesystem.as_str() {
            "cifs" | "smb3" | "smbfs" => mount.source.trim_start_matches('/').split('/').next().unwrap_or(""),
            _ => mount.source.rsplit_once(":/").map_or("", |(host, _)| host),
        };
        let host = match mount.filesystem.as_str() {
            // Lustre names the network after the address (only TCP takes the kernel's routes), the others the user before it
            "lustre" => host.split_once("@tcp").map_or("", |(host, _)| host),
            _ => host.rsplit('@').next().unwrap_or(host),
        };
        let address = mount.option("addr").or_else(|| (!host.is_empty()).then_some(host));
        // these pass through the hypervisor's memory
        let local = matches!(mount.filesystem.as_str(), "9p" | "virtiofs");
        let link = if local {
            self.survey.unknown.note(&format!("{at}.link.bits_s"), "the hypervisor shares it through memory");
            link::of_disk(self.survey, "virtio", "", &at)
        } else {
            link::of_server(self.survey, address, &at)
        };
        let detail = match (link["nic"].as_str(), address) {
            (Some(nic), Some(address)) => format!("{} from {address} over {nic}", mount.filesystem),
            (None, Some(address)) => format!("{} from {address}", mount.filesystem),
            _ => format!("{}; the mount does not state its server", mount.filesystem),
        };
        let kind = match mount.filesystem.as_str() {
            "nfs4" => "nfs",
            "smb3" | "smbfs" => "cifs",
            kind => kind,
        };
        self.remote(mount, kind, None, &detail, &link)
    }

    /// Lists what a server keeps as a disk of that kind.
    fn remote(&mut self, mount: &Mount, kind: &str, driver: Option<&str>, detail: &str, link: &Value) -> String {
        let at = format!("storage.disks.{}", self.disks.len());
        for key in ["rotational", "model", "serial", "size_bytes", "firmware", "queue"] {
            self.survey.unknown.note(&format!("{at}.{key}"), "the server keeps its disks to itself");
        }
        self.push(&mount.point, "network", detail, std::slice::from_ref(&mount.source));
        let value = json!({
            "name": mount.source, "kind": kind, "rotational": null, "model": null, "serial": null, "size_bytes": null,
            "firmware": null, "driver": driver, "link": link, "queue": null, "temperature_c": null,
        });
        self.disks.push(value);
        mount.point.clone()
    }

    /// Follows a block device whose directory is `path` below `/sys/devices`; gives the name under which it is listed.
    fn device(&mut self, path: &str, depth: usize) -> Option<String> {
        let tree = &self.survey.tree;
        if depth > DEEPEST || self.chain.len() + self.disks.len() > MAX_ELEMENTS {
            self.give_up("the layers below the path are deeper than 16, or go in a circle");
            return None;
        }
        let file = |file: &str| tree.text(&format!("{path}/{file}"));
        let kernel_name = base(path).replace('!', "/");
        let (name, kind, detail, level) = if let Some(number) = file("partition") {
            (kernel_name, "partition", format!("partition {number}"), None)
        } else if let Some(name) = file("dm/name") {
            let (kind, detail) = mapped(&file("dm/uuid").unwrap_or_default());
            (name, kind, format!("{detail} ({kernel_name})"), None)
        } else if let Some(level) = file("md/level") {
            let members = file("md/raid_disks").unwrap_or_else(|| "?".into());
            let chunk = tree.number::<u64>(&format!("{path}/md/chunk_size")).filter(|bytes| *bytes > 0);
            let chunk = chunk.map_or(String::new(), |bytes| format!(", chunk {} KiB", bytes / 1024));
            (kernel_name, "raid", format!("{level} of {members}{chunk}"), Some(level))
        } else if let Some(file) = file("loop/backing_file") {
            (kernel_name, "loop", format!("file {file}"), None)
        } else if tree.list(&format!("{path}/slaves")).is_empty() {
            return Some(self.disk(path));
        } else {
            (kernel_name, "stacked", "over the devices in its slaves".to_string(), None)
        };
        if !self.seen.insert(path.to_string()) {
            return Some(name);
        }
        let at = self.push(&name, kind, &detail, &[]);
        if let Some(level) = level {
            self.chain[at]["level"] = json!(level);
        }
        let below: Vec<String> = match kind {
            "partition" => parent(path).and_then(|disk| self.device(disk, depth + 1)).into_iter().collect(),
            "loop" => self.backing_file(&detail["file ".len()..], depth),
            _ => {
                let slaves = tree.list(&format!("{path}/slaves"));
                let paths: Vec<String> =
                    slaves.iter().filter_map(|slave| tree.resolve(&format!("{path}/slaves/{slave}"))).collect();
                paths.iter().filter_map(|slave| self.device(slave, depth + 1)).collect()
            }
        };
        self.set_below(at, &below);
        Some(name)
    }

    fn backing_file(&mut self, file: &str, depth: usize) -> Vec<String> {
        let file = file.trim_end_matches(" (deleted)");
        match mounts::of_path(&self.mounts, file).cloned() {
            Some(mount) => self.mount(&mount, depth + 1),
            None => Vec::new(),
        }
    }

    fn disk(&mut self, path: &str) -> String {
        let name = base(path).replace('!', "/");
        if self.seen.insert(path.to_string()) {
            let value = block::disk(self.survey, path, &format!("storage.disks.{}", self.disks.len()));
            self.disks.push(value);
        }
        name
    }

    fn push(&mut self, name: &str, kind: &str, detail: &str, on: &[String]) -> usize {
        self.chain.push(json!({"name": name, "kind": kind, "detail": detail, "on": on}));
        self.chain.len() - 1
    }

    fn set_below(&mut self, at: usize, below: &[String]) {
        if let Some(element) = self.chain.get_mut(at) {
            element["on"] = json!(below);
        }
    }

    fn give_up(&self, why: &str) {
        self.survey.unknown.note("storage.disks", why);
    }
}

/// The directories of all mapped devices by their names; the first of one name is it.
fn mapped_devices(tree: &Tree) -> HashMap<String, String> {
    let mut found = HashMap::new();
    for device in tree.list("/sys/class/block").into_iter().filter(|name| name.starts_with("dm-")) {
        let path = format!("/sys/class/block/{device}");
        if let Some((name, path)) = tree.text(&format!("{path}/dm/name")).zip(tree.resolve(&path)) {
            found.entry(name).or_insert(path);
        }
    }
    found
}

/// What a mapped device is, by the prefix that its maker gives its uuid.
fn mapped(uuid: &str) -> (&'static str, &'static str) {
    match uuid.split('-').next().unwrap_or("") {
        "LVM" => ("lvm", "logical volume"),
        "CRYPT" => ("crypt", "encrypted"),
        "mpath" => ("multipath", "several paths to one disk"),
        part if part.starts_with("part") => ("partition", "partition of a mapped device"),
        _ => ("device-mapper", "mapped device"),
    }
}
