//! Cycles in which the measuring threads stalled because of memory, counted by the processor itself.
//!
//! Counted where the processor and the kernel allow it, and only for threads that do not sleep: a counter of a thread
//! costs time at each switch to and from it. Elsewhere nothing is counted, and nothing is claimed.

use std::cell::RefCell;
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;

use crate::survey::tree::Tree;
use crate::sys::perf::{Counters, Event};

/// What a pair of counters saw of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Stalls {
    /// Cycles, or slots of cycles, in all.
    #[serde(rename = "counted_cycles")]
    pub counted: u64,
    /// Stalled cycles that waited for data from caches or memory.
    #[serde(rename = "memory_stall_cycles", skip_serializing_if = "Option::is_none")]
    pub on_memory: Option<u64>,
    /// Stalled cycles that waited for memory or an execution unit, where the event does not distinguish them.
    #[serde(rename = "backend_stall_cycles", skip_serializing_if = "Option::is_none")]
    pub on_back_end: Option<u64>,
}

impl Stalls {
    fn new(counted: u64, stalled: u64, on: Cause) -> Self {
        let stalled = Some(stalled.min(counted));
        match on {
            Cause::Memory => Self { counted, on_memory: stalled, ..Self::default() },
            Cause::BackEnd => Self { counted, on_back_end: stalled, ..Self::default() },
        }
    }

    /// What was counted since `earlier`; none where the counters did not run.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Self> {
        let less = |now: Option<u64>, then: Option<u64>| now.zip(then).map(|(now, then)| now.saturating_sub(then));
        let counted = self.counted.saturating_sub(earlier.counted);
        (counted > 0).then(|| Self {
            counted,
            on_memory: less(self.on_memory, earlier.on_memory),
            on_back_end: less(self.on_back_end, earlier.on_back_end),
        })
    }

    /// The sum over threads; of two that were counted by different events, the first alone.
    #[must_use]
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(a), Some(b)) = (one, other) else { return one.or(other) };
        if a.on_memory.is_some() != b.on_memory.is_some() {
            return one;
        }
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        Some(Self {
            counted: a.counted + b.counted,
            on_memory: both(a.on_memory, b.on_memory),
            on_back_end: both(a.on_back_end, b.on_back_end),
        })
    }
}

/// What a stalled cycle waits for, as the event that counts it defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Memory,
    BackEnd,
}

/// A pair of events: all, and those that stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    all: Event,
    stalled: Event,
    on: Cause,
}

const DEVICES: &str = "/sys/bus/event_source/devices";
/// `PERF_TYPE_HARDWARE` with `PERF_COUNT_HW_CPU_CYCLES` and `PERF_COUNT_HW_STALLED_CYCLES_BACKEND` (`perf_event_open(2)`).
const GENERIC: Pair =
    Pair { all: Event { kind: 0, config: 0 }, stalled: Event { kind: 0, config: 8 }, on: Cause::BackEnd };

/// The pairs that the processor's own events make, the most exact first; each is tried until one can be opened.
///
/// Intel from Sapphire Rapids on names `topdown-mem-bound` beside its `slots`, Arm from v8.4 on `stall_backend_mem`
/// (cycles without an operation because of the memory system). The kernel maps the generic event on other processors.
fn pairs(tree: &Tree) -> Vec<Pair> {
    let mut found = Vec::new();
    for device in tree.list(DEVICES) {
        let Some(kind) = tree.number::<u32>(&format!("{DEVICES}/{device}/type")) else { continue };
        let event = |name: &str| {
            let config = parse_config(&tree.text(&format!("{DEVICES}/{device}/events/{name}"))?)?;
            Some(Event { kind, config })
        };
        if let (Some(all), Some(stalled)) = (event("slots"), event("topdown-mem-bound")) {
            found.push(Pair { all, stalled, on: Cause::Memory });
        }
        if let (Some(all), Some(stalled)) = (event("cpu_cycles"), event("stall_backend_mem")) {
            found.push(Pair { all, stalled, on: Cause::Memory });
        }
    }
    found.push(GENERIC);
    found
}

/// The number that an event's text means where its fields are those of x86 and Arm: `event=0x3c,umask=0x4`.
fn parse_config(text: &str) -> Option<u64> {
    text.trim().split(',').try_fold(0, |config, part| {
        let (name, value) = part.split_once('=')?;
        let value = u64::from_str_radix(value.trim_start_matches("0x"), 16).ok()?;
        match name {
            "event" => Some(config | value),
            "umask" => Some(config | value << 8),
            _ => None,
        }
    })
}

