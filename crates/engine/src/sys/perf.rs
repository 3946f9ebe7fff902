//! Counters of the processor for the calling thread (`perf_event_open(2)`).

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};

/// What is counted, as the kernel numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// The device that counts.
    pub kind: u32,
    /// The event of that device.
    pub config: u64,
}

/// The first published form of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    breakpoint: u64,
}

const READ_TOTAL_TIME_RUNNING: u64 = 1 << 1;
const READ_GROUP: u64 = 1 << 3;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

/// Two counters of the calling thread that run at the same times, so that their ratio holds however often they do.
pub struct Counters {
    first: File,
    _second: File,
}

impl Counters {
    /// Counts from now on, in user mode, or with `kernel` in the kernel too; none where the system refuses.
    #[must_use]
    pub fn open(all: Event, part: Event, kernel: bool) -> Option<Self> {
        let first = opened(all, -1, kernel)?;
        let second = opened(part, first.as_raw_fd(), kernel)?;
        Some(Self { first, _second: second })
    }

    /// Both counts so far; none where they never ran, since others had the processor's counters.
    #[must_use]
    pub fn read(&self) -> Option<[u64; 2]> {
        let mut bytes = [0; 32];
        (&self.first).read_exact(&mut bytes).ok()?;
        let number = |at: usize| u64::from_ne_bytes(bytes[8 * at..8 * at + 8].try_into().unwrap_or_default());
        // The number of counters, how long they ran, and their values.
        (number(0) == 2 && number(1) > 0).then(|| [number(2), number(3)])
    }
}

fn opened(event: Event, group: libc::c_int, kernel: bool) -> Option<File> {
    let attributes = Attributes {
        kind: event.kind,
        size: size_of::<Attributes>() as u32,
        config: event.config,
        read_format: READ_GROUP | READ_TOTAL_TIME_RUNNING,
        flags: EXCLUDE_HYPERVISOR | if kernel { 0 } else { EXCLUDE_KERNEL },
        ..Attributes::default()
    };
    let (this_thread, any_processor) = (0, -1);
    // SAFETY: `attributes` lives through the call and states its own size; the call reads it and nothing else.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_thread as libc::pid_t,
            any_processor as libc::c_int,
            group,
            CLOSE_ON_EXEC,
        )
    };
    // SAFETY: the call gave this descriptor, and no one else has it.
    (descriptor >= 0).then(|| unsafe { File::from_raw_fd(descriptor as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `PERF_TYPE_SOFTWARE` with `PERF_COUNT_SW_TASK_CLOCK` and `PERF_COUNT_SW_PAGE_FAULTS`: where no processor counts.
    const TASK_CLOCK: Event = Event { kind: 1, config: 1 };
    const PAGE_FAULTS: Event = Event { kind: 1, config: 2 };

    #[test]
    fn two_counters_are_read_at_once() {
        // A system may refuse all counters to this user.
        let Some(counters) = Counters::open(TASK_CLOCK, PAGE_FAULTS, false) else { return };
        let pages = vec![1_u8; 64 * 4096];
        let sum: u64 = pages.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!(sum, 64 * 4096);
        let [nanoseconds, faults] = counters.read().expect("they ran");
        assert!(nanoseconds > 0 && faults < 1_000_000, "{nanoseconds} {faults}");
        let [later, _] = counters.read().expect("they run");
        assert!(later >= nanoseconds);
    }

    #[test]
    fn an_event_that_no_device_has_is_refused() {
        assert!(Counters::open(Event { kind: 1, config: 9999 }, PAGE_FAULTS, false).is_none());
    }
}
