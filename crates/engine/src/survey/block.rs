//! One disk: its kind, who made it, its link and its queue.

use serde_json::{json, Value};

use super::link::{self, is_numbered};
use super::memory::chosen;
use super::scan::Survey;
use super::tree::{base, Tree};

/// The kernel counts the size of block devices in sectors of 512 B, independent of the device's own.
const SECTOR_BYTES: u64 = 512;

/// The disk whose directory is `path` below `/sys/devices`; reasons for what is not known go under `at`.
#[must_use]
pub fn disk(survey: &Survey, path: &str, at: &str) -> Value {
    let tree = &survey.tree;
    let name = base(path).replace('!', "/");
    let wire = wire(tree, path, &name);
    let kind = kind(tree, path, &wire, &name);
    let file = |file: &str| tree.text(&format!("{path}/{file}"));
    let or = |key: &str, value: Option<String>, why: &str| survey.or(&format!("{at}.{key}"), value, why);
    let temperature =
        tree.list(&format!("{path}/device")).iter().filter(|name| name.starts_with("hwmon")).find_map(|name| {
            let directory = format!("{path}/device/{name}");
            let inner = tree.list(&directory).into_iter().find(|name| name.starts_with("hwmon"));
            let sensor = inner.map_or(directory.clone(), |inner| format!("{directory}/{inner}"));
            tree.number::<f64>(&format!("{sensor}/temp1_input"))
        });
    let link = match remote_address(tree, &wire) {
        Some(address) => link::of_server(survey, Some(&address), at),
        None => link::of_disk(survey, kind, &wire, at),
    };
    let flag = tree.number::<u8>(&format!("{path}/queue/rotational")).map(|flag| flag != 0);
    let (rotational, why_not) = rotational(tree, path, kind, flag);
    let size = tree.number::<u64>(&format!("{path}/size")).map(|sectors| sectors.saturating_mul(SECTOR_BYTES));
    json!({
        "name": name,
        "kind": kind,
        "rotational": survey.or(&format!("{at}.rotational"), rotational, why_not),
        "model": or("model", model(tree, path, kind), "the device states no model"),
        "serial": or("serial", serial(tree, path), "the device states no serial number, or root alone may read it"),
        "size_bytes": survey.or(&format!("{at}.size_bytes"), size, "its size is missing"),
        "firmware": or(
            "firmware",
            ["device/firmware_rev", "device/rev", "device/fwrev"].into_iter().find_map(file),
            "the device states no firmware revision",
        ),
        "driver": driver(tree, &wire),
        "link": link,
        "queue": queue(survey, path, at),
        "temperature_c": temperature.map(|thousandths| thousandths / 1000.0),
    })
}

/// Whether it spins: the kernel's flag where it means something, and why not where it does not.
fn rotational(tree: &Tree, path: &str, kind: &str, flag: Option<bool>) -> (Option<bool>, &'static str) {
    let vendor = tree.text(&format!("{path}/device/vendor")).unwrap_or_default();
    match flag {
        None => (None, "queue/rotational is missing"),
        Some(_)
            if matches!(kind, "virtio" | "xen" | "hyper-v")
                || matches!(vendor.as_str(), "VMware" | "QEMU" | "Msft") =>
        {
            (None, "a hypervisor's disk does not tell what lies below it")
        }
        Some(true) if kind == "usb" => (None, "USB flash drives call themselves spinning too"),
        known => (known, ""),
    }
}

/// The directory that leads to the wire: for NVMe with several paths that of a controller, else the disk's own.
fn wire(tree: &Tree, path: &str, name: &str) -> String {
    let subsystem = format!("{path}/device");
    if name.starts_with("nvme") && path.contains("/nvme-subsystem/") {
        let names = tree.list(&subsystem);
        for controller in names.iter().filter(|name| is_numbered(name, "nvme")) {
            let directory = format!("{subsystem}/{controller}");
            if tree.exists(&format!("{directory}/transport")) {
                return tree.resolve(&directory).unwrap_or_else(|| path.to_string());
            }
        }
    }
    path.to_string()
}

/// The server's address of an NVMe controller over TCP or RDMA.
fn remote_address(tree: &Tree, wire: &str) -> Option<String> {
    let controller =
        if tree.exists(&format!("{wire}/transport")) { wire.to_string() } else { format!("{wire}/device") };
    let transport = tree.text(&format!("{controller}/transport"))?;
    if !matches!(transport.as_str(), "tcp" | "rdma") {
        return None;
    }
    let address = tree.text(&format!("{controller}/address"))?;
    address.split(',').find_map(|part| part.strip_prefix("traddr=")).map(str::to_string)
}

fn kind(tree: &Tree, path: &str, wire: &str, name: &str) -> &'static str {
    let has = |part: &str| wire.contains(part);
    match name {
        _ if name.starts_with("nvme") => "nvme",
        _ if name.starts_with("mmcblk") => match tree.text(&format!("{path}/device/type")).as_deref() {
            Some("SD") => "sd",
            _ => "mmc",
        },
        _ if name.starts_with("xvd") => "xen",
        _ if name.starts_with("pmem") => "pmem",
        _ if name.starts_with("zram") || name.starts_with("ram") => "memory",
        _ if name.starts_with("nbd") => "nbd",
        _ if name.starts_with("rbd") => "rbd",
        _ if name.starts_with("dasd") => "dasd",
        _ if name.starts_with("mtd") || name.starts_with("ubi") => "mtd",
        _ if name.starts_with("sr") => "optical",
        _ if has("/usb") => "usb",
        _ if has("/virtio") => "virtio",
        _ if has("/ata") => "sata",
        _ if has("/end_device-") || has("/port-") => {
            // a SAS controller carries SATA disks as well, and says so in place of the vendor
            if tree.text(&format!("{path}/device/vendor")).as_deref() == Some("ATA") {
                "sata"
            } else {
                "sas"
            }
        }
        _ if has("/vmbus") || has("/VMBUS") => "hyper-v",
        _ if name.starts_with("sd") => "scsi",
        _ => "unknown",
    }
}

