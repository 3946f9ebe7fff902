//! `OpenCL` by its loader `libOpenCL.so.1`, found while the engine runs: its devices, and work on one of them.
//!
//! The names and numbers are those of the Khronos headers (`OpenCL` 1.2, which every driver has).

use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use serde_json::{json, Value};

mod numbers;

use numbers::meaning;
pub use numbers::Fact;

use super::library::{functions, Library};

/// What the loader is called, the usual name first.
pub const LIBRARIES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

type Handle = *mut c_void;

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
        fn clFinish(Handle) -> c_int;
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
        // SAFETY: there is room for as many as are asked for.
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
            // SAFETY: there is room for as many as are asked for.
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
    pub fn open(&self) -> Result<Session, String> {
        let functions = &self.cl.functions;
        let mut status = 0;
        // SAFETY: one device; no properties and no callback.
        let context = unsafe {
            (functions.clCreateContext)(null(), 1, &raw const self.handle, null(), null_mut(), &raw mut status)
        };
        checked("clCreateContext", status)?;
        Ok(Session { functions, device: self.handle, context })
    }
}

/// A device that is open for work.
pub struct Session {
    functions: &'static Functions,
    device: Handle,
    context: Handle,
}

impl Session {
    /// An order in which commands run one after the other.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn queue(&self) -> Result<Queue<'_>, String> {
        let mut status = 0;
        // SAFETY: context and device are open.
        let handle = unsafe {
            (self.functions.clCreateCommandQueue)(self.context, self.device, QUEUE_PROFILING, &raw mut status)
        };
        checked("clCreateCommandQueue", status)?;
        Ok(Queue { session: self, handle })
    }

    /// Memory of the device; `pinned` is memory of the host that the device reaches by itself.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn buffer(&self, bytes: usize, pinned: bool) -> Result<Buffer<'_>, String> {
        let mut status = 0;
        let flags = READ_WRITE | if pinned { ALLOC_HOST_PTR } else { 0 };
        // SAFETY: the driver allocates; there is no memory of ours.
        let handle =
            unsafe { (self.functions.clCreateBuffer)(self.context, flags, bytes.max(1), null_mut(), &raw mut status) };
        checked(&format!("clCreateBuffer of {bytes} B"), status)?;
        Ok(Buffer { session: self, handle, bytes })
    }

    /// Compiles `source`, and gives the function `name` in it.
    ///
    /// # Errors
    /// The compiler's own words.
    pub fn kernel(&self, source: &str, options: &str, name: &str) -> Result<Kernel<'_>, String> {
        let functions = self.functions;
        let (text, length, mut status) = (source.as_ptr().cast::<c_char>(), source.len(), 0);
        // SAFETY: one text with its length.
        let program = unsafe {
            let made = functions.clCreateProgramWithSource;
            made(self.context, 1, &raw const text, &raw const length, &raw mut status)
        };
        checked("clCreateProgramWithSource", status)?;
        let mut made = Kernel { session: self, program, handle: null_mut() };
        let options = CString::new(options).map_err(|_| "options with a zero".to_string())?;
        // SAFETY: the options end with a zero; no callback, so that it returns when it is built.
        status = unsafe {
            (functions.clBuildProgram)(program, 1, &raw const self.device, options.as_ptr(), null(), null_mut())
        };
        if status != 0 {
            let log = self::text(|size, into, needs| {
                // SAFETY: `text` gives room of that size.
                unsafe { (functions.clGetProgramBuildInfo)(program, self.device, BUILD_LOG, size, into, needs) }
            });
            let log = log.unwrap_or_default();
            return Err(format!("its compiler refused a kernel: {} ({})", log.trim(), meaning(status)));
        }
        let name = CString::new(name).map_err(|_| "a name with a zero".to_string())?;
        // SAFETY: the program is built and the name ends with a zero.
        made.handle = unsafe { (functions.clCreateKernel)(program, name.as_ptr(), &raw mut status) };
        checked("clCreateKernel", status)?;
        Ok(made)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: nothing of it is in use any more, as the lifetimes say.
        unsafe { (self.functions.clReleaseContext)(self.context) };
    }
}

