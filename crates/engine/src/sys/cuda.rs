//! CUDA by the driver's interface (`libcuda.so.1`), found while the engine runs: its devices, and the calls of a driver.
//! Kernels are compiled by NVRTC on this machine, for the GPU that runs them. Names and numbers are those of `cuda.h`.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_uint, c_void, CString};
use std::ptr::null_mut;
use std::sync::OnceLock;

pub mod nvrtc;

use super::driver::{Driver, Handle, Value, Way};
use super::library::{functions, Library};
use super::nvidia::{checked, text, CUDA};
use super::opencl::Fact;

functions! {
    struct Functions {
        fn cuInit(c_uint) -> c_int;
        fn cuDriverGetVersion(*mut c_int) -> c_int;
        fn cuDeviceGetCount(*mut c_int) -> c_int;
        fn cuDeviceGet(*mut c_int, c_int) -> c_int;
        fn cuDeviceGetName(*mut c_char, c_int, c_int) -> c_int;
        fn cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        fn cuDeviceTotalMem_v2(*mut usize, c_int) -> c_int;
        fn cuDeviceGetPCIBusId(*mut c_char, c_int, c_int) -> c_int;
        fn cuDevicePrimaryCtxRetain(*mut Handle, c_int) -> c_int;
        fn cuDevicePrimaryCtxRelease_v2(c_int) -> c_int;
        fn cuCtxSetCurrent(Handle) -> c_int;
        fn cuMemAlloc_v2(*mut u64, usize) -> c_int;
        fn cuMemFree_v2(u64) -> c_int;
        fn cuMemHostAlloc(*mut Handle, usize, c_uint) -> c_int;
        fn cuMemFreeHost(Handle) -> c_int;
        fn cuMemcpyHtoDAsync_v2(u64, *const c_void, usize, Handle) -> c_int;
        fn cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, Handle) -> c_int;
        fn cuMemcpyDtoDAsync_v2(u64, u64, usize, Handle) -> c_int;
        fn cuStreamCreate(*mut Handle, c_uint) -> c_int;
        fn cuStreamSynchronize(Handle) -> c_int;
        fn cuStreamDestroy_v2(Handle) -> c_int;
        fn cuEventCreate(*mut Handle, c_uint) -> c_int;
        fn cuEventRecord(Handle, Handle) -> c_int;
        fn cuEventSynchronize(Handle) -> c_int;
        fn cuEventElapsedTime(*mut f32, Handle, Handle) -> c_int;
        fn cuEventDestroy_v2(Handle) -> c_int;
        fn cuModuleLoadData(*mut Handle, *const c_void) -> c_int;
        fn cuModuleUnload(Handle) -> c_int;
        fn cuModuleGetFunction(*mut Handle, Handle, *const c_char) -> c_int;
        fn cuLaunchKernel(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void,
            *mut *mut c_void) -> c_int;
    }
}

/// A stream that does not wait for the default one.
const NON_BLOCKING: c_uint = 1;
/// Arguments that a kernel of this house has at most.
const ARGUMENTS: usize = 8;
/// Items of a group at most, where the driver may choose.
const GROUP: usize = 256;

/// The driver, once it was found.
pub struct Found {
    functions: Functions,
    count: c_int,
    version: c_int,
}

static FOUND: OnceLock<Result<Found, String>> = OnceLock::new();

/// Every device, in the driver's order; the driver is looked for once in a process.
///
/// # Errors
/// What was looked for, and why it cannot be used.
pub fn devices() -> Result<Vec<Device>, String> {
    let found = FOUND.get_or_init(|| {
        let functions = Library::open(CUDA).and_then(Functions::of)?;
        let (mut count, mut version) = (0, 0);
        // SAFETY: the driver's first call.
        checked(unsafe { (functions.cuInit)(0) })?;
        // SAFETY: one number each.
        checked(unsafe { (functions.cuDeviceGetCount)(&raw mut count) })?;
        // SAFETY: as above.
        checked(unsafe { (functions.cuDriverGetVersion)(&raw mut version) })?;
        Ok(Found { functions, count: count.clamp(0, 64), version })
    });
    let found = found.as_ref().map_err(Clone::clone)?;
    (0..found.count)
        .map(|at| {
            let mut device = 0;
            // SAFETY: one number.
            checked(unsafe { (found.functions.cuDeviceGet)(&raw mut device, at) })?;
            Ok(Device { found, device })
        })
        .collect()
}

