//! `OpenCL` by its loader `libOpenCL.so.1`, found while the engine runs: its devices, and the calls of a driver.
//!
//! The names and numbers are those of the Khronos headers (`OpenCL` 1.2, which every driver has).

use std::ffi::{c_int, c_uint};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use serde_json::{json, Value};

mod functions;
mod numbers;
mod opened;

use functions::{checked, text, Functions};
pub use numbers::Fact;
use opened::Opened;
#[cfg(test)]
pub use opened::BUILDS;

use super::driver::Handle;
use super::library::Library;

/// Names of the loader, the most common one first.
pub const LIBRARIES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

const PLATFORM_NAME: c_uint = 0x0902;
const ALL_TYPES: u64 = 0xffff_ffff;
const NO_PLATFORM: c_int = -1001;
const NO_DEVICE: c_int = -1;

/// The loader, once it was found.
pub struct OpenCl {
    functions: Functions,
}

static FOUND: OnceLock<Result<OpenCl, String>> = OnceLock::new();

/// The loader; looked for once in a process.
///
/// # Errors
/// What was looked for, and why it cannot be used.
pub fn found() -> Result<&'static OpenCl, String> {
    let found = FOUND.get_or_init(|| {
        let mut why = String::new();
        for library in LIBRARIES {
            match Library::open(library).and_then(Functions::of) {
                Ok(functions) => return Ok(OpenCl { functions }),
                Err(says) => why = if why.is_empty() { says } else { why },
            }
        }
        Err(why)
    });
    found.as_ref().map_err(Clone::clone)
}

impl OpenCl {
    /// Every device of every platform, in the loader's order.
    ///
    /// # Errors
    /// That no driver is registered, or what it answered.
    pub fn devices(&'static self) -> Result<Vec<Device>, String> {
        // Drivers start when they are first listed, and not every one bears two threads meanwhile.
        static LISTED: OnceLock<Result<Vec<Device>, String>> = OnceLock::new();
        LISTED.get_or_init(|| self.list()).clone()
    }

    fn list(&'static self) -> Result<Vec<Device>, String> {
        let mut platforms = vec![null_mut(); 64];
        let mut count = 0;
        // SAFETY: there is room for as many as are requested.
        let status = unsafe { (self.functions.clGetPlatformIDs)(64, platforms.as_mut_ptr(), &raw mut count) };
        if status == NO_PLATFORM || (status == 0 && count == 0) {
            return Err("no driver is registered with it (OpenCL's .icd files)".into());
        }
        checked("clGetPlatformIDs", status)?;
        let mut devices = Vec::new();
        for &platform in platforms.iter().take(count as usize) {
            let name = text(|size, into, needs| {
                // SAFETY: `text` gives room of that size.
                unsafe { (self.functions.clGetPlatformInfo)(platform, PLATFORM_NAME, size, into, needs) }
            });
            let mut handles = vec![null_mut(); 256];
            let mut found = 0;
            // SAFETY: there is room for as many as are requested.
            let status = unsafe {
                (self.functions.clGetDeviceIDs)(platform, ALL_TYPES, 256, handles.as_mut_ptr(), &raw mut found)
            };
            if status == NO_DEVICE {
                continue;
            }
            checked("clGetDeviceIDs", status)?;
            let name = name.unwrap_or_default();
            let of_platform = handles.iter().take(found as usize);
            devices.extend(of_platform.map(|&handle| Device { cl: self, handle, platform: name.clone() }));
        }
        Ok(devices)
    }
}

/// One device.
#[derive(Clone)]
pub struct Device {
    cl: &'static OpenCl,
    handle: Handle,
    /// Its platform's name.
    pub platform: String,
}

// SAFETY: a device's handle lives as long as the process, and its calls may come from any thread.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// A number that it states; 0 where it states none.
    #[must_use]
    pub fn number(&self, fact: Fact) -> u64 {
        let mut value = [0_u8; 8];
        // SAFETY: eight bytes have room for every number (little-endian, as all targets are).
        let status = unsafe {
            (self.cl.functions.clGetDeviceInfo)(self.handle, fact as c_uint, 8, value.as_mut_ptr().cast(), null_mut())
        };
        if status == 0 {
            u64::from_le_bytes(value)
        } else {
            0
        }
    }

    /// A text that it states; none where it states none.
    #[must_use]
    pub fn text(&self, fact: Fact) -> Option<String> {
        text(|size, into, needs| {
            // SAFETY: `text` gives room of that size.
            unsafe { (self.cl.functions.clGetDeviceInfo)(self.handle, fact as c_uint, size, into, needs) }
        })
    }

    /// `cpu`, `gpu` or `accelerator`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.number(Fact::Type) {
            bits if bits & 4 != 0 => "gpu",
            bits if bits & 8 != 0 => "accelerator",
            _ => "cpu",
        }
    }

    /// Whether it has an extension, such as `cl_khr_fp64`.
    #[must_use]
    pub fn has(&self, extension: &str) -> bool {
        self.text(Fact::Extensions).is_some_and(|all| all.split(' ').any(|one| one == extension))
    }

    /// What the survey says of it.
    #[must_use]
    pub fn facts(&self) -> Value {
        let nonzero = |fact| Some(self.number(fact)).filter(|&value| value > 0);
        json!({
            "name": self.text(Fact::Name),
            "vendor": self.text(Fact::Vendor),
            "platform": self.platform,
            "kind": self.kind(),
            "driver": self.text(Fact::Driver),
            "version": self.text(Fact::Version),
            "compute_units": nonzero(Fact::ComputeUnits),
            "clock_max_hz": nonzero(Fact::ClockMhz).map(|mhz| mhz * 1_000_000),
            "memory_bytes": nonzero(Fact::GlobalBytes),
            "local_memory_bytes": nonzero(Fact::LocalBytes),
            "cache_bytes": nonzero(Fact::CacheBytes),
            "precisions": self.precisions(),
            "shares_host_memory": self.number(Fact::Unified) != 0,
        })
    }

    /// The precisions of its arithmetic.
    #[must_use]
    pub fn precisions(&self) -> Vec<&'static str> {
        let optional = [("double", "cl_khr_fp64"), ("half", "cl_khr_fp16")];
        let here = optional.into_iter().filter(|(_, extension)| self.has(extension)).map(|(name, _)| name);
        here.chain(["single", "int32", "int8"]).collect()
    }

    /// Opens it for work.
    ///
    /// # Errors
    /// What the driver refused.
    pub(super) fn open(&self) -> Result<Opened, String> {
        let functions = &self.cl.functions;
        let mut status = 0;
        // SAFETY: one device; no properties and no callback.
        let context = unsafe {
            (functions.clCreateContext)(null(), 1, &raw const self.handle, null(), null_mut(), &raw mut status)
        };
        checked("clCreateContext", status)?;
        Ok(Opened { functions, device: self.handle, context })
    }
}
