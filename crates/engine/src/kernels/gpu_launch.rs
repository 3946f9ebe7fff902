//! How long a GPU's driver takes to start an empty kernel and to say that it has ended, as the host sees it.

use crate::contract::declare::{INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::{device, refused, Passes, DEVICE};
use crate::parameters;
use crate::sys::device::Argument;
use crate::timing::histogram::Histogram;

/// The kernel `gpu_launch`.
pub struct GpuLaunch;

const SOURCE: &str =
    "__kernel void launch(__global uint *out, const uint value) { if (get_global_id(0) == 0) out[0] = value; }";

parameters! {
    /// What `gpu_launch` takes.
    pub struct Parameters {
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.2),
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for GpuLaunch {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration::new(
        "gpu_launch",
        "latency of an empty kernel's launch, from the call until it has ended",
        "launch",
    );

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let device = device(&parameters.on)?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let kernel = session.kernel(SOURCE, "launch").map_err(refused)?;
        let out = session.buffer(4).map_err(refused)?;
        let mut count = 0_u32;
        let mut launch = || {
            count = count.wrapping_add(1);
            kernel.set(&[Argument::Buffer(&out), Argument::Number(count)])?;
            let begun = crate::timing::clock::now_ns();
            queue.run(&kernel, 1)?;
            Ok::<_, String>(crate::timing::clock::now_ns() - begun)
        };
        launch().map_err(refused)?;
        let mut histogram = Histogram::new();
        let passes = Passes::run(&device, (parameters.runtime, parameters.interval_s), stop, || {
            histogram.record(launch()?);
            Ok(None)
        })?;
        let mut last = [0; 4];
        queue.read(&out, &mut last).map_err(refused)?;
        let mut stream = Stream::new("launch", passes.count);
        stream.add_latency("total", &histogram);
        let mut reading = passes.reading(&device, stream, 1);
        // The host's clock is what is requested.
        reading.notes.retain(|note| note.code != "device_clock");
        reading.verified(std::iter::once(Verdict { checked: 1, wrong: u64::from(u32::from_le_bytes(last) != count) }));
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::here::opencl_cpu;
    use crate::sys::cuda::nvrtc::tests::compiles_everywhere;

    #[test]
    fn every_launch_is_timed_and_the_last_one_has_run() {
        let Some(_turn) = opencl_cpu() else { return };
        let reading = crate::run("gpu_launch", &json!({"on": "cpu", "runtime": 0.01}), &Stop::new()).unwrap();
        assert_eq!(reading.streams[0].latency_ns["total"]["count"], reading.streams[0].operations);
        assert_eq!(reading.details["verification"], "passed");
    }

    #[test]
    fn the_empty_kernel_compiles_for_cuda() {
        compiles_everywhere(SOURCE, 75);
    }
}