/// One GPU.
#[derive(Clone)]
pub struct Device {
    found: &'static Found,
    device: c_int,
}

impl Device {
    fn attribute(&self, which: c_int) -> u64 {
        let mut value = 0;
        // SAFETY: one number.
        let status = unsafe { (self.found.functions.cuDeviceGetAttribute)(&raw mut value, which, self.device) };
        u64::try_from(value).ok().filter(|_| status == 0).unwrap_or(0)
    }

    /// A number that it states, by the fact that `OpenCL` calls so; 0 where it states none.
    #[must_use]
    pub fn number(&self, fact: Fact) -> u64 {
        match fact {
            Fact::ComputeUnits => self.attribute(16),
            Fact::GroupItems => self.attribute(1),
            Fact::ClockMhz => self.attribute(13) / 1000,
            Fact::CacheBytes => self.attribute(38),
            Fact::LocalBytes => self.attribute(8),
            Fact::Unified => self.attribute(18),
            Fact::FloatLanes => 1,
            Fact::GlobalBytes | Fact::AllocationBytes => {
                let mut bytes = 0;
                // SAFETY: one number.
                let status = unsafe { (self.found.functions.cuDeviceTotalMem_v2)(&raw mut bytes, self.device) };
                if status == 0 {
                    bytes as u64
                } else {
                    0
                }
            }
            _ => 0,
        }
    }

    /// A text that it states, by the fact that `OpenCL` calls so; none where it states none.
    #[must_use]
    pub fn text(&self, fact: Fact) -> Option<String> {
        let functions = &self.found.functions;
        let version = self.found.version;
        match fact {
            // SAFETY: `text` gives room of its size.
            Fact::Name => text(|into, size| unsafe { (functions.cuDeviceGetName)(into, size, self.device) }),
            Fact::Driver => Some(format!("CUDA {}.{}", version / 1000, version % 1000 / 10)),
            _ => None,
        }
    }

    /// Its address on the PCI bus.
    #[must_use]
    pub fn bus(&self) -> Option<String> {
        // SAFETY: `text` gives room of its size.
        text(|into, size| unsafe { (self.found.functions.cuDeviceGetPCIBusId)(into, size, self.device) })
    }

    /// Its compute capability, as NVRTC writes it: 90 for 9.0.
    #[must_use]
    pub fn capability(&self) -> u64 {
        self.attribute(75) * 10 + self.attribute(76)
    }

    /// The precisions of its arithmetic.
    #[must_use]
    pub fn precisions(&self) -> Vec<&'static str> {
        let mut here = vec!["double", "single", "int32", "int8"];
        here.extend((self.capability() >= 53).then_some("half"));
        here.extend((self.capability() >= 80).then_some("bfloat16"));
        here
    }

    /// Opens it for work.
    ///
    /// # Errors
    /// What the driver refused, or that there is no compiler.
    pub(super) fn open(&self) -> Result<Opened, String> {
        let mut context = null_mut();
        let functions = &self.found.functions;
        // SAFETY: one handle.
        checked(unsafe { (functions.cuDevicePrimaryCtxRetain)(&raw mut context, self.device) })?;
        Ok(Opened { functions, device: self.device, capability: self.capability(), context })
    }
}

/// A GPU that is open for work.
pub(super) struct Opened {
    functions: &'static Functions,
    device: c_int,
    capability: u64,
    context: Handle,
}

// SAFETY: a context may be current on several threads; each call makes it so first.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

/// A function with its arguments, each in eight bytes.
struct Function {
    function: Handle,
    arguments: UnsafeCell<[u64; ARGUMENTS]>,
}

/// Events before and after a command.
struct Marks([Handle; 2]);

