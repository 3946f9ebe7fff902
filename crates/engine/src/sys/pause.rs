//! Sleeping to an absolute deadline.

/// Lets timers of the calling thread fire when they are due: the default slack is 50 µs.
pub fn sharpen_timers() {
    // SAFETY: sets a number of the calling thread; 1 ns is the least there is.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0, 0, 0) };
}

/// Sleeps until `deadline_ns` of the monotonic clock, through signals.
pub fn until(deadline_ns: u64) {
    let deadline = libc::timespec {
        tv_sec: (deadline_ns / 1_000_000_000) as _,
        tv_nsec: (deadline_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: `deadline` is a valid timespec; no remainder is requested, since the time is absolute.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const deadline, std::ptr::null_mut())
    } == libc::EINTR
    {}
}
