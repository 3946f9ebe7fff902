//! How many arithmetic operations a second a GPU does, by precision: multiply-adds in chains that do not wait for each
//! other. Vector width and number of chains are those that were fastest in a short trial.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use crate::timing::rng::Rng;

use crate::contract::declare::{choice, integer, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::arithmetic::Precision;
use crate::gpu::{device, refused, waited, Passes, DEVICE, LAUNCH_NS};
use crate::parameters;
use crate::sys::device::{self, Argument, Buffer, Device, Queue, Session};
use crate::sys::opencl::Fact;

/// The kernel `gpu_flops`.
pub struct GpuFlops;

/// Work items that begin with numbers of their own; the others repeat them.
const SEEDS: usize = 256;
/// Multiply-adds of each chain in a turn of the loop.
const STEPS: usize = 16;
/// Work items of a long launch that are computed again on the host.
const PROVED: usize = 3;
const WIDTHS: [usize; 5] = [1, 2, 4, 8, 16];

parameters! {
    /// What `gpu_flops` takes.
    pub struct Parameters {
        precision: Precision = choice("data type of the operands; each multiply-add counts as 2 operations"),
        width: usize = integer("lanes of a vector: 1, 2, 4, 8 or 16; 0 selects the fastest in a short test", "", (0, 16), 0),
        chains: usize = integer("independent chains a work item; 0 selects the fastest in a short test", "", (0, 16), 0),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

/// The shape of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    width: usize,
    chains: usize,
}

/// Shapes that were fastest, by device and precision, so that a repeat tries nothing.
static FASTEST: Mutex<BTreeMap<(String, Precision), (usize, usize)>> = Mutex::new(BTreeMap::new());

impl Kernel for GpuFlops {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_flops", "independent multiply-adds on a GPU's vector units", "multiply-add");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { precision, width, chains, runtime, interval_s, .. } = *parameters;
        let device = device(&parameters.on)?;
        if !device.precisions().contains(&precision.word()) {
            let (name, here) = (device.text(Fact::Name).unwrap_or_default(), device.precisions().join(", "));
            return Err(Error::usage(format!("{name} has no {} precision; available: {here}", precision.word())));
        }
        if width != 0 && !WIDTHS.contains(&width) {
            return Err(Error::usage(format!("width = {width}: write 1, 2, 4, 8, 16, or 0 for the fastest")));
        }
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let work = Work::new(&device, &session, &queue, precision).map_err(refused)?;
        let shape = work.fastest(width, chains).map_err(refused)?;
        let mut verdicts = vec![];
        let ready = work.ready(shape).map_err(refused)?;
        verdicts.push(ready.proved(SEEDS, 1).map_err(refused)?);
        let turns = ready.turns((runtime * 1e9 / 5.0) as u64).map_err(refused)?;
        let passes = Passes::run(&device, (runtime, interval_s), stop, || ready.launch(work.items, turns))?;
        verdicts.push(ready.proved(PROVED, turns).map_err(refused)?);
        let each = work.items as u64 * u64::from(turns) * (STEPS * shape.chains * shape.width) as u64;
        let total = each * passes.count;
        let best = 2.0 * each as f64 * 1e9 / passes.best_ns.max(1) as f64;
        let mut reading =
            passes.reading(&device, Stream { flops: 2 * total, ..Stream::new("multiply_add", total) }, each);
        reading.detail("flops_s_best_launch", best);
        reading.detail("width", shape.width);
        reading.detail("chains", shape.chains);
        reading.detail("work_items", work.items);
        reading.detail("engine", "vector");
        reading.verified(verdicts.into_iter());
        Ok(reading)
    }
}

/// The device with its numbers: of each seed a multiplier, an addend and a start for every lane.
struct Work<'a> {
    name: String,
    precision: Precision,
    native: usize,
    items: usize,
    group: usize,
    session: &'a Session,
    queue: &'a Queue<'a>,
    numbers: Vec<u8>,
    given: Buffer<'a>,
    out: Buffer<'a>,
}

