//! Threads that are pinned, start their timed region together and are joined with their results.

use std::cell::Cell;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use crate::contract::kernel::Error;

/// Where members wait for each other: a barrier that also opens when a member will never come.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    opened: Condvar,
}

#[derive(Default)]
struct GateState {
    awaited: usize,
    arrived: usize,
}

impl Gate {
    fn arrive(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        if state.arrived >= state.awaited {
            crate::timing::start::hold();
            self.opened.notify_all();
        }
        while state.arrived < state.awaited {
            state = self.opened.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn expect(&self, members: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).awaited = members;
        self.opened.notify_all();
    }
}

/// Where members wait until it is known whether all of them could be started.
#[derive(Default)]
struct Roll {
    complete: Mutex<Option<bool>>,
    called: Condvar,
}

impl Roll {
    fn call(&self, complete: bool) {
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = Some(complete);
        self.called.notify_all();
    }

    fn is_complete(&self) -> bool {
        let mut complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *complete {
                Some(complete) => return complete,
                None => complete = self.called.wait(complete).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// One member's place in its team.
pub struct Member<'a> {
    /// The member's number, from 0.
    pub number: usize,
    start: &'a Gate,
    waited: Cell<bool>,
}

impl Member<'_> {
    /// Waits until every member is ready: call it when set-up is done and before the timed region. From
    /// the second call on it does nothing; a member that returns without a call counts as ready.
    pub fn wait_for_start(&self) {
        if !self.waited.replace(true) {
            self.start.arrive();
        }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // One that failed early, or panicked, must not keep the others waiting for ever.
        self.wait_for_start();
    }
}

/// Values that were made before a team, one for each of its members.
pub struct PerMember<T> {
    first: usize,
    values: Vec<Mutex<Option<T>>>,
}

impl<T> PerMember<T> {
    /// One for each member in turn.
    #[must_use]
    pub fn new(values: Vec<T>) -> Self {
        Self::behind(0, values)
    }

    /// One for each member from number `first` on.
    #[must_use]
    pub fn behind(first: usize, values: Vec<T>) -> Self {
        Self { first, values: values.into_iter().map(|value| Mutex::new(Some(value))).collect() }
    }

    /// The value of `member`, once.
    ///
    /// # Errors
    /// There is none, or it was taken before.
    pub fn take(&self, member: &Member<'_>) -> Result<T, Error> {
        let place = member.number.checked_sub(self.first).and_then(|at| self.values.get(at));
        let value = place.and_then(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take());
        value.ok_or_else(|| Error::Machine("a thread has nothing to work on; please report it".into(), None))
    }
}

/// Runs `work` on `members` threads and gives back what each returned, in order.
///
/// Where a thread is refused, no member does any work: those of a team may wait for each other.
/// With `cpus`, member i is pinned to `cpus[i % cpus.len()]`; a machine that refuses to pin is not
/// an error. Everything that `work` allocates belongs before [`Member::wait_for_start`].
pub fn run<T: Send>(members: usize, cpus: &[u64], work: impl Fn(&Member<'_>) -> T + Sync) -> Result<Vec<T>, Error> {
    let results: Vec<Mutex<Option<T>>> = (0..members).map(|_| Mutex::new(None)).collect();
    start(members, cpus, &|member| {
        let result = work(member);
        *results[member.number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    })?;
    Ok(results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}

/// The threads of [`run`], whose code is made once for all teams: one indirect call a thread, before its set-up.
fn start(members: usize, cpus: &[u64], work: &(dyn Fn(&Member<'_>) + Sync)) -> Result<(), Error> {
    let gate = Gate::default();
    let member = |number| Member { number, start: &gate, waited: Cell::new(false) };
    if members == 1 {
        // On the caller's own thread: needs no thread where none can be made (qemu-user).
        let before = crate::sys::affinity::get();
        if let Some(&cpu) = cpus.first() {
            let _ = crate::sys::affinity::pin(cpu as usize);
        }
        work(&member(0));
        if let (false, Some(before)) = (cpus.is_empty(), before) {
            crate::sys::affinity::restore(&before);
        }
        return Ok(());
    }
    gate.expect(members);
    let roll = Roll::default();
    thread::scope(|scope| {
        let (member, roll) = (&member, &roll);
        let mut refused: Option<io::Error> = None;
        let mut handles = Vec::with_capacity(members);
        for number in 0..members {
            let body = move || {
                if !roll.is_complete() {
                    return;
                }
                if !cpus.is_empty() {
                    let _ = crate::sys::affinity::pin(cpus[number % cpus.len()] as usize);
                }
                work(&member(number));
            };
            match thread::Builder::new().spawn_scoped(scope, body) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        roll.call(refused.is_none());
        let mut panicked = false;
        for handle in handles {
            panicked |= handle.join().is_err();
        }
        match refused {
            Some(error) => Err(Error::threads(members, &error)),
            None if panicked => Err(Error::Machine("a measuring thread panicked; please report it".into(), None)),
            None => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn nobody_starts_before_all_are_ready() {
        let ready = AtomicUsize::new(0);
        let seen = run(8, &[], |member| {
            ready.fetch_add(1, Ordering::SeqCst);
            member.wait_for_start();
            ready.load(Ordering::SeqCst)
        });
        assert_eq!(seen.unwrap(), vec![8; 8]);
    }

    #[test]
    fn a_member_that_gives_up_does_not_hold_the_others() {
        let seen = run(4, &[], |member| {
            if member.number != 2 {
                member.wait_for_start();
            }
            member.number
        });
        assert_eq!(seen.unwrap(), vec![0, 1, 2, 3]);
    }

    #[test]
    fn a_member_that_panics_is_an_error_and_not_a_hang() {
        let answer = run(3, &[], |member| {
            assert!(member.number != 1, "planted");
            member.wait_for_start();
        });
        assert!(answer.is_err());
    }
}
