//! One of the engine's readers under libFuzzer: `HWDYNO_FUZZ` names it.
//!
//! `HWDYNO_FUZZ_SEEDS=FOLDER` writes what every reader is fuzzed from instead, a folder each: seeds, inputs that once
//! failed, the kept corpus, and the words of its language as `words` for libFuzzer.

#![no_main]
#![allow(clippy::expect_used, reason = "where it cannot start, nothing is fuzzed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use hwdyno_engine::parts::TARGETS;
use libfuzzer_sys::fuzz_target;

/// No reader needs this much for an input of some KiB: what asks for more would do so for any file that says so.
const MAX_BYTES: usize = 256 << 20;

/// The system's allocator, which ends the process where an input makes a reader ask for too much.
struct Limited;

// SAFETY: every call is passed on as it is, or does not return.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        limit(layout.size());
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        limit(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        limit(size);
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

fn limit(bytes: usize) {
    if bytes > MAX_BYTES {
        eprintln!("an allocation of {bytes} bytes");
        std::process::abort();
    }
}

#[global_allocator]
static ALLOCATOR: Limited = Limited;

static READ: OnceLock<fn(&[u8]) -> bool> = OnceLock::new();

fn start() {
    if let Some(folder) = std::env::var_os("HWDYNO_FUZZ_SEEDS") {
        for target in TARGETS {
            let folder = Path::new(&folder).join(target.name);
            for (kind, inputs) in [("seed", (target.seeds)()), ("failed", target.failed()), ("kept", target.corpus())] {
                fs::create_dir_all(folder.join("corpus")).expect("a folder for the seeds");
                for (number, input) in inputs.iter().enumerate() {
                    fs::write(folder.join(format!("corpus/{kind}-{number}")), input).expect("room for a seed");
                }
            }
            let byte = |byte: u8| format!("\\x{byte:02x}");
            let quoted = |word: &&str| format!("\"{}\"\n", word.bytes().map(byte).collect::<String>());
            fs::write(folder.join("words"), target.words.iter().map(quoted).collect::<String>())
                .expect("room for words");
        }
        std::process::exit(0);
    }
    let name = std::env::var("HWDYNO_FUZZ").expect("HWDYNO_FUZZ=TARGET names the reader");
    let target = TARGETS.iter().find(|target| target.name == name).expect("HWDYNO_FUZZ must name a reader");
    READ.get_or_init(|| target.read);
}

fuzz_target!(init: start(), |input: &[u8]| {
    if let Some(read) = READ.get() {
        read(input);
    }
});