/// A compiled loop.
struct Ready<'a> {
    work: &'a Work<'a>,
    shape: Shape,
    kernel: device::Kernel<'a>,
}

impl<'a> Work<'a> {
    fn new(device: &Device, session: &'a Session, queue: &'a Queue<'a>, precision: Precision) -> Result<Self, String> {
        let is_cpu = device.kind() == "cpu";
        let units = device.number(Fact::ComputeUnits).max(1) as usize;
        // A processor's driver runs a group in one thread; a GPU's unit holds 2048 items, and some waves hide the ends.
        let group = if is_cpu { 8 } else { 256.min(device.number(Fact::GroupItems).max(1) as usize) };
        let items = if is_cpu { units * 16 * group } else { units * 8192_usize.next_multiple_of(group) };
        let bytes = precision.bytes();
        let mut rng = Rng::new(1);
        let mut numbers = Vec::new();
        for _ in 0..SEEDS {
            // The multiplier is below 1 in size, so that nothing grows; all three are random in every lane.
            let ranges =
                if precision.is_whole() { [(-99.0, 99.0); 3] } else { [(-0.99, -0.9), (0.5, 1.5), (-1.0, 1.0)] };
            for range in ranges {
                numbers.extend(precision.random(&mut rng, 16, range));
            }
        }
        let given = session.buffer(numbers.len())?;
        queue.write(&given, &numbers)?;
        let out = session.buffer(items.max(SEEDS) * 16 * bytes)?;
        let name = device.text(Fact::Name).unwrap_or_default();
        // A vector of 64 B has 16 lanes of 4.
        let native = (device.number(Fact::FloatLanes).max(1) as usize * 4 / bytes).clamp(1, 16);
        Ok(Self { name, precision, native, items, group, session, queue, numbers, given, out })
    }

    fn ready(&'a self, shape: Shape) -> Result<Ready<'a>, String> {
        let kernel = self.session.kernel(&source(self.precision, shape), "peak")?;
        Ok(Ready { work: self, shape, kernel })
    }

    /// The fastest shape of those that the parameters leave open.
    fn fastest(&'a self, width: usize, chains: usize) -> Result<Shape, String> {
        if width != 0 && chains != 0 {
            return Ok(Shape { width, chains });
        }
        let key = (self.name.clone(), self.precision);
        let is_open = width == 0 && chains == 0;
        let known = FASTEST.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if let Some((width, chains)) = known.filter(|_| is_open) {
            return Ok(Shape { width, chains });
        }
        let near = [1, self.native / 2, self.native, self.native * 2];
        let widths: Vec<_> =
            if width == 0 { WIDTHS.into_iter().filter(|width| near.contains(width)).collect() } else { vec![width] };
        let counts = if chains == 0 { vec![4, 8, 12] } else { vec![chains] };
        let mut best = (Shape { width: widths[0], chains: counts[0] }, 0.0);
        for shape in widths.iter().flat_map(|&width| counts.iter().map(move |&chains| Shape { width, chains })) {
            let ready = self.ready(shape)?;
            let turns = ready.turns(LAUNCH_NS / 5)?;
            let mut rate = 0.0_f64;
            for _ in 0..3 {
                let ns = ready.launch(self.items, turns)?.unwrap_or(u64::MAX).max(1);
                rate = rate.max(f64::from(turns) * (shape.width * shape.chains) as f64 / ns as f64);
            }
            if rate > best.1 {
                best = (shape, rate);
            }
        }
        if is_open {
            let fastest = (best.0.width, best.0.chains);
            FASTEST.lock().unwrap_or_else(PoisonError::into_inner).insert(key, fastest);
        }
        Ok(best.0)
    }
}

impl Ready<'_> {
    /// Runs the loop once; its time on the device.
    fn launch(&self, items: usize, turns: u32) -> Result<Option<u64>, String> {
        let work = self.work;
        self.kernel.set(&[Argument::Buffer(&work.given), Argument::Buffer(&work.out), Argument::Number(turns)])?;
        waited(&work.queue.launch(&self.kernel, items, work.group)?)
    }

