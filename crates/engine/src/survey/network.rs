//! Network interfaces: driver, speed and state.

use serde_json::{json, Value};

use super::link;
use super::routes::{bits_s, NET};
use super::scan::Survey;

/// A host of containers has one for each of them.
const MAX_NICS: usize = 4096;

/// The machine's `nics`.
#[must_use]
pub fn survey(survey: &Survey) -> Value {
    let names = survey.tree.list(NET);
    if names.is_empty() {
        survey.unknown.note("nics", "/sys/class/net is missing or empty");
        return Value::Null;
    }
    let mut names: Vec<String> =
        names.into_iter().filter(|name| survey.tree.exists(&format!("{NET}/{name}/mtu"))).collect();
    survey.at_most("nics", &mut names, MAX_NICS);
    names.iter().enumerate().map(|(index, name)| nic(survey, index, name)).collect()
}

fn nic(survey: &Survey, index: usize, name: &str) -> Value {
    let tree = &survey.tree;
    let at = |key: &str| format!("nics.{index}.{key}");
    let file = |file: &str| format!("{NET}/{name}/{file}");
    let device = tree.resolve(&file("device"));
    let driver = tree.leads_to(&file("device/driver"));
    let why = if device.is_some() { "its device has no driver" } else { "a virtual interface has no device" };
    // loopback and some tunnels are always in state "unknown" and work
    let up = tree.text(&file("operstate")).map(|state| state == "up" || state == "unknown");
    json!({
        "name": name,
        "driver": survey.or(&at("driver"), driver, why),
        "virtual": device.is_none(),
        "bits_s": survey.or(&at("bits_s"), bits_s(tree, name), "the interface states no speed (virtual, or no carrier)"),
        "mtu": survey.or(&at("mtu"), tree.number::<u64>(&file("mtu")), "its mtu cannot be read"),
        "up": survey.or(&at("up"), up, "its operstate cannot be read"),
        "link": device.and_then(|device| link::pcie(tree, &device)),
    })
}
