//! Threads that are pinned, start their timed region together and are joined with their results.

use std::sync::Barrier;
use std::thread;

use crate::kernel::Error;

/// One member's place in its team.
pub struct Member<'a> {
    /// 0 to `members - 1`.
    pub number: usize,
    /// The size of the team.
    pub members: usize,
    start: &'a Barrier,
}

impl Member<'_> {
    /// Waits until every member is ready: call it exactly once, when set-up is done and before the
    /// timed region. A member whose set-up failed must call it as well, or the others wait for ever.
    pub fn wait_for_start(&self) {
        self.start.wait();
    }
}

/// Runs `work` on `members` threads and gives back what each returned, in order.
///
/// With `cpus`, member i is pinned to `cpus[i % cpus.len()]`; a machine that refuses to pin is not
/// an error. Everything that `work` allocates belongs before [`Member::wait_for_start`].
pub fn run<T: Send>(members: usize, cpus: &[u64], work: impl Fn(&Member<'_>) -> T + Sync) -> Result<Vec<T>, Error> {
    let start = Barrier::new(members);
    if members == 1 {
        // On the caller's own thread: needs no thread where none can be made (qemu-user).
        let before = crate::sys::affinity::get();
        if let Some(&cpu) = cpus.first() {
            let _ = crate::sys::affinity::pin(cpu as usize);
        }
        let result = work(&Member { number: 0, members, start: &start });
        if let (false, Some(before)) = (cpus.is_empty(), before) {
            crate::sys::affinity::restore(&before);
        }
        return Ok(vec![result]);
    }
    thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let handles: Vec<_> = (0..members)
            .map(|number| {
                scope.spawn(move || {
                    if !cpus.is_empty() {
                        let _ = crate::sys::affinity::pin(cpus[number % cpus.len()] as usize);
                    }
                    work(&Member { number, members, start })
                })
            })
            .collect();
        handles
            .into_iter()
            .map(|handle| {
                handle.join().map_err(|_| Error::Machine("a measuring thread panicked; please report it".into(), None))
            })
            .collect()
    })
}