impl Opened {
    /// Makes the context that of this thread.
    fn enter(&self) -> Result<&'static Functions, String> {
        // SAFETY: the context is retained.
        checked(unsafe { (self.functions.cuCtxSetCurrent)(self.context) })?;
        Ok(self.functions)
    }

    fn marks(&self) -> Result<Marks, String> {
        let functions = self.enter()?;
        let mut marks = Marks([null_mut(); 2]);
        for at in 0..2 {
            // SAFETY: one handle.
            let made = checked(unsafe { (functions.cuEventCreate)(&raw mut marks.0[at], 0) });
            if made.is_err() {
                self.release_marks(&marks);
                return Err(made.err().unwrap_or_default());
            }
        }
        Ok(marks)
    }

    fn release_marks(&self, marks: &Marks) {
        for mark in marks.0.into_iter().filter(|mark| !mark.is_null()) {
            // SAFETY: destroyed once.
            unsafe { (self.functions.cuEventDestroy_v2)(mark) };
        }
    }

    /// Does `command` between two marks of the queue.
    fn marked(&self, queue: Handle, command: impl FnOnce(&Functions) -> Result<(), String>) -> Result<Handle, String> {
        let marks = self.marks()?;
        let functions = self.functions;
        let done = (|| {
            // SAFETY: both are open.
            checked(unsafe { (functions.cuEventRecord)(marks.0[0], queue) })?;
            command(functions)?;
            // SAFETY: as above.
            checked(unsafe { (functions.cuEventRecord)(marks.0[1], queue) })
        })();
        match done {
            Ok(()) => Ok(Box::into_raw(Box::new(marks)).cast()),
            Err(why) => {
                self.release_marks(&marks);
                Err(why)
            }
        }
    }
}

impl Driver for Opened {
    fn queue(&self) -> Result<Handle, String> {
        let functions = self.enter()?;
        let mut queue = null_mut();
        // SAFETY: one handle.
        checked(unsafe { (functions.cuStreamCreate)(&raw mut queue, NON_BLOCKING) })?;
        Ok(queue)
    }

    fn finish(&self, queue: Handle) -> Result<(), String> {
        // SAFETY: the stream is open.
        checked(unsafe { (self.enter()?.cuStreamSynchronize)(queue) })
    }

    fn release_queue(&self, queue: Handle) {
        // SAFETY: destroyed once.
        unsafe { (self.functions.cuStreamDestroy_v2)(queue) };
    }

    fn buffer(&self, bytes: usize) -> Result<Handle, String> {
        let functions = self.enter()?;
        let mut address = 0;
        // SAFETY: one address.
        checked(unsafe { (functions.cuMemAlloc_v2)(&raw mut address, bytes.max(1)) })
            .map_err(|why| format!("{bytes} B of its memory: {why}"))?;
        Ok(address as Handle)
    }

    fn release_buffer(&self, buffer: Handle) {
        // SAFETY: freed once, after what uses it, since it waits for the device.
        unsafe { (self.functions.cuMemFree_v2)(buffer as u64) };
    }

    fn address(&self, buffer: Handle) -> Result<Option<u64>, String> {
        self.enter().map(|_| Some(buffer as u64))
    }

    fn pinned(&self, _: Handle, bytes: usize) -> Result<(Handle, *mut u8), String> {
        let functions = self.enter()?;
        let mut address = null_mut();
        // SAFETY: one address.
        checked(unsafe { (functions.cuMemHostAlloc)(&raw mut address, bytes.max(1), 0) })
            .map_err(|why| format!("{bytes} B of pinned memory: {why}"))?;
        Ok((address, address.cast()))
    }

    fn release_pinned(&self, _: Handle, buffer: Handle, _: *mut u8) {
        // SAFETY: freed once.
        unsafe { (self.functions.cuMemFreeHost)(buffer) };
    }

    fn kernel(&self, source: &str, name: &str) -> Result<(Handle, Handle), String> {
        let image = nvrtc::compiled(source, self.capability)?;
        let name = CString::new(name).map_err(|_| "a name with a zero".to_string())?;
        let functions = self.enter()?;
        let (mut module, mut function) = (null_mut(), null_mut());
        // SAFETY: the image is whole.
        checked(unsafe { (functions.cuModuleLoadData)(&raw mut module, image.as_ptr().cast()) })?;
        // SAFETY: the module is loaded and the name ends with a zero.
        let found = checked(unsafe { (functions.cuModuleGetFunction)(&raw mut function, module, name.as_ptr()) });
        if let Err(why) = found {
            // SAFETY: unloaded once.
            unsafe { (functions.cuModuleUnload)(module) };
            return Err(why);
        }
        let arguments = UnsafeCell::new([0; ARGUMENTS]);
        Ok((module, Box::into_raw(Box::new(Function { function, arguments })).cast()))
    }

