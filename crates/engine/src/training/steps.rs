//! The steps of an emulated accelerator (wait for a batch, compute, meet the others) and what they tell.

use serde_json::{json, Map, Value};

use super::batches::{Batches, Meeting};
use crate::contract::kernel::Stop;
use crate::contract::reading::CpuTime;
use crate::sys;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;

/// A long computation is slept in parts of this length, to see a request to stop.
const NAP_NS: u64 = 100_000_000;
/// The end of a wait that is spent spinning, where processors are to spare: timers come some µs late.
const SPIN_NS: u64 = 60_000;

/// What an accelerator does.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Passes over the data.
    pub epochs: u64,
    /// Steps of each.
    pub steps: u64,
    /// Samples of a step.
    pub batch: u64,
    /// Batches begun and not taken, at most.
    pub in_flight: u64,
    /// Time to compute on a batch, s.
    pub compute_s: f64,
    /// When to end, s; 0 for after the last epoch.
    pub runtime_s: f64,
    /// Whether accelerators meet after each step.
    pub barrier: bool,
    /// Whether the last µs of a wait are spun.
    pub spins: bool,
}

/// One epoch of one accelerator; times in ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epoch {
    /// Steps done.
    pub steps: u64,
    /// Time between its beginning and its end.
    pub block: u64,
    /// Time between the end of the first step, its meeting included, and the epoch's end.
    pub after_first: u64,
    /// The first step, from asking for its batch to the end of its computation.
    pub first: u64,
    /// Computing, as it came out, first step left out.
    pub compute: u64,
    /// Waiting for batches, first step left out.
    pub load: u64,
    /// Waiting for the others, first step left out.
    pub barrier: u64,
}

/// What one accelerator brings home.
pub struct Rank {
    /// Its epochs.
    pub epochs: Vec<Epoch>,
    /// Step times: from asking for a batch until all have met.
    pub step: Histogram,
    /// Waiting times for a batch.
    pub wait: Histogram,
    /// CPU time.
    pub cpu: CpuTime,
    /// How much of that was spun to hit deadlines: the emulation's, not the loader's.
    pub spun_ns: u64,
}

/// Waits until `deadline`; gives the time spent spinning.
fn compute_until(deadline: u64, spins: bool, stop: &Stop) -> u64 {
    let sleep_to = if spins { deadline.saturating_sub(SPIN_NS) } else { deadline };
    let mut now = now_ns();
    while now < sleep_to {
        if stop.is_set() {
            return 0;
        }
        sys::pause::until(sleep_to.min(now + NAP_NS));
        now = now_ns();
    }
    let began = now;
    while now < deadline {
        std::hint::spin_loop();
        now = now_ns();
    }
    now - began
}

/// Runs all epochs of one accelerator, whose run began at `begun`. With `fetch` it reads each batch
/// itself, given epoch and step, as `PyTorch`'s loader does without workers, until that yields false.
pub fn accelerate(
    pace: &Pace,
    batches: &Batches,
    meeting: &Meeting,
    begun: u64,
    stop: &Stop,
    mut fetch: Option<&mut dyn FnMut(u64, u64) -> bool>,
) -> Rank {
    sys::pause::sharpen_timers();
    let end_ns = if pace.runtime_s > 0.0 { begun + (pace.runtime_s * 1e9) as u64 } else { u64::MAX };
    let rank = Rank {
        epochs: Vec::with_capacity(pace.epochs as usize),
        step: Histogram::new(),
        wait: Histogram::new(),
        cpu: CpuTime::default(),
        spun_ns: 0,
    };
    let mut accelerator = Accelerator { pace, batches, meeting, stop, end_ns, rank };
    let before = cpu_time::of_this_thread();
    let mut more = true;
    for number in 0..pace.epochs {
        if !more || pace.steps == 0 || !meeting.join(|| accelerator.goes_on()) {
            break;
        }
        more = accelerator.run_epoch(number, &mut fetch);
    }
    if !more {
        meeting.leave();
    }
    batches.close();
    accelerator.rank.cpu = cpu_time::of_this_thread().since(before);
    accelerator.rank
}

