//! How long a load takes on a GPU that needs the one before, by working set: one work item follows a random ring.

use crate::timing::rng::Rng;

use crate::contract::declare::{integer, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::{device, fits, refused, waited, Passes, DEVICE, LAUNCH_NS};
use crate::parameters;
use crate::sys::device::Argument;
use crate::sys::opencl::Fact;

/// The kernel `gpu_latency`.
pub struct GpuLatency;

/// Distance between two elements, so that each has a separate line.
const STRIDE: usize = 128;
const SOURCE: &str =
    "__kernel void chase(__global const uint *ring, __global uint *out, const uint from, const uint loads) {
  uint at = from;
  for (uint load = 0; load < loads; load++) at = ring[at];
  out[0] = at;
}";

parameters! {
    /// What `gpu_latency` takes.
    pub struct Parameters {
        working_set: u64 = integer("size of the memory that is read", "B", (1024, 1 << 34), 64 << 20),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.2),
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for GpuLatency {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_latency", "latency of dependent loads on a GPU by working set", "access");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let device = device(&parameters.on)?;
        let Parameters { working_set, runtime, interval_s, .. } = *parameters;
        let most = device.number(Fact::AllocationBytes);
        if working_set > most {
            return Err(Error::usage(format!("working_set = {working_set}: the device takes at most {most} B")));
        }
        fits(&device, working_set, 3 * working_set)?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let ring = ring(working_set as usize / STRIDE);
        let bytes: Vec<u8> = ring.iter().flat_map(|next| next.to_le_bytes()).collect();
        let (given, out) = (session.buffer(bytes.len()), session.buffer(4));
        let (given, out) = (given.map_err(refused)?, out.map_err(refused)?);
        queue.write(&given, &bytes).map_err(refused)?;
        let kernel = session.kernel(SOURCE, "chase").map_err(refused)?;
        let mut at = 0_u32;
        let mut chase = |loads: u32| {
            kernel.set(&[
                Argument::Buffer(&given),
                Argument::Buffer(&out),
                Argument::Number(at),
                Argument::Number(loads),
            ])?;
            let begun = crate::timing::clock::now_ns();
            let ns = waited(&queue.launch(&kernel, 1, 1)?)?;
            let host_ns = crate::timing::clock::now_ns() - begun;
            let mut last = [0; 4];
            queue.read(&out, &mut last)?;
            at = u32::from_le_bytes(last);
            Ok::<_, String>(ns.unwrap_or(host_ns))
        };
        let elements = working_set / STRIDE as u64;
        // Once round, so that what fits a cache is there; a long ring for a while.
        let mut done = 0_u64;
        let mut loads = elements.clamp(256, 1 << 16) as u32;
        let first = chase(loads).map_err(refused)?.max(1);
        done += u64::from(loads);
        loads = (f64::from(loads) * LAUNCH_NS.min((runtime * 2e8) as u64) as f64 / first as f64)
            .clamp(256.0, f64::from(1 << 28)) as u32;
        let passes = Passes::run(&device, (runtime, interval_s), stop, || {
            done += u64::from(loads);
            chase(loads).map(Some)
        })?;
        // The host computes the place that the chase must have reached after all its loads.
        let expected = (0..done % elements).fold(0_u32, |at, _| ring[at as usize]);
        let total = passes.count * u64::from(loads);
        let latency_ns = passes.elapsed_s * 1e9 / total as f64;
        let mut reading = passes.reading(&device, Stream::new("read", total), u64::from(loads));
        reading.detail("latency_ns", latency_ns);
        reading.detail("loads_per_launch", loads);
        reading.verified(std::iter::once(Verdict { checked: done, wrong: u64::from(at != expected) }));
        Ok(reading)
    }
}

/// One ring through all elements in random order (Sattolo 1986); an element is at a stride's multiple of `u32`.
fn ring(elements: usize) -> Vec<u32> {
    let step = STRIDE / 4;
    let mut order: Vec<u32> = (0..elements as u32).collect();
    let mut rng = Rng::new(5);
    for at in (1..elements).rev() {
        order.swap(at, rng.below(at as u64) as usize);
    }
    let mut links = vec![0; elements * step];
    for (at, &next) in order.iter().enumerate() {
        links[at * step] = next * step as u32;
    }
    links
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::here::opencl_cpu;
    use crate::sys::cuda::nvrtc::tests::compiles_everywhere;

    #[test]
    fn a_ring_goes_through_every_element_once() {
        let ring = ring(1000);
        let (mut at, mut steps) = (0, 0);
        while steps == 0 || at != 0 {
            at = ring[at as usize];
            steps += 1;
        }
        assert_eq!(steps, 1000);
    }

    #[test]
    fn the_chase_ends_where_the_host_says() {
        let Some(_turn) = opencl_cpu() else { return };
        for working_set in [1024, 1 << 20] {
            let given = json!({"on": "cpu", "working_set": working_set, "runtime": 0.01});
            let reading = crate::run("gpu_latency", &given, &Stop::new()).unwrap();
            assert_eq!(reading.details["verification"], "passed");
            assert!(reading.details["latency_ns"].as_f64().unwrap() > 0.1);
        }
    }

    #[test]
    fn the_chase_compiles_for_cuda() {
        compiles_everywhere(SOURCE, 75);
    }
}
