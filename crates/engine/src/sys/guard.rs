//! Ends this process soon after a signal that asks it to leave, no matter what its threads do meanwhile.
//!
//! A signal handler may do little, and an interpreter's thread may wait long for its lock. So the handler writes the
//! signal's number into a pipe, and a thread here reads it: the first signal of a process that has something to keep
//! is a request, and any other one sets a limit, after which the process ends as it is. A request is followed within a
//! limit, too: where what runs does not end, such as a driver's compiler, it is as if the signal came again. The limits are
//! of the time that the machine gives (`run_time.rs`): a process that waits for a processor all the while is not cut off in
//! its clean-up.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::pipe::{pipe_with, PipeFlags};

use crate::sys::{abort, exit};
use crate::timing::run_time::RunTimeClock;

/// How often the time that the machine gave is counted.
const STEP: Duration = Duration::from_millis(20);

/// How often is counted how long a request is being followed.
const FOLLOWING_STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Longest time between a request and the end, when nothing is measured any more: findings, report and clean-up.
const ORDERLY: Duration = Duration::from_secs(60);

/// Longest time between a signal that leaves and the end, even on a busy machine; a longer limit overrides it.
const LONGEST: Duration = Duration::from_secs(60);

/// One signal, and what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: u8,
    /// Whether the process ends now; otherwise its work ends early and is kept.
    pub leaves: bool,
}

/// The watch over a process's signals.
pub struct Guard {
    handlers_end: OwnedFd,
    is_keeping: Arc<AtomicBool>,
    is_running: Arc<AtomicBool>,
    /// What the watching thread passes on; nothing is the end.
    signals: Mutex<Receiver<Option<Signal>>>,
    ending: Sender<Option<Signal>>,
    spent_ns: Arc<AtomicU64>,
}

impl Guard {
    /// Begins to watch; the process ends once it was given the time `limit` after a signal that asks it to leave, which
    /// comes by itself where what runs goes on for the time `halt` after a request.
    ///
    /// # Errors
    /// Where the system refuses a pipe or a thread.
    pub fn new(limit: Duration, halt: Duration) -> io::Result<Self> {
        let (ours, handlers_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        rustix::io::ioctl_fionbio(&ours, false)?;
        let (is_keeping, is_running) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (ending, signals) = channel();
        let spent_ns = Arc::new(AtomicU64::new(0));
        let (keeps, sends, spent) = (is_keeping.clone(), ending.clone(), spent_ns.clone());
        let (mut pipe, runs) = (File::from(ours), is_running.clone());
        thread::Builder::new().name("hwdyno-guard".into()).spawn(move || {
            abort::this_is_the_guard();
            let mut first = None;
            while let Some(number) = taken(&mut pipe, first, &runs, halt) {
                let is_abort = abort::is_one(number);
                let leaves = first.is_some() || is_abort || !keeps.load(Ordering::SeqCst);
                let status = abort::status(*first.get_or_insert(number));
                if is_abort {
                    abort::announce(number);
                }
                // After the end, its limit is all that counts.
                let _ = sends.send(Some(Signal { number, leaves }));
                if leaves {
                    wait(limit, &spent);
                    exit::at_once(status);
                }
            }
        })?;
        abort::hand_over(handlers_end.as_raw_fd());
        Ok(Self { handlers_end, is_keeping, is_running, signals: Mutex::new(signals), ending, spent_ns })
    }

    /// Where signal handlers write the number of their signal as one byte.
    #[must_use]
    pub fn descriptor(&self) -> RawFd {
        self.handlers_end.as_raw_fd()
    }

    /// Whether there is something to keep, so that the first signal is a request.
    pub fn keep(&self, is_keeping: bool) {
        self.is_keeping.store(is_keeping, Ordering::SeqCst);
    }

    /// Whether something runs that a request ends.
    pub fn run(&self, is_running: bool) {
        self.is_running.store(is_running, Ordering::SeqCst);
    }

    /// The time that the machine gave to this process since the signal that asks it to leave; zero before.
    #[must_use]
    pub fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::SeqCst))
    }

    /// Gives no more signals, because the process ends by itself.
    pub fn end(&self) {
        let _ = self.ending.send(None);
    }

    /// Waits for the next signal; none after the end.
    #[must_use]
    pub fn next_signal(&self) -> Option<Signal> {
        self.signals.lock().unwrap_or_else(PoisonError::into_inner).recv().ok().flatten()
    }
}

/// Takes the next signal from the pipe; after a `requested` one the same again, once it was followed for too long.
fn taken(pipe: &mut File, requested: Option<u8>, is_running: &AtomicBool, halt: Duration) -> Option<u8> {
    let (mut running, mut resting, mut run_time) = (Duration::ZERO, Duration::ZERO, RunTimeClock::new());
    let mut counted = Duration::ZERO;
    while requested.is_some() {
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&FOLLOWING_STEP)) {
            Ok(0) => {}
            Err(rustix::io::Errno::INTR) => continue,
            _ => break,
        }
        let total = run_time.advance();
        let step = total.saturating_sub(counted);
        *(if is_running.load(Ordering::SeqCst) { &mut running } else { &mut resting }) += step;
        counted = total;
        if running >= halt || resting >= ORDERLY.max(halt) {
            return requested;
        }
    }
    let mut number = [0];
    pipe.read_exact(&mut number).ok().map(|()| number[0])
}

/// Waits until the machine gave `limit`, and says meanwhile how much it gave so far.
fn wait(limit: Duration, spent_ns: &AtomicU64) {
    let (began, mut run_time, longest) = (Instant::now(), RunTimeClock::new(), LONGEST.max(limit));
    let mut spent = Duration::ZERO;
    while spent < limit && began.elapsed() < longest {
        thread::sleep(STEP);
        spent = run_time.advance();
        spent_ns.store(spent.as_nanos().try_into().unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn arrives(guard: &Guard, number: u8) {
        rustix::io::write(&guard.handlers_end, &[number]).unwrap();
    }

    #[test]
    fn the_first_signal_is_a_request_while_something_is_kept_and_the_second_leaves() {
        // The limit is longer than any test: that it ends a process is tested from outside of one.
        let guard = Guard::new(DAY, DAY).unwrap();
        guard.keep(true);
        arrives(&guard, 2);
        assert_eq!(guard.next_signal(), Some(Signal { number: 2, leaves: false }));
        arrives(&guard, 15);
        assert_eq!(guard.next_signal(), Some(Signal { number: 15, leaves: true }));
    }

    #[test]
    fn what_runs_on_after_a_request_is_left_as_if_the_signal_came_again() {
        let guard = Guard::new(DAY, Duration::from_millis(200)).unwrap();
        guard.keep(true);
        arrives(&guard, 15);
        assert_eq!(guard.next_signal(), Some(Signal { number: 15, leaves: false }));
        thread::sleep(Duration::from_millis(400));
        guard.run(true);
        assert_eq!(guard.next_signal(), Some(Signal { number: 15, leaves: true }));
    }

    #[test]
    fn the_first_signal_leaves_where_nothing_is_kept_and_none_comes_after_the_end() {
        let guard = Guard::new(DAY, DAY).unwrap();
        guard.keep(true);
        guard.keep(false);
        arrives(&guard, 1);
        assert_eq!(guard.next_signal(), Some(Signal { number: 1, leaves: true }));
        guard.end();
        assert_eq!(guard.next_signal(), None);
    }
}
