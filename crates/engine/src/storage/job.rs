//! One job: its options, the preparation of its files, the run of its threads, and the reading of them.

pub mod options;
pub mod parameters;
pub mod prepare;
pub mod reading;
pub mod run;
pub mod spec;
