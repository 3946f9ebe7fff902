//! A team that measures until its time is over: what every such kernel does alike around its set-up and its pass,
//! from the gate at which all threads start to the counts, samples and CPU time in the reading.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::{counted, CpuTime, Reading, Samples, Stream};
use crate::sys::affinity;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::stalls::Counting;
use crate::timing::team::{self, Member};

/// How many threads measure, where, for how long, and in which intervals their progress is counted.
pub struct Crew<'a> {
    threads: usize,
    cpus: Vec<u64>,
    runtime_s: f64,
    interval_s: f64,
    stop: &'a Stop,
    /// The first thread's time is that of all: the others make its load until it ends.
    led: bool,
    over: Stop,
}

/// What one thread has done, beside its result.
struct Share {
    line: Timeline,
    cpu: CpuTime,
    stopped: bool,
}

/// What all threads of a crew have done, in their order.
pub struct Outcome<T> {
    results: Vec<T>,
    threads: Threads,
}

/// The threads of an outcome, no matter what their results are: what is made of them is compiled once.
struct Threads {
    shares: Vec<Share>,
    cpus: Vec<u64>,
    interval_s: f64,
    led: bool,
}

impl<'a> Crew<'a> {
    /// Threads of equal rank on `cpus`, or on all processors that are allowed where none are named.
    #[must_use]
    pub fn new(threads: usize, cpus: &[u64], runtime_s: f64, interval_s: f64, stop: &'a Stop) -> Self {
        Self { threads, cpus: processors(cpus), runtime_s, interval_s, stop, led: false, over: Stop::new() }
    }

    /// Makes the first thread the one whose time counts.
    #[must_use]
    pub fn led(self) -> Self {
        Self { led: true, ..self }
    }

    /// Where its threads run.
    #[must_use]
    pub fn cpus(&self) -> &[u64] {
        &self.cpus
    }

    /// Whether the first thread of a led crew has ended, or the set-up of any thread has failed.
    #[inline]
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.is_set()
    }

    /// Measures: each thread sets up, waits until all have, and makes passes until its time is over.
    ///
    /// `set_up` allocates all that a pass needs; it may call [`Member::wait_for_start`] itself where something has to
    /// be warmed up beside the others before time begins. `pass` is given the time at which it begins, and returns
    /// that at which it ended and the amount of what it did. `finish` verifies, on the same thread, untimed.
    ///
    /// # Errors
    /// What `set_up` refused, or the system, where it has no thread.
    pub fn run<S, T: Send>(
        &self,
        set_up: impl Fn(&Member<'_>) -> Result<S, Error> + Sync,
        pass: impl Fn(&mut S, u64) -> (u64, u64) + Sync,
        finish: impl Fn(S) -> T + Sync,
    ) -> Result<Outcome<T>, Error> {
        let all = team::run(self.threads, &self.cpus, |member| -> Result<(T, Share), Error> {
            let mut line = Timeline::new((self.runtime_s * 1e9) as u64, (self.interval_s * 1e9) as u64);
            // Memory and compute loops stay in user mode and do not sleep: counting costs them nothing.
            let _counting = Counting::start(false);
            let ready = set_up(member);
            member.wait_for_start();
            let mut state = ready.inspect_err(|_| self.over.set())?;
            let follows = self.led && member.number > 0;
            let end = if follows { &self.over } else { self.stop };
            let cpu = cpu_time::of_this_thread();
            let mut now = now_ns();
            line.start(now);
            let deadline = if follows { u64::MAX } else { line.deadline() };
            while now < deadline && !end.is_set() {
                let (then, amount) = pass(&mut state, now);
                line.add(then, amount);
                now = then;
            }
            if self.led && !follows {
                self.over.set();
            }
            let cpu = cpu_time::of_this_thread().since(cpu);
            Ok((finish(state), Share { line, cpu, stopped: !follows && now < deadline }))
        })?;
        let (mut results, mut shares) = (Vec::with_capacity(self.threads), Vec::with_capacity(self.threads));
        for share in all {
            let (result, share) = share?;
            results.push(result);
            shares.push(share);
        }
        let threads = Threads { shares, cpus: self.cpus.clone(), interval_s: self.interval_s, led: self.led };
        Ok(Outcome { results, threads })
    }
}

impl<T> Outcome<T> {
    /// What each thread's `finish` returned.
    pub fn results(&self) -> impl Iterator<Item = &T> {
        self.results.iter()
    }

