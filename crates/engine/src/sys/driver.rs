//! The calls that `OpenCL` and CUDA fill, each in its module.

use std::ffi::c_void;
use std::marker::PhantomData;

/// What a driver calls a thing that it made.
pub(super) type Handle = *mut c_void;

/// An argument of a kernel, as a driver takes it.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Buffer(Handle),
    Number(u32),
}

/// A copy: where to, where from, and how many bytes.
#[derive(Clone, Copy)]
pub(super) enum Way {
    ToDevice(Handle, *const u8, usize),
    ToHost(*mut u8, Handle, usize),
    Within(Handle, Handle, usize),
}

/// The calls of a driver. They are given what the same driver made and what is not released yet; memory of a copy
/// stays until its event was waited for. `device` alone calls them, and sees to both.
pub(super) trait Driver: Send + Sync {
    fn queue(&self) -> Result<Handle, String>;
    fn finish(&self, queue: Handle) -> Result<(), String>;
    /// Has the device begin with what it was given; most begin by themselves.
    fn flush(&self, _: Handle) -> Result<(), String> {
        Ok(())
    }
    fn release_queue(&self, queue: Handle);
    fn buffer(&self, bytes: usize) -> Result<Handle, String>;
    fn release_buffer(&self, buffer: Handle);
    /// The buffer's address for libraries beside the driver, whose context is this thread's then; none for a driver
    /// that has no such addresses.
    fn address(&self, _: Handle) -> Result<Option<u64>, String> {
        Ok(None)
    }
    fn pinned(&self, queue: Handle, bytes: usize) -> Result<(Handle, *mut u8), String>;
    fn release_pinned(&self, queue: Handle, buffer: Handle, address: *mut u8);
    /// A program and the function in it.
    fn kernel(&self, source: &str, name: &str) -> Result<(Handle, Handle), String>;
    fn release_kernel(&self, kernel: (Handle, Handle));
    fn set(&self, kernel: (Handle, Handle), at: usize, value: Value) -> Result<(), String>;
    /// `shape` is work items and those of a group (0: the driver's choice); no event where it is not timed.
    fn launch(
        &self,
        queue: Handle,
        kernel: (Handle, Handle),
        shape: (usize, usize),
        timed: bool,
    ) -> Result<Handle, String>;
    /// Times what a library beside the driver gives to the queue, whose handle it gets.
    fn timed(&self, _: Handle, _: &mut dyn FnMut(Handle) -> Result<(), String>) -> Result<Handle, String> {
        Err("no library works beside this driver".into())
    }
    fn copy(&self, queue: Handle, way: Way) -> Result<Handle, String>;
    fn wait(&self, event: Handle) -> Result<(), String>;
    fn ns(&self, event: Handle) -> Option<u64>;
    fn release_event(&self, event: Handle);
}

/// The place of a buffer on its device, for as long as the buffer is there.
#[derive(Clone, Copy)]
pub struct DeviceAddress<'b> {
    pub(super) address: u64,
    pub(super) bytes: usize,
    pub(super) of: PhantomData<&'b ()>,
}
