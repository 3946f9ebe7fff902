//! How many bytes a second a GPU's memory and caches carry: the loops of STREAM and `BabelStream` by array size.
//!
//! A small array is gone over many times in one launch, each time at another place, so that the launch does not count
//! and no pass can be left out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use crate::timing::rng::Rng;

use crate::contract::declare::{choice, integer, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::{PerElement, Role};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::arithmetic::Precision;
use crate::gpu::{device, fits, refused, waited, Passes, DEVICE, LAUNCH_NS};
use crate::loops::memory::primitive::Primitive;
use crate::sys::device::{self, Argument, Buffer, Device, Queue, Session};
use crate::sys::opencl::Fact;
use crate::{parameters, words};

/// The kernel `gpu_bandwidth`.
pub struct GpuBandwidth;

/// What triad and mul multiply by, which every precision has exactly.
const SCALAR: f64 = 0.75;
/// Elements of an array that differ from each other; the rest repeats them.
const PATTERN: usize = 4096;

words! {
    /// The loop over the arrays a, b and c.
    pub enum Operation {
        /// c = a
        Copy = "copy",
        /// c = s x a
        Mul = "mul",
        /// c = a + b
        Add = "add",
        /// c = a + s x b
        Triad = "triad",
        /// sum of a x b
        Dot = "dot",
    }
}

/// A loop that leaves a number for each work item, which no loop of the processor does.
const DOT: PerElement = PerElement { reads: 2, writes: 0, allocates: 0, flops: 2 };

impl Operation {
    /// What is done to each element in `OpenCL` C, and the processor's loop that does the same; none of a dot product.
    fn definition(self) -> (&'static str, Option<Primitive>) {
        match self {
            Self::Copy => ("c[at] = a[at];", Some(Primitive::Copy)),
            Self::Mul => ("c[at] = s * a[at];", Some(Primitive::Scale)),
            Self::Add => ("c[at] = a[at] + b[at];", Some(Primitive::Add)),
            Self::Triad => ("c[at] = a[at] + s * b[at];", Some(Primitive::Triad)),
            Self::Dot => ("sum += a[at] * b[at];", None),
        }
    }

    /// No vendor documents a GPU's cache that reads a line before it is written whole.
    fn per_element(self) -> PerElement {
        self.definition().1.map_or(DOT, |same| PerElement { allocates: 0, ..same.per_element() })
    }

    /// Arrays that one pass goes through, those that it writes among them.
    fn arrays(self) -> u64 {
        self.per_element().arrays()
    }
}

parameters! {
    /// What `gpu_bandwidth` takes.
    pub struct Parameters {
        operation: Operation = choice("loop: copy, mul, add, triad or dot; counts each array once, as BabelStream does")
            .per_element(|operation| Some(Operation::per_element(operation))),
        precision: Precision = choice("data type of the elements").only(&[Precision::Single, Precision::Double]),
        array: u64 = integer("size of each array", "B", (4096, 1 << 40), 64 << 20).role(Role::Size),
        width: usize = integer("lanes of a vector: 1, 2, 4, 8 or 16; 0 selects the fastest in a short test", "", (0, 16), 0),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

/// Widths that were fastest, by device, operation and whether the arrays are large.
static FASTEST: Mutex<BTreeMap<(String, Operation, Precision, bool), usize>> = Mutex::new(BTreeMap::new());

impl Kernel for GpuBandwidth {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_bandwidth", "bandwidth of a GPU's memory and caches by array size", "pass");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { operation, precision, array, width, runtime, interval_s, .. } = *parameters;
        let device = device(&parameters.on)?;
        if !device.precisions().contains(&precision.word()) {
            return Err(Error::usage(format!("the device has no {} precision; use single", precision.word())));
        }
        if width != 0 && !width.is_power_of_two() {
            return Err(Error::usage(format!("width = {width}: write 1, 2, 4, 8, 16, or 0 for the fastest")));
        }
        let most = device.number(Fact::AllocationBytes);
        if array > most || array.saturating_mul(3) > device.number(Fact::GlobalBytes) / 10 * 9 {
            return Err(Error::usage(format!(
                "array = {array}: three of them do not fit; the device has {} B, of which one array may take {most}",
                device.number(Fact::GlobalBytes)
            )));
        }
        fits(&device, 3 * array, array)?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let arrays = Arrays::new(&device, &session, &queue, parameters).map_err(refused)?;
        let ready = arrays.fastest(width).map_err(refused)?;
        let rounds = ready.rounds(LAUNCH_NS.min((runtime * 1e9 / 5.0) as u64)).map_err(refused)?;
        let passes = Passes::run(&device, (runtime, interval_s), stop, || ready.launch(rounds))?;
        let verdict = ready.proved().map_err(refused)?;
        let each = operation.arrays() * arrays.bytes();
        let total = passes.count * u64::from(rounds);
        let best = (each * u64::from(rounds)) as f64 * 1e9 / passes.best_ns.max(1) as f64;
        let stream = Stream { bytes: each * total, ..Stream::new(operation.word(), total) };
        let mut reading = passes.reading(&device, stream, u64::from(rounds));
        reading.detail("bytes_s_best_launch", best);
        reading.detail("width", ready.width);
        reading.detail("rounds_per_launch", rounds);
        reading.detail("working_set_bytes", operation.arrays() * arrays.bytes());
        reading.verified(std::iter::once(verdict));
        Ok(reading)
    }
}

/// Three arrays on the device.
struct Arrays<'a> {
    name: String,
    operation: Operation,
    precision: Precision,
    elements: usize,
    group: usize,
    /// Work items at most; each goes over several elements where there are more.
    max_items: usize,
    session: &'a Session,
    queue: &'a Queue<'a>,
    patterns: [Vec<u8>; 2],
    a: Buffer<'a>,
    b: Buffer<'a>,
    c: Buffer<'a>,
}

/// A compiled loop.
struct Ready<'a> {
    arrays: &'a Arrays<'a>,
    width: usize,
    items: usize,
    kernel: device::Kernel<'a>,
}

