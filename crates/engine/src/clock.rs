//! Time in ns by the monotonic clock.

/// Now, in ns since an arbitrary origin; never runs backwards. About 20 ns a call through the vDSO.
#[inline]
#[must_use]
pub fn now_ns() -> u64 {
    crate::sys::time::monotonic_ns()
}