    fn release_kernel(&self, (module, function): (Handle, Handle)) {
        // SAFETY: made by `kernel`, and released once.
        drop(unsafe { Box::from_raw(function.cast::<Function>()) });
        // SAFETY: unloaded once.
        unsafe { (self.functions.cuModuleUnload)(module) };
    }

    fn set(&self, (_, function): (Handle, Handle), at: usize, value: Value) -> Result<(), String> {
        // SAFETY: made by `kernel`; a kernel stays on its thread, so that no one else is in the cell.
        let arguments = unsafe { &mut *(*function.cast::<Function>()).arguments.get() };
        *arguments.get_mut(at).ok_or("too many arguments")? = match value {
            Value::Buffer(buffer) => buffer as u64,
            Value::Number(number) => u64::from(number),
        };
        Ok(())
    }

    fn launch(
        &self,
        queue: Handle,
        (_, function): (Handle, Handle),
        (items, group): (usize, usize),
        timed: bool,
    ) -> Result<Handle, String> {
        // SAFETY: made by `kernel`.
        let Function { function, arguments } = unsafe { &*function.cast::<Function>() };
        // No item more than was requested: the kernels write a place for each.
        let group = if group == 0 { (1..=GROUP).rev().find(|size| items % size == 0).unwrap_or(1) } else { group };
        let (blocks, group) = ((items / group) as c_uint, group as c_uint);
        let start = |functions: &Functions| {
            let mut places: [*mut c_void; ARGUMENTS] =
                std::array::from_fn(|at| arguments.get().cast::<u64>().wrapping_add(at).cast());
            let list = places.as_mut_ptr();
            // SAFETY: a place for each argument, which the driver copies; nothing of shared memory.
            unsafe { (functions.cuLaunchKernel)(*function, blocks, 1, 1, group, 1, 1, 0, queue, list, null_mut()) }
        };
        if timed {
            return self.marked(queue, |functions| checked(start(functions)));
        }
        checked(start(self.enter()?))?;
        Ok(null_mut())
    }

    fn timed(&self, queue: Handle, command: &mut dyn FnMut(Handle) -> Result<(), String>) -> Result<Handle, String> {
        self.marked(queue, |_| command(queue))
    }

    fn copy(&self, queue: Handle, way: Way) -> Result<Handle, String> {
        self.marked(queue, |functions| {
            // SAFETY: the caller of `copy` has room on both sides, and keeps it until the event is waited for.
            checked(unsafe {
                match way {
                    Way::ToDevice(to, from, bytes) => {
                        (functions.cuMemcpyHtoDAsync_v2)(to as u64, from.cast(), bytes, queue)
                    }
                    Way::ToHost(to, from, bytes) => {
                        (functions.cuMemcpyDtoHAsync_v2)(to.cast(), from as u64, bytes, queue)
                    }
                    Way::Within(to, from, bytes) => {
                        (functions.cuMemcpyDtoDAsync_v2)(to as u64, from as u64, bytes, queue)
                    }
                }
            })
        })
    }

    fn wait(&self, event: Handle) -> Result<(), String> {
        // SAFETY: made by `marked`.
        let marks = unsafe { &*event.cast::<Marks>() };
        // SAFETY: the event is open.
        checked(unsafe { (self.enter()?.cuEventSynchronize)(marks.0[1]) })
    }

    fn ns(&self, event: Handle) -> Option<u64> {
        // SAFETY: made by `marked`.
        let marks = unsafe { &*event.cast::<Marks>() };
        let mut ms = 0.0_f32;
        // SAFETY: one number.
        let status = unsafe { (self.functions.cuEventElapsedTime)(&raw mut ms, marks.0[0], marks.0[1]) };
        (status == 0 && ms >= 0.0).then_some((f64::from(ms) * 1e6) as u64)
    }

    fn release_event(&self, event: Handle) {
        // An untimed launch has none.
        if !event.is_null() {
            // SAFETY: made by `marked`, and released once.
            let marks = unsafe { Box::from_raw(event.cast::<Marks>()) };
            self.release_marks(&marks);
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: retained once; nothing of it is in use any more, as the lifetimes of `device` say.
        unsafe { (self.functions.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}