fn driver(tree: &Tree, wire: &str) -> Option<String> {
    let device = std::iter::successors(Some(wire), |path| super::tree::parent(path))
        .take_while(|path| path.len() > "/sys/devices".len())
        .find(|path| tree.exists(&format!("{path}/driver")) && base(path) != "device")?;
    let driver = tree.leads_to(&format!("{device}/driver"))?;
    // the SCSI disk driver does not name the link: the one below it does
    if driver != "sd" {
        return Some(driver);
    }
    let above = std::iter::successors(super::tree::parent(device), |path| super::tree::parent(path));
    above.take(12).find_map(|path| tree.leads_to(&format!("{path}/driver")))
}

/// The whole model name. SCSI's own field cuts it at 16 characters, so others are read first; what is not ATA has its
/// maker in a separate field.
fn model(tree: &Tree, path: &str, kind: &str) -> Option<String> {
    let file = |file: &str| tree.text(&format!("{path}/device/{file}"));
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let model = udev(tree, path, "ID_MODEL_ENC")
        .or_else(|| ata_designator(tree, path))
        .or_else(|| file("model"))
        .or_else(|| file("name"))
        .map(words)
        .filter(|text| !text.is_empty())?;
    let vendor = file("vendor")
        .map(words)
        .filter(|vendor| !model.to_ascii_lowercase().starts_with(&vendor.to_ascii_lowercase()));
    match vendor {
        Some(vendor) if matches!(kind, "usb" | "sas" | "scsi") => Some(format!("{vendor} {model}")),
        _ => Some(model),
    }
}

/// The serial number of the disk whose directory is `path`; none where neither the kernel nor udev knows one.
#[must_use]
pub fn serial(tree: &Tree, path: &str) -> Option<String> {
    ["device/serial", "serial"]
        .into_iter()
        .find_map(|file| tree.text(&format!("{path}/{file}")))
        .or_else(|| udev(tree, path, "ID_SERIAL_SHORT"))
        .or_else(|| {
            // SPC-4: page 80h is a header of 4 bytes, then the unit serial number
            let page = tree.bytes(&format!("{path}/device/vpd_pg80"))?;
            let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_string();
            (!text.is_empty()).then_some(text)
        })
}

/// A property that udev keeps of the device, with its `\x20` escapes undone.
fn udev(tree: &Tree, path: &str, key: &str) -> Option<String> {
    let number = tree.text(&format!("{path}/dev"))?;
    let properties = tree.text(&format!("/run/udev/data/b{number}"))?;
    let value = properties.lines().find_map(|line| line.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='))?;
    let value = value.replace("\\x20", " ");
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_string())
}

/// The model in the T10 designator of page 83h: libata writes `ATA`, 40 characters of model, then the serial number.
fn ata_designator(tree: &Tree, path: &str) -> Option<String> {
    let page = tree.bytes(&format!("{path}/device/vpd_pg83"))?;
    let mut rest = page.get(4..)?;
    while rest.len() > 4 {
        let length = usize::from(rest[3]);
        let designator = rest.get(4..4 + length)?;
        if rest[1] & 0x0f == 1 && designator.starts_with(b"ATA     ") {
            let model = String::from_utf8_lossy(designator.get(8..48)?).trim().to_string();
            return (!model.is_empty()).then_some(model);
        }
        rest = &rest[4 + length..];
    }
    None
}

fn queue(survey: &Survey, path: &str, at: &str) -> Value {
    let tree = &survey.tree;
    let queue = format!("{path}/queue");
    let number = |file: &str| tree.number::<u64>(&format!("{queue}/{file}"));
    let known = |key: &str, value: Option<Value>| {
        survey.or(&format!("{at}.queue.{key}"), value, "the kernel does not state it")
    };
    let scheduler = tree.text(&format!("{queue}/scheduler")).map(|text| chosen(&text).unwrap_or(text));
    let queues = tree.list(&format!("{path}/mq")).len() as u64;
    json!({
        "scheduler": known("scheduler", scheduler.map(Value::from)),
        "nr_requests": known("nr_requests", number("nr_requests").map(Value::from)),
        "max_sectors_bytes": known("max_sectors_bytes", number("max_sectors_kb").map(|kib| kib.saturating_mul(1024).into())),
        "io_poll": known("io_poll", number("io_poll").map(|flag| (flag != 0).into())),
        "write_cache": known("write_cache", tree.text(&format!("{queue}/write_cache")).map(Value::from)),
        "logical_block_bytes": known("logical_block_bytes", number("logical_block_size").map(Value::from)),
        "physical_block_bytes": known("physical_block_bytes", number("physical_block_size").map(Value::from)),
        "nr_hw_queues": known("nr_hw_queues", (queues > 0).then(|| queues.into())),
    })
}