    /// Turns that take about `LAUNCH_NS`, or `max_ns` where that is less.
    fn turns(&self, max_ns: u64) -> Result<u32, String> {
        let wanted = LAUNCH_NS.min(max_ns.max(100_000));
        let mut turns = 1_u32;
        loop {
            let begun = crate::timing::clock::now_ns();
            let ns =
                self.launch(self.work.items, turns)?.unwrap_or_else(|| crate::timing::clock::now_ns() - begun).max(1);
            if ns * 4 > wanted || turns >= 1 << 20 {
                return Ok((f64::from(turns) * wanted as f64 / ns as f64).clamp(1.0, f64::from(1 << 22)) as u32);
            }
            turns *= 4;
        }
    }

    /// Runs the loop, and computes the first `items` of it again on the host.
    fn proved(&self, items: usize, turns: u32) -> Result<Verdict, String> {
        let (work, Shape { width, chains }) = (self.work, self.shape);
        let precision = work.precision;
        self.launch(SEEDS, turns)?;
        let mut found = vec![0; items * width * precision.bytes()];
        work.queue.read(&work.out, &mut found)?;
        let number = |item: usize, part: usize, lane: usize| {
            precision.read(&work.numbers, (item % SEEDS * 3 + part) * 16 + lane)
        };
        let mut verdict = Verdict::default();
        for item in 0..items {
            for lane in 0..width {
                let (a, b) = (number(item, 0, lane), number(item, 1, lane));
                let mut sum = 0.0;
                for chain in 0..chains {
                    let begin = number(item + chain * 17, 2, lane);
                    let steps = turns as usize * STEPS;
                    let x = (0..steps).fold(begin, |x, _| precision.multiply_add(a, x, b));
                    sum = if precision.is_whole() { precision.multiply_add(1.0, x, sum) } else { sum + x };
                }
                // Each step rounds once, and a rounding dies out by the multiplier: at most 1 / (1 - 0.99) of them
                // remain, of numbers up to 1.5 in size; the sum of the chains rounds once a chain more.
                let rest = precision.unit() * 1.5 * (1.0 / (1.0 - a.abs())) * chains as f64;
                let allowed = if precision.is_whole() { 0.0 } else { 2.0 * rest + precision.unit() * sum.abs() * 16.0 };
                verdict.checked += 1;
                verdict.wrong += u64::from((precision.read(&found, item * width + lane) - sum).abs() > allowed);
            }
        }
        Ok(verdict)
    }
}

