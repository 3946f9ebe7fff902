//! Matrix products by NVIDIA's cuBLASLt or cuBLAS, found while the engine runs. Names and numbers are those of `cublasLt.h`,
//! `cublas_api.h` and `library_types.h`.

use std::ffi::{c_int, c_void};
use std::ptr::{from_ref, null, null_mut};
use std::sync::OnceLock;

use super::driver::{DeviceAddress, Handle};
use super::library::{candidates, functions, Library};

/// What cuBLASLt is called, the newest first.
pub const NAMES: [&str; 4] = ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"];
/// And cuBLAS.
pub const PLAIN_NAMES: [&str; 4] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "libcublas.so"];
const LT: &str = "cuBLASLt";
const PLAIN: &str = "cuBLAS";
const TRANSPOSE_FIRST: c_int = 3;
const TRANSPOSED: c_int = 1;
const AS_IT_IS: c_int = 0;
/// `CUBLAS_GEMM_DEFAULT`.
const ITS_CHOICE: c_int = -1;

functions! {
    struct CublasLt {
        fn cublasLtGetVersion() -> usize;
        fn cublasLtCreate(*mut Handle) -> c_int;
        fn cublasLtDestroy(Handle) -> c_int;
        fn cublasLtMatmulDescCreate(*mut Handle, c_int, c_int) -> c_int;
        fn cublasLtMatmulDescDestroy(Handle) -> c_int;
        fn cublasLtMatmulDescSetAttribute(Handle, c_int, *const c_void, usize) -> c_int;
        fn cublasLtMatrixLayoutCreate(*mut Handle, c_int, u64, u64, i64) -> c_int;
        fn cublasLtMatrixLayoutDestroy(Handle) -> c_int;
        fn cublasLtMatmul(Handle, Handle, *const c_void, *const c_void, Handle, *const c_void, Handle, *const c_void,
            *const c_void, Handle, *mut c_void, Handle, *const c_void, *mut c_void, usize, Handle) -> c_int;
    }
}

functions! {
    struct Cublas {
        fn cublasCreate_v2(*mut Handle) -> c_int;
        fn cublasDestroy_v2(Handle) -> c_int;
        fn cublasGetVersion_v2(Handle, *mut c_int) -> c_int;
        fn cublasSetStream_v2(Handle, Handle) -> c_int;
        fn cublasGemmEx(Handle, c_int, c_int, c_int, c_int, c_int, *const c_void, *const c_void, c_int, c_int,
            *const c_void, c_int, c_int, *const c_void, *mut c_void, c_int, c_int, c_int, c_int) -> c_int;
    }
}

static FOUND_LT: OnceLock<Result<CublasLt, String>> = OnceLock::new();
static FOUND_PLAIN: OnceLock<Result<Cublas, String>> = OnceLock::new();

fn lt() -> Result<&'static CublasLt, String> {
    let found = FOUND_LT.get_or_init(|| CublasLt::of(opened(LT, &NAMES)?).map_err(|why| format!("{LT}: {why}")));
    found.as_ref().map_err(Clone::clone)
}

fn plain() -> Result<&'static Cublas, String> {
    let found =
        FOUND_PLAIN.get_or_init(|| Cublas::of(opened(PLAIN, &PLAIN_NAMES)?).map_err(|why| format!("{PLAIN}: {why}")));
    found.as_ref().map_err(Clone::clone)
}

fn opened(what: &str, names: &[&str]) -> Result<Library, String> {
    let paths = candidates(names);
    paths
        .iter()
        .find_map(|path| Library::open(&path.to_string_lossy()).ok())
        .ok_or_else(|| format!("{what} is not installed (looked for {}); pip install nvidia-cublas", names.join(", ")))
}

/// Types of a product: of its factors and its result by `cudaDataType_t`, of its sums by `cublasComputeType_t`, and of its
/// scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    /// The type of the factors.
    pub factors: c_int,
    /// The type of the result.
    pub result: c_int,
    /// The type of the sums.
    pub sums: c_int,
    /// The type of the scale.
    pub scale: c_int,
}

