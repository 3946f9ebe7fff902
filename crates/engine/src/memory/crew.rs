//! What every kernel with a team of threads does alike: where they run, what they may take, one time
//! for all, and the remarks that go into the reading.

use std::io;

use serde_json::json;

use super::traffic::Verdict;
use crate::clock::now_ns;
use crate::kernel::{Error, Parameters};
use crate::reading::{Fault, Note, Reading};
use crate::sys::pages::{available_bytes, Pages};
use crate::sys::{affinity, clock_chain, numa};

/// The processors that were asked for, or all that are allowed.
#[must_use]
pub fn cpus(given: &[u64]) -> Vec<u64> {
    if given.is_empty() {
        affinity::allowed().into_iter().map(|cpu| cpu as u64).collect()
    } else {
        given.to_vec()
    }
}

/// The processors of a kernel that has `cpus` and `cpu_node`: those that were asked for, those of the node
/// that are allowed, or all that are.
///
/// # Errors
/// Usage, where the node has none.
pub fn placed(parameters: &Parameters) -> Result<Vec<u64>, Error> {
    let given = parameters.integers("cpus");
    let Some(node) = parameters.node("cpu_node").filter(|_| given.is_empty()) else { return Ok(cpus(&given)) };
    let allowed = cpus(&[]);
    let found: Vec<_> = numa::processors(node).into_iter().filter(|cpu| allowed.contains(cpu)).collect();
    if found.is_empty() {
        return Err(Error::usage(format!(
            "cpu_node {node}: this NUMA node has no processor that may be used here; `hwdyno machine` lists the nodes"
        )));
    }
    Ok(found)
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

/// The one time for all threads, of which `members` shared `cpus`.
///
/// Where each had a processor of its own and all worked over the same stretch of time: that by which the
/// sum of `amounts` gives the sum of the threads' own rates, since no thread should be charged for
/// another's last batch. Else, from the first start to the last end: threads that took turns, or of
/// which one began late, never moved the sum of their rates at any one time.
#[must_use]
pub fn elapsed_s(lines: &[&Timeline], amounts: &[u64], members: usize, cpus: &[u64]) -> f64 {
    let begun = |of: fn(u64, u64) -> u64| lines.iter().map(|line| line.begun).reduce(of).unwrap_or(0);
    let ended = |of: fn(u64, u64) -> u64| lines.iter().map(|line| line.ended).reduce(of).unwrap_or(0);
    let wall_ns = ended(u64::max).saturating_sub(begun(u64::min)).max(1);
    let together_ns = ended(u64::min).saturating_sub(begun(u64::max));
    let rates: f64 = lines.iter().zip(amounts).map(|(line, &amount)| amount as f64 / line.elapsed_s()).sum();
    if members <= places(cpus) && rates > 0.0 && together_ns as f64 >= TOGETHER * wall_ns as f64 {
        return amounts.iter().sum::<u64>() as f64 / rates;
    }
    wall_ns as f64 / 1e9
}

/// Threads whose common stretch is at least this share of first start to last end worked at the same time.
const TOGETHER: f64 = 0.98;

/// What all threads did in each whole interval since the first of them began. Those that began later have
/// other intervals, of which each is dealt out to the two that it lies in.
#[must_use]
pub fn intervals(lines: &[&Timeline]) -> Vec<u64> {
    let begun = lines.iter().map(|line| line.begun).min().unwrap_or(0);
    let whole = |line: &&Timeline| ((line.ended - begun) / line.interval_ns) as usize;
    let count = lines.iter().map(whole).min().unwrap_or(0);
    let mut sums = vec![0; count];
    for line in lines {
        let late = line.begun - begun;
        let (first, rest) = ((late / line.interval_ns) as usize, u128::from(late % line.interval_ns));
        for (at, &amount) in line.counts.iter().enumerate() {
            let next = (u128::from(amount) * rest / u128::from(line.interval_ns)) as u64;
            for (place, part) in [(first + at, amount - next), (first + at + 1, next)] {
                if let Some(sum) = sums.get_mut(place) {
                    *sum += part;
                }
            }
        }
    }
    sums
}

/// How many of `cpus` can be pinned to: as many threads as that do not take turns.
#[must_use]
pub fn places(cpus: &[u64]) -> usize {
    let allowed = affinity::allowed();
    let asked = distinct(cpus);
    if allowed.is_empty() || cpus.iter().all(|&cpu| allowed.contains(&(cpu as usize))) {
        return asked;
    }
    // A thread that was refused its processor runs on any of those that are allowed.
    asked.min(allowed.len())
}

/// How many different processors there are.
fn distinct(cpus: &[u64]) -> usize {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len()
}

/// A clock by the dependent-add chain, a slice at a time.
///
/// Whoever takes the processor away in the middle of a slice makes it longer by milliseconds and tells
/// nothing of the clock, so the median slice speaks and not their sum.
pub struct Chain {
    adds: u64,
    /// The last slices, ns; the oldest is overwritten when there is no more room.
    slices: Vec<u32>,
    at: usize,
}

impl Chain {
    /// Turns of a slice: 32 additions each, so 10 µs at 3 GHz.
    const TURNS: u64 = 1000;
    /// Additions of a slice.
    pub const SLICE: u64 = Self::TURNS * clock_chain::TURN;

    /// Room for `slices`, allocated and touched here.
    #[must_use]
    pub fn new(slices: usize) -> Self {
        let mut room = vec![1; slices.clamp(1, 1 << 17)];
        room.clear();
        Self { adds: 0, slices: room, at: 0 }
    }

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
            self.record(then - now);
            now = then;
            if now - begun >= ns {
                return now;
            }
        }
    }

    /// One slice of `beat`, which is a chain of as many additions a turn; when it ended.
    #[inline]
    pub fn slice(&mut self, beat: impl Fn(u64) -> u64) -> u64 {
        let begun = now_ns();
        let done = std::hint::black_box(beat(Self::TURNS));
        let now = now_ns();
        if done > 0 {
            self.record(now - begun);
        }
        now
    }

    #[inline]
    fn record(&mut self, ns: u64) {
        let ns = u32::try_from(ns.max(1)).unwrap_or(u32::MAX);
        if self.slices.len() < self.slices.capacity() {
            self.slices.push(ns);
        } else {
            self.slices[self.at] = ns;
            self.at = (self.at + 1) % self.slices.len();
        }
        self.adds += Self::SLICE;
    }

    /// Additions done.
    #[must_use]
    pub fn adds(&self) -> u64 {
        self.adds
    }

    /// Lengths of the slices, ns, in turn as long as there was room.
    #[must_use]
    pub fn slices(&self) -> &[u32] {
        &self.slices
    }

    /// Additions a second, which are cycles a second, in the median slice; 0 where there is no chain.
    #[must_use]
    pub fn hz(&self) -> f64 {
        median(self.slices.iter().map(|&ns| f64::from(ns)).collect()).map_or(0.0, |ns| Self::SLICE as f64 * 1e9 / ns)
    }

    /// In the fastest slice: the most that the clock was.
    #[must_use]
    pub fn best_hz(&self) -> f64 {
        self.slices.iter().min().map_or(0.0, |&ns| Self::SLICE as f64 * 1e9 / f64::from(ns))
    }
}

