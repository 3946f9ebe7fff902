//! Which loop makes a kind of traffic fastest: the feature bits say which there are, and short timings settle it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::crew;
use super::operation::{loop_of, Choice, Isa, Primitive, Way};
use super::traffic::Traffic;
use super::work::Work;
use crate::clock::now_ns;
use crate::kernel::Error;
use crate::team;

type Settled = BTreeMap<(Primitive, bool, u64, u64, usize), Choice>;

static SETTLED: Mutex<Settled> = Mutex::new(BTreeMap::new());

/// Rounds of the timings that settle a loop, looks a round, and the length of one: short against a time
/// slice, so that most of them see nobody else.
const ROUNDS: usize = 5;
const LOOKS: usize = 10;
const LOOK_NS: u64 = 250_000;
/// What the looks of one loop in one round may take, with the last batch of each.
const TURN_NS: u64 = LOOKS as u64 * LOOK_NS * 5 / 4;

/// Which loop is the fastest for `work`, by short timings on arrays of the same size up to 64 MiB. The feature bits
/// say which loops there are, and the timing which of them this machine does best. As many threads as the work has
/// try at once, because what is best for one thread is not where several share the memory's channels.
struct Trial {
    traffic: Option<Traffic>,
    candidates: Vec<Choice>,
}

/// A loop, and how many places a nanosecond it visited.
type Tried = (Choice, f64);

impl Trial {
    /// Maps and fills the arrays of one thread.
    fn new(work: Work) -> io::Result<Self> {
        if work.isa == Some(Isa::Scalar) || (work.block < 64 && !work.dense()) {
            return Ok(Self { traffic: None, candidates: vec![Isa::Scalar.into()] });
        }
        let isas = work.isa.map_or_else(Isa::wide, |isa| vec![isa]);
        // Not every set of instructions has a loop for every operation.
        let here = |isa: &&Isa| loop_of(work.primitive, (**isa).into(), 64).is_some();
        let widest = isas.iter().rfind(here).copied().unwrap_or(Isa::Scalar);
        let mut traffic = Traffic::new(trial_of(work), widest, 1)?;
        // A loop that goes by pages is no walk through a block at a random place.
        let ways = if work.dense() { &Way::ALL[..] } else { &Way::ALL[..1] };
        let every = ways.iter().flat_map(|&way| isas.iter().map(move |&isa| Choice { isa, way }));
        let mut candidates: Vec<_> = every.filter(|&choice| !traffic.by_turns() && traffic.take(choice)).collect();
        if candidates.is_empty() {
            candidates.push(widest.into());
        }
        Ok(Self { traffic: Some(traffic), candidates })
    }

    /// Times every loop, in turn and by the clock, so that all threads that begin together try the same one.
    fn times(self) -> Vec<Tried> {
        let candidates = self.candidates;
        let mut rates = vec![Vec::new(); candidates.len()];
        if let (Some(mut traffic), 2..) = (self.traffic, candidates.len()) {
            let mut until = now_ns();
            for at in (0..ROUNDS * candidates.len()).map(|turn| turn % candidates.len()) {
                until += TURN_NS;
                traffic.take(candidates[at]);
                traffic.batch();
                while now_ns() < until {
                    let (begun, before) = (now_ns(), traffic.visits());
                    while now_ns() - begun < LOOK_NS {
                        traffic.batch();
                    }
                    rates[at].push((traffic.visits() - before) as f64 / (now_ns() - begun) as f64);
                }
            }
        }
        // Of the better looks the least: neither what others spoiled nor a stroke of luck.
        let good = |mut rates: Vec<f64>| {
            rates.sort_unstable_by(f64::total_cmp);
            rates.get(rates.len() * 4 / 5).copied().unwrap_or(0.0)
        };
        candidates.into_iter().zip(rates.into_iter().map(good)).collect()
    }
}

fn trial_of(work: Work) -> Work {
    let trial = Work { working_set: work.working_set.min(64 << 20), delay: 0, ..work };
    if trial.array_bytes() < trial.stride {
        work
    } else {
        trial
    }
}

/// The loop that `threads` threads on these processors are together fastest with: with the instructions asked for,
/// or any that this machine has; settled once for each kind of work.
///
/// # Errors
/// What the system says when memory, pages or node are refused.
pub fn settle(work: Work, threads: usize, cpus: &[u64]) -> Result<Choice, Error> {
    // More threads than processors take turns, and would time each other.
    let trying = threads.min(cpus.len()).max(1);
    let key = (work.primitive, work.random, work.block, trial_of(work).working_set.ilog2().into(), trying);
    let known = || SETTLED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    if let Some(choice) = work.isa.is_none().then(known).flatten() {
        return Ok(choice);
    }
    let found = team::run(trying, cpus, |member| {
        let trial = Trial::new(work);
        member.wait_for_start();
        trial.map(Trial::times)
    })?;
    let found: Vec<_> = found
        .into_iter()
        .collect::<io::Result<_>>()
        .map_err(|error| crew::refused(work.pages, work.working_set, &error))?;
    let mut best = (Choice::from(Isa::Scalar), -1.0);
    for (at, &(choice, _)) in found.first().into_iter().flatten().enumerate() {
        let together: f64 = found.iter().filter_map(|one| one.get(at)).map(|tried| tried.1).sum();
        if together > best.1 {
            best = (choice, together);
        }
    }
    if work.isa.is_none() {
        SETTLED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, best.0);
    }
    Ok(best.0)
}
