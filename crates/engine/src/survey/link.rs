//! The wire that a device hangs on: PCI Express, SATA, SAS, USB or a memory card's bus, now and at most.

use serde_json::{json, Value};

use super::routes;
use super::scan::Survey;
use super::tree::{base, parent, Tree};

/// The PCI Express link of the device at `path` (a directory below `/sys/devices`) or of the nearest
/// device above it that has one; none where no device above has.
///
/// `generation` and `lanes` are what runs now, `…_max` what the device can do, `slot_…_max` what the
/// port above it can; `upstream` names the slowest link on the way to the processor if it is slower.
#[must_use]
pub fn pcie(tree: &Tree, path: &str) -> Option<Value> {
    let links: Vec<(String, Pcie)> = ancestors(path)
        .filter_map(|path| Pcie::read(tree, path, "current").map(|link| (path.to_string(), link)))
        .collect();
    let (device, now) = links.first()?;
    let most = Pcie::read(tree, device, "max");
    let slot = parent(device).and_then(|port| Pcie::read(tree, port, "max"));
    let upstream =
        links.iter().skip(1).min_by_key(|(_, link)| link.bits_s()).filter(|(_, up)| up.bits_s() < now.bits_s());
    Some(json!({
        "type": "pcie",
        "address": base(device),
        "generation": now.generation,
        "lanes": now.lanes,
        "generation_max": most.map(|link| link.generation),
        "lanes_max": most.map(|link| link.lanes),
        "bits_s": now.bits_s(),
        "bits_s_max": most.map(Pcie::bits_s),
        "slot_generation_max": slot.map(|link| link.generation),
        "slot_lanes_max": slot.map(|link| link.lanes),
        "upstream": upstream.map(|(path, link)| json!({
            "address": base(path), "generation": link.generation, "lanes": link.lanes, "bits_s": link.bits_s(),
        })),
    }))
}

#[derive(Clone, Copy)]
struct Pcie {
    generation: u64,
    lanes: u64,
    lane_bits_s: u64,
}

impl Pcie {
    fn read(tree: &Tree, path: &str, when: &str) -> Option<Self> {
        let speed = tree.text(&format!("{path}/{when}_link_speed"))?;
        let lanes: u64 = tree.number(&format!("{path}/{when}_link_width"))?;
        // PCI Express Base Specification: 2.5, 5, 8, 16, 32 and 64 GT/s for generations 1 to 6
        let (generation, lane_bits_s) = match speed.split(' ').next()? {
            "2.5" => (1, 2_500_000_000),
            "5" | "5.0" => (2, 5_000_000_000),
            "8" | "8.0" => (3, 8_000_000_000),
            "16" | "16.0" => (4, 16_000_000_000),
            "32" | "32.0" => (5, 32_000_000_000),
            "64" | "64.0" => (6, 64_000_000_000),
            _ => return None,
        };
        // a link that is down reports 0 lanes, and a lost device 63 or 255
        (1..=32).contains(&lanes).then_some(Self { generation, lanes, lane_bits_s })
    }

    fn bits_s(self) -> u64 {
        self.lane_bits_s * self.lanes
    }
}

/// The link of a disk of `kind` whose directory below `/sys/devices` is `path`; reasons for what is not known go under `at`.
#[must_use]
pub fn of_disk(survey: &Survey, kind: &str, path: &str, at: &str) -> Value {
    let tree = &survey.tree;
    let (found, why) = match kind {
        "nvme" => (pcie(tree, path), "no PCI device above it states its link (a hypervisor may hide it)"),
        "sata" => (sata(tree, path).or_else(|| sas(tree, path)), "neither ata_link nor sas_phy states its speed"),
        "sas" => (sas(tree, path), "no sas_phy states its speed"),
        "usb" => (usb(tree, path), "no USB device above it states its speed"),
        "mmc" | "sd" => {
            (mmc(tree, path), "its mode stands only in /sys/kernel/debug/mmc*/ios, which root alone may read")
        }
        "virtio" | "xen" | "hyper-v" => (None, "a hypervisor's disk has no link of its own that a guest could see"),
        "memory" => (None, "it lies in memory"),
        _ => (None, "no link is known for this kind of device"),
    };
    found.unwrap_or_else(|| {
        survey.unknown.note(&format!("{at}.link.bits_s"), why);
        plain("none", None, None, None, None)
    })
}

/// The link to a disk behind a network, by the interface that leads to its server.
#[must_use]
pub fn of_server(survey: &Survey, address: Option<&str>, at: &str) -> Value {
    let nic = address.and_then(|address| routes::leading_to(&survey.tree, address));
    let bits_s = nic.as_deref().and_then(|nic| routes::bits_s(&survey.tree, nic));
    if bits_s.is_none() {
        let why = match (&nic, address) {
            (Some(nic), _) => format!("the interface {nic} that leads to the server states no speed"),
            (None, Some(address)) => format!("no route to {address} stands in /proc/net"),
            (None, None) => "the mount does not state its server's address".into(),
        };
        survey.unknown.note(&format!("{at}.link.bits_s"), &why);
    }
    let mut link = plain("network", None, None, bits_s, bits_s);
    link["nic"] = json!(nic);
    link
}

