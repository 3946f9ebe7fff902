//! The guard before a raw block device is written: it is unused, empty, and named twice by its owner.
//!
//! Whoever wants a device written names it (`destroy`) and types what only someone who means this very
//! device knows (`serial`); device names change from boot to boot, and serial numbers do not. The claim is
//! an exclusive open, which the kernel refuses while a mount, swap, device mapper, RAID or another claim holds
//! the device or one of its partitions, and which keeps all of those away as long as it lasts.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::signatures;
use crate::contract::kernel::Error;
use crate::survey::block;
use crate::survey::mounts;
use crate::survey::tree::{base, parent, Tree};
use crate::sys::files::{device_size, discard, flags, Durable};
use crate::sys::filesystem::major_minor;

/// The user's consent to overwrite a device.
#[derive(Debug, Clone, Default)]
pub struct Consent {
    /// The device.
    pub destroy: String,
    /// Its serial number; for a device without one its size in bytes; for a loop device that, or its backing file.
    pub serial: String,
}

/// A device that is this run's alone until it is dropped.
#[derive(Debug)]
pub struct Claim {
    /// Opened exclusively, for reading and writing.
    exclusive: File,
    number: u64,
}

impl Claim {
    /// Opens the claimed device once more, for another job.
    ///
    /// # Errors
    /// What the system refused, or that the path is another device by now.
    pub fn open(&self, path: &Path, direct: bool, durable: Durable) -> Result<File, Error> {
        let opened = OpenOptions::new().read(true).write(true).custom_flags(flags(direct, durable)).open(path);
        let file = opened.map_err(|e| Error::machine(format!("open {} for writing", path.display()), &e))?;
        let same = file.metadata().is_ok_and(|now| now.file_type().is_block_device() && now.rdev() == self.number);
        same.then_some(file).ok_or_else(|| refused(path, "it is not the device that was checked"))
    }

    /// Purges the device: all of it is discarded, so that a drive begins like a new one.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn purge(&self) -> io::Result<()> {
        discard(&self.exclusive, self.size())
    }

    /// The size of the device, B.
    #[must_use]
    pub fn size(&self) -> u64 {
        device_size(&self.exclusive).unwrap_or(0)
    }
}

/// Claims the block device `path` for writing.
///
/// # Errors
/// One line: why it is not to be written, and what mends it.
pub fn claim(path: &Path, consent: &Consent) -> Result<Claim, Error> {
    let shown = path.display();
    if consent.destroy.is_empty() {
        return Err(refused(
            path,
            &format!("all its data would be lost; to overwrite it, use --destroy {shown} and its --serial"),
        ));
    }
    let real = fs::canonicalize(path).map_err(|e| Error::machine(format!("open {shown}"), &e))?;
    let named = Path::new(&consent.destroy);
    if !named.is_absolute() || fs::canonicalize(named).ok().as_ref() != Some(&real) {
        return Err(refused(path, &format!("--destroy names {}, which is not this device", consent.destroy)));
    }
    let before = fs::metadata(&real).map_err(|e| Error::machine(format!("stat {shown}"), &e))?;
    let tree = Tree::open(Path::new("/"));
    let device = DeviceFacts::of(&tree, before.rdev()).ok_or_else(|| refused(path, "/sys does not describe it"))?;
    let judge = |why: Option<String>| why.map_or(Ok(()), |why| Err(refused(path, &why)));
    judge(device.unfit())?;
    judge(device.used().or_else(|| written_by_others(&real, before.rdev())))?;
    judge(device.not_meant(&consent.serial, &real.display().to_string()))?;
    let exclusive = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(&real).map_err(
        |error| match error.raw_os_error() {
            Some(libc::EBUSY) => refused(
                path,
                &format!("it is in exclusive use (a mount, swap, RAID, or another run); see lsblk {shown}"),
            ),
            Some(libc::EROFS | libc::EACCES | libc::EPERM) => refused(
                path,
                &format!(
                    "it cannot be opened for writing ({error}); that needs root and a device that is not read-only"
                ),
            ),
            _ => Error::machine(format!("open {shown} for writing"), &error),
        },
    )?;
    let now = exclusive.metadata().map_err(|e| Error::machine(format!("stat {shown}"), &e))?;
    if !now.file_type().is_block_device() || now.rdev() != before.rdev() {
        return Err(refused(path, "it became another device while it was checked"));
    }
    // From here on no one new can come; who came in between is seen now.
    judge(device.used())?;
    let claim = Claim { exclusive, number: now.rdev() };
    let found = signatures::find(claim.size(), |buffer, at| claim.exclusive.read_exact_at(buffer, at))
        .map_err(|e| refused(path, &format!("what is on it cannot be read ({e})")))?;
    judge(found.map(|what| {
        format!("it has {what}; if that is no longer needed, wipe it (wipefs --all {shown}) and try again")
    }))?;
    Ok(claim)
}

