//! Raw system calls: all `unsafe` but that of the SIMD loops lives below here.

pub mod affinity;
pub mod aio;
pub mod apart;
pub mod beneath;
pub mod cache_line;
pub mod cuda;
pub mod cufile;
pub mod datagrams;
pub mod device;
mod driver;
pub mod exit;
pub mod files;
pub mod filesystem;
pub mod heap;
pub mod icmp;
pub mod library;
pub mod mapping;
pub mod memory;
pub mod names;
pub mod net;
pub mod numa;
pub mod nvidia;
pub mod opencl;
pub mod pages;
pub mod pause;
pub mod perf;
pub mod pipe;
pub mod signals;
pub mod stdio;
pub mod tcp_info;
pub mod ticks;
#[cfg(target_arch = "x86_64")]
pub mod tiles;
pub mod time;
pub mod uring;
pub mod words;