/// The loop in `OpenCL` C.
fn source(precision: Precision, Shape { width, chains }: Shape) -> String {
    let scalar = precision.of_opencl();
    let vector = if width == 1 { scalar.to_string() } else { format!("{scalar}{width}") };
    let load = |place: String| match width {
        1 => format!("given[({place}) * 16]"),
        _ => format!("vload{width}(0, given + ({place}) * 16)"),
    };
    let step = |at: usize| {
        if precision.is_whole() {
            return format!("x{at} = a * x{at} + b;");
        }
        format!("x{at} = fma(a, x{at}, b);")
    };
    let mut text = String::new();
    if !precision.extension().is_empty() {
        let _ = writeln!(text, "#pragma OPENCL EXTENSION {} : enable", precision.extension());
    }
    let _ = writeln!(
        text,
        "__kernel void peak(__global const {scalar} *given, __global {scalar} *out, const uint turns) {{"
    );
    let _ = writeln!(text, "  const uint id = get_global_id(0), seed = id % {SEEDS}u;");
    let _ = writeln!(text, "  const {vector} a = {}, b = {};", load("seed * 3".into()), load("seed * 3 + 1".into()));
    for at in 0..chains {
        let from = load(format!("(seed + {}u) % {SEEDS}u * 3 + 2", at * 17));
        let _ = writeln!(text, "  {vector} x{at} = {from};");
    }
    let _ = writeln!(text, "  for (uint turn = 0; turn < turns; turn++) {{");
    for _ in 0..STEPS {
        let _ = writeln!(text, "    {}", (0..chains).map(step).collect::<Vec<_>>().join(" "));
    }
    let sum = (0..chains).map(|at| format!("x{at}")).collect::<Vec<_>>().join(" + ");
    let store = if width == 1 { "out[id] = sum;".into() } else { format!("vstore{width}(sum, id, out);") };
    let _ = writeln!(text, "  }}\n  const {vector} sum = {sum};\n  {store}\n}}");
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::declare::Words;
    use crate::here::opencl_cpu;
    use crate::sys::cuda::nvrtc::tests::compiles_everywhere;
    use crate::sys::opencl::BUILDS;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("gpu_flops", &parameters, &Stop::new())
    }

    #[test]
    fn every_precision_is_counted_and_proved() {
        let Some(_turn) = opencl_cpu() else { return };
        for (precision, width, chains) in
            [("single", 16, 8), ("single", 1, 3), ("double", 8, 4), ("int32", 16, 4), ("int8", 4, 4)]
        {
            let given = json!({"on": "cpu", "precision": precision, "width": width, "chains": chains,
                "runtime": 0.01});
            let reading = run(given).unwrap();
            let stream = &reading.streams[0];
            assert_eq!(reading.details["verification"], "passed", "{precision} {width} x {chains}");
            assert_eq!(stream.flops, 2 * stream.operations);
            let each = reading.details["work_items"].as_u64().unwrap() * (width * chains * STEPS) as u64;
            assert_eq!(stream.operations % each, 0);
        }
    }

    #[test]
    fn nothing_is_compiled_for_a_run_that_is_to_end() {
        let Some(_turn) = opencl_cpu() else { return };
        let stop = Stop::new();
        let one_shape = json!({"on": "cpu", "width": 1, "chains": 1, "runtime": 0.001});
        crate::run("gpu_flops", &one_shape, &stop).unwrap();
        let built = BUILDS.get();
        assert!(built > 0);
        stop.set();
        for (kernel, given) in [("gpu_flops", json!({"on": "cpu"})), ("gpu_bandwidth", json!({"on": "cpu"}))] {
            let reading = crate::run(kernel, &given, &stop).unwrap();
            assert!(reading.interrupted && reading.streams.is_empty() && reading.kernel == kernel);
        }
        assert_eq!(BUILDS.get(), built);
    }

    #[test]
    fn what_a_device_has_not_is_refused_with_what_it_has() {
        let Some(_turn) = opencl_cpu() else { return };
        for (given, says) in [
            (json!({"on": "cpu", "precision": "half"}), "has no half precision; available: "),
            (json!({"on": "cpu", "width": 3}), "width = 3"),
            (json!({"on": "cpu99"}), "available: "),
            (json!({"on": "tpu"}), "write gpu, gpu1 …, cuda, opencl or cpu"),
        ] {
            let error = run(given.clone());
            // A driver may have half precision, and then nothing is refused.
            if let Err(error) = error {
                assert!(error.to_string().contains(says), "{given}: {error}");
            } else {
                assert_eq!(given["precision"], "half", "{given}");
            }
        }
    }

    #[test]
    fn every_precision_compiles_for_cuda() {
        for (precision, ..) in Precision::ALL {
            let since = if *precision == Precision::Bfloat16 { 80 } else { 75 };
            for width in if precision.bytes() == 2 { [2, 8] } else { [1, 4] } {
                compiles_everywhere(&source(*precision, Shape { width, chains: 4 }), since);
            }
        }
    }
}
