//! The run time of this process without the delay by the scheduler, in which one of its threads waited for a processor.
//!
//! What must be over after a second is over after a second of this time. On a machine that runs forty programs on four
//! processors, a clean-up that takes 10 ms of CPU time may need several seconds by the clock, and to cut it off would
//! leave files behind.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::timing::cpu_time::Schedule;

/// What a thread had of the processors until some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Thread {
    /// Whether it runs or waits for a processor (state `R` in proc(5)).
    is_ready: bool,
    schedule: Schedule,
}

type Threads = BTreeMap<u32, Thread>;

/// A clock that stops while a thread of this process waits for a processor.
#[derive(Debug)]
pub struct RunTimeClock {
    at: Instant,
    threads: Threads,
    total: Duration,
}

impl RunTimeClock {
    /// Begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { at: Instant::now(), threads: threads(), total: Duration::ZERO }
    }

    /// Adds what was given since the last call; the shorter the steps, the less of a wait is missed.
    pub fn advance(&mut self) -> Duration {
        let (at, threads) = (Instant::now(), threads());
        self.total += run_time(at - self.at, &self.threads, &threads);
        (self.at, self.threads) = (at, threads);
        self.total
    }
}

impl Default for RunTimeClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The part of `elapsed` in which no thread waited, as far as one thread's waits show; all of it where nothing is known.
fn run_time(elapsed: Duration, before: &Threads, after: &Threads) -> Duration {
    let longest = after.iter().map(|(id, now)| waited(elapsed, before.get(id), now)).max();
    elapsed.saturating_sub(longest.unwrap_or_default())
}

fn waited(elapsed: Duration, before: Option<&Thread>, now: &Thread) -> Duration {
    let before = before.copied().unwrap_or_default();
    let (earlier, later) = (before.schedule, now.schedule);
    if before.is_ready && now.is_ready && earlier.turns == later.turns {
        // It did not sleep, so it ran or waited; a wait that still goes on is in no counter yet.
        elapsed.saturating_sub(later.ran.saturating_sub(earlier.ran))
    } else {
        later.waited.saturating_sub(earlier.waited).min(elapsed)
    }
}

/// All threads of this process; none where the kernel does not say.
fn threads() -> Threads {
    let Ok(entries) = fs::read_dir("/proc/self/task") else { return Threads::new() };
    let ids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found = Threads::new();
    found.extend(ids.filter_map(|id| Some((id, thread(id)?))));
    found
}

fn thread(id: u32) -> Option<Thread> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    let schedstat = fs::read_to_string(format!("/proc/self/task/{id}/schedstat")).ok()?;
    Some(Thread { is_ready: is_ready(&stat), schedule: Schedule::parsed(&schedstat)? })
}

/// The state follows the program's name, which may have any character.
fn is_ready(stat: &str) -> bool {
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    /// Threads by whether they are ready, how long they ran and waited, and their turns.
    fn threads(of: &[(bool, u64, u64, u64)]) -> Threads {
        let made = of.iter().map(|&(is_ready, ran, waited, turns)| Thread {
            is_ready,
            schedule: Schedule { ran: ms(ran), waited: ms(waited), turns },
        });
        (1..).zip(made).collect()
    }

    #[test]
    fn all_time_is_given_while_no_thread_waits() {
        let before = threads(&[(false, 5, 100, 1), (true, 5, 100, 1)]);
        assert_eq!(run_time(ms(20), &before, &threads(&[(false, 9, 100, 2), (true, 25, 100, 1)])), ms(20));
        assert_eq!(run_time(ms(20), &Threads::new(), &Threads::new()), ms(20));
    }

    #[test]
    fn the_longest_wait_of_a_thread_is_left_out() {
        let before = threads(&[(false, 5, 100, 1), (false, 5, 100, 1)]);
        assert_eq!(run_time(ms(20), &before, &threads(&[(false, 6, 103, 2), (true, 9, 112, 2)])), ms(8));
    }

    #[test]
    fn a_thread_that_slept_meanwhile_did_not_wait() {
        // As the thread that counts: it runs each time when it looks.
        let before = threads(&[(true, 5, 100, 1)]);
        assert_eq!(run_time(ms(20), &before, &threads(&[(true, 6, 101, 2)])), ms(19));
    }

    #[test]
    fn a_wait_that_goes_on_counts_before_the_kernel_has_counted_it() {
        let ready = threads(&[(true, 5, 100, 1)]);
        assert_eq!(run_time(ms(20), &ready, &ready), ms(0));
        assert_eq!(run_time(ms(20), &ready, &threads(&[(true, 12, 100, 1)])), ms(7));
        // Its end brings all of the wait at once, which was counted before.
        assert_eq!(run_time(ms(20), &ready, &threads(&[(false, 12, 900, 2)])), ms(0));
    }

    #[test]
    fn a_new_thread_waited_within_the_step() {
        assert_eq!(run_time(ms(20), &Threads::new(), &threads(&[(false, 1, 4, 1)])), ms(16));
    }

    #[test]
    fn the_state_stands_after_the_name() {
        assert!(is_ready("7 (R) S) R 1 2"));
        assert!(!is_ready("7 (R) S 1 2"));
        assert!(!is_ready(""));
    }

    #[test]
    fn this_process_has_threads_and_is_given_time() {
        let mut clock = RunTimeClock::new();
        assert!(clock.threads.values().any(|one| one.is_ready), "{clock:?}");
        // On a busy machine a step may pass in which one of the threads waits for a processor all the time.
        let is_given = (0..1500).any(|_| {
            std::thread::sleep(ms(20));
            clock.advance() > Duration::ZERO
        });
        assert!(is_given, "{clock:?}");
    }
}
