//! Every reader of foreign bytes in the engine, with its seeds: mutated in the tests, guided by coverage in `fuzz/`.

mod checks;
mod memory_file;
#[cfg(test)]
mod mutation;
mod network;
mod object;
mod requests;
mod storage;
mod survey;
pub mod targets;
mod training;
mod vectors;
