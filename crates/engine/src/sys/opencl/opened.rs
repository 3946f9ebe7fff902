//! A device that is open for work: its buffers, kernels, copies and the times of its events.

use std::ffi::{c_char, c_uint, c_void, CString};
use std::ptr::{null, null_mut};

use super::functions::{checked, text, Functions};
use super::numbers::meaning;
use crate::sys::driver::{Driver, Handle, Value as Given, Way};

#[cfg(test)]
thread_local! {
    /// Programs that this thread built.
    pub static BUILDS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

const QUEUE_PROFILING: u64 = 1 << 1;
const READ_WRITE: u64 = 1;
const ALLOC_HOST_PTR: u64 = 1 << 4;
const MAP_READ_AND_WRITE: u64 = 3;
const BUILD_LOG: c_uint = 0x1183;
const PROFILING_START: c_uint = 0x1282;
const PROFILING_END: c_uint = 0x1283;

/// A device that is open for work.
pub(in crate::sys) struct Opened {
    pub(super) functions: &'static Functions,
    pub(super) device: Handle,
    pub(super) context: Handle,
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
        #[cfg(test)]
        BUILDS.set(BUILDS.get() + 1);
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
