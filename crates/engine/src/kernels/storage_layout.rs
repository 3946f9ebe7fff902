//! Lays a data file out with bytes that do not compress, or finishes one that was begun.

use serde_json::{json, Value};

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::layout::lay_out;

/// See the module.
pub struct StorageLayout;

impl Kernel for StorageLayout {
    fn info(&self) -> KernelInfo {
        let whole = |name, means, unit, min, default| Parameter {
            name,
            means,
            unit,
            kind: Kind::Integer { min, max: i64::MAX },
            default,
        };
        KernelInfo {
            name: "storage_layout",
            measures: "a data file laid out in sequence with bytes that do not compress, to the last fsync",
            parameters: vec![
                Parameter {
                    name: "path",
                    means: "the file; one that is there is finished if it is a layout, and never overwritten",
                    unit: "",
                    kind: Kind::Text,
                    default: Value::Null,
                },
                whole("size", "length that it is to have", "B", 1, Value::Null),
                whole("seed", "decides the bytes", "", 0, json!(1)),
            ],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let path = std::path::Path::new(parameters.text("path"));
        let reading = lay_out(path, parameters.integer("size"), parameters.integer("seed"), stop)?;
        Ok(Reading { kernel: "storage_layout".into(), parameters: parameters.as_json(), ..reading })
    }
}
