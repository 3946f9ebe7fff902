//! What the compute kernels share: the loops of independent operations, and what each must leave.

#[cfg(target_arch = "x86_64")]
mod amx;
pub mod chain;
#[cfg(target_arch = "aarch64")]
mod sve;
pub mod variant;

#[cfg(target_arch = "aarch64")]
#[path = "compute/neon.rs"]
mod loops;
#[cfg(target_arch = "x86_64")]
#[path = "compute/x86.rs"]
mod loops;

/// Every loop that this machine can run.
#[must_use]
pub fn available() -> Vec<variant::Variant> {
    loops::available()
}
