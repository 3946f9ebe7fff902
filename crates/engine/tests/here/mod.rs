//! What a test needs of this machine: what is missing is no failure, but where everything has to be there.

/// Says that this machine lacks something, and fails where `HWDYNO_REQUIRE_PEERS=1` says that it must have it.
pub fn absent(what: &str) {
    assert!(std::env::var("HWDYNO_REQUIRE_PEERS").as_deref() != Ok("1"), "this machine must have {what}");
    eprintln!("left out: this machine lacks {what}");
}

/// A turn on the processor's `OpenCL` driver (`PoCL`), as the tests of a GPU's kernels need; none where it is missing.
#[allow(dead_code)]
pub fn opencl_cpu() -> Option<std::sync::MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let is_there = std::fs::read_dir("/etc/OpenCL/vendors")
        .is_ok_and(|folder| folder.flatten().any(|file| file.file_name().to_string_lossy().starts_with("pocl")));
    if !is_there {
        absent("an OpenCL driver of the processor (Debian's pocl-opencl-icd)");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
}
