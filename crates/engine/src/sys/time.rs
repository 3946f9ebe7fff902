//! The monotonic clock, and CPU time, as the system counts them.

use crate::contract::reading::CpuTime;

/// `CLOCK_MONOTONIC` in ns.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call fills; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// `getrusage(RUSAGE_THREAD)`: CPU time of the calling thread.
#[must_use]
pub fn thread_cpu_time() -> CpuTime {
    cpu_time(libc::RUSAGE_THREAD)
}

/// `getrusage(RUSAGE_SELF)`: CPU time of all threads of the process, the kernel's I/O workers for it included.
#[must_use]
pub fn process_cpu_time() -> CpuTime {
    cpu_time(libc::RUSAGE_SELF)
}

/// `getrusage(RUSAGE_CHILDREN)`: CPU time of all children that have ended and were waited for.
#[must_use]
pub fn children_cpu_time() -> CpuTime {
    cpu_time(libc::RUSAGE_CHILDREN)
}

fn cpu_time(who: libc::c_int) -> CpuTime {
    // SAFETY: rusage is plain data for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid rusage that the call fills.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTime {
        user_s: seconds(usage.ru_utime),
        system_s: seconds(usage.ru_stime),
        voluntary_switches: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        involuntary_switches: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
        ..CpuTime::default()
    }
}
