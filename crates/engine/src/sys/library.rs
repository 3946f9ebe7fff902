//! Shared libraries that are looked for while the engine runs, so that it neither needs nor links them.

use std::ffi::{c_char, c_void, CStr, CString};
use std::path::PathBuf;

/// Names folders to look in first, by colons: where Python's packages have NVIDIA's libraries, for one.
const FOLDERS: &str = "HWDYNO_LIBRARIES";
/// Where NVIDIA's installer puts them.
const INSTALLED: &str = "/usr/local/cuda/lib64";

/// The files that may be one of NVIDIA's libraries beside the driver, those that are there by their path before those that
/// the loader finds by their name; `names` are its own, the newest first.
pub fn candidates(names: &[&str]) -> Vec<PathBuf> {
    let folders = std::env::var(FOLDERS).unwrap_or_default();
    let folders = folders.split(':').filter(|folder| !folder.is_empty()).chain([INSTALLED]);
    let paths = folders.flat_map(|folder| names.iter().map(move |name| PathBuf::from(folder).join(name)));
    paths.filter(|path| path.exists()).chain(names.iter().map(PathBuf::from)).collect()
}

/// A shared library that is loaded, and stays so until the process ends: drivers keep threads of their own.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    handle: *mut c_void,
}

// SAFETY: the handle is never closed, and `dlsym` may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the library called `name` from where the system's loader looks.
    ///
    /// # Errors
    /// The loader's own words: that there is none, or which part of it is missing.
    pub fn open(name: &str) -> Result<Self, String> {
        let c_name = CString::new(name).map_err(|_| format!("{name}: not a file's name"))?;
        // SAFETY: the name ends with a zero; the initializers are those of a driver that the administrator installed.
        let handle = unsafe { libc::dlopen(c_name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(last_error().unwrap_or_else(|| format!("{name}: not found")));
        }
        Ok(Self { handle })
    }

    /// The address of a function.
    ///
    /// # Errors
    /// Its name, where the library has none of it: the library is too old.
    pub fn address(self, name: &CStr) -> Result<*mut c_void, String> {
        // SAFETY: the handle is open and the name ends with a zero.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if address.is_null() {
            return Err(format!("it has no {}; update the driver", name.to_string_lossy()));
        }
        Ok(address)
    }
}

fn last_error() -> Option<String> {
    // SAFETY: dlerror gives a text that ends with a zero, or null.
    let text: *const c_char = unsafe { libc::dlerror() };
    if text.is_null() {
        return None;
    }
    // SAFETY: checked above; it is copied before the next call of the loader.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Makes a table of a library's functions, `open` of which looks for each by its name.
macro_rules! functions {
    ($(#[$about:meta])* $visible:vis struct $table:ident { $(fn $name:ident($($type:ty),* $(,)?) -> $gives:ty;)+ }) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        $visible struct $table { $($visible $name: unsafe extern "C" fn($($type),*) -> $gives,)+ }

        impl $table {
            /// Every function of the table.
            $visible fn of(library: $crate::sys::library::Library) -> Result<Self, String> {
                Ok(Self { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    let name = ::std::ffi::CStr::from_bytes_with_nul(name.as_bytes()).map_err(|why| why.to_string())?;
                    let address = library.address(name)?;
                    // SAFETY: the library's published interface gives the function of this name this type.
                    unsafe { ::std::mem::transmute::<*mut ::std::ffi::c_void,
                        unsafe extern "C" fn($($type),*) -> $gives>(address) }
                },)+ })
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named() {
        let why = Library::open("libhwdyno-none.so.1").unwrap_err();
        assert!(why.contains("libhwdyno-none.so.1"), "{why}");
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let library = Library::open("libc.so.6").unwrap();
        assert!(library.address(c"getpid").is_ok());
        assert!(library.address(c"hwdyno_none").unwrap_err().contains("no hwdyno_none"));
    }
}