    /// How many threads there were.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.results.len()
    }

    /// The length of each thread's timed region, s.
    pub fn lengths_s(&self) -> impl Iterator<Item = f64> + '_ {
        self.threads.shares.iter().map(|share| share.line.elapsed_s())
    }

    /// A reading of all threads' time, CPU time and remarks, with these streams of theirs.
    #[must_use]
    pub fn reading(&self, streams: Vec<Stream>) -> Reading {
        self.threads.reading(streams)
    }

    /// Adds a stream of some of the threads: its samples are its parts of what these did in each interval.
    pub fn add(&self, reading: &mut Reading, members: Range<usize>, stream: Stream) {
        self.threads.add(reading, members, stream);
    }
}

impl Threads {
    /// The reading behind [`Outcome::reading`].
    fn reading(&self, streams: Vec<Stream>) -> Reading {
        let everyone = 0..self.shares.len();
        let followers = self.shares.len() - usize::from(self.led);
        let mut reading = Reading {
            elapsed_s: elapsed_s(&self.lines(everyone.clone()), self.led, &self.cpus),
            // The load beside a first thread that leads is that of the others.
            concurrency_requested: followers as f64,
            interrupted: self.shares.iter().any(|share| share.stopped),
            samples: Samples { interval_s: self.interval_s, ..Samples::default() },
            ..Reading::default()
        };
        for share in &self.shares {
            reading.cpu += share.cpu;
        }
        let places = places(&self.cpus);
        if self.shares.len() > places {
            reading.note(
                "oversubscribed",
                format!("{} threads share {} and take turns", self.shares.len(), counted(places as u64, "CPU", "CPUs")),
            );
        }
        for stream in streams {
            self.add(&mut reading, everyone.clone(), stream);
        }
        reading
    }

    /// The stream's addition behind [`Outcome::add`].
    fn add(&self, reading: &mut Reading, members: Range<usize>, stream: Stream) {
        let lines = self.lines(members);
        let (done, all) = (intervals(&lines), lines.iter().map(|line| line.amount()).sum::<u64>().max(1));
        let parts = |of: u64| -> Vec<u64> {
            done.iter().map(|&amount| (u128::from(of) * u128::from(amount) / u128::from(all)) as u64).collect()
        };
        reading.samples.operations.push(parts(stream.operations));
        reading.samples.bytes.push(if stream.bytes > 0 { parts(stream.bytes) } else { Vec::new() });
        reading.streams.push(stream);
    }

    fn lines(&self, members: Range<usize>) -> Vec<&Timeline> {
        self.shares[members].iter().map(|share| &share.line).collect()
    }
}

/// The processors that were named, or all that are allowed.
#[must_use]
pub fn processors(given: &[u64]) -> Vec<u64> {
    if given.is_empty() {
        affinity::allowed().into_iter().map(|cpu| cpu as u64).collect()
    } else {
        given.to_vec()
    }
}

/// One thread's timed region: when it began and ended, and what was done in each interval.
struct Timeline {
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
    fn new(runtime_ns: u64, interval_ns: u64) -> Self {
        let interval_ns = interval_ns.max(1);
        // Room for a fifth more: members that follow begin while the first still warms up.
        let intervals = (runtime_ns / interval_ns * 6 / 5 + 2).min(100_000);
        Self { begun: 0, ended: 0, runtime_ns, interval_ns, counts: vec![0; intervals as usize], at: 0, next: 0 }
    }

    /// Begins at `now`.
    fn start(&mut self, now: u64) {
        (self.begun, self.ended, self.next) = (now, now, now + self.interval_ns);
    }

    /// When the timed region is to end.
    #[inline]
    fn deadline(&self) -> u64 {
        self.begun + self.runtime_ns
    }

    /// Counts `amount` that was done just before `now`.
    #[inline]
    fn add(&mut self, now: u64, amount: u64) {
        while now >= self.next && self.at + 1 < self.counts.len() {
            self.next += self.interval_ns;
            self.at += 1;
        }
        self.counts[self.at] += amount;
        self.ended = now;
    }