/// Whether a path is a block device, links followed.
#[must_use]
pub fn is_block_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

fn refused(path: &Path, why: &str) -> Error {
    Error::usage(format!("{} is a raw device and was not written: {why}", path.display()))
}

/// A block device as `/sys` and `/proc` of a tree describe it.
struct DeviceFacts<'a> {
    tree: &'a Tree,
    /// Its directory below `/sys/devices`.
    path: String,
    /// Its name and those of its partitions, each with its directory and `major:minor`.
    parts: Vec<(String, String, String)>,
}

impl<'a> DeviceFacts<'a> {
    fn of(tree: &'a Tree, number: u64) -> Option<Self> {
        let (major, minor) = major_minor(number);
        Self::numbered(tree, &format!("{major}:{minor}"))
    }

    fn numbered(tree: &'a Tree, number: &str) -> Option<Self> {
        let path = tree.resolve(&format!("/sys/dev/block/{number}"))?;
        let mut parts = vec![(base(&path).to_string(), path.clone(), number.to_string())];
        for name in tree.list(&path) {
            let inside = format!("{path}/{name}");
            if tree.exists(&format!("{inside}/partition")) {
                let number = tree.text(&format!("{inside}/dev")).unwrap_or_default();
                parts.push((name, inside, number));
            }
        }
        Some(Self { tree, path, parts })
    }

    /// Why no device of this kind is written.
    fn unfit(&self) -> Option<String> {
        let Self { tree, path, .. } = self;
        if tree.exists(&format!("{path}/partition")) {
            let whole = parent(path).map_or("", base);
            return Some(format!("it is a partition of {whole}; only a whole unused device is written"));
        }
        (tree.text(&format!("{path}/ro")).as_deref() == Some("1")).then(|| "it is set read-only".into())
    }

    /// Who uses it or one of its partitions.
    fn used(&self) -> Option<String> {
        let tree = self.tree;
        let mounts = mounts::read(tree);
        let swaps = tree.text("/proc/swaps").unwrap_or_default();
        for (at, (name, path, number)) in self.parts.iter().enumerate() {
            let it = if at == 0 { "it".to_string() } else { format!("its partition {name}") };
            let file = format!("/dev/{name}");
            if let Some(mount) = mounts.iter().find(|mount| mount.device == *number || mount.source == file) {
                return Some(format!("{it} is mounted at {}", mount.point));
            }
            if swaps.lines().skip(1).any(|line| line.split_whitespace().next() == Some(&file)) {
                return Some(format!("{it} is used as swap (swapoff {file})"));
            }
            if let Some(holder) = tree.list(&format!("{path}/holders")).first() {
                let mapped = tree.text(&format!("/sys/block/{holder}/dm/name"));
                let words = match (&mapped, holder.starts_with("md")) {
                    (Some(mapped), _) => format!("the device mapper's {mapped} ({holder}: LVM, encryption, multipath)"),
                    (None, true) => format!("the RAID {holder}"),
                    (None, false) => holder.clone(),
                };
                return Some(format!("{it} is used by {words}"));
            }
            let behind = tree
                .list("/sys/block")
                .into_iter()
                .find(|other| tree.text(&format!("/sys/block/{other}/loop/backing_file")).as_deref() == Some(&file));
            if let Some(other) = behind {
                return Some(format!("{it} backs {other} (losetup --detach /dev/{other})"));
            }
        }
        let partitions: Vec<_> = self.parts[1..].iter().map(|(name, ..)| name.as_str()).collect();
        (!partitions.is_empty()).then(|| format!("it has partitions ({})", partitions.join(", ")))
    }

