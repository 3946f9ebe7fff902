//! Blocks of a run that was cut short, held against its journal of acknowledged writes.

use std::path::PathBuf;

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::integrity::check::{Check, Interruption};

/// See the module.
pub struct StorageCheck;

impl Kernel for StorageCheck {
    fn info(&self) -> KernelInfo {
        let parameter = |name, means, kind, default| Parameter { name, means, unit: "", kind, default };
        KernelInfo {
            name: "storage_check",
            measures: "whether what a run had acknowledged before it was cut short is there; reads only",
            parameters: vec![
                parameter("journal", "the journal that storage_blocks kept", Kind::Text, Value::Null),
                parameter(
                    "path",
                    "the file or device; empty for the one that the journal names",
                    Kind::Text,
                    json!(""),
                ),
                parameter(
                    "after",
                    "kill: what was acknowledged must be there; power_cut: what a sync had covered",
                    Kind::Choice { choices: vec!["kill", "power_cut"] },
                    json!("kill"),
                ),
            ],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let check = Check {
            journal: PathBuf::from(parameters.text("journal")),
            path: Some(PathBuf::from(parameters.text("path"))).filter(|path| !path.as_os_str().is_empty()),
            interruption: if parameters.text("after") == "kill" { Interruption::Kill } else { Interruption::PowerCut },
        };
        let reading = check.run(stop)?;
        Ok(Reading { kernel: "storage_check".into(), parameters: parameters.as_json(), ..reading })
    }
}
