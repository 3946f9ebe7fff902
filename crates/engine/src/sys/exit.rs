//! The end of this process without any of its clean-up, which may wait for what a signal cut short.

/// A shell's status of a program that a signal ended is this plus the signal's number.
pub const STATUS_OF_SIGNAL: i32 = 128;

/// Ends all threads at once, with this status.
pub fn at_once(status: i32) -> ! {
    // SAFETY: `_exit` takes any number and does not return; it touches no memory of this process.
    unsafe { libc::_exit(status) }
}
