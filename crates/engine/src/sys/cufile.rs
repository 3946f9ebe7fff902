//! `GPUDirect Storage` by NVIDIA's cuFile (`libcufile.so.0`), found while the engine runs. Names and numbers are those of
//! `cufile.h`.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use super::driver::{DeviceAddress, Handle};
use super::library::{candidates, functions, Library};

/// What it is called.
pub const NAMES: [&str; 2] = ["libcufile.so.0", "libcufile.so"];
/// What the kernel module leaves where it is loaded.
const MODULE: &str = "/proc/driver/nvidia-fs/version";
const BY_DESCRIPTOR: c_int = 1;

/// `CUfileError_t`: the library's answer and, with `CUDA_DRIVER_ERROR`, the driver's.
#[repr(C)]
struct Answer {
    status: c_int,
    of_driver: c_int,
}

/// `CUfileDescr_t`, whose union holds a descriptor.
#[repr(C)]
struct Description {
    kind: c_int,
    handle: u64,
    operations: *const c_void,
}

functions! {
    struct CuFile {
        fn cuFileDriverOpen() -> Answer;
        fn cuFileHandleRegister(*mut Handle, *mut Description) -> Answer;
        fn cuFileHandleDeregister(Handle) -> ();
        fn cuFileBufRegister(*const c_void, usize, c_int) -> Answer;
        fn cuFileBufDeregister(*const c_void) -> Answer;
        fn cuFileRead(Handle, *mut c_void, usize, i64, i64) -> isize;
    }
}

static FOUND: OnceLock<Result<CuFile, String>> = OnceLock::new();

/// The library with its driver open, once in a process; it closes that by itself when the process ends.
fn found() -> Result<&'static CuFile, String> {
    let found = FOUND.get_or_init(|| {
        let paths: Vec<PathBuf> = candidates(&NAMES);
        let library = paths.iter().find_map(|path| Library::open(&path.to_string_lossy()).ok()).ok_or_else(|| {
            format!("GPUDirect Storage is not installed (looked for {}); use --access direct", NAMES.join(", "))
        })?;
        let functions = CuFile::of(library).map_err(|why| format!("cuFile: {why}"))?;
        // SAFETY: the library's first call.
        checked(&unsafe { (functions.cuFileDriverOpen)() })?;
        Ok(functions)
    });
    found.as_ref().map_err(Clone::clone)
}

/// Whether the kernel module is loaded, without which cuFile goes through the host's memory.
#[must_use]
pub fn has_module() -> bool {
    Path::new(MODULE).exists()
}

/// A file that cuFile reads.
pub struct File<'a> {
    functions: &'static CuFile,
    handle: Handle,
    /// Its descriptor is in use.
    _source: &'a std::fs::File,
}

impl<'a> File<'a> {
    /// Registers it; it must be open for direct access.
    ///
    /// # Errors
    /// That there is no cuFile, or what it refused.
    pub fn of(file: &'a std::fs::File) -> Result<Self, String> {
        let functions = found()?;
        let mut description = Description { kind: BY_DESCRIPTOR, handle: file.as_raw_fd() as u64, operations: null() };
        let mut handle = null_mut();
        // SAFETY: one handle, and a description that is copied.
        checked(&unsafe { (functions.cuFileHandleRegister)(&raw mut handle, &raw mut description) })?;
        Ok(Self { functions, handle, _source: file })
    }

    /// Registers memory of a device, whose context is this thread's.
    ///
    /// # Errors
    /// What cuFile refused.
    pub fn room<'b>(&'b self, at: DeviceAddress<'b>) -> Result<Room<'b>, String> {
        // SAFETY: the buffer is there for as long as the room.
        checked(&unsafe { (self.functions.cuFileBufRegister)(at.address as *const c_void, at.bytes, 0) })?;
        Ok(Room { file: self, at })
    }
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        // SAFETY: registered once.
        unsafe { (self.functions.cuFileHandleDeregister)(self.handle) };
    }
}

/// Memory of a device that cuFile reads into.
pub struct Room<'b> {
    file: &'b File<'b>,
    at: DeviceAddress<'b>,
}

impl Room<'_> {
    /// Fills it with the file's bytes from `offset` on, and waits for them.
    ///
    /// # Errors
    /// The system's refusal, cuFile's, or that the file ended.
    pub fn read(&self, offset: u64) -> Result<(), String> {
        let DeviceAddress { address, bytes, .. } = self.at;
        // SAFETY: file and memory are registered, and the memory has that many bytes.
        let moved = unsafe {
            (self.file.functions.cuFileRead)(self.file.handle, address as *mut c_void, bytes, offset as i64, 0)
        };
        match moved {
            -1 => Err(format!("cuFileRead: {}", std::io::Error::last_os_error())),
            status if status < 0 => Err(format!("cuFileRead: {}", meaning(-status as c_int))),
            moved if moved as usize == bytes => Ok(()),
            moved => Err(format!("cuFileRead: {moved} of {bytes} B at {offset}")),
        }
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        // SAFETY: registered once.
        unsafe { (self.file.functions.cuFileBufDeregister)(self.at.address as *const c_void) };
    }
}

fn checked(answer: &Answer) -> Result<(), String> {
    match answer.status {
        0 => Ok(()),
        5011 => Err(format!("cuFile: CUDA error {}", answer.of_driver)),
        status => Err(format!("cuFile: {}", meaning(status))),
    }
}

fn meaning(status: c_int) -> String {
    match status {
        5001 => "its driver is not initialized (is nvidia-fs loaded?)".into(),
        5004 => "its version is not the kernel module's; update both".into(),
        5007 => "this platform is not supported".into(),
        5008 => "this file or filesystem is not supported; use --access direct".into(),
        5009 => "this GPU is not supported; use --access direct".into(),
        5010 => "the kernel module nvidia-fs failed".into(),
        _ => format!("cuFile error {status}"),
    }
}
