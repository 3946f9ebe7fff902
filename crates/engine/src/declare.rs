//! How a kernel declares what it takes: one function a type of parameter, and those that many kernels share.

use std::collections::BTreeMap;

use serde_json::{json, Value};

use crate::kernel::{Kind, Parameter, Role};

/// A parameter of any type.
#[must_use]
pub fn parameter(name: &'static str, means: &'static str, unit: &'static str, kind: Kind, default: Value) -> Parameter {
    let (role, workers, traits, split) = (Role::Label, false, BTreeMap::new(), "");
    Parameter { name, means, unit, kind, default, role, workers, traits, split }
}

/// A whole number within bounds, both included.
#[must_use]
pub fn integer(
    name: &'static str,
    means: &'static str,
    unit: &'static str,
    (min, max): (i64, i64),
    default: i64,
) -> Parameter {
    parameter(name, means, unit, Kind::Integer { min, max }, json!(default))
}

/// A number within bounds, both included.
#[must_use]
pub fn number(
    name: &'static str,
    means: &'static str,
    unit: &'static str,
    (min, max): (f64, f64),
    default: f64,
) -> Parameter {
    parameter(name, means, unit, Kind::Number { min, max }, json!(default))
}

/// One of some words, the first by default.
#[must_use]
pub fn choice(name: &'static str, means: &'static str, choices: &[&'static str]) -> Parameter {
    chosen(name, means, choices, choices[0])
}

/// One of some words, any of them by default.
#[must_use]
pub fn chosen(name: &'static str, means: &'static str, choices: &[&'static str], default: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Choice { choices: choices.to_vec() }, json!(default))
}

/// Yes or no.
#[must_use]
pub fn flag(name: &'static str, means: &'static str, default: bool) -> Parameter {
    parameter(name, means, "", Kind::Flag, json!(default))
}

/// Any text.
#[must_use]
pub fn text(name: &'static str, means: &'static str, default: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Text, json!(default))
}

/// A text that must be given.
#[must_use]
pub fn required(name: &'static str, means: &'static str) -> Parameter {
    parameter(name, means, "", Kind::Text, Value::Null)
}

/// The file or folder that is measured; it must be given.
#[must_use]
pub fn path(means: &'static str) -> Parameter {
    required("path", means)
}

/// The processors of the threads.
#[must_use]
pub fn cpus(means: &'static str) -> Parameter {
    parameter("cpus", means, "", Kind::Integers, json!([]))
}

/// How often throughput is noted over time.
#[must_use]
pub fn interval_s() -> Parameter {
    number("interval_s", "length of a sampling interval", "s", (0.001, 3600.0), 0.1)
}
