//! What every kernel with a team of threads does alike: where they run, what they may take, one time
//! for all, and the remarks that go into the reading.

use std::io;

use serde_json::json;

use super::traffic::Verdict;
use crate::clock::now_ns;
use crate::kernel::Error;
use crate::reading::{Fault, Note, Reading};
use crate::sys::pages::{available_bytes, Pages};
use crate::sys::{affinity, clock_chain};

/// The processors that were asked for, or all that are allowed.
#[must_use]
pub fn cpus(given: &[u64]) -> Vec<u64> {
    if given.is_empty() {
        affinity::allowed().into_iter().map(|cpu| cpu as u64).collect()
    } else {
        given.to_vec()
    }
}

/// Refuses to take more than nine tenths of what is free, since swapping is not measuring memory.
///
/// # Errors
/// Usage, with both figures.
pub fn fits(bytes: u64) -> Result<(), Error> {
    match available_bytes() {
        Some(free) if bytes > free / 10 * 9 => Err(Error::usage(format!(
            "{} MiB are asked for in all, {} MiB are free: take a smaller working set or fewer threads",
            bytes >> 20,
            free >> 20
        ))),
        _ => Ok(()),
    }
}

/// Why memory was refused, and what mends it.
#[must_use]
pub fn refused(pages: Pages, bytes: u64, error: &io::Error) -> Error {
    let mend = match pages {
        Pages::Huge1G => {
            " (1 GiB pages must be reserved: write a number to /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages, or take pages = 2m)"
        }
        _ => "",
    };
    Error::Machine(format!("map {} KiB of memory: {error}{mend}", bytes >> 10), error.raw_os_error())
}

/// One thread's timed region: when it began and ended, and what was done in each interval.
pub struct Timeline {
    begun: u64,
    ended: u64,
    runtime_ns: u64,
    interval_ns: u64,
    counts: Vec<u64>,
    at: usize,
    next: u64,
}

impl Timeline {
    /// Allocates all that it will ever hold: at most 100,000 intervals.
    #[must_use]
    pub fn new(runtime_ns: u64, interval_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        let intervals = (runtime_ns / interval_ns + 2).min(100_000);
        Self { begun: 0, ended: 0, runtime_ns, interval_ns, counts: vec![0; intervals as usize], at: 0, next: 0 }
    }

    /// Begins at `now` and hands it back.
    pub fn start(&mut self, now: u64) -> u64 {
        (self.begun, self.ended, self.next) = (now, now, now + self.interval_ns);
        now
    }

    /// When the timed region is to end.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> u64 {
        self.begun + self.runtime_ns
    }

    /// Counts `amount` that was done just before `now`.
    #[inline]
    pub fn add(&mut self, now: u64, amount: u64) {
        while now >= self.next && self.at + 1 < self.counts.len() {
            self.next += self.interval_ns;
            self.at += 1;
        }
        self.counts[self.at] += amount;
        self.ended = now;
    }

    /// Its length, s.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        (self.ended - self.begun).max(1) as f64 / 1e9
    }
}

/// The one time for all threads.
///
/// With a processor for each thread: that by which the sum of `amounts` gives the sum of the threads'
/// own rates, since no thread should be charged for another's last batch. With fewer: from the first
/// start to the last end, since the threads take turns.
#[must_use]
pub fn elapsed_s(lines: &[&Timeline], amounts: &[u64], cpus: &[u64]) -> f64 {
    let rates: f64 = lines.iter().zip(amounts).map(|(line, &amount)| amount as f64 / line.elapsed_s()).sum();
    if lines.len() <= distinct(cpus) && rates > 0.0 {
        return amounts.iter().sum::<u64>() as f64 / rates;
    }
    let begun = lines.iter().map(|line| line.begun).min().unwrap_or(0);
    let ended = lines.iter().map(|line| line.ended).max().unwrap_or(0);
    (ended - begun) as f64 / 1e9
}

/// What all threads did in each whole interval that all of them saw.
#[must_use]
pub fn intervals(lines: &[&Timeline]) -> Vec<u64> {
    let whole = |line: &&Timeline| ((line.ended - line.begun) / line.interval_ns) as usize;
    let count = lines.iter().map(whole).min().unwrap_or(0);
    (0..count).map(|at| lines.iter().map(|line| line.counts.get(at).copied().unwrap_or(0)).sum()).collect()
}

/// How many different processors there are.
#[must_use]
pub fn distinct(cpus: &[u64]) -> usize {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

/// A clock by the dependent-add chain: all of its slices together, and the fastest of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Chain {
    adds: u64,
    ns: u64,
    best_hz: f64,
}

impl Chain {
    /// Turns of a slice: 32 additions each, so 10 µs at 3 GHz.
    const TURNS: u64 = 1000;

    /// Runs slices for at least `ns`, and at least one.
    #[inline]
    pub fn run(&mut self, ns: u64) -> u64 {
        let begun = now_ns();
        let mut now = begun;
        loop {
            if clock_chain::chain(Self::TURNS) == 0 {
                return now;
            }
            let then = now_ns();
            let adds = Self::TURNS * clock_chain::TURN;
            self.adds += adds;
            self.ns += then - now;
            self.best_hz = self.best_hz.max(adds as f64 * 1e9 / (then - now).max(1) as f64);
            now = then;
            if now - begun >= ns {
                return now;
            }
        }
    }

    /// Additions done.
    #[must_use]
    pub fn adds(&self) -> u64 {
        self.adds
    }

    /// Additions a second, which are cycles a second, over all slices; 0 where there is no chain.
    #[must_use]
    pub fn hz(&self) -> f64 {
        self.adds as f64 * 1e9 / self.ns.max(1) as f64
    }

    /// In the fastest slice: what the clock is where nobody else had the processor.
    #[must_use]
    pub fn best_hz(&self) -> f64 {
        self.best_hz
    }
}

/// Writes the verdicts into the reading: `verification` is `passed`, or there is a fault with a count.
pub fn verified(reading: &mut Reading, verdicts: &[Verdict]) {
    let checked: u64 = verdicts.iter().map(|verdict| verdict.checked).sum();
    let wrong: u64 = verdicts.iter().map(|verdict| verdict.wrong).sum();
    reading.details.insert("verification".into(), json!(if wrong == 0 { "passed" } else { "failed" }));
    reading.details.insert("verified_words".into(), json!(checked));
    if wrong > 0 {
        reading.faults.push(Fault {
            operation: "verify".into(),
            errno: 0,
            says: "a result is not what the operation must leave: memory, processor or loop is at fault".into(),
            count: wrong,
        });
    }
}

/// Writes into the reading on which pages the memory came to lie.
pub fn paged(reading: &mut Reading, pages: Pages, bytes_each: u64, huge: &[Option<u64>]) {
    let Some(huge) = huge.iter().copied().collect::<Option<Vec<_>>>() else { return };
    let (got, asked) = (huge.iter().sum::<u64>(), bytes_each * huge.len() as u64);
    reading.details.insert("huge_page_bytes".into(), json!(got));
    if pages != Pages::Base && got < asked / 10 * 9 {
        reading.notes.push(Note {
            code: "huge_pages_refused".into(),
            says: format!("only {} of {} MiB lie on huge pages; the rest is on base pages", got >> 20, asked >> 20),
        });
    }
}

/// Notes it when threads must share processors.
pub fn oversubscribed(reading: &mut Reading, threads: usize, cpus: &[u64]) {
    let places = distinct(cpus);
    if threads > places {
        reading.notes.push(Note {
            code: "oversubscribed".into(),
            says: format!("{threads} threads share {places} processors and take turns"),
        });
    }
}