    /// All that was done.
    fn amount(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Its length, s.
    fn elapsed_s(&self) -> f64 {
        (self.ended - self.begun).max(1) as f64 / 1e9
    }
}

/// The one time for all threads. Where the first leads, that of those that follow, which begin before it and end after
/// it; or its own, where there are none or they never ran.
fn elapsed_s(lines: &[&Timeline], led: bool, cpus: &[u64]) -> f64 {
    match lines {
        [first] => first.elapsed_s(),
        [first, others @ ..] if led => common_s(others, lines.len(), cpus).max(first.elapsed_s()),
        _ => common_s(lines, lines.len(), cpus),
    }
}

/// The one time for threads of equal rank, of which `members` shared `cpus`.
///
/// Where each had a processor for itself and all worked over the same stretch of time: that by which the sum of what
/// they did gives the sum of their own rates, since no thread should be charged for another's last pass. Else, from the
/// first start to the last end: threads that took turns, or of which one began late, never moved the sum of their rates
/// at any one time.
fn common_s(lines: &[&Timeline], members: usize, cpus: &[u64]) -> f64 {
    let begun = |of: fn(u64, u64) -> u64| lines.iter().map(|line| line.begun).reduce(of).unwrap_or(0);
    let ended = |of: fn(u64, u64) -> u64| lines.iter().map(|line| line.ended).reduce(of).unwrap_or(0);
    let wall_ns = ended(u64::max).saturating_sub(begun(u64::min)).max(1);
    let together_ns = ended(u64::min).saturating_sub(begun(u64::max));
    let rates: f64 = lines.iter().map(|line| line.amount() as f64 / line.elapsed_s()).sum();
    if members <= places(cpus) && rates > 0.0 && together_ns as f64 >= TOGETHER * wall_ns as f64 {
        return lines.iter().map(|line| line.amount()).sum::<u64>() as f64 / rates;
    }
    wall_ns as f64 / 1e9
}

/// Threads whose common stretch is at least this share of first start to last end worked at the same time.
const TOGETHER: f64 = 0.98;

/// What all threads did in each whole interval since the first of them began. Those that began later have other
/// intervals, each of which is divided between the two that it overlaps.
fn intervals(lines: &[&Timeline]) -> Vec<u64> {
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
fn places(cpus: &[u64]) -> usize {
    let allowed = affinity::allowed();
    let different = distinct(cpus);
    if allowed.is_empty() || cpus.iter().all(|&cpu| allowed.contains(&(cpu as usize))) {
        return different;
    }
    // A thread that was refused its processor runs on any of those that are allowed.
    different.min(allowed.len())
}

/// How many different processors there are.
fn distinct(cpus: &[u64]) -> usize {
    let mut different = BTreeSet::new();
    different.extend(cpus.iter().copied());
    different.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// One that worked from `from` to `to`, s, and did `each` every ms.
    fn make_timeline(from: f64, to: f64, each: u64) -> Timeline {
        let mut line = Timeline::new(10 * S, S / 10);
        let begun = (from * 1e9) as u64;
        line.start(begun);
        (1..=((to - from) * 1e3).round() as u64).for_each(|ms| line.add(begun + ms * 1_000_000, each));
        line
    }

    fn line(from: f64, to: f64) -> Timeline {
        make_timeline(from, to, 1)
    }

    #[test]
    fn threads_that_took_turns_are_charged_for_the_whole_time() {
        let lines: Vec<_> = (0..4).map(|at| line(f64::from(at), f64::from(at + 1))).collect();
        let lines: Vec<_> = lines.iter().collect();
        let own = affinity::allowed()[0] as u64;
        // Whether they share one processor, or say that they have four.
        for cpus in [vec![own], vec![own, own + 5000, own + 5001, own + 5002]] {
            assert!((common_s(&lines, 4, &cpus) - 4.0).abs() < 1e-6);
        }
        // Each interval has what was done in it, and not what was done in the same turn of each.
        assert!(intervals(&lines).iter().all(|&sum| (99..=101).contains(&sum)), "{:?}", intervals(&lines));
    }

    #[test]
    fn followers_that_never_came_to_run_do_not_shorten_the_time() {
        let (first, whole) = (line(1.0, 2.0), line(0.0, 3.0));
        let mut starved = Timeline::new(10 * S, S / 10);
        starved.start(S);
        let cpus = [0, 1];
        assert!((elapsed_s(&[&first, &starved], true, &cpus) - 1.0).abs() < 1e-9);
        assert!((elapsed_s(&[&first, &whole], true, &cpus) - 3.0).abs() < 1e-9);
        assert!((elapsed_s(&[&first], true, &cpus) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn one_that_began_late_does_not_add_its_own_rate_to_the_others() {
        let (whole, late) = (line(0.0, 1.0), make_timeline(0.999, 1.0, 1_000_000));
        let elapsed = common_s(&[&whole, &late], 1, &[0]);
        assert!((elapsed - 1.0).abs() < 1e-6, "{elapsed}");
    }

    #[test]
    fn a_last_batch_is_charged_to_its_own_thread_alone() {
        let (short, long) = (line(0.0, 1.0), line(0.0, 1.01));
        let cpus: Vec<_> = affinity::allowed().into_iter().map(|cpu| cpu as u64).collect();
        let elapsed = common_s(&[&short, &long], 1, &cpus);
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
}