/// Memory of a device.
pub struct Buffer<'a> {
    session: &'a Session,
    handle: Handle,
    /// How large it is.
    pub bytes: usize,
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: released once; the driver keeps it until commands that use it have ended.
        unsafe { (self.session.functions.clReleaseMemObject)(self.handle) };
    }
}

/// A compiled function.
pub struct Kernel<'a> {
    session: &'a Session,
    program: Handle,
    handle: Handle,
}

// SAFETY: OpenCL's calls may come from any thread, but for a kernel's arguments; a kernel therefore stays where it is.
unsafe impl Sync for Session {}
// SAFETY: as above.
unsafe impl Send for Buffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for Queue<'_> {}

/// What a kernel is given.
pub enum Argument<'a, 'b> {
    /// A buffer.
    Buffer(&'a Buffer<'b>),
    /// A 32-bit whole number.
    Number(u32),
}

impl Kernel<'_> {
    /// Sets all arguments in their order.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn set(&self, arguments: &[Argument<'_, '_>]) -> Result<(), String> {
        arguments.iter().enumerate().try_for_each(|(at, argument)| self.set_at(at, argument))
    }

    /// Sets one argument.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn set_at(&self, at: usize, argument: &Argument<'_, '_>) -> Result<(), String> {
        let (size, value): (usize, *const c_void) = match argument {
            Argument::Buffer(buffer) => (size_of::<Handle>(), (&raw const buffer.handle).cast()),
            Argument::Number(number) => (4, std::ptr::from_ref(number).cast()),
        };
        // SAFETY: the value has that size; the driver copies it.
        let status = unsafe { (self.session.functions.clSetKernelArg)(self.handle, at as c_uint, size, value) };
        checked("clSetKernelArg", status)
    }
}

impl Drop for Kernel<'_> {
    fn drop(&mut self) {
        // SAFETY: each is released once, and a kernel that was never made is not.
        unsafe {
            if !self.handle.is_null() {
                (self.session.functions.clReleaseKernel)(self.handle);
            }
            (self.session.functions.clReleaseProgram)(self.program);
        }
    }
}

/// Commands in their order.
pub struct Queue<'a> {
    session: &'a Session,
    handle: Handle,
}

/// A command that was given to a queue.
pub struct Event {
    functions: &'static Functions,
    handle: Handle,
}

/// Host memory that the driver mapped, for as long as its queue.
pub struct Mapped<'a> {
    queue: &'a Queue<'a>,
    buffer: Buffer<'a>,
    address: *mut u8,
}

