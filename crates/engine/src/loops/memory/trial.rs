//! Which loop makes a kind of traffic fastest: the feature bits say which there are, and timings on the very
//! arrays that are going to be measured settle it.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::loops::memory::primitive::Primitive;

use super::allocation;
use super::loops::{self, find_loop};
use super::operation::{Choice, Isa, Way, PACED};
use super::traffic::Traffic;
use super::work::Work;
use crate::contract::kernel::Error;
use crate::timing::clock::now_ns;
use crate::timing::histogram::median;
use crate::timing::team;

/// What makes two readings alike: what is done, in which order and blocks, with which instructions if they were
/// given, on which pages, on a set of which power of two, by how many threads.
type Kind = (Primitive, bool, u64, Option<Isa>, u8, u32, usize);

static KNOWN: Mutex<BTreeMap<Kind, Evidence>> = Mutex::new(BTreeMap::new());

/// Rounds in which a kind's first reading tries every loop, those in which later readings try the loops that are
/// still in question, and how many rounds are enough.
const FIRST_ROUNDS: usize = 3;
const MORE_ROUNDS: usize = 2;
const ENOUGH_ROUNDS: usize = 9;
/// A loop this much slower than the best, as a share, is out of question.
const OUT: f64 = 0.06;
/// Looks a turn, and the length of one: short against a time slice, so that most of them see no one else.
const LOOKS: u64 = 10;
const LOOK_NS: u64 = 250_000;
/// What the looks of one loop in one round may take, with the last batch of each.
const TURN_NS: u64 = LOOKS * LOOK_NS * 5 / 4;

/// The rates of all loops that were tried in one round, in the order of the loops; any unit.
type Round = Vec<f64>;

/// What is known of the loops for one kind of work.
///
/// A machine's speed changes from one moment to the next by more than two loops differ, so loops are compared within a
/// round only, and a loop's score is the median of its shares of the rounds.
#[derive(Debug, Clone, Default)]
struct Evidence {
    /// Those in question, with their share of each round's sum.
    loops: Vec<(Choice, Vec<f64>)>,
}

impl Evidence {
    fn of(candidates: &[Choice]) -> Self {
        Self { loops: candidates.iter().map(|&choice| (choice, Vec::new())).collect() }
    }

    /// How many more rounds the next reading shall try.
    fn wants(&self) -> usize {
        match self.loops.first().map_or(0, |(_, shares)| shares.len()) {
            _ if self.loops.len() < 2 => 0,
            0 => FIRST_ROUNDS,
            known if known < ENOUGH_ROUNDS => MORE_ROUNDS,
            _ => 0,
        }
    }

    fn candidates(&self) -> Vec<Choice> {
        self.loops.iter().map(|&(choice, _)| choice).collect()
    }

    /// Takes rounds of `candidates`, those of [`Evidence::candidates`] when the trial began, and leaves only the loops
    /// in question that are near the best. A round in which some loop was never seen says nothing.
    fn add(&mut self, candidates: &[Choice], rounds: &[Round]) {
        // Another run may have left fewer in question meanwhile.
        let at: Vec<_> =
            self.loops.iter().filter_map(|(choice, _)| candidates.iter().position(|one| one == choice)).collect();
        if at.len() < self.loops.len() {
            return;
        }
        for round in rounds {
            let rates: Vec<_> = at.iter().map(|&at| round.get(at).copied().unwrap_or(0.0)).collect();
            let sum: f64 = rates.iter().sum();
            if rates.iter().all(|&rate| rate > 0.0) {
                self.loops.iter_mut().zip(rates).for_each(|((_, shares), rate)| shares.push(rate / sum));
            }
        }
        let best = self.standings().into_iter().fold(0.0, f64::max);
        let near: Vec<_> = self.standings().into_iter().map(|standing| standing >= (1.0 - OUT) * best).collect();
        let mut near = near.into_iter();
        self.loops.retain(|_| near.next().unwrap_or(true));
    }

    fn standings(&self) -> Vec<f64> {
        self.loops.iter().map(|(_, shares)| median(shares.clone()).unwrap_or(0.0)).collect()
    }

    /// The loop with the best score; the first of equals, and of loops that nothing is known of.
    fn best(&self) -> Option<Choice> {
        let mut best: Option<(Choice, f64)> = None;
        for (&(choice, _), standing) in self.loops.iter().zip(self.standings()) {
            if best.is_none_or(|(_, most)| standing > most) {
                best = Some((choice, standing));
            }
        }
        best.map(|(choice, _)| choice)
    }
}

fn trial_kind(work: &Work, trying: usize) -> Kind {
    let shape = u8::from(work.random) | u8::from(work.dense()) << 1 | (work.pages as u8) << 2;
    let step = if work.dense() { 64 } else { work.block };
    (work.primitive, work.stride == work.block, step, work.isa, shape, work.working_set.max(1).ilog2(), trying)
}

