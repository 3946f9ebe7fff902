//! Which processors a thread may run on.

use std::io;

/// A set of processors, as the system keeps it.
pub struct CpuSet(libc::cpu_set_t);

/// Where the calling thread may run; none if the system does not say.
#[must_use]
pub fn get() -> Option<CpuSet> {
    // SAFETY: cpu_set_t is a plain bit set for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid cpu_set_t of the size given; 0 means the calling thread.
    let answer = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    (answer == 0).then_some(CpuSet(set))
}

/// The numbers of the processors where the calling thread may run.
#[must_use]
pub fn allowed() -> Vec<usize> {
    let Some(CpuSet(set)) = get() else { return Vec::new() };
    // SAFETY: CPU_ISSET only reads bits below CPU_SETSIZE of a valid set.
    (0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}

/// Lets the calling thread run on `cpu` only.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: as in `get`.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    apply(&set)
}

/// Lets the calling thread run where it could before; a refusal is ignored, since nothing is lost.
pub fn restore(set: &CpuSet) {
    let _ = apply(&set.0);
}

fn apply(set: &libc::cpu_set_t) -> io::Result<()> {
    // SAFETY: `set` is a valid cpu_set_t of the size given; 0 means the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
