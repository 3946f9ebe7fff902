//! `OpenCL` by its loader `libOpenCL.so.1`, found while the engine runs: its devices, and the calls of a driver.
//!
//! The names and numbers are those of the Khronos headers (`OpenCL` 1.2, which every driver has).

use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use serde_json::{json, Value};

mod numbers;

use numbers::meaning;
pub use numbers::Fact;

use super::driver::{Driver, Handle, Value as Given, Way};
use super::library::{functions, Library};

/// Names of the loader, the most common one first.
pub const LIBRARIES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

functions! {
    /// The functions that are used.
    struct Functions {
        fn clGetPlatformIDs(c_uint, *mut Handle, *mut c_uint) -> c_int;
        fn clGetPlatformInfo(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
        fn clGetDeviceIDs(Handle, u64, c_uint, *mut Handle, *mut c_uint) -> c_int;
        fn clGetDeviceInfo(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
        fn clCreateContext(*const isize, c_uint, *const Handle, *const c_void, *mut c_void, *mut c_int) -> Handle;
        fn clReleaseContext(Handle) -> c_int;
        fn clCreateCommandQueue(Handle, Handle, u64, *mut c_int) -> Handle;
        fn clReleaseCommandQueue(Handle) -> c_int;
        fn clCreateProgramWithSource(Handle, c_uint, *const *const c_char, *const usize, *mut c_int) -> Handle;
        fn clBuildProgram(Handle, c_uint, *const Handle, *const c_char, *const c_void, *mut c_void) -> c_int;
        fn clGetProgramBuildInfo(Handle, Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
        fn clReleaseProgram(Handle) -> c_int;
        fn clCreateKernel(Handle, *const c_char, *mut c_int) -> Handle;
        fn clReleaseKernel(Handle) -> c_int;
        fn clSetKernelArg(Handle, c_uint, usize, *const c_void) -> c_int;
        fn clCreateBuffer(Handle, u64, usize, *mut c_void, *mut c_int) -> Handle;
        fn clReleaseMemObject(Handle) -> c_int;
        fn clEnqueueNDRangeKernel(Handle, Handle, c_uint, *const usize, *const usize, *const usize, c_uint,
            *const Handle, *mut Handle) -> c_int;
        fn clEnqueueReadBuffer(Handle, Handle, c_uint, usize, usize, *mut c_void, c_uint, *const Handle,
            *mut Handle) -> c_int;
        fn clEnqueueWriteBuffer(Handle, Handle, c_uint, usize, usize, *const c_void, c_uint, *const Handle,
            *mut Handle) -> c_int;
        fn clEnqueueMapBuffer(Handle, Handle, c_uint, u64, usize, usize, c_uint, *const Handle, *mut Handle,
            *mut c_int) -> *mut c_void;
        fn clEnqueueUnmapMemObject(Handle, Handle, *mut c_void, c_uint, *const Handle, *mut Handle) -> c_int;
        fn clWaitForEvents(c_uint, *const Handle) -> c_int;
        fn clGetEventProfilingInfo(Handle, c_uint, usize, *mut c_void, *mut usize) -> c_int;
        fn clReleaseEvent(Handle) -> c_int;
        fn clEnqueueCopyBuffer(Handle, Handle, Handle, usize, usize, usize, c_uint, *const Handle, *mut Handle) -> c_int;
        fn clFinish(Handle) -> c_int;
        fn clFlush(Handle) -> c_int;
    }
}

const PLATFORM_NAME: c_uint = 0x0902;
const ALL_TYPES: u64 = 0xffff_ffff;
const QUEUE_PROFILING: u64 = 1 << 1;
const READ_WRITE: u64 = 1;
const ALLOC_HOST_PTR: u64 = 1 << 4;
const MAP_READ_AND_WRITE: u64 = 3;
const BUILD_LOG: c_uint = 0x1183;
const PROFILING_START: c_uint = 0x1282;
const PROFILING_END: c_uint = 0x1283;
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

/// A device that is open for work.
pub(super) struct Opened {
    functions: &'static Functions,
    device: Handle,
    context: Handle,
}

// SAFETY: OpenCL's calls may come from any thread, but for a kernel's arguments; a kernel stays on its thread.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

impl Opened {
    fn memory(&self, bytes: usize, flags: u64) -> Result<Handle, String> {
        let mut status = 0;
        // SAFETY: the driver allocates; there is no memory of ours.
        let handle = unsafe {
            (self.functions.clCreateBuffer)(self.context, READ_WRITE | flags, bytes.max(1), null_mut(), &raw mut status)
        };
        checked(&format!("clCreateBuffer of {bytes} B"), status)?;
        Ok(handle)
    }
}

impl Driver for Opened {
    fn queue(&self) -> Result<Handle, String> {
        let mut status = 0;
        // SAFETY: context and device are open.
        let handle = unsafe {
            (self.functions.clCreateCommandQueue)(self.context, self.device, QUEUE_PROFILING, &raw mut status)
        };
        checked("clCreateCommandQueue", status)?;
        Ok(handle)
    }

    fn finish(&self, queue: Handle) -> Result<(), String> {
        // SAFETY: the queue is open.
        checked("clFinish", unsafe { (self.functions.clFinish)(queue) })
    }

    fn flush(&self, queue: Handle) -> Result<(), String> {
        // SAFETY: the queue is open.
        checked("clFlush", unsafe { (self.functions.clFlush)(queue) })
    }

    fn release_queue(&self, queue: Handle) {
        // SAFETY: released once.
        unsafe { (self.functions.clReleaseCommandQueue)(queue) };
    }

    fn buffer(&self, bytes: usize) -> Result<Handle, String> {
        self.memory(bytes, 0)
    }

    fn release_buffer(&self, buffer: Handle) {
        // SAFETY: released once; the driver keeps it until commands that use it have ended.
        unsafe { (self.functions.clReleaseMemObject)(buffer) };
    }

    fn pinned(&self, queue: Handle, bytes: usize) -> Result<(Handle, *mut u8), String> {
        let buffer = self.memory(bytes, ALLOC_HOST_PTR)?;
        let mut status = 0;
        // SAFETY: it blocks until the memory is there.
        let address = unsafe {
            let (map, none) = (self.functions.clEnqueueMapBuffer, null_mut());
            map(queue, buffer, 1, MAP_READ_AND_WRITE, 0, bytes, 0, null(), none, &raw mut status)
        };
        if let Err(why) = checked("clEnqueueMapBuffer", status) {
            self.release_buffer(buffer);
            return Err(why);
        }
        Ok((buffer, address.cast()))
    }

    fn release_pinned(&self, queue: Handle, buffer: Handle, address: *mut u8) {
        // SAFETY: unmapped once.
        unsafe {
            (self.functions.clEnqueueUnmapMemObject)(queue, buffer, address.cast(), 0, null(), null_mut());
        }
        self.release_buffer(buffer);
    }

    fn kernel(&self, source: &str, name: &str) -> Result<(Handle, Handle), String> {
        let functions = self.functions;
        let name = CString::new(name).map_err(|_| "a name with a zero".to_string())?;
        let (text, length, mut status) = (source.as_ptr().cast::<c_char>(), source.len(), 0);
        // SAFETY: one text with its length.
        let program = unsafe {
            let made = functions.clCreateProgramWithSource;
            made(self.context, 1, &raw const text, &raw const length, &raw mut status)
        };
        checked("clCreateProgramWithSource", status)?;
        // SAFETY: the options end with a zero; no callback, so that it returns when it is built.
        status =
            unsafe { (functions.clBuildProgram)(program, 1, &raw const self.device, c"".as_ptr(), null(), null_mut()) };
        let mut kernel = null_mut();
        let made = if status == 0 {
            // SAFETY: the program is built and the name ends with a zero.
            kernel = unsafe { (functions.clCreateKernel)(program, name.as_ptr(), &raw mut status) };
            checked("clCreateKernel", status)
        } else {
            let log = self::text(|size, into, needs| {
                // SAFETY: `text` gives room of that size.
                unsafe { (functions.clGetProgramBuildInfo)(program, self.device, BUILD_LOG, size, into, needs) }
            });
            let log = log.unwrap_or_default();
            Err(format!("its compiler refused a kernel: {} ({})", log.trim(), meaning(status)))
        };
        if made.is_err() {
            // SAFETY: released once.
            unsafe { (functions.clReleaseProgram)(program) };
        }
        made.map(|()| (program, kernel))
    }

    fn release_kernel(&self, (program, kernel): (Handle, Handle)) {
        // SAFETY: each is released once.
        unsafe {
            (self.functions.clReleaseKernel)(kernel);
            (self.functions.clReleaseProgram)(program);
        }
    }

    fn set(&self, (_, kernel): (Handle, Handle), at: usize, value: Given) -> Result<(), String> {
        let (size, from): (usize, *const c_void) = match &value {
            Given::Buffer(buffer) => (size_of::<Handle>(), std::ptr::from_ref(buffer).cast()),
            Given::Number(number) => (4, std::ptr::from_ref(number).cast()),
        };
        // SAFETY: the value has that size; the driver copies it.
        checked("clSetKernelArg", unsafe { (self.functions.clSetKernelArg)(kernel, at as c_uint, size, from) })
    }

    fn launch(
        &self,
        queue: Handle,
        (_, kernel): (Handle, Handle),
        (items, group): (usize, usize),
        timed: bool,
    ) -> Result<Handle, String> {
        let group = if group == 0 { null() } else { &raw const group };
        let mut event = null_mut();
        let place = if timed { &raw mut event } else { null_mut() };
        // SAFETY: one dimension, and nothing is waited for.
        let status = unsafe {
            let launch = self.functions.clEnqueueNDRangeKernel;
            launch(queue, kernel, 1, null(), &raw const items, group, 0, null(), place)
        };
        checked("clEnqueueNDRangeKernel", status)?;
        Ok(event)
    }

    fn copy(&self, queue: Handle, way: Way) -> Result<Handle, String> {
        let mut event = null_mut();
        let (none, place) = (null(), &raw mut event);
        // SAFETY: the caller of `copy` has room on both sides, and keeps it until the event is waited for.
        let (call, status) = unsafe {
            match way {
                Way::ToDevice(to, from, bytes) => {
                    let write = self.functions.clEnqueueWriteBuffer;
                    ("clEnqueueWriteBuffer", write(queue, to, 0, 0, bytes, from.cast(), 0, none, place))
                }
                Way::ToHost(to, from, bytes) => {
                    let read = self.functions.clEnqueueReadBuffer;
                    ("clEnqueueReadBuffer", read(queue, from, 0, 0, bytes, to.cast(), 0, none, place))
                }
                Way::Within(to, from, bytes) => {
                    let copy = self.functions.clEnqueueCopyBuffer;
                    ("clEnqueueCopyBuffer", copy(queue, from, to, 0, 0, bytes, 0, none, place))
                }
            }
        };
        checked(call, status)?;
        Ok(event)
    }

    fn wait(&self, event: Handle) -> Result<(), String> {
        // SAFETY: one event that is open.
        checked("clWaitForEvents", unsafe { (self.functions.clWaitForEvents)(1, &raw const event) })
    }

    fn ns(&self, event: Handle) -> Option<u64> {
        let at = |which| {
            let mut ns = 0_u64;
            // SAFETY: eight bytes for a number of eight.
            let status =
                unsafe { (self.functions.clGetEventProfilingInfo)(event, which, 8, (&raw mut ns).cast(), null_mut()) };
            (status == 0).then_some(ns)
        };
        at(PROFILING_END)?.checked_sub(at(PROFILING_START)?)
    }

    fn release_event(&self, event: Handle) {
        // SAFETY: released once.
        unsafe { (self.functions.clReleaseEvent)(event) };
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: nothing of it is in use any more, as the lifetimes of `device` say.
        unsafe { (self.functions.clReleaseContext)(self.context) };
    }
}

/// A text that is requested twice: how long it is, and what it is.
fn text(fill: impl Fn(usize, *mut c_void, *mut usize) -> c_int) -> Option<String> {
    let mut needs = 0;
    if fill(0, null_mut(), &raw mut needs) != 0 || needs > 1 << 20 {
        return None;
    }
    let mut bytes = vec![0_u8; needs];
    if fill(needs, bytes.as_mut_ptr().cast(), null_mut()) != 0 {
        return None;
    }
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(needs);
    Some(String::from_utf8_lossy(&bytes[..end]).trim().to_string())
}

fn checked(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("{call}: {}", meaning(status)))
    }
}
