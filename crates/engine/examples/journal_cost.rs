//! Prints what a write costs in the journal of acknowledged writes, compared with the same ledger in private memory.

use std::error::Error;
use std::fs::{remove_file, File};
use std::path::Path;
use std::sync::Arc;

use hwdyno_engine::parts::{Clock, Ledger, Words};

const BLOCKS: usize = 1 << 18;
const TURNS: usize = 40;

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new("/dev/shm").join(format!("hwdyno-ledger-{}", std::process::id()));
    std::fs::write(&path, vec![0_u8; 8 * (2 * BLOCKS + 1)])?;
    let file = File::options().read(true).write(true).open(&path);
    remove_file(&path)?;
    let mapped = Arc::new(Words::of_file(&file?, 2 * BLOCKS + 1, true)?);
    let kinds = [
        ("in private memory", Ledger::new(BLOCKS as u64)),
        ("in a journal", Ledger::within(mapped, 0..BLOCKS, BLOCKS, 2 * BLOCKS)),
    ];
    for (name, ledger) in &kinds {
        for (order, step) in [("in sequence", 1), ("random", 0x9E37_79B1)] {
            println!("{name}, {order}: {:.2} ns a write", best_ns(ledger, step));
        }
    }
    Ok(())
}

/// Both ends of a write, in the best of the turns.
fn best_ns(ledger: &Ledger, step: usize) -> f64 {
    let clock = Clock::best();
    let mut best = u64::MAX;
    for turn in 0..TURNS {
        let began = clock.now();
        for at in 0..BLOCKS {
            let number = (at * step + turn) % BLOCKS;
            let _ = ledger.begin_write(number, 1);
            ledger.end(number, true);
        }
        best = best.min(clock.now() - began);
        ledger.synced();
    }
    best as f64 / BLOCKS as f64
}
