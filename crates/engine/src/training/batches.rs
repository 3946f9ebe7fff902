//! How batches pass from readers to an accelerator, and how accelerators meet after each step.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::contract::kernel::Stop;

/// How often someone who waits looks whether to give up.
const LOOK: Duration = Duration::from_millis(50);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One accelerator's batches: each is read whole by one reader, and they are delivered in order.
///
/// Reader w of W has batches w, w + W, …; it begins one only while fewer than W x prefetch are begun
/// and not taken, as `PyTorch`'s `DataLoader` keeps `num_workers x prefetch_factor` in flight.
pub struct Batches {
    allowed: AtomicU64,
    done: Vec<AtomicU64>,
    closed: AtomicBool,
    gate: Mutex<()>,
    room: Condvar,
    ready: Condvar,
}

impl Batches {
    /// One with at most `in_flight` batches begun and not taken.
    #[must_use]
    pub fn new(in_flight: u64) -> Self {
        Self {
            allowed: AtomicU64::new(0),
            done: (0..in_flight).map(|_| AtomicU64::new(0)).collect(),
            closed: AtomicBool::new(false),
            gate: Mutex::default(),
            room: Condvar::new(),
            ready: Condvar::new(),
        }
    }

    fn slot(&self, batch: u64) -> &AtomicU64 {
        &self.done[(batch % self.done.len() as u64) as usize]
    }

    /// Waits until `batch` may be begun; false when there is nothing more to do.
    pub fn begin(&self, batch: u64, stop: &Stop) -> bool {
        let is_allowed = || batch < self.allowed.load(Ordering::Acquire);
        self.wait(&self.room, is_allowed, stop)
    }

    /// Says that `batch` is read.
    pub fn deliver(&self, batch: u64) {
        self.slot(batch).store(batch + 1, Ordering::Release);
        drop(lock(&self.gate));
        self.ready.notify_one();
    }

    /// Waits for `batch`; false when it will not come.
    pub fn take(&self, batch: u64, stop: &Stop) -> bool {
        let slot = self.slot(batch);
        self.wait(&self.ready, || slot.load(Ordering::Acquire) == batch + 1, stop)
    }

    /// Lets readers begin all batches below `limit`.
    pub fn allow(&self, limit: u64) {
        self.allowed.store(limit, Ordering::Release);
        drop(lock(&self.gate));
        self.room.notify_all();
    }

    /// Sends everybody home.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        drop(lock(&self.gate));
        self.room.notify_all();
        self.ready.notify_all();
    }

    fn wait(&self, signal: &Condvar, is_so: impl Fn() -> bool, stop: &Stop) -> bool {
        if is_so() {
            return true;
        }
        let mut guard = lock(&self.gate);
        loop {
            if is_so() {
                return true;
            }
            if self.closed.load(Ordering::Acquire) || stop.is_set() {
                return false;
            }
            guard = signal.wait_timeout(guard, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A barrier where the last to come decides for all whether to go on, and which no one waits at without effect.
pub struct Meeting {
    members: usize,
    state: Mutex<State>,
    signal: Condvar,
}

#[derive(Default)]
struct State {
    arrived: usize,
    round: u64,
    over: bool,
}

impl Meeting {
    /// One of `members`.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { members, state: Mutex::default(), signal: Condvar::new() }
    }

    /// Waits for all members, and gives the result of the last one's `goes_on` to each.
    pub fn join(&self, goes_on: impl FnOnce() -> bool) -> bool {
        if self.members == 1 {
            return goes_on();
        }
        let mut state = lock(&self.state);
        state.arrived += 1;
        if state.arrived == self.members && !state.over {
            state.arrived = 0;
            state.round += 1;
            state.over = !goes_on();
            let goes_on = !state.over;
            drop(state);
            self.signal.notify_all();
            return goes_on;
        }
        let round = state.round;
        while state.round == round && !state.over {
            state = self.signal.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.over
    }

    /// Ends it for all: someone will not come any more.
    pub fn leave(&self) {
        lock(&self.state).over = true;
        self.signal.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn batches_come_in_order_and_no_more_are_begun_than_allowed() {
        let (batches, stop) = (Batches::new(4), Stop::new());
        let begun = AtomicU64::new(0);
        thread::scope(|scope| {
            for reader in 0..2 {
                let (batches, stop, begun) = (&batches, &stop, &begun);
                scope.spawn(move || {
                    for batch in (reader..100).step_by(2) {
                        assert!(batches.begin(batch, stop));
                        begun.fetch_add(1, Ordering::SeqCst);
                        batches.deliver(batch);
                    }
                });
            }
            batches.allow(4);
            for batch in 0..100 {
                assert!(batches.take(batch, &stop));
                assert!(begun.load(Ordering::SeqCst) <= batch + 4);
                batches.allow((batch + 5).min(100));
            }
        });
    }

    #[test]
    fn nobody_waits_in_vain() {
        let (batches, stop) = (Batches::new(2), Stop::new());
        let meeting = Meeting::new(3);
        thread::scope(|scope| {
            scope.spawn(|| assert!(!batches.take(0, &stop)));
            scope.spawn(|| assert!(!batches.begin(0, &stop)));
            scope.spawn(|| assert!(!meeting.join(|| true)));
            scope.spawn(|| assert!(!meeting.join(|| true)));
            batches.close();
            meeting.leave();
        });
    }

    #[test]
    fn the_last_to_come_decides_for_all() {
        let meeting = Meeting::new(4);
        let rounds = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while meeting.join(|| rounds.fetch_add(1, Ordering::SeqCst) < 9) {});
            }
        });
        assert_eq!(rounds.load(Ordering::SeqCst), 10);
    }
}