impl<'a> Queue<'a> {
    /// Runs a kernel over `items`, in groups of `group` if it is not 0.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn launch(&self, kernel: &Kernel<'_>, items: usize, group: usize) -> Result<Event, String> {
        let group = if group == 0 { null() } else { &raw const group };
        self.enqueue("clEnqueueNDRangeKernel", |functions, event| {
            // SAFETY: one dimension, and nothing is waited for.
            unsafe {
                let launch = functions.clEnqueueNDRangeKernel;
                launch(self.handle, kernel.handle, 1, null(), &raw const items, group, 0, null(), event)
            }
        })
    }

    /// Copies all of `from` to the start of `to` without waiting.
    ///
    /// # Safety
    /// `from` must stay as it is until the event is waited for.
    unsafe fn start_write(&self, to: &Buffer<'_>, from: &[u8]) -> Result<Event, String> {
        assert!(from.len() <= to.bytes);
        self.enqueue("clEnqueueWriteBuffer", |functions, event| {
            // SAFETY: the buffer has room, as asserted.
            unsafe {
                let write = functions.clEnqueueWriteBuffer;
                write(self.handle, to.handle, 0, 0, from.len(), from.as_ptr().cast(), 0, null(), event)
            }
        })
    }

    /// Copies the start of `from` over all of `to` without waiting.
    ///
    /// # Safety
    /// `to` must not be touched until the event is waited for.
    unsafe fn start_read(&self, from: &Buffer<'_>, to: &mut [u8]) -> Result<Event, String> {
        assert!(to.len() <= from.bytes);
        self.enqueue("clEnqueueReadBuffer", |functions, event| {
            // SAFETY: the buffer has as much, as asserted.
            unsafe {
                let read = functions.clEnqueueReadBuffer;
                read(self.handle, from.handle, 0, 0, to.len(), to.as_mut_ptr().cast(), 0, null(), event)
            }
        })
    }

    /// Copies all of `from` to the start of `to`; gives the time on the device, ns, where it keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn write(&self, to: &Buffer<'_>, from: &[u8]) -> Result<Option<u64>, String> {
        // SAFETY: it is waited for before `from` can change.
        let event = unsafe { self.start_write(to, from) }?;
        event.wait()?;
        Ok(event.ns())
    }

    /// Copies the start of `from` over all of `to`; gives the time on the device, ns, where it keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn read(&self, from: &Buffer<'_>, to: &mut [u8]) -> Result<Option<u64>, String> {
        // SAFETY: it is waited for before `to` is touched.
        let event = unsafe { self.start_read(from, to) }?;
        event.wait()?;
        Ok(event.ns())
    }

    /// Memory of the host that the device reaches by itself.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn pinned(&'a self, bytes: usize) -> Result<Mapped<'a>, String> {
        let buffer = self.session.buffer(bytes, true)?;
        let mut status = 0;
        // SAFETY: it blocks until the memory is there.
        let address = unsafe {
            let (map, none) = (self.session.functions.clEnqueueMapBuffer, null_mut());
            map(self.handle, buffer.handle, 1, MAP_READ_AND_WRITE, 0, bytes, 0, null(), none, &raw mut status)
        };
        checked("clEnqueueMapBuffer", status)?;
        Ok(Mapped { queue: self, buffer, address: address.cast() })
    }

    fn enqueue(&self, call: &str, enqueue: impl FnOnce(&Functions, *mut Handle) -> c_int) -> Result<Event, String> {
        let functions = self.session.functions;
        let mut event = null_mut();
        checked(call, enqueue(functions, &raw mut event))?;
        Ok(Event { functions, handle: event })
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // SAFETY: commands that run are waited for first, so that no memory of theirs goes before them.
        unsafe {
            (self.session.functions.clFinish)(self.handle);
            (self.session.functions.clReleaseCommandQueue)(self.handle);
        }
    }
}

impl Event {
    /// Waits until the command has ended.
    ///
    /// # Errors
    /// What the driver answered.
    pub fn wait(&self) -> Result<(), String> {
        // SAFETY: one event that is open.
        checked("clWaitForEvents", unsafe { (self.functions.clWaitForEvents)(1, &raw const self.handle) })
    }

    /// How long it took on the device, ns, after it was waited for; none where the device keeps no time.
    #[must_use]
    pub fn ns(&self) -> Option<u64> {
        let at = |which| {
            let mut ns = 0_u64;
            // SAFETY: eight bytes for a number of eight.
            let status = unsafe {
                (self.functions.clGetEventProfilingInfo)(self.handle, which, 8, (&raw mut ns).cast(), null_mut())
            };
            (status == 0).then_some(ns)
        };
        at(PROFILING_END)?.checked_sub(at(PROFILING_START)?)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: released once.
        unsafe { (self.functions.clReleaseEvent)(self.handle) };
    }
}

impl Mapped<'_> {
    /// The memory.
    #[must_use]
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the driver mapped that many bytes, and keeps them until they are unmapped in `drop`.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.buffer.bytes) }
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let (functions, address) = (self.queue.session.functions, self.address.cast());
        // SAFETY: unmapped once.
        unsafe {
            let unmap = functions.clEnqueueUnmapMemObject;
            unmap(self.queue.handle, self.buffer.handle, address, 0, null(), null_mut());
        }
    }
}

/// A text that is asked for twice: how long it is, and what it is.
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
