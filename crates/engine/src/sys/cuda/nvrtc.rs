//! NVRTC, NVIDIA's compiler of CUDA C as a library, found while the engine runs. It needs no GPU.
//!
//! The kernels are written in `OpenCL` C; `dialect.cuh` gives CUDA C the same words.

use std::ffi::{c_char, c_int, CStr, CString};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::sys::driver::Handle;
use crate::sys::library::{candidates, functions, Library};

functions! {
    struct Nvrtc {
        fn nvrtcVersion(*mut c_int, *mut c_int) -> c_int;
        fn nvrtcCreateProgram(*mut Handle, *const c_char, *const c_char, c_int, *const *const c_char,
            *const *const c_char) -> c_int;
        fn nvrtcCompileProgram(Handle, c_int, *const *const c_char) -> c_int;
        fn nvrtcGetCUBINSize(Handle, *mut usize) -> c_int;
        fn nvrtcGetCUBIN(Handle, *mut c_char) -> c_int;
        fn nvrtcGetProgramLogSize(Handle, *mut usize) -> c_int;
        fn nvrtcGetProgramLog(Handle, *mut c_char) -> c_int;
        fn nvrtcDestroyProgram(*mut Handle) -> c_int;
        fn nvrtcGetErrorString(c_int) -> *const c_char;
    }
}

/// What it is called, the newest first.
pub const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
const DIALECT: &str = include_str!("dialect.cuh");

static FOUND: OnceLock<Result<Nvrtc, String>> = OnceLock::new();

/// The library, looked for once in a process.
fn found() -> Result<&'static Nvrtc, String> {
    let found = FOUND.get_or_init(|| {
        candidates(&NAMES)
            .iter()
            .find_map(|path| Library::open(&path.to_string_lossy()).and_then(Nvrtc::of).ok())
            .ok_or_else(|| {
                let names = NAMES.join(", ");
                format!("NVRTC is not installed (looked for {names}); pip install nvidia-cuda-nvrtc")
            })
    });
    found.as_ref().map_err(Clone::clone)
}

/// Whether kernels can be compiled here.
///
/// # Errors
/// What was looked for.
pub fn is_here() -> Result<(), String> {
    found().map(|_| ())
}

/// The program for a GPU of that compute capability, such as 90.
///
/// # Errors
/// That there is no compiler, or its own words.
pub fn compiled(source: &str, capability: u64) -> Result<Vec<u8>, String> {
    let nvrtc = found()?;
    let source = format!("{DIALECT}\n{source}");
    let source = CString::new(source).map_err(|_| "a kernel with a zero".to_string())?;
    let option = |text: String| CString::new(text).map_err(|_| "an option with a zero".to_string());
    let options = [option(format!("--gpu-architecture=sm_{capability}"))?, option("--std=c++14".into())?];
    let options = [options[0].as_ptr(), options[1].as_ptr()];
    let mut program = Program { nvrtc, handle: null_mut() };
    // SAFETY: texts end with a zero; no headers.
    let status = unsafe {
        let create = nvrtc.nvrtcCreateProgram;
        create(&raw mut program.handle, source.as_ptr(), c"kernel.cu".as_ptr(), 0, null(), null())
    };
    program.checked(status)?;
    // SAFETY: two options, which end with a zero.
    let status = unsafe { (nvrtc.nvrtcCompileProgram)(program.handle, 2, options.as_ptr()) };
    if status != 0 {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: one number each.
        unsafe { (nvrtc.nvrtcVersion)(&raw mut major, &raw mut minor) };
        let log = program.bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).replace(['\0', '\n'], " ");
        let meaning = program.checked(status).err().unwrap_or_default();
        return Err(format!("NVRTC {major}.{minor} refused a kernel for sm_{capability}: {} ({meaning})", log.trim()));
    }
    program.bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
}

struct Program {
    nvrtc: &'static Nvrtc,
    handle: Handle,
}

type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Fill = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

impl Program {
    fn checked(&self, status: c_int) -> Result<(), String> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: it gives a separate text for every number.
        let says = unsafe { (self.nvrtc.nvrtcGetErrorString)(status) };
        // SAFETY: the text ends with a zero, where it is one.
        let says = if says.is_null() { "?".into() } else { unsafe { CStr::from_ptr(says) }.to_string_lossy() };
        Err(format!("NVRTC: {says}"))
    }

    fn bytes(&self, size: Size, fill: Fill) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: one number.
        self.checked(unsafe { size(self.handle, &raw mut length) })?;
        let mut bytes = vec![0_u8; length];
        // SAFETY: room of the size that it stated.
        self.checked(unsafe { fill(self.handle, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: destroyed once.
            unsafe { (self.nvrtc.nvrtcDestroyProgram)(&raw mut self.handle) };
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::here::cuda_compiler;

    /// Compiles a kernel for every GPU that NVRTC 13 knows and that hwdyno has peaks of.
    pub fn compiles_everywhere(source: &str, since: u64) {
        if !cuda_compiler(is_here()) {
            return;
        }
        for capability in [75, 80, 86, 89, 90, 100, 120].into_iter().filter(|&one| one >= since) {
            let image = compiled(source, capability).unwrap();
            assert!(image.starts_with(b"\x7fELF"), "sm_{capability}");
        }
    }

    #[test]
    fn a_compilers_words_are_one_line() {
        if cuda_compiler(is_here()) {
            let why = compiled("__kernel void wrong(", 90).unwrap_err();
            assert!(why.contains("refused a kernel for sm_90") && why.contains("error"), "{why}");
            assert!(!why.contains('\n'));
            let why = compiled("", 10).unwrap_err();
            assert!(why.contains("sm_10"), "{why}");
        }
    }
}
