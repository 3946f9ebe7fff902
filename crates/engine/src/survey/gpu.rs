//! Graphics processors, as PCI and the kernel's display drivers list them; their own libraries report what they can do.

use std::collections::HashSet;

use serde_json::{json, Value};

use super::link;
use super::scan::Survey;
use super::tree::{base, Tree};

const PCI: &str = "/sys/bus/pci/devices";
const DRM: &str = "/sys/class/drm";
/// No machine has more; a garbled tree could.
const MAX_GPUS: usize = 1024;

/// The machine's `gpus`; empty where there are none.
#[must_use]
pub fn survey(survey: &Survey) -> Value {
    let tree = &survey.tree;
    let of_pci = tree
        .list(PCI)
        .into_iter()
        // PCI code and ID assignment: class 03h is display controllers
        .filter(|device| tree.text(&format!("{PCI}/{device}/class")).is_some_and(|class| class.starts_with("0x03")))
        .filter_map(|device| tree.resolve(&format!("{PCI}/{device}")));
    let cards = tree.list(DRM).into_iter().filter(|name| link::is_numbered(name, "card"));
    let of_drm = cards.filter_map(|card| tree.resolve(&format!("{DRM}/{card}/device")));
    let mut known = HashSet::new();
    let mut paths: Vec<String> = of_pci.chain(of_drm).filter(|path| known.insert(path.clone())).collect();
    survey.at_most("gpus", &mut paths, MAX_GPUS);
    paths.iter().enumerate().map(|(index, path)| gpu(survey, index, path)).collect()
}

fn gpu(survey: &Survey, index: usize, path: &str) -> Value {
    let tree = &survey.tree;
    let file = |name: &str| tree.text(&format!("{path}/{name}"));
    let at = |key: &str| format!("gpus.{index}.{key}");
    let compatible = file("of_node/compatible").map(|text| text.split('\0').next().unwrap_or("").to_string());
    let vendor_id = file("vendor");
    let vendor = vendor_id
        .as_deref()
        .and_then(vendor)
        .or_else(|| compatible.as_deref().and_then(|name| name.starts_with("nvidia").then_some("NVIDIA")));
    json!({
        "name": base(path),
        "vendor": survey.or(&at("vendor"), vendor, "its PCI vendor is not one that is known to make GPUs"),
        "vendor_id": vendor_id,
        "device_id": file("device"),
        "model": survey.or(
            &at("model"),
            nvidia_model(tree, base(path)).or(compatible),
            "the kernel gives a PCI id and no name; the GPU's own library tells",
        ),
        "driver": survey.or(&at("driver"), tree.leads_to(&format!("{path}/driver")), "no driver is bound to it"),
        "link": survey.or(&at("link"), link::pcie(tree, path), "no PCI device above it states its link"),
    })
}

fn nvidia_model(tree: &Tree, address: &str) -> Option<String> {
    let text = tree.text(&format!("/proc/driver/nvidia/gpus/{address}/information"))?;
    text.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_string()))
}

/// The vendor's name by the PCI vendor list.
fn vendor(id: &str) -> Option<&'static str> {
    Some(match id {
        "0x10de" => "NVIDIA",
        "0x1002" | "0x1022" => "AMD",
        "0x8086" => "Intel",
        "0x1af4" => "virtio",
        "0x1234" => "QEMU",
        "0x1b36" => "Red Hat (QXL)",
        "0x1013" => "Cirrus Logic",
        "0x15ad" => "VMware",
        "0x1414" => "Microsoft",
        "0x1a03" => "ASPEED",
        "0x102b" => "Matrox",
        _ => return None,
    })
}
