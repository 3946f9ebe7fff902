//! One job: its options, the preparation of its files, and the run of its threads.

pub mod options;
pub mod outcome;
pub mod parameters;
pub mod prepare;
pub mod run;
