//! How fast a GPU's tensor cores multiply matrices, through cuBLASLt or cuBLAS.

use std::ffi::c_int;

use crate::timing::rng::Rng;

use crate::contract::declare::{choice, integer, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::arithmetic::Precision;
use crate::gpu::{device, fits, refused, waited, Passes, DEVICE};
use crate::sys::cublas::{self, Product, Types};
use crate::sys::device::{Buffer, Device, Queue};
use crate::{parameters, words};

/// The kernel `gpu_matrix`.
pub struct GpuMatrix;

words! {
    /// The numbers that are multiplied.
    pub enum Factors {
        /// 16-bit floating point of the brain's kind; sums of 32 bits.
        Bf16 = "bf16",
        /// IEEE binary16; sums of 32 bits.
        Fp16 = "fp16",
        /// 32-bit floating point, of which the cores multiply 19 bits.
        Tf32 = "tf32",
        /// 64-bit floating point.
        Fp64 = "fp64",
        /// 8-bit floating point (E4M3); sums of 32 bits, and a result of 16.
        Fp8 = "fp8",
        /// Whole numbers of 8 bits; sums of 32 bits.
        Int8 = "int8",
    }
}

words! {
    /// What multiplies them.
    pub enum Library {
        /// cuBLASLt's `cublasLtMatmul`.
        Lt = "cublaslt",
        /// cuBLAS's `cublasGemmEx`.
        Plain = "cublas",
    }
}

parameters! {
    /// What `gpu_matrix` takes.
    pub struct Parameters {
        precision: Factors = choice("numbers that are multiplied"),
        n: u64 = integer("rows and columns of the matrices, a multiple of 16", "", (16, 1 << 16), 8192),
        library: Library = choice("library that multiplies"),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

/// Random numbers of a matrix, which repeat after a prime number of them, so that no two rows are alike.
const NUMBERS: usize = 1_000_003;
/// What cuBLASLt may use beside the matrices.
const ROOM: usize = 32 << 20;
/// Places of a result that are compared.
const COMPARED: u64 = 64;
/// The most in size of the whole numbers that are multiplied to compare: all precisions hold them, and their sums.
const WHOLE: i64 = 2;

impl Kernel for GpuMatrix {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_matrix", "products of square matrices on a GPU's tensor cores", "product");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { precision, n, library, runtime, interval_s, .. } = *parameters;
        if n % 16 != 0 {
            return Err(Error::usage(format!("n = {n}: tensor cores need a multiple of 16")));
        }
        if library == Library::Plain && precision == Factors::Fp8 {
            return Err(Error::usage("cuBLAS has no fp8 products; --library cublaslt has"));
        }
        let device = device(&parameters.on)?;
        let Device::Cuda(gpu) = &device else {
            return Err(Error::usage("matrix products need an NVIDIA GPU by CUDA: cuBLAS computes them"));
        };
        let (capability, least) = (gpu.capability(), precision.min_capability());
        if !precision.is_supported(capability) {
            return Err(Error::usage(format!(
                "tensor cores of compute capability {}.{} have no {} products (since {}.{})",
                capability / 10,
                capability % 10,
                precision.word(),
                least / 10,
                least % 10
            )));
        }
        fits(&device, 0, n * n * precision.result().bytes() as u64)?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let types = precision.types();
        let count = n * n;
        let room = |bytes: usize| session.buffer(bytes).map_err(refused);
        let factors = [room(count as usize * precision.bytes())?, room(count as usize * precision.bytes())?];
        let result = room(count as usize * precision.result().bytes())?;
        let work = Work { precision, n, queue: &queue, factors, result, room: room(ROOM)? };
        // The context of the buffers is this thread's from here on.
        work.result.address().map_err(refused)?;
        let product = match library {
            Library::Lt => Product::by_lt(types, n),
            Library::Plain => Product::by_plain(types, n),
        }
        .map_err(refused)?;
        let verdict = work.proved(&product).map_err(refused)?;
        let mut rng = Rng::new(3);
        for factor in &work.factors {
            let numbers = (0..NUMBERS).flat_map(|_| precision.random(&mut rng)).collect::<Vec<_>>();
            work.fill(factor, &numbers).map_err(refused)?;
        }
        let passes = Passes::run(&device, (runtime, interval_s), stop, || work.multiply(&product))?;
        let flops = 2 * n * count;
        let best = flops as f64 * 1e9 / passes.best_ns.max(1) as f64;
        let stream = Stream { flops: flops * passes.count, ..Stream::new("product", passes.count) };
        let mut reading = passes.reading(&device, stream, 1);
        reading.detail("flops_s_best_launch", best);
        reading.detail("engine", "tensor");
        reading.detail("library", product.version());
        reading.verified(std::iter::once(verdict));
        Ok(reading)
    }
}

impl Factors {
    /// The compute capability from which on tensor cores multiply them, such as 80.
    fn min_capability(self) -> u64 {
        match self {
            Self::Fp16 => 70,
            Self::Int8 => 75,
            Self::Bf16 | Self::Tf32 | Self::Fp64 => 80,
            Self::Fp8 => 89,
        }
    }

    fn is_supported(self, capability: u64) -> bool {
        // Of double, only the data centers' GPUs have more than vector units.
        capability >= self.min_capability() && (self != Self::Fp64 || matches!(capability, 80 | 90))
    }

    fn types(self) -> Types {
        use cublas::{
            BFLOAT16, DOUBLE, FP8, HALF, INT32, INT8, SINGLE, SUMS_DOUBLE, SUMS_INT32, SUMS_SINGLE, SUMS_TF32,
        };
        let (factors, result, sums, scale): (c_int, c_int, c_int, c_int) = match self {
            Self::Bf16 => (BFLOAT16, BFLOAT16, SUMS_SINGLE, SINGLE),
            Self::Fp16 => (HALF, HALF, SUMS_SINGLE, SINGLE),
            Self::Tf32 => (SINGLE, SINGLE, SUMS_TF32, SINGLE),
            Self::Fp64 => (DOUBLE, DOUBLE, SUMS_DOUBLE, DOUBLE),
            Self::Fp8 => (FP8, BFLOAT16, SUMS_SINGLE, SINGLE),
            Self::Int8 => (INT8, INT32, SUMS_INT32, INT32),
        };
        Types { factors, result, sums, scale }
    }

    fn result(self) -> Precision {
        match self {
            Self::Bf16 | Self::Fp8 => Precision::Bfloat16,
            Self::Fp16 => Precision::Half,
            Self::Tf32 => Precision::Single,
            Self::Fp64 => Precision::Double,
            Self::Int8 => Precision::Int32,
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Fp8 | Self::Int8 => 1,
            _ => self.result().bytes(),
        }
    }

    /// A small whole number in its bytes.
    fn whole(self, value: i64) -> Vec<u8> {
        let mut bytes = vec![];
        match self {
            Self::Int8 => Precision::Int8.write(value as f64, &mut bytes),
            // Four bits of exponent, from 7 less on, and three of fraction: 1 is 0x38, and 2 is 0x40.
            Self::Fp8 => {
                let size = [0, 0x38, 0x40][value.unsigned_abs().min(2) as usize];
                bytes.push(size | if value < 0 { 0x80 } else { 0 });
            }
            _ => self.result().write(value as f64, &mut bytes),
        }
        bytes
    }

    /// A random number below 1 in size, or any of 8 bits, in its bytes.
    fn random(self, rng: &mut Rng) -> Vec<u8> {
        match self {
            Self::Int8 => vec![rng.bits() as u8],
            // Any sign and fraction, and exponents from 1/64 to 1/2.
            Self::Fp8 => vec![(rng.bits() & 0x80) as u8 | (0x08 + rng.below(0x30) as u8)],
            _ => self.result().random(rng, 1, (-1.0, 1.0)),
        }
    }
}

struct Work<'a> {
    precision: Factors,
    n: u64,
    queue: &'a Queue<'a>,
    factors: [Buffer<'a>; 2],
    result: Buffer<'a>,
    room: Buffer<'a>,
}

impl Work<'_> {
    /// Fills a matrix with the same numbers again and again.
    fn fill(&self, factor: &Buffer<'_>, numbers: &[u8]) -> Result<(), String> {
        let bytes = (self.n * self.n) as usize * self.precision.bytes();
        let all: Vec<u8> = numbers.iter().copied().cycle().take(bytes).collect();
        self.queue.write(factor, &all).map(|_| ())
    }

    fn multiply(&self, product: &Product) -> Result<Option<u64>, String> {
        let [first, second] = &self.factors;
        waited(&self.queue.multiply(product, [first, second], &self.result, &self.room)?)
    }

    /// Multiplies whole numbers, whose sums are exact in every precision, and compares places of the result.
    fn proved(&self, product: &Product) -> Result<Verdict, String> {
        let mut rng = Rng::new(7);
        let mut draw = || (0..NUMBERS).map(|_| rng.below(2 * WHOLE as u64 + 1) as i64 - WHOLE).collect::<Vec<_>>();
        let values = [draw(), draw()];
        for (factor, values) in self.factors.iter().zip(&values) {
            let numbers: Vec<u8> = values.iter().flat_map(|&value| self.precision.whole(value)).collect();
            self.fill(factor, &numbers)?;
        }
        self.multiply(product)?;
        let (n, of) = (self.n, self.precision.result());
        let mut result = vec![0; (n * n) as usize * of.bytes()];
        self.queue.read(&self.result, &mut result)?;
        let mut verdict = Verdict::default();
        for place in 0..COMPARED {
            let (row, column) = match place {
                0 => (0, 0),
                1 => (n - 1, n - 1),
                _ => (rng.below(n), rng.below(n)),
            };
            let at = |values: &[i64], line: u64, step: u64| values[(line * n + step) as usize % NUMBERS] as f64;
            let sum: f64 = (0..n).map(|step| at(&values[0], row, step) * at(&values[1], column, step)).sum();
            let mut expected = vec![];
            of.write(sum, &mut expected);
            let found = of.read(&result, (column * n + row) as usize);
            verdict.checked += 1;
            verdict.wrong += u64::from((found - of.read(&expected, 0)).abs() > 0.0 || found.is_nan());
        }
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_eight_bits_are_what_they_mean() {
        // E4M3: the sign, an exponent from 7 less on, and three bits of fraction.
        let of = |byte: u8| {
            let (exponent, fraction) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
            let size = if exponent == 0 { fraction / 512.0 } else { (1.0 + fraction / 8.0) * 2_f64.powi(exponent - 7) };
            if byte & 0x80 == 0 {
                size
            } else {
                -size
            }
        };
        for value in -WHOLE..=WHOLE {
            assert!((of(Factors::Fp8.whole(value)[0]) - value as f64).abs() < 1e-12, "{value}");
        }
        let mut rng = Rng::new(1);
        let many: Vec<f64> = (0..1000).map(|_| of(Factors::Fp8.random(&mut rng)[0])).collect();
        assert!(many.iter().all(|one| (1.0 / 64.0..1.0).contains(&one.abs())));
        assert!(many.iter().any(|one| *one < 0.0) && many.iter().any(|one| *one > 0.0));
    }

    #[test]
    fn tensor_cores_multiply_what_their_capability_has() {
        let has = |capability| {
            let all = [Factors::Fp16, Factors::Int8, Factors::Bf16, Factors::Tf32, Factors::Fp64, Factors::Fp8];
            all.map(|one| one.is_supported(capability))
        };
        assert_eq!(has(61), [false; 6]);
        assert_eq!(has(70), [true, false, false, false, false, false]);
        assert_eq!(has(75), [true, true, false, false, false, false]);
        assert_eq!(has(80), [true, true, true, true, true, false]);
        assert_eq!(has(89), [true, true, true, true, false, true]);
        assert_eq!(has(90), [true; 6]);
    }
}