impl<'a> Arrays<'a> {
    fn new(
        device: &Device,
        session: &'a Session,
        queue: &'a Queue<'a>,
        parameters: &Parameters,
    ) -> Result<Self, String> {
        let precision = parameters.precision;
        // Whole vectors of 16 for every group.
        let elements = (parameters.array as usize / precision.bytes()) / 256 * 256;
        let is_cpu = device.kind() == "cpu";
        let units = device.number(Fact::ComputeUnits).max(1) as usize;
        let mut rng = Rng::new(2);
        let patterns = [(), ()].map(|()| precision.random(&mut rng, PATTERN, (0.5, 1.5)));
        let bytes = elements * precision.bytes();
        let filled = |pattern: &[u8]| -> Result<Buffer<'a>, String> {
            let buffer = session.buffer(bytes)?;
            let content: Vec<u8> = pattern.iter().copied().cycle().take(bytes).collect();
            queue.write(&buffer, &content)?;
            Ok(buffer)
        };
        Ok(Self {
            name: device.text(Fact::Name).unwrap_or_default(),
            operation: parameters.operation,
            precision,
            elements,
            group: if is_cpu { 16 } else { 256.min(device.number(Fact::GroupItems).max(1) as usize) },
            max_items: if is_cpu { units * 4096 } else { units * 2048 * 4 },
            session,
            queue,
            a: filled(&patterns[0])?,
            b: filled(&patterns[1])?,
            c: filled(&vec![0; PATTERN])?,
            patterns,
        })
    }

    fn bytes(&self) -> u64 {
        (self.elements * self.precision.bytes()) as u64
    }

    fn ready(&'a self, width: usize) -> Result<Ready<'a>, String> {
        let kernel = self.session.kernel(&source(self.operation, self.precision, width), "pass")?;
        let vectors = self.elements / width;
        let items = vectors.min(self.max_items);
        let items = if items > self.group { items / self.group * self.group } else { items };
        kernel.set(&[
            Argument::Buffer(&self.a),
            Argument::Buffer(&self.b),
            Argument::Buffer(&self.c),
            Argument::Number(vectors as u32),
        ])?;
        Ok(Ready { arrays: self, width, items, kernel })
    }

    /// The loop of the fastest width, or of the one that is requested.
    fn fastest(&'a self, width: usize) -> Result<Ready<'a>, String> {
        let key = (self.name.clone(), self.operation, self.precision, self.bytes() > 8 << 20);
        let known = FASTEST.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
        if width != 0 || known.is_some() {
            return self.ready(if width == 0 { known.unwrap_or(1) } else { width });
        }
        let mut best: Option<(Ready<'a>, f64)> = None;
        for width in [1, 2, 4, 8, 16] {
            let ready = self.ready(width)?;
            let rounds = ready.rounds(LAUNCH_NS / 5)?;
            let mut rate = 0.0_f64;
            for _ in 0..3 {
                let ns = ready.launch(rounds)?.unwrap_or(u64::MAX).max(1);
                rate = rate.max(f64::from(rounds) / ns as f64);
            }
            if best.as_ref().is_none_or(|best| rate > best.1) {
                best = Some((ready, rate));
            }
        }
        let (ready, _) = best.ok_or("no width was tried")?;
        FASTEST.lock().unwrap_or_else(PoisonError::into_inner).insert(key, ready.width);
        Ok(ready)
    }
}

impl Ready<'_> {
    /// Goes over the arrays so often in one launch; its time on the device.
    fn launch(&self, rounds: u32) -> Result<Option<u64>, String> {
        self.kernel.set_at(4, &Argument::Number(rounds))?;
        let group = if self.items % self.arrays.group == 0 { self.arrays.group } else { 0 };
        waited(&self.arrays.queue.launch(&self.kernel, self.items, group)?)
    }

    /// Rounds that take about `wanted` ns.
    fn rounds(&self, wanted: u64) -> Result<u32, String> {
        let mut rounds = 1_u32;
        loop {
            let begun = crate::timing::clock::now_ns();
            let ns = self.launch(rounds)?.unwrap_or_else(|| crate::timing::clock::now_ns() - begun).max(1);
            if ns * 4 > wanted || rounds >= 1 << 20 {
                return Ok((f64::from(rounds) * wanted as f64 / ns as f64).clamp(1.0, f64::from(1 << 22)) as u32);
            }
            rounds *= 4;
        }
    }

    /// Compares what the loop leaves with the host's arithmetic in double.
    fn proved(&self) -> Result<Verdict, String> {
        let Arrays { precision, elements, operation, ref patterns, .. } = *self.arrays;
        let number = |which: usize, at: usize| precision.read(&patterns[which], at % PATTERN);
        let mut verdict = Verdict::default();
        self.launch(1)?;
        let Some(same) = operation.definition().1 else {
            // One sum for each lane of each work item.
            let mut sums = vec![0; self.items * self.width * precision.bytes()];
            self.arrays.queue.read(&self.arrays.c, &mut sums)?;
            let vectors = elements / self.width;
            for place in 0..self.items * self.width {
                let (item, lane) = (place / self.width, place % self.width);
                let mine = (item..vectors).step_by(self.items).map(|vector| vector * self.width + lane);
                let (mut wanted, mut steps) = (0.0, 0.0);
                for at in mine {
                    wanted += number(0, at) * number(1, at);
                    steps += 1.0;
                }
                let allowed = 2.0 * wanted * precision.unit() * (steps + 2.0);
                verdict.checked += 1;
                verdict.wrong += u64::from((precision.read(&sums, place) - wanted).abs() > allowed);
            }
            return Ok(verdict);
        };
        let mut bytes = vec![0; elements * precision.bytes()];
        self.arrays.queue.read(&self.arrays.c, &mut bytes)?;
        for at in 0..elements {
            let wanted = same.written([number(0, at), number(1, at), 0.0], SCALAR);
            verdict.checked += 1;
            let allowed = if operation == Operation::Copy { 0.0 } else { 2.0 * precision.unit() * wanted.abs() };
            verdict.wrong += u64::from((precision.read(&bytes, at) - wanted).abs() > allowed);
        }
        Ok(verdict)
    }
}

/// The loop in `OpenCL` C. A round begins as many groups further on as the last, so that no round is like another.
fn source(operation: Operation, precision: Precision, width: usize) -> String {
    let scalar = precision.of_opencl();
    let vector = if width == 1 { scalar.to_string() } else { format!("{scalar}{width}") };
    let mut text = String::new();
    if !precision.extension().is_empty() {
        let _ = writeln!(text, "#pragma OPENCL EXTENSION {} : enable", precision.extension());
    }
    let (body, same) = operation.definition();
    let (begin, end) = match same {
        None => (format!("{vector} sum = 0;"), "c[id] = sum;"),
        Some(_) => (String::new(), ""),
    };
    let _ = write!(
        text,
        "__kernel void pass(__global const {vector} *restrict a, __global const {vector} *restrict b,
    __global {vector} *restrict c, const uint vectors, const uint rounds) {{
  const {scalar} s = ({scalar}){SCALAR};
  const uint id = get_global_id(0), items = get_global_size(0), shift = (get_local_size(0) * 17) % vectors;
  uint from = 0;
  for (uint round = 0; round < rounds; round++) {{
    {begin}
    for (uint i = id; i < vectors; i += items) {{
      uint at = i + from;
      at = at >= vectors ? at - vectors : at;
      {body}
    }}
    {end}
    from += shift;
    from = from >= vectors ? from - vectors : from;
  }}
}}
"
    );
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::declare::Words;
    use crate::here::opencl_cpu;
    use crate::sys::cuda::nvrtc::tests::compiles_everywhere;

    fn run(parameters: serde_json::Value) -> Result<Reading, Error> {
        crate::run("gpu_bandwidth", &parameters, &Stop::new())
    }

    #[test]
    fn every_loop_counts_its_arrays_and_is_proved() {
        let Some(_turn) = opencl_cpu() else { return };
        for (operation, word, _) in Operation::ALL {
            for (precision, array, width) in [("single", 4096, 1), ("double", 100_000, 8), ("single", 3 << 20, 16)] {
                let given = json!({"on": "cpu", "operation": word, "precision": precision, "array": array,
                    "width": width, "runtime": 0.005});
                let reading = run(given).unwrap();
                assert_eq!(reading.details["verification"], "passed", "{word} {precision} {array} {width}");
                let stream = &reading.streams[0];
                let each = reading.details["working_set_bytes"].as_u64().unwrap();
                assert_eq!(stream.bytes, stream.operations * each);
                assert!(each <= operation.arrays() * array && each > operation.arrays() * (array - 2048));
            }
        }
    }

    #[test]
    fn arrays_that_do_not_fit_are_refused() {
        let Some(_turn) = opencl_cpu() else { return };
        let says = run(json!({"on": "cpu", "array": 1_u64 << 39})).unwrap_err().to_string();
        assert!(says.contains("three of them do not fit"), "{says}");
    }

    #[test]
    fn every_loop_compiles_for_cuda() {
        for (operation, ..) in Operation::ALL {
            compiles_everywhere(&source(*operation, Precision::Single, 4), 75);
        }
        compiles_everywhere(&source(Operation::Dot, Precision::Double, 1), 75);
    }
}
