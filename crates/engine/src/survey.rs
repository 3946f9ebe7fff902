//! The machine, one file a resource.
//!
//! Everything is read below a root, so that a recorded tree of another machine gives what that
//! machine would say. What cannot be known is `null`, and `unknown` gives the reason by dotted path;
//! a `null` without a reason means that there is none (no hypervisor, no container).
//!
//! Rates of links (`bits_s`) are those at which the wire signals, as the standards name them (SATA
//! 6 Gbit/s, PCIe 16 GT/s x lanes); what the encoding leaves of them is a ceiling's matter.

pub mod arm_cores;
pub mod block;
pub mod conditions;
pub mod cpu;
pub mod gpu;
pub mod gpu_drivers;
pub mod link;
pub mod memory;
pub mod mounts;
pub mod network;
mod object_mounts;
pub mod platform;
pub mod record;
pub mod routes;
pub mod scan;
pub mod settings;
pub mod storage;
pub mod tree;

use std::path::Path;

use serde_json::{json, Value};

use scan::{Survey, Unknown};
use tree::Tree;

/// Surveys the machine with the file tree `root`, as [`crate::survey()`] does.
#[must_use]
pub fn survey(root: &Path, path: Option<&Path>) -> Value {
    let path = path.map(|path| path.to_string_lossy().into_owned());
    of_tree(Tree::open(root), path.as_deref())
}

/// The machine that `tree` describes, with the storage behind `path` (the current directory, or `/` of a record).
#[must_use]
pub fn of_tree(tree: Tree, path: Option<&str>) -> Value {
    let survey = Survey { tree, unknown: Unknown::default() };
    let mut machine = described(&survey, path);
    machine["unknown"] = json!(survey.unknown.into_reasons());
    machine
}

/// The machine without the reasons for what is not known.
fn described(survey: &Survey, path: Option<&str>) -> Value {
    let conditions = conditions::Before::take(survey);
    let drivers = gpu_drivers::survey(survey);
    let mut machine = json!({
        "hostname": survey.text_or("hostname", "/proc/sys/kernel/hostname"),
        "board": survey.or("board", platform::board(&survey.tree), "neither DMI nor a device tree names it"),
        "os": platform::os(survey),
        "cpu": cpu::survey(survey),
        "memory": memory::survey(survey),
        "storage": storage::survey(survey, path),
        "nics": network::survey(survey),
        "gpus": gpu::survey(survey),
        "hypervisor": platform::hypervisor(survey),
        "container": platform::container(survey),
        "settings": settings::survey(&survey.tree),
        "conditions": conditions.finish(survey),
    });
    if let Some(found) = drivers {
        machine["gpu_drivers"] = found;
    }
    machine
}