fn sata(tree: &Tree, path: &str) -> Option<Value> {
    let port = ancestors(path).find(|path| is_numbered(base(path), "ata"))?;
    let speed = |link: &str, file: &str| gigabits(&tree.text(&format!("{port}/{link}/ata_link/{link}/{file}"))?);
    let links = tree.list(port);
    let link = links.iter().find(|name| name.starts_with("link") && speed(name, "sata_spd").is_some())?;
    let now = speed(link, "sata_spd");
    let most = speed(link, "hw_sata_spd_limit");
    let mut found = plain("sata", now.and_then(sata_generation), None, now, most);
    found["generation_max"] = json!(most.and_then(sata_generation));
    Some(found)
}

/// Serial ATA Revision 3: 1.5, 3 and 6 Gbit/s for generations 1 to 3.
fn sata_generation(bits_s: u64) -> Option<Value> {
    let generation = [1_500_000_000, 3_000_000_000, 6_000_000_000].iter().position(|rate| *rate == bits_s)?;
    Some(json!(generation + 1))
}

/// All lanes of the port that the disk's end device hangs on.
fn sas(tree: &Tree, path: &str) -> Option<Value> {
    let port = ancestors(path).find(|path| base(path).starts_with("port-"))?;
    let phys: Vec<String> = tree.list(port).into_iter().filter(|name| name.starts_with("phy-")).collect();
    let rate = |file: &str| {
        let rates = phys.iter().filter_map(|phy| gigabits(&tree.text(&format!("/sys/class/sas_phy/{phy}/{file}"))?));
        rates.min()
    };
    let (now, most) = (rate("negotiated_linkrate")?, rate("maximum_linkrate"));
    let lanes = phys.len() as u64;
    Some(plain("sas", None, Some(lanes), Some(now * lanes), most.map(|rate| rate * lanes)))
}

/// The slowest USB device on the way up, hubs included; `generation` is the version that the disk's own device states.
fn usb(tree: &Tree, path: &str) -> Option<Value> {
    let mut slowest: Option<(u64, String)> = None;
    let mut version = None;
    let mut lanes = None;
    for path in ancestors(path).filter(|path| tree.exists(&format!("{path}/bNumInterfaces"))) {
        // in Mbit/s; 1.5 for low speed
        let Some(megabits) = tree.number::<f64>(&format!("{path}/speed")).filter(|speed| (1.0..1e6).contains(speed))
        else {
            continue;
        };
        let bits_s = (megabits * 1e6) as u64;
        if slowest.is_none() {
            version = tree.text(&format!("{path}/version"));
            lanes = tree.number::<u64>(&format!("{path}/rx_lanes"));
        }
        if slowest.as_ref().is_none_or(|(least, _)| bits_s < *least) {
            slowest = Some((bits_s, base(path).to_string()));
        }
    }
    let (bits_s, address) = slowest?;
    let mut link = plain("usb", version.map(Value::from), lanes, Some(bits_s), None);
    link["address"] = json!(address);
    Some(link)
}

/// `ios` of the host's debug directory: clock x width, twice for double data rate.
fn mmc(tree: &Tree, path: &str) -> Option<Value> {
    let host = ancestors(path).map(base).find(|name| is_numbered(name, "mmc"))?;
    let ios = tree.text(&format!("/sys/kernel/debug/{host}/ios"))?;
    let field =
        |name: &str| ios.lines().find_map(|line| Some(line.strip_prefix(name)?.trim_start_matches([':', '\t', ' '])));
    let clock: u64 = field("actual clock").or_else(|| field("clock"))?.split(' ').next()?.parse().ok()?;
    let inside = |text: &str| Some(text.split_once('(')?.1.split_once(')')?.0.to_string());
    let width: u64 = inside(field("bus width")?)?.split(' ').next()?.parse().ok()?;
    let mode = inside(field("timing spec")?)?;
    let edges = if ["DDR", "HS400"].iter().any(|word| mode.contains(word)) { 2 } else { 1 };
    let bits_s = clock.checked_mul(width)?.checked_mul(edges)?;
    let mut link = plain("mmc", None, Some(width), Some(bits_s), None);
    link["mode"] = json!(mode);
    link["clock_hz"] = json!(clock);
    Some(link)
}

fn plain(kind: &str, generation: Option<Value>, lanes: Option<u64>, now: Option<u64>, most: Option<u64>) -> Value {
    json!({
        "type": kind, "generation": generation, "lanes": lanes, "generation_max": null, "lanes_max": null,
        "bits_s": now, "bits_s_max": most,
    })
}

/// A rate such as `6.0 Gbps` or `12.0 Gbit` in bit/s.
fn gigabits(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok().filter(|rate| (0.1..1000.0).contains(rate))?;
    unit.starts_with("Gb").then(|| (gigabits * 1e9).round() as u64)
}

/// The path itself and every directory above it below `/sys/devices`, nearest first.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path)).take_while(|path| path.len() > "/sys/devices".len())
}

/// Whether `name` is `prefix` and a number.
#[must_use]
pub fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
}
