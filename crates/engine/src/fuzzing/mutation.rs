//! Makes inputs that are nearly right: the same seed gives the same inputs, so that what fails once fails again.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::timing::rng::{mix, Rng};

use super::targets::{Target, TARGETS};

/// An input that takes longer is a failure: what is read here is small.
const SLOWEST: Duration = Duration::from_secs(20);
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "-1",
    "0.5",
    "1e999",
    "-1e999",
    "1e308",
    "1e-320",
    "2147483648",
    "4294967296",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999",
    "NaN",
    "0x10",
    "1_0",
    "",
];
const WORDS: &[&str] =
    &["null", "true", "[]", "{}", "\"\"", "[", "]", "{", "}", ",", ":", "\n", "\t", "\0", "\"\\n\"", "../", "é"];
/// Whole numbers at the ends of their types.
const EDGES: &[u64] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Tries a target on its seeds, on what is kept of earlier runs, and on mutants of both.
#[cfg(test)]
pub fn try_all(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let seeds = (target.seeds)();
    for (number, seed) in seeds.iter().enumerate() {
        assert!(attempt(target, seed), "seed {number} is refused");
    }
    let mut known = target.failed();
    known.extend(target.corpus());
    for input in &known {
        attempt(target, input);
    }
    known.extend(seeds);
    let mut rng = Rng::new(name.bytes().fold(0, |sum, byte| mix(sum ^ u64::from(byte))));
    let taken = (0..target.mutants).filter(|_| attempt(target, &mutant(&mut rng, &known, target.words))).count();
    assert!(taken < target.mutants, "nothing is ever refused");
}

fn attempt(target: &Target, input: &[u8]) -> bool {
    let begun = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.read)(input)));
    let took = begun.elapsed();
    match outcome {
        Ok(accepted) if took < SLOWEST => accepted,
        _ => {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz/engine").join(target.name);
            let path = folder.join(format!("failed-{:08x}", crc32c::crc32c(input)));
            std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input)).unwrap();
            panic!("{} fails after {took:?} on {}: move it to crates/engine/fuzz/failed", target.name, path.display());
        }
    }
}

fn mutant(rng: &mut Rng, known: &[Vec<u8>], words: &[&str]) -> Vec<u8> {
    let mut data = pick(rng, known).clone();
    for _ in 0..*pick(rng, &[1, 1, 1, 2, 3, 5]) {
        change(rng, &mut data, known, words);
    }
    data
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

fn change(rng: &mut Rng, data: &mut Vec<u8>, known: &[Vec<u8>], words: &[&str]) {
    let at = rng.below(data.len() as u64 + 1) as usize;
    let longest = 1 << rng.below(8);
    let to = (at + rng.below(longest) as usize).min(data.len());
    match rng.below(9) {
        0 => drop(data.drain(at..to)),
        1 => data.truncate(at),
        2 => {
            let words = if words.is_empty() { WORDS } else { words };
            let list = *pick(rng, &[NUMBERS, WORDS, words, words]);
            let text = *pick(rng, list);
            drop(data.splice(at..at, text.bytes()));
        }
        3 => {
            // A number in the text becomes another one.
            let from = data[at..].iter().position(u8::is_ascii_digit).map_or(data.len(), |found| at + found);
            let end = data[from..].iter().position(|byte| !b"0123456789.eE+-".contains(byte));
            let end = end.map_or(data.len(), |found| from + found);
            drop(data.splice(from..end, pick(rng, NUMBERS).bytes()));
        }
        4 => {
            let other = pick(rng, known);
            let from = rng.below(other.len() as u64 + 1) as usize;
            let piece = other[from..(from + to - at).min(other.len())].to_vec();
            drop(data.splice(at..at, piece));
        }
        5 => {
            let piece = data[at..to].repeat(*pick(rng, &[1, 2, 20]));
            drop(data.splice(at..at, piece));
        }
        6 if at < data.len() => data[at] = rng.bits() as u8,
        7 if at < data.len() => data[at] ^= 1 << rng.below(8),
        _ => {
            let width = *pick(rng, &[2, 4, 8]);
            if data.len() >= width {
                let at = at.min(data.len() - width);
                let mut bytes = pick(rng, EDGES).to_le_bytes();
                if rng.below(2) == 0 {
                    bytes[..width].reverse();
                }
                data[at..at + width].copy_from_slice(&bytes[..width]);
            }
        }
    }
}