/// The middle of some values, the upper one of two; none of none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
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
    let places = places(cpus);
    if threads > places {
        reading.notes.push(Note {
            code: "oversubscribed".into(),
            says: format!("{threads} threads share {places} processors and take turns"),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// One that worked from `from` to `to`, s, and did one unit every ms.
    fn line(from: f64, to: f64) -> Timeline {
        let mut line = Timeline::new(10 * S, S / 10);
        let begun = (from * 1e9) as u64;
        line.start(begun);
        (1..=((to - from) * 1e3).round() as u64).for_each(|ms| line.add(begun + ms * 1_000_000, 1));
        line
    }

    #[test]
    fn threads_that_took_turns_are_charged_for_the_whole_time() {
        let lines: Vec<_> = (0..4).map(|at| line(f64::from(at), f64::from(at + 1))).collect();
        let lines: Vec<_> = lines.iter().collect();
        let own = affinity::allowed()[0] as u64;
        // Whether they share one processor, or say that they have four.
        for cpus in [vec![own], vec![own, own + 5000, own + 5001, own + 5002]] {
            assert!((elapsed_s(&lines, &[1000; 4], 4, &cpus) - 4.0).abs() < 1e-6);
        }
        // Each interval has what was done in it, and not what was done in the same turn of each.
        assert!(intervals(&lines).iter().all(|&sum| (99..=101).contains(&sum)), "{:?}", intervals(&lines));
    }

    #[test]
    fn one_that_began_late_does_not_add_its_own_rate_to_the_others() {
        let (whole, late) = (line(0.0, 1.0), line(0.999, 1.0));
        let elapsed = elapsed_s(&[&whole, &late], &[1000, 1_000_000], 1, &[0]);
        assert!((elapsed - 1.0).abs() < 1e-6, "{elapsed}");
    }

    #[test]
    fn a_last_batch_is_charged_to_its_own_thread_alone() {
        let (short, long) = (line(0.0, 1.0), line(0.0, 1.01));
        let cpus: Vec<_> = affinity::allowed().into_iter().map(|cpu| cpu as u64).collect();
        let elapsed = elapsed_s(&[&short, &long], &[1000, 1010], 1, &cpus);
        assert!((elapsed - 2.010 / 2.0).abs() < 1e-6, "{elapsed}");
    }

    #[test]
    fn intervals_of_one_thread_are_its_own() {
        let one = line(3.0, 4.0);
        assert_eq!(intervals(&[&one]).iter().sum::<u64>(), 999, "the last falls on the edge");
        let (one, other) = (line(0.0, 1.0), line(0.05, 1.05));
        let sums = intervals(&[&one, &other]);
        assert!(sums[0].abs_diff(149) <= 1 && sums[1..].iter().all(|sum| sum.abs_diff(200) <= 1), "{sums:?}");
    }

    #[test]
    fn a_slice_that_was_cut_into_says_nothing_of_the_clock() {
        let mut chain = Chain::new(100);
        for at in 0..300 {
            chain.record(if at % 3 == 0 { 8_000_000 } else { 8_000 + at });
        }
        assert_eq!(chain.slices().len(), 100, "the last hundred");
        assert!((chain.hz() / 4e9 - 1.0).abs() < 0.05, "{}", chain.hz());
        assert_eq!(chain.adds(), 300 * Chain::SLICE);
    }
}
