//! The functions of `OpenCL` that are used, and what their answers mean.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use super::numbers::meaning;
use crate::sys::driver::Handle;
use crate::sys::library::functions;

functions! {
    /// The functions that are used.
    pub(super) struct Functions {
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

/// A text that is requested twice: how long it is, and what it is.
pub(super) fn text(fill: impl Fn(usize, *mut c_void, *mut usize) -> c_int) -> Option<String> {
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

/// The result of a call, with its name where it failed.
pub(super) fn checked(call: &str, status: c_int) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(format!("{call}: {}", meaning(status)))
    }
}
