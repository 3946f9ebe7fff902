//! What the memory kernels share: pages and first touch, the order of visits, the SIMD loops that move
//! bytes, the traffic that a thread makes with them, and the pointer chase.

pub mod allocation;
pub mod chase;
pub mod lane;
#[cfg(test)]
mod law;
pub mod loops;
pub mod operation;
pub mod paced;
pub mod places;
pub mod portable;
pub mod primitive;
pub mod route;
#[cfg(target_arch = "aarch64")]
#[path = "memory/neon.rs"]
mod simd;
#[cfg(target_arch = "x86_64")]
#[path = "memory/x86.rs"]
mod simd;
#[cfg(target_arch = "aarch64")]
mod sve;
pub mod traffic;
pub mod trial;
pub mod work;