/// `R_32F`.
pub const SINGLE: c_int = 0;
/// `R_64F`.
pub const DOUBLE: c_int = 1;
/// `R_16F`.
pub const HALF: c_int = 2;
/// `R_8I`.
pub const INT8: c_int = 3;
/// `R_32I`.
pub const INT32: c_int = 10;
/// `R_16BF`.
pub const BFLOAT16: c_int = 14;
/// `R_8F_E4M3`.
pub const FP8: c_int = 28;
/// `COMPUTE_32F`.
pub const SUMS_SINGLE: c_int = 68;
/// `COMPUTE_64F`.
pub const SUMS_DOUBLE: c_int = 70;
/// `COMPUTE_32I`.
pub const SUMS_INT32: c_int = 72;
/// `COMPUTE_32F_FAST_TF32`.
pub const SUMS_TF32: c_int = 77;

/// Square matrices to multiply, by columns: the first one's transpose times the second.
pub struct Product {
    by: By,
    one: [u8; 8],
}

enum By {
    Lt(ByLt),
    Plain(ByPlain),
}

struct ByLt {
    functions: &'static CublasLt,
    library: Handle,
    what: Handle,
    factor: Handle,
    result: Handle,
}

struct ByPlain {
    functions: &'static Cublas,
    library: Handle,
    types: Types,
    rows: c_int,
}

impl Product {
    /// Prepares products of matrices of `n` rows by cuBLASLt; the device's context is this thread's.
    ///
    /// # Errors
    /// That there is no cuBLASLt, or what it refused.
    pub fn by_lt(types: Types, n: u64) -> Result<Self, String> {
        let functions = lt()?;
        let none = null_mut();
        let mut made = ByLt { functions, library: none, what: none, factor: none, result: none };
        let rows = n as i64;
        // SAFETY: one handle each; what was made is released where a later one is refused, and one number is copied.
        unsafe {
            checked(LT, (functions.cublasLtCreate)(&raw mut made.library))?;
            checked(LT, (functions.cublasLtMatmulDescCreate)(&raw mut made.what, types.sums, types.scale))?;
            let (set, how) = (functions.cublasLtMatmulDescSetAttribute, from_ref(&TRANSPOSED));
            checked(LT, set(made.what, TRANSPOSE_FIRST, how.cast(), size_of::<c_int>()))?;
            checked(LT, (functions.cublasLtMatrixLayoutCreate)(&raw mut made.factor, types.factors, n, n, rows))?;
            checked(LT, (functions.cublasLtMatrixLayoutCreate)(&raw mut made.result, types.result, n, n, rows))?;
        }
        Ok(Self { by: By::Lt(made), one: encode_one(types.scale) })
    }

    /// The same by cuBLAS (`cublasGemmEx`), which chooses how and keeps its own working memory.
    ///
    /// # Errors
    /// That there is no cuBLAS, or what it refused.
    pub fn by_plain(types: Types, n: u64) -> Result<Self, String> {
        let functions = plain()?;
        let mut made = ByPlain { functions, library: null_mut(), types, rows: n as c_int };
        // SAFETY: one handle, which is released with what is made here.
        checked(PLAIN, unsafe { (functions.cublasCreate_v2)(&raw mut made.library) })?;
        Ok(Self { by: By::Plain(made), one: encode_one(types.scale) })
    }

