//! Lays a data file out with bytes that do not compress, or finishes one that was begun.

use serde_json::Value;

use crate::declare::{integer, parameter, path};
use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameters, Stop};
use crate::reading::Reading;
use crate::storage::data::layout::lay_out;

/// See the module.
pub struct StorageLayout;

impl Kernel for StorageLayout {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "storage_layout",
            measures: "a data file laid out in sequence with bytes that do not compress, to the last fsync",
            parameters: vec![
                path("the file; one that is there is finished if it is a layout, and never overwritten"),
                parameter(
                    "size",
                    "length that it is to have",
                    "B",
                    Kind::Integer { min: 1, max: i64::MAX },
                    Value::Null,
                ),
                integer("seed", "decides the bytes", "", (0, i64::MAX), 1),
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