/// The widest instructions first, so that they are taken where nothing else is known.
fn list_isas(work: &Work) -> Vec<Isa> {
    if work.isa == Some(Isa::Scalar) || (work.block < 64 && !work.dense()) {
        return vec![Isa::Scalar];
    }
    let mut isas = work.isa.map_or_else(loops::wide, |isa| vec![isa]);
    // Not every set of instructions has a loop for every operation.
    isas.retain(|&isa| find_loop(work.primitive, isa.into(), 64).is_some());
    isas.reverse();
    if isas.is_empty() {
        isas.push(Isa::Scalar);
    }
    isas
}

/// Every loop that `traffic` can go on with.
fn list_candidates(work: &Work, isas: &[Isa], traffic: &mut Traffic) -> Vec<Choice> {
    if isas == [Isa::Scalar] || traffic.by_turns() {
        return vec![isas[0].into()];
    }
    // A loop that goes by pages is no walk through a block at a random place.
    let ways = if work.dense() { &Way::ALL[..] } else { &Way::ALL[..1] };
    let every = ways.iter().flat_map(|&way| isas.iter().map(move |&isa| Choice { isa, way }));
    every.filter(|&choice| traffic.take(choice)).collect()
}

/// Times every loop in turn and by the clock, so that all threads that begin together try the same one.
fn time_rounds(traffic: &mut Traffic, candidates: &[Choice], rounds: usize) -> Vec<Round> {
    let mut found = vec![vec![0.0; candidates.len()]; rounds];
    let mut looks = Vec::with_capacity(2 * LOOKS as usize);
    let mut until = now_ns();
    for (number, round) in found.iter_mut().enumerate() {
        for turn in 0..candidates.len() {
            // Each round begins with another, so that none always follows the same one.
            let at = (turn + number) % candidates.len();
            until += TURN_NS;
            traffic.take(candidates[at]);
            traffic.batch();
            looks.clear();
            while now_ns() < until {
                let (begun, before) = (now_ns(), traffic.visits());
                while now_ns() - begun < LOOK_NS {
                    traffic.batch();
                }
                looks.push((traffic.visits() - before) as f64 / (now_ns() - begun) as f64);
            }
            round[at] = median(looks.clone()).unwrap_or(0.0);
        }
    }
    found
}

/// What all threads did together; a loop that some thread was never seen with has no rate.
fn together(threads: &[Vec<Round>], rounds: usize, candidates: usize) -> Vec<Round> {
    let rate = |round: usize, at: usize| {
        let each: Vec<_> = threads.iter().map(|one| one[round][at]).collect();
        if each.contains(&0.0) {
            0.0
        } else {
            each.iter().sum()
        }
    };
    (0..rounds).map(|round| (0..candidates).map(|at| rate(round, at)).collect()).collect()
}

