//! What the GPUs' own libraries say: which were looked for, which were found, and every device that they list.
//!
//! They are queried in a child process: a driver that crashes or hangs spoils no measurement, and nothing of it stays.

use std::time::Duration;

use serde_json::{json, Map, Value};

use super::scan::Survey;
use crate::contract::reading::counted;
use crate::sys::cuda::nvrtc;
use crate::sys::library::candidates;
use crate::sys::{apart, cublas, cufile, nvidia, opencl};

/// A driver that starts a sleeping GPU takes a second or two.
const LIMIT: Duration = Duration::from_secs(8);

/// The machine's `gpu_drivers`; none for a recorded tree, whose libraries are elsewhere.
#[must_use]
pub fn survey(survey: &Survey) -> Option<Value> {
    survey.tree.is_live().then(look)
}

fn look() -> Value {
    // Most machines have none of the libraries: nothing is queried, and no process is made.
    let loader = Loader::look();
    let mut found = json!({"looked_for": [], "opencl": [], "cuda": []});
    let mut libraries = vec![];
    match opencl::LIBRARIES.iter().find(|name| loader.finds(name)) {
        Some(name) => {
            query_driver(&mut found, &mut libraries, name, ("opencl", false), || Ok((opencl_devices()?, None)));
        }
        None => libraries.push(library(opencl::LIBRARIES[0], false, "not installed")),
    }
    let has_nvml = loader.finds(nvidia::NVML);
    if loader.finds(nvidia::CUDA) {
        query_driver(&mut found, &mut libraries, nvidia::CUDA, ("cuda", has_nvml), nvidia::gpus);
    } else {
        libraries.push(library(nvidia::CUDA, false, "not installed"));
        libraries.push(library(nvidia::NVML, has_nvml, "not asked without the driver's interface"));
    }
    libraries.extend(toolkit_libraries(&loader));
    found["looked_for"] = json!(libraries);
    found
}

/// NVIDIA's libraries beside the driver: by its files' names, what each does, and what to do where it is missing.
fn toolkit_libraries(loader: &Loader) -> Vec<Value> {
    let loads = if cufile::has_module() {
        "reads storage to a GPU's memory directly (nvidia-fs is loaded)"
    } else {
        "nvidia-fs is not loaded: it reads storage through the host's memory"
    };
    let known: [(&[&str], &str, &str); 4] = [
        (&nvrtc::NAMES, "compiles kernels for CUDA", "not installed; pip install nvidia-cuda-nvrtc"),
        (&cublas::NAMES, "multiplies matrices on tensor cores", "not installed; pip install nvidia-cublas"),
        (&cublas::PLAIN_NAMES, "multiplies matrices, too", "not installed; pip install nvidia-cublas"),
        (&cufile::NAMES, loads, "not installed (GPUDirect Storage)"),
    ];
    let look = |(names, does, without): (&[&str], &str, &str)| {
        let candidates = candidates(names);
        let here = candidates.iter().find(|path| path.is_absolute() || loader.finds(&path.to_string_lossy()));
        let name = here.or(candidates.first()).and_then(|path| path.file_name()).unwrap_or_default();
        library(&name.to_string_lossy(), here.is_some(), if here.is_some() { does } else { without })
    };
    known.into_iter().map(look).collect()
}

fn library(name: &str, found: bool, says: &str) -> Value {
    json!({"name": name, "found": found, "says": says})
}

/// What the loader finds, in its folders alone: nothing of a library runs in this process.
struct Loader {
    searched: String,
    /// Its cache: paths, whose ends are the names, each with a zero after it.
    cache: Vec<u8>,
}

impl Loader {
    fn look() -> Self {
        let searched = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        Self { searched, cache: std::fs::read("/etc/ld.so.cache").unwrap_or_default() }
    }

    fn finds(&self, name: &str) -> bool {
        let folders = self.searched.split(':').filter(|folder| !folder.is_empty()).chain(FOLDERS);
        self.cache.split(|&byte| byte == 0).any(|text| has_name(text, name.as_bytes()))
            || folders.into_iter().any(|folder| std::path::Path::new(folder).join(name).exists())
    }
}

/// Whether a text is a name, or a path that ends with it.
fn has_name(text: &[u8], name: &[u8]) -> bool {
    text.strip_suffix(name).is_some_and(|folder| folder.is_empty() || folder.ends_with(b"/"))
}

/// Folders with libraries that the loader's cache need not list.
const FOLDERS: [&str; 4] = ["/usr/lib", "/usr/lib64", "/lib", "/usr/lib/wsl/lib"];

type Answer = Result<(Vec<Value>, Option<String>), String>;

/// ``key`` is where its devices are listed, with whether NVML is there, which is queried beside CUDA.
fn query_driver(
    found: &mut Value,
    libraries: &mut Vec<Value>,
    name: &str,
    (key, has_nvml): (&str, bool),
    query: fn() -> Answer,
) {
    let answer = apart::run_apart(LIMIT, || match query() {
        Ok((devices, without)) => json!({"devices": devices, "without": without}).to_string(),
        Err(why) => json!({ "why": why }).to_string(),
    });
    let answer: Map<String, Value> = answer
        .and_then(|text| serde_json::from_str(&text).map_err(|_| "it ended without an answer".to_string()))
        .unwrap_or_else(|why| Map::from_iter([("why".to_string(), json!(why))]));
    let devices = answer.get("devices").and_then(Value::as_array).cloned().unwrap_or_default();
    let count = counted(devices.len() as u64, "device", "devices");
    let why = answer.get("why").and_then(Value::as_str);
    libraries.push(library(name, true, why.unwrap_or(&count)));
    if key == "cuda" {
        let without = answer.get("without").and_then(Value::as_str);
        let says = if why.is_some() { "not asked without the driver's interface" } else { "answers" };
        let says = without.unwrap_or(if has_nvml { says } else { "not installed" });
        libraries.push(library(nvidia::NVML, has_nvml, says));
    }
    found[key] = json!(devices);
}

fn opencl_devices() -> Result<Vec<Value>, String> {
    Ok(opencl::found()?.devices()?.iter().map(opencl::Device::facts).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_tree_has_no_libraries() {
        let recorded =
            Survey { tree: super::super::tree::Tree::of_record(""), unknown: super::super::scan::Unknown::default() };
        assert!(survey(&recorded).is_none());
    }

    #[test]
    fn the_loaders_cache_lists_whole_names() {
        let loader =
            Loader { searched: String::new(), cache: b"\x01\0/opt/libhwdyno-made.so.1\0libhwdyno.so.2\0".to_vec() };
        assert!(loader.finds("libhwdyno.so.2") && loader.finds("libhwdyno-made.so.1"));
        assert!(!loader.finds("libhwdyno.so") && !loader.finds("hwdyno-made.so.1"), "{:?}", loader.cache);
    }

    #[test]
    fn every_library_is_named_found_or_not() {
        let found = look();
        let names: Vec<_> = found["looked_for"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
        assert_eq!(names.len(), 7, "{found}");
        assert!(names[0].as_str().unwrap().starts_with("libOpenCL.so"));
        assert_eq!(&names[1..3], [nvidia::CUDA, nvidia::NVML]);
        assert!(names[3].as_str().unwrap().starts_with("libnvrtc.so"));
        assert!(names[4].as_str().unwrap().starts_with("libcublasLt.so"));
        assert!(names[5].as_str().unwrap().starts_with("libcublas.so"));
        assert!(names[6].as_str().unwrap().starts_with("libcufile.so"));
        assert!(found["looked_for"].as_array().unwrap().iter().all(|one| !one["says"].as_str().unwrap().is_empty()));
    }
}
