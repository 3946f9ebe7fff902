//! Blocks that identify themselves, the ledger of what was acknowledged, and the check after a crash.

pub mod check;
pub mod journal;
pub mod ledger;
pub mod verify;