    /// Why what was typed does not name this very device.
    fn not_meant(&self, typed: &str, file: &str) -> Option<String> {
        let backing = self.tree.text(&format!("{}/loop/backing_file", self.path));
        let size = self.tree.number::<u64>(&format!("{}/size", self.path)).map(|sectors| (sectors * 512).to_string());
        let serial = block::serial(self.tree, &self.path);
        let meant = match (&serial, &backing) {
            (Some(serial), _) => typed == serial,
            (None, Some(backing)) => typed == backing || Some(typed) == size.as_deref(),
            (None, None) => Some(typed) == size.as_deref(),
        };
        let where_to_read = match (&serial, &backing) {
            (Some(_), _) => format!("type the serial number on its label (lsblk -dno SERIAL {file})"),
            (None, Some(_)) => {
                format!(
                    "it has no serial number; type the path of its backing file, or its size in bytes (losetup {file})"
                )
            }
            (None, None) => format!("it has no serial number; type its size in bytes (blockdev --getsize64 {file})"),
        };
        let problem = if typed.is_empty() { "--serial is missing" } else { "--serial is not that of this device" };
        (!meant).then(|| format!("{problem}: {where_to_read}"))
    }
}

/// A process that has the device open for writing, such as a virtual machine, which holds nothing exclusively.
fn written_by_others(real: &Path, number: u64) -> Option<String> {
    let this_process = std::process::id().to_string();
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let pid = process.file_name().to_string_lossy().into_owned();
        if pid == this_process || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        for entry in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            let open_here = fs::read_link(entry.path()).is_ok_and(|target| target == real)
                && fs::metadata(entry.path()).is_ok_and(|found| found.rdev() == number);
            let found = open_here
                .then(|| fs::read_to_string(process.path().join("fdinfo").join(entry.file_name())))
                .and_then(io::Result::ok);
            let flags = found.as_deref().and_then(|text| text.lines().find_map(|line| line.strip_prefix("flags:")));
            let flags = flags.and_then(|octal| i32::from_str_radix(octal.trim(), 8).ok()).unwrap_or(0);
            if flags & libc::O_ACCMODE != libc::O_RDONLY {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some(format!("process {pid} ({}) has it open for writing", name.trim()));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "/sys/dev/block/8:16 -> ../../devices/pci0/ata2/block/sdb\n\
        /sys/devices/pci0/ata2/block/sdb/dev: 8:16\n/sys/devices/pci0/ata2/block/sdb/size: 2000\n\
        /sys/devices/pci0/ata2/block/sdb/ro: 0\n/sys/devices/pci0/ata2/block/sdb/device/serial: S4EVNX0N\n";
    const PARTITION: &str = "/sys/devices/pci0/ata2/block/sdb/sdb1/partition: 1\n\
        /sys/devices/pci0/ata2/block/sdb/sdb1/dev: 8:17\n/sys/dev/block/8:17 -> ../../devices/pci0/ata2/block/sdb/sdb1\n";

    fn used(more: &str) -> Option<String> {
        let tree = Tree::of_record(&format!("{DISK}{more}"));
        DeviceFacts::numbered(&tree, "8:16").unwrap().used()
    }

    #[test]
    fn every_use_of_the_disk_or_of_a_partition_is_named() {
        assert_eq!(used(""), None);
        let part = |more: &str| used(&format!("{PARTITION}{more}")).unwrap();
        assert_eq!(part(""), "it has partitions (sdb1)");
        let mounted = |number: &str, source: &str| {
            format!("/proc/self/mountinfo: 1 0 {number} / /srv/data rw - btrfs {source} rw\n")
        };
        assert_eq!(used(&mounted("8:16", "/dev/sdb")).unwrap(), "it is mounted at /srv/data");
        assert_eq!(used(&mounted("0:40", "/dev/sdb")).unwrap(), "it is mounted at /srv/data");
        assert_eq!(part(&mounted("8:17", "/dev/sdb1")), "its partition sdb1 is mounted at /srv/data");
        let swap = "/proc/swaps:\n\tFilename Type Size Used Priority\n\t/dev/sdb1 partition 1 0 -2\n";
        assert!(part(swap).contains("sdb1 is used as swap"), "{}", part(swap));
        let mapped = "/sys/devices/pci0/ata2/block/sdb/holders/dm-0 -> ../../../../../virtual/block/dm-0\n\
            /sys/block/dm-0/dm/name: vg0-root\n";
        assert!(used(mapped).unwrap().contains("vg0-root"), "{:?}", used(mapped));
        let raid = "/sys/devices/pci0/ata2/block/sdb/sdb1/holders/md0 -> ../../../../../../virtual/block/md0\n";
        assert_eq!(part(raid), "its partition sdb1 is used by the RAID md0");
        let behind = "/sys/block/loop3/loop/backing_file: /dev/sdb\n";
        assert!(used(behind).unwrap().contains("loop3"), "{:?}", used(behind));
    }

    #[test]
    fn a_partition_or_a_read_only_disk_is_unfit() {
        let tree = Tree::of_record(&format!("{DISK}{PARTITION}"));
        assert!(DeviceFacts::numbered(&tree, "8:17").unwrap().unfit().unwrap().contains("partition of sdb"));
        assert_eq!(DeviceFacts::numbered(&tree, "8:16").unwrap().unfit(), None);
        let tree = Tree::of_record(&DISK.replace("ro: 0", "ro: 1"));
        assert!(DeviceFacts::numbered(&tree, "8:16").unwrap().unfit().unwrap().contains("read-only"));
    }

    #[test]
    fn the_serial_is_typed_and_nothing_else_will_do() {
        let why = |tree: &Tree, typed: &str| DeviceFacts::numbered(tree, "8:16").unwrap().not_meant(typed, "/dev/sdb");
        let tree = Tree::of_record(DISK);
        assert_eq!(why(&tree, "S4EVNX0N"), None);
        assert!(why(&tree, "").unwrap().starts_with("--serial is missing"));
        for typed in ["s4evnx0n", "1024000", "S4EV", "*"] {
            assert!(why(&tree, typed).unwrap().starts_with("--serial is not that"), "{typed}");
        }
        let nameless = DISK.replace("/sys/devices/pci0/ata2/block/sdb/device/serial: S4EVNX0N\n", "");
        let tree = Tree::of_record(&nameless);
        assert_eq!(why(&tree, "1024000"), None);
        assert!(why(&tree, "1M").unwrap().contains("size in bytes"));
        let tree =
            Tree::of_record(&format!("{nameless}/sys/devices/pci0/ata2/block/sdb/loop/backing_file: /tmp/a b\n"));
        assert_eq!(why(&tree, "/tmp/a b"), None);
        assert_eq!(why(&tree, "1024000"), None);
        assert!(why(&tree, "/tmp/a").unwrap().contains("backing file"));
    }

    #[test]
    fn without_consent_the_device_is_not_even_opened() {
        let says = |consent: Consent| claim(Path::new("/dev/null"), &consent).unwrap_err().to_string();
        assert!(says(Consent::default()).contains("--destroy /dev/null"));
        let other = Consent { destroy: "/dev/zero".into(), serial: String::new() };
        assert!(says(other).contains("not this device"));
        let relative = Consent { destroy: "null".into(), serial: String::new() };
        assert!(says(relative).contains("not this device"));
    }
}