    /// Gives a product to a stream of the device; `room` is cuBLASLt's working memory.
    ///
    /// # Errors
    /// What the library refused.
    pub(super) fn begin(
        &self,
        factors: [DeviceAddress<'_>; 2],
        result: DeviceAddress<'_>,
        room: DeviceAddress<'_>,
        stream: Handle,
    ) -> Result<(), String> {
        let zero = [0_u8; 8];
        let at = |one: DeviceAddress<'_>| one.address as *mut c_void;
        let ([first, second], out) = (factors.map(at), at(result));
        let (one, zero) = (from_ref(&self.one).cast(), from_ref(&zero).cast());
        match &self.by {
            // SAFETY: all matrices are on the device for as long as the stream works on them; the scales are copied.
            By::Lt(by) => checked(LT, unsafe {
                (by.functions.cublasLtMatmul)(
                    by.library,
                    by.what,
                    one,
                    first,
                    by.factor,
                    second,
                    by.factor,
                    zero,
                    out,
                    by.result,
                    out,
                    by.result,
                    null(),
                    at(room),
                    room.bytes,
                    stream,
                )
            }),
            // SAFETY: likewise.
            By::Plain(by) => unsafe {
                checked(PLAIN, (by.functions.cublasSetStream_v2)(by.library, stream))?;
                let (types, n) = (by.types, by.rows);
                checked(
                    PLAIN,
                    (by.functions.cublasGemmEx)(
                        by.library,
                        TRANSPOSED,
                        AS_IT_IS,
                        n,
                        n,
                        n,
                        one,
                        first,
                        types.factors,
                        n,
                        second,
                        types.factors,
                        n,
                        zero,
                        out,
                        types.result,
                        n,
                        types.sums,
                        ITS_CHOICE,
                    ),
                )
            },
        }
    }

    /// The library and its version, such as `cuBLASLt 12.8.4`.
    #[must_use]
    pub fn version(&self) -> String {
        let (name, version) = match &self.by {
            // SAFETY: it takes nothing.
            By::Lt(by) => (LT, unsafe { (by.functions.cublasLtGetVersion)() }),
            By::Plain(by) => {
                let mut version = 0;
                // SAFETY: it writes one number.
                unsafe { (by.functions.cublasGetVersion_v2)(by.library, &raw mut version) };
                (PLAIN, usize::try_from(version).unwrap_or(0))
            }
        };
        format!("{name} {}.{}.{}", version / 10_000, version % 10_000 / 100, version % 100)
    }
}

impl Drop for ByLt {
    fn drop(&mut self) {
        // SAFETY: each is released once, and what was not made is null.
        unsafe {
            for layout in [self.result, self.factor].into_iter().filter(|one| !one.is_null()) {
                (self.functions.cublasLtMatrixLayoutDestroy)(layout);
            }
            if !self.what.is_null() {
                (self.functions.cublasLtMatmulDescDestroy)(self.what);
            }
            if !self.library.is_null() {
                (self.functions.cublasLtDestroy)(self.library);
            }
        }
    }
}

impl Drop for ByPlain {
    fn drop(&mut self) {
        if !self.library.is_null() {
            // SAFETY: it is released once.
            unsafe { (self.functions.cublasDestroy_v2)(self.library) };
        }
    }
}

/// 1 in the bytes of a type.
fn encode_one(scale: c_int) -> [u8; 8] {
    let mut bytes = [0; 8];
    match scale {
        DOUBLE => bytes = 1_f64.to_le_bytes(),
        INT32 => bytes[0] = 1,
        _ => bytes[..4].copy_from_slice(&1_f32.to_le_bytes()),
    }
    bytes
}

fn checked(library: &str, status: c_int) -> Result<(), String> {
    let says = match status {
        0 => return Ok(()),
        1 => "it could not be started (CUBLAS_STATUS_NOT_INITIALIZED)",
        3 => "out of memory (CUBLAS_STATUS_ALLOC_FAILED)",
        7 => "a wrong value (CUBLAS_STATUS_INVALID_VALUE)",
        8 => "this GPU has no such instructions (CUBLAS_STATUS_ARCH_MISMATCH)",
        13 => "the GPU failed (CUBLAS_STATUS_EXECUTION_FAILED)",
        14 => "it failed inside (CUBLAS_STATUS_INTERNAL_ERROR)",
        15 => "this version or this GPU does not support it (CUBLAS_STATUS_NOT_SUPPORTED)",
        _ => return Err(format!("{library}: status {status}")),
    };
    Err(format!("{library}: {says}"))
}
