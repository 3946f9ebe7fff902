//! CPU time that the calling thread has spent, and what kept it from more.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use crate::contract::reading::CpuTime;
use crate::timing::stalls::{self, Stalls};

/// What the calling thread has spent so far; the resolution of the CPU time is the kernel's (1 µs).
#[must_use]
pub fn of_this_thread() -> CpuTime {
    CpuTime { run_delay_s: run_delay_s(), stalls: stalls::so_far(), ..crate::sys::time::thread_cpu_time() }
}

/// What all threads of the process have spent so far, also those of a driver, and what kept the calling one from more.
#[must_use]
pub fn of_this_process() -> CpuTime {
    CpuTime { run_delay_s: run_delay_s(), stalls: stalls::so_far(), ..crate::sys::time::process_cpu_time() }
}

/// How long the calling thread was ready to run and waited for a processor (`/proc/PID/schedstat`, second field).
fn run_delay_s() -> Option<f64> {
    let mut text = [0; 80];
    let length = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    Some(Schedule::parsed(std::str::from_utf8(&text[..length]).ok()?)?.waited.as_secs_f64())
}

/// What a thread had of the processors (`/proc/PID/schedstat`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedule {
    /// How long it ran.
    pub ran: Duration,
    /// How long it was ready to run and waited for a processor, up to when it last began to run.
    pub waited: Duration,
    /// How often it began to run.
    pub turns: u64,
}

impl Schedule {
    /// Reads the kernel's text.
    #[must_use]
    pub fn parsed(schedstat: &str) -> Option<Self> {
        let mut fields = schedstat.split_ascii_whitespace().map_while(|field| field.parse().ok());
        let (ran, waited, turns) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Self { ran: Duration::from_nanos(ran), waited: Duration::from_nanos(waited), turns })
    }
}

/// The sum of what is known; unknown where neither is.
fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.map_or(other, |one| Some(one + other.unwrap_or(0.0)))
}

impl CpuTime {
    /// Adds what kept another thread from more, whose spending is counted already.
    pub fn add_waits(&mut self, other: Self) {
        self.run_delay_s = sum(self.run_delay_s, other.run_delay_s);
        self.stalls = Stalls::sum(self.stalls, other.stalls);
    }

    /// CPU time since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_s: self.user_s - earlier.user_s,
            system_s: self.system_s - earlier.system_s,
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
            run_delay_s: self.run_delay_s.zip(earlier.run_delay_s).map(|(now, then)| (now - then).max(0.0)),
            stalls: self.stalls.zip(earlier.stalls).and_then(|(now, then)| now.since(then)),
        }
    }
}

impl std::ops::AddAssign for CpuTime {
    fn add_assign(&mut self, other: Self) {
        self.user_s += other.user_s;
        self.system_s += other.system_s;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
        self.add_waits(other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_field_of_schedstat_is_the_wait_for_a_processor() {
        let ms = Duration::from_millis;
        let schedule = Schedule { ran: ms(52), waited: ms(1500), turns: 31 };
        assert_eq!(Schedule::parsed("52000000 1500000000 31\n"), Some(schedule));
        assert_eq!(Schedule::parsed("0 0 0\n"), Some(Schedule::default()));
        for text in ["", "12", "12 x 3"] {
            assert_eq!(Schedule::parsed(text), None);
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_woken_as_often() {
        std::thread::spawn(|| {
            let before = of_this_thread();
            // Long ones: where a host takes the processor away just as one begins, a short one is over before the thread waits.
            (0..20).for_each(|_| std::thread::sleep(Duration::from_millis(5)));
            let spent = of_this_thread().since(before);
            assert!(spent.voluntary_switches >= 20, "{spent:?}");
        })
        .join()
        .expect("the thread ended");
    }

    #[test]
    fn sums_keep_what_is_known_of_any_thread() {
        let mut all = CpuTime::default();
        all += CpuTime { run_delay_s: Some(0.25), voluntary_switches: 3, ..CpuTime::default() };
        all += CpuTime { run_delay_s: None, voluntary_switches: 4, ..CpuTime::default() };
        assert_eq!((all.run_delay_s, all.voluntary_switches), (Some(0.25), 7));
        assert_eq!(CpuTime::default().since(all).run_delay_s, None);
    }
}