/// One accelerator, with all that its epochs share.
struct Accelerator<'a> {
    pace: &'a Pace,
    batches: &'a Batches,
    meeting: &'a Meeting,
    stop: &'a Stop,
    end_ns: u64,
    rank: Rank,
}

impl Accelerator<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.is_set() && now_ns() < self.end_ns
    }

    /// Runs one epoch; whether the run goes on after it.
    fn run_epoch(&mut self, number: u64, fetch: &mut Option<&mut dyn FnMut(u64, u64) -> bool>) -> bool {
        let Pace { steps, in_flight, barrier, spins, .. } = *self.pace;
        let compute = (self.pace.compute_s * 1e9) as u64;
        let (first, last) = (number * steps, (number + 1) * steps);
        let mut more = true;
        let mut epoch = Epoch::default();
        let block = now_ns();
        let (mut loading, mut after_first) = (block, block);
        self.batches.allow((first + in_flight).min(last));
        for batch in first..last {
            let is_there = match fetch {
                Some(fetch) => fetch(number, batch - first),
                None => self.batches.take(batch, self.stop),
            };
            if !is_there {
                more = false;
                break;
            }
            let loaded = now_ns();
            // the refill wakes readers, which may run before this goes on: that is the computation's time
            self.batches.allow((batch + 1 + in_flight).min(last));
            if compute > 0 {
                self.rank.spun_ns += compute_until(loaded + compute, spins, self.stop);
            }
            let computed = now_ns();
            more = if barrier { self.meeting.join(|| self.goes_on()) } else { self.goes_on() };
            let met = now_ns();
            if self.stop.is_set() {
                more = false;
                break; // a step cut short says nothing
            }
            self.rank.step.record(met - loading);
            self.rank.wait.record(loaded - loading);
            if epoch.steps == 0 {
                epoch.first = computed - loading;
                after_first = met;
            } else {
                epoch.compute += computed - loaded;
                epoch.load += loaded - loading;
                epoch.barrier += met - computed;
            }
            epoch.steps += 1;
            loading = met;
            if !more {
                break;
            }
        }
        epoch.block = loading - block;
        epoch.after_first = loading - after_first;
        self.rank.epochs.push(epoch);
        more
    }
}

