//! The tool's own floor: an operation that does nothing but is counted, clocked and sampled.

use serde_json::json;

use crate::kernel::{Error, Kernel, KernelInfo, Kind, Parameter, Parameters, Stop};
use crate::reading::Reading;

/// See the module.
pub struct Idle;

impl Kernel for Idle {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "idle",
            measures: "what the tool itself costs an operation, with no work under it",
            parameters: vec![Parameter {
                name: "runtime",
                means: "length of the timed region",
                unit: "s",
                kind: Kind::Number { min: 0.001, max: 86_400.0 },
                default: json!(0.2),
            }],
            pass: vec![("operations", "1")],
        }
    }

    fn run(&self, parameters: &Parameters, _stop: &Stop) -> Result<Reading, Error> {
        Ok(Reading { kernel: "idle".into(), parameters: parameters.as_json(), ..Reading::default() })
    }
}