thread_local! {
    static COUNTING: RefCell<Option<(Counters, Cause)>> = const { RefCell::new(None) };
}

/// Counts the calling thread's stalls from now on until it is dropped; nothing where the system has no counter.
#[must_use]
pub struct Counting(());

impl Counting {
    /// Opens the first pair of counters that the system gives; without `kernel`, of user mode alone, which more users
    /// may count (`perf_event_paranoid`).
    pub fn start(kernel: bool) -> Self {
        static PAIRS: OnceLock<Vec<Pair>> = OnceLock::new();
        let opened = PAIRS
            .get_or_init(|| pairs(&Tree::open(Path::new("/"))))
            .iter()
            .find_map(|pair| Some((Counters::open(pair.all, pair.stalled, kernel)?, pair.on)));
        COUNTING.with(|counting| *counting.borrow_mut() = opened);
        Self(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        COUNTING.with(|counting| *counting.borrow_mut() = None);
    }
}

/// What the calling thread's counters have seen so far; none where it has none.
#[must_use]
pub fn so_far() -> Option<Stalls> {
    COUNTING.with(|counting| {
        let counting = counting.borrow();
        let (counters, cause) = counting.as_ref()?;
        let [all, stalled] = counters.read()?;
        Some(Stalls::new(all, stalled, *cause))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "cpu/type: 4\ncpu/events/slots: event=0x00,umask=0x4\n\
                       cpu/events/topdown-mem-bound: event=0x00,umask=0x87\n";
    const ARM: &str = "armv8_pmuv3_0/type: 8\narmv8_pmuv3_0/events/cpu_cycles: event=0x0011\n\
                       armv8_pmuv3_0/events/stall_backend_mem: event=0x4005\n";

    fn of_record(lines: &str) -> Vec<Pair> {
        let whole = format!("{DEVICES}/{}", lines.trim_end().replace('\n', &format!("\n{DEVICES}/")));
        pairs(&Tree::of_record(&whole))
    }

    #[test]
    fn the_processors_own_events_come_before_the_generic_one() {
        let intel = of_record(X86);
        assert_eq!(intel[0].all, Event { kind: 4, config: 0x400 });
        assert_eq!((intel[0].stalled, intel[0].on), (Event { kind: 4, config: 0x8700 }, Cause::Memory));
        let arm = of_record(ARM);
        assert_eq!((arm[0].stalled, arm[0].on), (Event { kind: 8, config: 0x4005 }, Cause::Memory));
        assert_eq!([&intel[1..], &arm[1..], &of_record("msr/type: 10")[..]], [&[GENERIC][..]; 3]);
    }

    #[test]
    fn an_event_with_a_field_that_is_not_known_is_left_alone() {
        assert_eq!(parse_config("event=0x3c,umask=0x1\n"), Some(0x13c));
        for text in ["event=0x3c,cmask=0x2", "event", "event=fast", "event=0x3c,inv"] {
            assert_eq!(parse_config(text), None, "{text}");
        }
    }

    #[test]
    fn threads_add_up_and_a_counter_that_never_ran_says_nothing() {
        let (early, late) = (Stalls::new(100, 10, Cause::Memory), Stalls::new(1100, 710, Cause::Memory));
        let spent = late.since(early).expect("it ran");
        assert_eq!((spent.counted, spent.on_memory), (1000, Some(700)));
        let written = serde_json::to_value(spent).expect("it is plain");
        assert_eq!(written, serde_json::json!({"counted_cycles": 1000, "memory_stall_cycles": 700}));
        assert_eq!(early.since(early), None);
        let both = Stalls::sum(Some(spent), Some(spent)).expect("both ran");
        assert_eq!((both.counted, both.on_memory, both.on_back_end), (2000, Some(1400), None));
        assert_eq!(Stalls::sum(None, Some(spent)), Some(spent));
        assert_eq!(Stalls::sum(Some(spent), Some(Stalls::new(5, 5, Cause::BackEnd))), Some(spent));
    }

    #[test]
    fn the_counters_end_with_their_guard() {
        std::thread::spawn(|| {
            let counting = Counting::start(false);
            drop(counting);
            assert_eq!(so_far(), None);
        })
        .join()
        .expect("the thread ended");
    }
}
