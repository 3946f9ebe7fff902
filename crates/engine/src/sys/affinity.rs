//! Which processors a thread may run on.

use std::io;

use rustix::thread::{sched_getaffinity, sched_setaffinity};

/// A set of processors, as the system keeps it.
pub use rustix::thread::CpuSet;

/// Where the calling thread may run; none if the system does not say.
#[must_use]
pub fn get() -> Option<CpuSet> {
    sched_getaffinity(None).ok()
}

/// The numbers of the processors where the calling thread may run.
#[must_use]
pub fn allowed() -> Vec<usize> {
    let Some(set) = get() else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Lets the calling thread run on `cpu` only.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Lets the calling thread run where it could before; a refusal is ignored, since nothing is lost.
pub fn restore(set: &CpuSet) {
    let _ = sched_setaffinity(None, set);
}