/// The figures that the field reads off such a run, by epoch and over all.
///
/// * `au_rule`: the steps' nominal compute time over the run time, the first step left out (the rules of
///   `MLPerf` Storage).
/// * `au_dlio`: sum(compute\[1:\]) / (block - first step), as DLIO 2.0 `statscounter.py` has it: its `compute` is the
///   requested time, so that a late wake-up counts as waiting, not as computing.
/// * `au_without_barrier`: the same, with the time that accelerators wait for each other taken off.
/// * `samples_s_dlio`: all samples over the whole block, as DLIO 2.0.0 has it (releases after it leave two steps out).
/// * `samples_s_after_first`: over the time that `au_dlio` is of, so that it is AU x need.
///
/// Each is the mean over accelerators, then over epochs, as DLIO takes them.
#[must_use]
pub fn summary(pace: &Pace, ranks: &[Vec<Epoch>]) -> Map<String, Value> {
    let epochs = ranks.iter().map(Vec::len).max().unwrap_or(0);
    let mut lists: [Vec<f64>; 6] = Default::default();
    let steps = ranks.iter().flatten().map(|epoch| epoch.steps).sum();
    let mut totals = Epoch { steps, ..Epoch::default() };
    for number in 0..epochs {
        let of_ranks: Vec<&Epoch> =
            ranks.iter().filter_map(|rank| rank.get(number)).filter(|epoch| epoch.steps > 1).collect();
        if of_ranks.is_empty() {
            continue;
        }
        let mean = |figure: &dyn Fn(&Epoch) -> f64| {
            of_ranks.iter().map(|epoch| figure(epoch)).sum::<f64>() / of_ranks.len() as f64
        };
        let share = |part: f64, whole: u64| if whole == 0 { 0.0 } else { part / whole as f64 };
        let dlio_time = |epoch: &Epoch| epoch.block.saturating_sub(epoch.first);
        let batch = pace.batch as f64 * 1e9 * of_ranks.len() as f64;
        let compute = |epoch: &Epoch| pace.compute_s * 1e9 * (epoch.steps - 1) as f64;
        lists[0].push(mean(&|e| share(compute(e), e.after_first)));
        lists[1].push(mean(&|e| share(compute(e), dlio_time(e))));
        lists[2].push(mean(&|e| share(compute(e), dlio_time(e).saturating_sub(e.barrier))));
        lists[3].push(mean(&|e| share(e.steps as f64 * batch, e.block)));
        lists[4].push(mean(&|e| share(e.steps as f64 * batch, e.block)));
        lists[5].push(mean(&|e| share((e.steps - 1) as f64 * batch, dlio_time(e))));
        for epoch in of_ranks {
            totals.compute += epoch.compute;
            totals.load += epoch.load;
            totals.barrier += epoch.barrier;
        }
    }
    let mut details = Map::new();
    let names = ["au_rule", "au_dlio", "au_without_barrier", "samples_s", "samples_s_dlio", "samples_s_after_first"]
        .map(std::string::ToString::to_string);
    for (name, list) in names.into_iter().zip(&lists) {
        let mean = (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64);
        details.insert(name.clone(), json!(mean));
        details.insert(format!("{name}_by_epoch"), json!(list));
    }
    details.insert("steps".into(), json!(totals.steps));
    details.insert("epochs".into(), json!(epochs));
    details.insert("compute_s".into(), json!(totals.compute as f64 / 1e9));
    details.insert("load_s".into(), json!(totals.load as f64 / 1e9));
    details.insert("barrier_s".into(), json!(totals.barrier as f64 / 1e9));
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        epochs: 1,
        steps: 5,
        batch: 7,
        in_flight: 8,
        compute_s: 1.0,
        runtime_s: 0.0,
        barrier: true,
        spins: false,
    };

    #[test]
    fn utilisation_is_that_of_the_rule_and_of_dlio() {
        let s = 1_000_000_000;
        // the first step takes 3 s and 1 s at the barrier, then 4 steps of 1 s compute, 0.5 load, 0.5 barrier
        let epoch = Epoch {
            steps: 5,
            block: 12 * s,
            after_first: 8 * s,
            first: 3 * s,
            compute: 4 * s,
            load: 2 * s,
            barrier: 2 * s,
        };
        let details = summary(&PACE, &[vec![epoch], vec![epoch]]);
        let figure = |name: &str| details[name].as_f64().unwrap();
        assert!((figure("au_rule") - 0.5).abs() < 1e-12);
        assert!((figure("au_dlio") - 4.0 / 9.0).abs() < 1e-12);
        assert!((figure("au_without_barrier") - 4.0 / 7.0).abs() < 1e-12);
        assert!((figure("samples_s") - 5.0 * 14.0 / 12.0).abs() < 1e-12);
        assert!((figure("samples_s_dlio") - 5.0 * 14.0 / 12.0).abs() < 1e-12);
        assert!((figure("samples_s_after_first") - 4.0 * 14.0 / 9.0).abs() < 1e-12);
        assert!((figure("au_dlio") * 14.0 / PACE.compute_s - figure("samples_s_after_first")).abs() < 1e-12);
    }

    #[test]
    fn nothing_measured_is_nothing_claimed() {
        let details = summary(&PACE, &[vec![Epoch { steps: 1, ..Epoch::default() }]]);
        assert!(details["au_rule"].is_null());
    }
}
