//! What a GPU computes at an arithmetic intensity: every number of an array is read, goes through this many operations and
//! is written, so that operations a byte are given and the memory or the arithmetic is what limits.

use std::fmt::Write;

use crate::timing::rng::Rng;

use crate::contract::declare::{choice, integer, number, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::arithmetic::Precision;
use crate::gpu::{device, fits, refused, waited, Passes, DEVICE};
use crate::parameters;
use crate::sys::device::{Argument, Device};
use crate::sys::opencl::Fact;

/// The kernel `gpu_roofline`.
pub struct GpuRoofline;

/// Elements of the array that differ from each other; the rest repeats them.
const PATTERN: usize = 4096;
/// Lanes that have a multiplier and an addend of their own.
const LANES: usize = 16;
/// Multiply-adds in a turn of the loop.
const STEPS: u64 = 16;
/// No number gets larger: it starts within 1 and swings around at most 0.76.
const LARGEST: f64 = 3.0;

parameters! {
    /// What `gpu_roofline` takes.
    pub struct Parameters {
        intensity: f64 = number("operations for each byte that is read or written", "FLOP/B", (1.0 / 16.0, 1024.0), 1.0),
        precision: Precision = choice("data type of the elements").only(&[Precision::Single, Precision::Double]),
        array: u64 = integer("size of each of the two arrays", "B", (1 << 16, 1 << 36), 64 << 20).role(Role::Size),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

/// The loop that fits a device.
#[derive(Debug, Clone, Copy)]
struct Shape {
    precision: Precision,
    /// Operations on each element.
    flops: u64,
    width: usize,
    /// Vectors of a work item, which do not wait for each other.
    chains: usize,
    group: usize,
}

impl Kernel for GpuRoofline {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_roofline", "arithmetic of a GPU by operations for each byte of its memory", "element");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { intensity, precision, array, runtime, interval_s, .. } = *parameters;
        let device = device(&parameters.on)?;
        if !device.precisions().contains(&precision.word()) {
            return Err(Error::usage(format!("the device has no {} precision; use single", precision.word())));
        }
        let flops = flops(intensity, precision)?;
        let most = device.number(Fact::AllocationBytes);
        if array > most || array.saturating_mul(2) > device.number(Fact::GlobalBytes) / 10 * 9 {
            return Err(Error::usage(format!(
                "array = {array}: two of them do not fit; the device has {} B, of which one array may take {most}",
                device.number(Fact::GlobalBytes)
            )));
        }
        let shape = Shape::of(&device, precision, flops);
        let each = shape.width * shape.chains;
        let elements = array as usize / precision.bytes() / (each * shape.group) * (each * shape.group);
        fits(&device, 2 * array, 2 * array)?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let mut rng = Rng::new(3);
        // The multiplier is so near to 1 that what a step left out shows, however many there are.
        let lanes = [(-0.999, -0.99), (0.5, 1.5)].map(|range| precision.random(&mut rng, LANES, range));
        let pattern = precision.random(&mut rng, PATTERN, (-1.0, 1.0));
        let bytes = elements * precision.bytes();
        let filled = |content: &[u8]| -> Result<_, Error> {
            let buffer = session.buffer(content.len()).map_err(refused)?;
            queue.write(&buffer, content).map_err(refused)?;
            Ok(buffer)
        };
        let content: Vec<u8> = pattern.iter().copied().cycle().take(bytes).collect();
        let (given, numbers) = (filled(&content)?, filled(&lanes.concat())?);
        let out = session.buffer(bytes).map_err(refused)?;
        let kernel = session.kernel(&source(shape), "roof").map_err(refused)?;
        kernel.set(&[Argument::Buffer(&given), Argument::Buffer(&numbers), Argument::Buffer(&out)]).map_err(refused)?;
        let items = elements / each;
        let launch = || waited(&queue.launch(&kernel, items, shape.group)?);
        // The first touch of the pages is not timed.
        launch().map_err(refused)?;
        let passes = Passes::run(&device, (runtime, interval_s), stop, launch)?;
        let mut found = content;
        queue.read(&out, &mut found).map_err(refused)?;
        let total = passes.count * elements as u64;
        let stream = Stream {
            bytes: 2 * total * precision.bytes() as u64,
            flops: flops * total,
            ..Stream::new("multiply_add", total)
        };
        let best = (flops * elements as u64) as f64 * 1e9 / passes.best_ns.max(1) as f64;
        let mut reading = passes.reading(&device, stream, elements as u64);
        reading.detail("flops_s_best_launch", best);
        reading.detail("flops_per_element", flops);
        reading.detail("working_set_bytes", 2 * bytes);
        reading.detail("width", shape.width);
        reading.detail("chains", shape.chains);
        reading.detail("engine", "vector");
        reading.verified(std::iter::once(proved(shape, &lanes, &pattern, &found)));
        Ok(reading)
    }
}

/// Operations on each element, which is read and written once.
fn flops(intensity: f64, precision: Precision) -> Result<u64, Error> {
    let bytes = 2 * precision.bytes();
    let flops = intensity * bytes as f64;
    if flops < 1.0 || flops.fract() != 0.0 {
        let near = flops.round().max(1.0) / bytes as f64;
        return Err(Error::usage(format!(
            "intensity = {intensity}: an element of {bytes} B read and written takes whole operations; the nearest is {near}"
        )));
    }
    Ok(flops as u64)
}

impl Shape {
    fn of(device: &Device, precision: Precision, flops: u64) -> Self {
        let is_cpu = device.kind() == "cpu";
        let lanes = device.number(Fact::FloatLanes).max(1) as usize * 4 / precision.bytes();
        // A processor computes on whole registers; a GPU's work item loads 16 B at once.
        let width = if is_cpu { lanes.clamp(1, LANES).next_power_of_two() } else { 16 / precision.bytes() };
        let most = device.number(Fact::GroupItems).max(1) as usize;
        let (chains, group) = if is_cpu { (8, 8.min(most)) } else { (4, 256.min(most)) };
        Self { precision, flops, width: width.min(LANES), chains, group }
    }
}

/// Compares all that the loop left with the host's arithmetic in double.
fn proved(shape: Shape, lanes: &[Vec<u8>; 2], pattern: &[u8], found: &[u8]) -> Verdict {
    let precision = shape.precision;
    let expected: Vec<(f64, f64)> = (0..PATTERN)
        .map(|at| {
            let lane = at % shape.width;
            let (a, b) = (precision.read(&lanes[0], lane), precision.read(&lanes[1], lane));
            let start = precision.read(pattern, at) + if shape.flops % 2 == 1 { b } else { 0.0 };
            let wanted = (0..shape.flops / 2).fold(start, |x, _| precision.multiply_add(a, x, b));
            // Each step rounds once, and a rounding dies out by the multiplier.
            let roundings = (shape.flops as f64).min(1.0 + 1.0 / (1.0 - a.abs()));
            (wanted, precision.unit() * LARGEST * roundings)
        })
        .collect();
    let elements = found.len() / precision.bytes();
    let wrong = (0..elements)
        .filter(|at| {
            let (wanted, allowed) = expected[at % PATTERN];
            // What is no number is near to none, and so it is wrong.
            let is_near = (precision.read(found, *at) - wanted).abs() <= allowed;
            !is_near
        })
        .count();
    Verdict { checked: elements as u64, wrong: wrong as u64 }
}

/// The loop in `OpenCL` C. Neighbours in a group load neighbouring vectors, and each work item `chains` of them.
fn source(Shape { precision, flops, width, chains, group }: Shape) -> String {
    let scalar = precision.of_opencl();
    let vector = if width == 1 { scalar.to_string() } else { format!("{scalar}{width}") };
    let mut text = String::new();
    if !precision.extension().is_empty() {
        let _ = writeln!(text, "#pragma OPENCL EXTENSION {} : enable", precision.extension());
    }
    let load = |place: usize| match width {
        1 => format!("numbers[{place}]"),
        _ => format!("vload{width}(0, numbers + {place})"),
    };
    let all = |line: &dyn Fn(usize) -> String| (0..chains).map(line).collect::<Vec<_>>().join(" ");
    let step = all(&|at| format!("x{at} = fma(a, x{at}, b);"));
    let _ = write!(
        text,
        "__kernel void roof(__global const {vector} *restrict given, __global const {scalar} *restrict numbers,
    __global {vector} *restrict out) {{
  const uint id = get_global_id(0), from = id / {group}u * {}u + id % {group}u;
  const {vector} a = {}, b = {};
  {}
",
        group * chains,
        load(0),
        load(LANES),
        all(&|at| format!("{vector} x{at} = given[from + {}u];", at * group)),
    );
    if flops % 2 == 1 {
        let _ = writeln!(text, "  {}", all(&|at| format!("x{at} = x{at} + b;")));
    }
    let (turns, rest) = (flops / 2 / STEPS, flops / 2 % STEPS);
    if turns > 0 {
        let _ = writeln!(text, "  for (uint turn = 0; turn < {turns}u; turn++) {{");
        (0..STEPS).for_each(|_| _ = writeln!(text, "    {step}"));
        let _ = writeln!(text, "  }}");
    }
    (0..rest).for_each(|_| _ = writeln!(text, "  {step}"));
    let _ = writeln!(text, "  {}\n}}", all(&|at| format!("out[from + {}u] = x{at};", at * group)));
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::here::opencl_cpu;
    use crate::sys::cuda::nvrtc::tests::compiles_everywhere;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("gpu_roofline", &parameters, &Stop::new())
    }

    #[test]
    fn operations_a_byte_are_those_that_were_asked_for_and_results_are_proved() {
        let Some(_turn) = opencl_cpu() else { return };
        for (precision, intensity) in
            [("single", 0.125), ("single", 0.25), ("single", 8.625), ("double", 0.125), ("double", 16.0)]
        {
            let given = json!({"on": "cpu", "precision": precision, "intensity": intensity, "array": 1 << 20,
                "runtime": 0.01});
            let reading = run(given).unwrap();
            assert_eq!(reading.details["verification"], "passed", "{precision} {intensity}");
            let stream = &reading.streams[0];
            assert_eq!(stream.flops, (stream.bytes as f64 * intensity) as u64);
            assert_eq!(stream.bytes % reading.details["working_set_bytes"].as_u64().unwrap(), 0);
        }
    }

    #[test]
    fn a_step_too_few_is_noticed() {
        for (precision, flops) in [(Precision::Single, 2), (Precision::Single, 1024), (Precision::Double, 4096)] {
            let shape = Shape { precision, flops, width: 4, chains: 4, group: 8 };
            let mut rng = Rng::new(3);
            let lanes = [(-0.999, -0.99), (0.5, 1.5)].map(|range| precision.random(&mut rng, LANES, range));
            let pattern = precision.random(&mut rng, PATTERN, (-1.0, 1.0));
            let left = |flops: u64| {
                let mut bytes = vec![];
                for at in 0..PATTERN {
                    let (a, b) = (precision.read(&lanes[0], at % 4), precision.read(&lanes[1], at % 4));
                    let x = precision.read(&pattern, at);
                    let x = (0..flops / 2).fold(x, |x, _| precision.multiply_add(a, x, b));
                    precision.write(x, &mut bytes);
                }
                bytes
            };
            assert_eq!(proved(shape, &lanes, &pattern, &left(flops)).wrong, 0);
            assert!(proved(shape, &lanes, &pattern, &left(flops - 2)).wrong > 0, "{flops}");
        }
    }

    #[test]
    fn parts_of_an_operation_and_arrays_that_do_not_fit_are_refused() {
        let Some(_turn) = opencl_cpu() else { return };
        for (given, says) in [
            (json!({"on": "cpu", "intensity": 0.3}), "the nearest is 0.25"),
            (json!({"on": "cpu", "intensity": 0.0625}), "the nearest is 0.125"),
            (json!({"on": "cpu", "array": 1_u64 << 36}), "two of them do not fit"),
        ] {
            let error = run(given).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn every_intensity_compiles_for_cuda() {
        for (precision, flops) in [(Precision::Single, 1), (Precision::Single, 513), (Precision::Double, 2048)] {
            let shape = Shape { precision, flops, width: 16 / precision.bytes(), chains: 4, group: 256 };
            compiles_everywhere(&source(shape), 75);
        }
    }
}