/// The arrays of `threads` threads, each mapped and touched by a thread on the processor that will use it, and the
/// loop that they are fastest with together: with the given instructions, or any that this machine has.
///
/// Loops are timed on these arrays, because what is best in a smaller set, or for one thread, is not what is best
/// in this one, where several share the memory's channels. What was seen is kept for later readings of the same
/// kind, each of which adds some, until enough is known.
///
/// # Errors
/// What the system says when memory, pages or node are refused.
pub fn ready(work: Work, threads: usize, cpus: &[u64]) -> Result<(Vec<Traffic>, Choice), Error> {
    // More threads than processors take turns, and would time each other.
    let trying = threads.min(cpus.len()).max(1);
    let isas = list_isas(&work);
    let kind = trial_kind(&work, trying);
    let lock = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lock().get(&kind).cloned();
    let made = team::run(threads, cpus, |member| {
        let made = Traffic::new(work, isas[0], member.number as u64).map(|mut traffic| {
            let evidence = known.clone().unwrap_or_else(|| Evidence::of(&list_candidates(&work, &isas, &mut traffic)));
            traffic.wait(None);
            // Paced traffic has one loop, regardless of the instructions.
            let wants = if work.delay.is_some() { 0 } else { evidence.wants() };
            (traffic, evidence.candidates(), wants)
        });
        member.wait_for_start();
        made.map(|(mut traffic, candidates, wants)| {
            let rounds =
                if member.number < trying { time_rounds(&mut traffic, &candidates, wants) } else { Vec::new() };
            traffic.wait(work.delay);
            (traffic, candidates, rounds)
        })
    })?;
    let refused = |error: io::Error| allocation::refused(work.pages, work.working_set, &error);
    let made = made.into_iter().collect::<io::Result<Vec<_>>>().map_err(refused)?;
    let candidates = made.first().map(|(_, candidates, _)| candidates.clone()).unwrap_or_default();
    let mut traffics = Vec::with_capacity(threads);
    let mut timed = Vec::with_capacity(trying);
    for (traffic, _, rounds) in made {
        traffics.push(traffic);
        if timed.len() < trying {
            timed.push(rounds);
        }
    }
    let rounds = together(&timed, timed.first().map_or(0, Vec::len), candidates.len());
    let choice = {
        let mut all = lock();
        let evidence = all.entry(kind).or_insert_with(|| Evidence::of(&candidates));
        evidence.add(&candidates, &rounds);
        evidence.best().unwrap_or_else(|| isas[0].into())
    };
    for traffic in &mut traffics {
        traffic.take(choice);
    }
    let choice = if work.delay.is_some() { Choice::from(PACED) } else { choice };
    Ok((traffics, choice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPS: [Choice; 4] = [
        Choice { isa: Isa::Avx512, way: Way::Plain },
        Choice { isa: Isa::Avx2, way: Way::Plain },
        Choice { isa: Isa::Sse, way: Way::Plain },
        Choice { isa: Isa::Avx2, way: Way::Pages },
    ];

    /// A number from -1 to 1, another for each `at`.
    fn noise(at: u64) -> f64 {
        let mut x = at.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x ^= x >> 31;
        x = x.wrapping_mul(0xD1B5_4A32_D192_ED03);
        (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// The rounds that are wanted, of loops with these rates, on a machine whose speed changes by half from round to
    /// round and whose loops by 2% within one.
    fn tried(evidence: &Evidence, rates: &[(Choice, f64)], seed: u64) -> Vec<Round> {
        let of = |choice: &Choice| rates.iter().find(|one| one.0 == *choice).map_or(0.0, |one| one.1);
        (0..evidence.wants() as u64)
            .map(|round| {
                let pace = 1.0 + 0.5 * noise(seed * 1000 + round);
                let each = evidence.candidates();
                let at = |(at, choice)| of(choice) * pace * (1.0 + 0.02 * noise(seed * 77 + round * 13 + at as u64));
                each.iter().enumerate().map(at).collect()
            })
            .collect()
    }

    #[test]
    fn the_fastest_loop_is_found_though_the_machine_changes_its_speed() {
        for seed in 0..200 {
            let rates: Vec<_> = LOOPS.into_iter().zip([33.0, 30.0, 24.0, 31.0]).collect();
            let mut evidence = Evidence::of(&LOOPS);
            let mut readings = 0;
            while evidence.wants() > 0 {
                let (candidates, rounds) = (evidence.candidates(), tried(&evidence, &rates, seed + 1000 * readings));
                evidence.add(&candidates, &rounds);
                assert_eq!(evidence.best(), Some(LOOPS[0]), "seed {seed} after {readings} readings");
                readings += 1;
            }
            assert!(readings <= 4);
            assert!(!evidence.candidates().contains(&LOOPS[2]), "a loop a quarter slower is out of question");
        }
    }

    #[test]
    fn loops_that_are_alike_stay_in_question_until_enough_is_known() {
        let rates: Vec<_> = LOOPS.into_iter().zip([30.0, 30.0, 20.0, 30.0]).collect();
        let mut evidence = Evidence::of(&LOOPS);
        let mut seen = 0;
        while evidence.wants() > 0 {
            let (candidates, rounds) = (evidence.candidates(), tried(&evidence, &rates, seen));
            seen += rounds.len() as u64;
            evidence.add(&candidates, &rounds);
        }
        assert_eq!(evidence.candidates().len(), 3);
        assert!((ENOUGH_ROUNDS as u64..ENOUGH_ROUNDS as u64 + 2).contains(&seen));
    }

    #[test]
    fn a_round_in_which_a_thread_was_away_tells_nothing() {
        let rounds = together(&[vec![vec![1.0, 2.0], vec![1.0, 9.0]], vec![vec![1.0, 2.0], vec![1.0, 0.0]]], 2, 2);
        assert_eq!(rounds, vec![vec![2.0, 4.0], vec![2.0, 0.0]]);
        let mut evidence = Evidence::of(&LOOPS[..2]);
        evidence.add(&LOOPS[..2], &rounds);
        assert_eq!(evidence.best(), Some(LOOPS[1]));
        assert_eq!(evidence.loops[0].1.len(), 1);
        // Nothing was seen at all: the first loop is kept, and the next reading tries anew.
        let mut evidence = Evidence::of(&LOOPS);
        evidence.add(&LOOPS, &[vec![0.0; 4]]);
        assert_eq!((evidence.best(), evidence.wants()), (Some(LOOPS[0]), FIRST_ROUNDS));
    }

    #[test]
    fn what_is_ready_leaves_what_it_must_and_knows_its_delay() {
        use crate::sys::pages::Pages;
        for delay in [None, Some(300)] {
            let work = Work {
                primitive: Primitive::Copy,
                isa: None,
                random: true,
                working_set: 1 << 20,
                stride: 256,
                block: 256,
                delay,
                pages: Pages::Base,
                node: None,
            };
            let (mut traffics, choice) = ready(work, 1, &[]).unwrap();
            assert!(choice.way == Way::Plain && (delay.is_some() || choice.isa != Isa::Scalar));
            let before = traffics[0].moved();
            traffics[0].batch();
            let moved = traffics[0].moved().since(before);
            traffics[0].finish();
            assert!(moved.read > 0 && moved.read == moved.written);
            assert_eq!(traffics[0].verify().wrong, 0);
        }
    }
}
