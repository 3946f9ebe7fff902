//! A common start of several processes: a team's gate stays shut until whoever coordinates them names a time.
//!
//! Nothing waits unless an agent (`agent`) has armed it: the gate of a team then costs one load more. A kernel whose
//! timed region begins without a team calls [`hold`] or [`hold_once`] itself, right before it takes the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::timing::clock::now_ns;

/// A sleeper wakes late by up to this much (timer slack, an idle state, a tick of the scheduler), so the rest is spun.
const SPIN_NS: u64 = 1_000_000;

static ARMED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<State> = Mutex::new(State { on_ready: None, releases: 0, at_ns: 0, opened_ns: 0 });
static CHANGED: Condvar = Condvar::new();

struct State {
    /// Called when a gate is ready and has to wait for [`release`]; none where the time is known already.
    on_ready: Option<Box<dyn Fn() + Send>>,
    releases: u64,
    at_ns: u64,
    opened_ns: u64,
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Every gate from now on calls `ready` and waits for [`release`].
pub fn arm(ready: impl Fn() + Send + 'static) {
    let mut state = state();
    state.on_ready = Some(Box::new(ready));
    ARMED.store(true, Ordering::Release);
}

/// Every gate from now on opens at `at_ns` of this machine's monotonic clock, or at once when that is past.
pub fn arm_at(at_ns: u64) {
    let mut state = state();
    (state.on_ready, state.at_ns) = (None, at_ns);
    ARMED.store(true, Ordering::Release);
}

/// Opens the gates that wait now at `at_ns`.
pub fn release(at_ns: u64) {
    let mut state = state();
    state.at_ns = at_ns;
    state.releases += 1;
    CHANGED.notify_all();
}

/// Opens what waits, and lets every later gate open by itself.
pub fn disarm() {
    let mut state = state();
    ARMED.store(false, Ordering::Release);
    (state.on_ready, state.at_ns) = (None, 0);
    state.releases += 1;
    CHANGED.notify_all();
}

/// When the last armed gate opened, once; none where no team reached one.
#[must_use]
pub fn take_opened_ns() -> Option<u64> {
    Some(std::mem::take(&mut state().opened_ns)).filter(|ns| *ns > 0)
}

/// Called by a gate when its team is complete, before it opens.
pub fn hold() {
    if !ARMED.load(Ordering::Acquire) {
        return;
    }
    let mut waiting = state();
    if let Some(ready) = &waiting.on_ready {
        let seen = waiting.releases;
        ready();
        while waiting.releases == seen {
            waiting = CHANGED.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
    let at_ns = waiting.at_ns;
    // Asleep on the condition, so that a stop ends a start that is far away.
    while ARMED.load(Ordering::Acquire) {
        let left = at_ns.saturating_sub(now_ns());
        if left <= SPIN_NS {
            break;
        }
        let slept = CHANGED.wait_timeout(waiting, Duration::from_nanos(left - SPIN_NS));
        waiting = slept.unwrap_or_else(PoisonError::into_inner).0;
    }
    drop(waiting);
    while now_ns() < at_ns && ARMED.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    state().opened_ns = now_ns();
}

/// Waits like [`hold`], for a kernel that has no team when it starts; no later gate of the run waits.
pub fn hold_once() {
    if ARMED.load(Ordering::Acquire) {
        hold();
        disarm();
    }
}
