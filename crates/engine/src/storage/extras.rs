//! What a run may ask for beyond blocks at full speed; the loop is compiled without any of it where nothing is asked.

use std::time::Duration;

use super::access::Access;
use super::choice::Choice;
use super::many::Many;
use super::order::Order;
use super::pace::{Every, Pace};
use super::pool::Pool;
use super::record::Record;
use super::steady::Steady;
use super::verify::Verify;
use crate::clock::Clock;
use crate::histogram::Histogram;

/// Below this the scheduler's wake-up is later than what is waited for: the loop spins.
const SPIN_NS: u64 = 100_000;
/// Sleeps are cut, so that a request to end is heard.
const LONGEST_SLEEP_NS: u64 = 10_000_000;
/// A random block that is in flight is drawn again so often before the job waits for it.
const REDRAWS: u32 = 64;

/// A pause after so many operations, or after so much time with them.
#[derive(Debug, Default, Clone)]
pub struct Think {
    /// After so many operations; none where time counts alone.
    pub every: Option<Every>,
    /// After so long, ns; 0 where operations count alone.
    pub busy_ns: u64,
    /// The length of the pause, ns.
    pub pause_ns: u64,
    /// Of which so much is spent spinning, ns.
    pub spin_ns: u64,
    /// The pause is due.
    pub is_due: bool,
    /// When the last one ended.
    pub since_ns: u64,
}

/// See the module; what is none is not asked for.
#[derive(Debug, Default)]
pub struct Extras {
    /// Operations begin at a rate.
    pub pace: Option<Pace>,
    /// After so many operations, or so much time, a while without any.
    pub think: Option<Think>,
    /// After so many writes, a sync: of the data alone, or (`true`) of all that describes the file too.
    pub sync: Option<(Every, bool)>,
    /// Offsets and lengths other than the plain order's.
    pub choice: Option<Choice>,
    /// Several files, each with its own order; [`Extras::choice`] is none then.
    pub many: Option<Many>,
    /// Ends the run when its rate is steady.
    pub steady: Option<Steady>,
    /// Bytes after which a pass ends, where the order itself does not end.
    pub limit: Option<u64>,
    /// Blocks that are checked.
    pub verify: Option<Verify>,
    /// How long syncs took.
    pub synced: Option<Histogram>,
    /// Bytes handed over since the region began.
    pub issued: u64,
    /// Drawn, and waiting for its block to be free.
    pub held: Option<(u64, bool, u64)>,
}

impl Extras {
    /// Whether anything is asked for.
    #[must_use]
    pub fn any(&self) -> bool {
        self.pace.is_some()
            || self.think.is_some()
            || self.sync.is_some()
            || self.choice.is_some()
            || self.many.is_some()
            || self.steady.is_some()
            || self.limit.is_some()
            || self.verify.is_some()
    }

    /// The timed region begins: counts begin anew, and so does the schedule.
    pub fn restart(&mut self, now_ns: u64) {
        if let Some(pace) = &mut self.pace {
            pace.restart(now_ns);
        }
        if let Some(choice) = &mut self.choice {
            choice.restart();
        }
        if let Some(many) = &mut self.many {
            many.restart();
        }
        if let Some(steady) = &mut self.steady {
            steady.restart(now_ns);
        }
        if let Some(think) = &mut self.think {
            think.since_ns = now_ns;
        }
        if let Some(synced) = &mut self.synced {
            synced.clear();
        }
        self.issued = 0;
    }

    /// All operations must come home before another may begin.
    #[inline]
    #[must_use]
    pub fn must_settle(&self) -> bool {
        self.think.as_ref().is_some_and(|think| think.is_due)
            || self.sync.as_ref().is_some_and(|(every, _)| every.is_due())
    }

    /// The next operation, and when it is meant to begin: offset, whether it writes, length. None if it may
    /// not begin yet, or if there is none.
    #[inline]
    pub fn next_operation(&mut self, order: &mut Order, block: u64, now_ns: u64) -> Option<(u64, bool, u64, u64)> {
        if self.must_settle() {
            return None;
        }
        if let Some(think) = self.think.as_mut().filter(|think| think.busy_ns > 0) {
            if now_ns.saturating_sub(think.since_ns) >= think.busy_ns {
                think.is_due = true;
                return None;
            }
        }
        let begins = match &self.pace {
            Some(pace) if pace.due_ns() > now_ns => return None,
            Some(pace) => pace.due_ns(),
            None => now_ns,
        };
        let (offset, write, length) = match self.held.take() {
            Some(held) => held,
            None => self.draw(order, block)?,
        };
        if self.verify.as_ref().is_some_and(|verify| verify.is_busy(offset)) {
            self.held = Some((offset, write, length));
            return None;
        }
        self.issued += length;
        if let Some(pace) = &mut self.pace {
            pace.issued(length);
        }
        if let Some(think) = &mut self.think {
            if let Some(every) = &mut think.every {
                every.count();
                think.is_due |= every.is_due();
            }
        }
        if let (Some((every, _)), true) = (&mut self.sync, write) {
            every.count();
        }
        Some((offset, write, length, begins))
    }

    fn draw(&mut self, order: &mut Order, block: u64) -> Option<(u64, bool, u64)> {
        if self.limit.is_some_and(|limit| self.issued >= limit) {
            return None;
        }
        if let Some(many) = &mut self.many {
            return many.next_operation(block);
        }
        let Some(choice) = &mut self.choice else {
            return order.next_operation().map(|(offset, write)| (offset, write, block));
        };
        let write = order.next_direction();
        let (mut offset, mut length) = choice.next_visit(write);
        if let Some(verify) = &self.verify {
            for _ in 0..REDRAWS {
                if !verify.is_busy(offset) {
                    break;
                }
                (offset, length) = choice.next_visit(write);
            }
        }
        Some((offset, write, length))
    }

    /// Whether more operations are to come although none is in flight.
    #[must_use]
    pub fn has_more(&self, order: &Order) -> bool {
        self.must_settle()
            || self.held.is_some()
            || (self.pace.is_some()
                && match self.limit {
                    Some(limit) => self.issued < limit,
                    None => match &self.many {
                        Some(many) => !many.is_over(),
                        None => self.choice.is_some() || !order.is_over(),
                    },
                })
    }

    /// With nothing in flight: syncs, thinks, or waits for the next intended beginning, no longer than to `until_ns`.
    pub fn settle<A: Access>(&mut self, access: &mut A, clock: Clock, until_ns: u64, record: &mut Record) {
        if let Some(whole) = self.sync.as_ref().and_then(|(every, whole)| every.is_due().then_some(*whole)) {
            let began = clock.now();
            match if whole { access.sync_whole() } else { access.sync() } {
                Ok(()) => self.covered(),
                Err(error) => record.fault(true, error.raw_os_error().unwrap_or(libc::EIO)),
            }
            if let Some(synced) = &mut self.synced {
                synced.record_many(clock.now().saturating_sub(began), 1);
            }
            if let Some((every, _)) = &mut self.sync {
                every.done();
            }
        }
        if let Some(think) = self.think.as_mut().filter(|think| think.is_due) {
            let now = clock.now();
            let spun = now.saturating_add(think.spin_ns.min(think.pause_ns)).min(until_ns);
            while clock.now() < spun {
                std::hint::spin_loop();
            }
            rest(clock, now.saturating_add(think.pause_ns).min(until_ns));
            if let Some(every) = &mut think.every {
                every.done();
            }
            (think.is_due, think.since_ns) = (false, clock.now());
        } else if let Some(pace) = &self.pace {
            rest(clock, pace.due_ns().min(until_ns).min(clock.now() + LONGEST_SLEEP_NS));
        }
    }

    /// A sync has ended well: it covers what was acknowledged.
    pub fn covered(&self) {
        if let Some(verify) = &self.verify {
            verify.synced();
        }
    }

    /// An operation begins.
    #[inline]
    pub fn begin(&mut self, pool: &Pool, at: usize, offset: u64, write: bool) {
        if let Some(verify) = &mut self.verify {
            verify.begin(pool.region(), at, offset, write);
        }
    }

    /// An operation has ended.
    #[inline]
    pub fn end(&mut self, pool: &Pool, at: usize, offset: u64, write: bool, whole: bool) {
        if let Some(verify) = &mut self.verify {
            verify.end(pool.region(), at, offset, write, whole);
        }
    }
}

/// Waits until `until_ns`: sleeps as long as that is exact enough, then spins.
fn rest(clock: Clock, until_ns: u64) {
    loop {
        let left = until_ns.saturating_sub(clock.now());
        if left == 0 {
            return;
        }
        if left > SPIN_NS {
            std::thread::sleep(Duration::from_nanos((left - SPIN_NS).min(LONGEST_SLEEP_NS)));
        } else {
            std::hint::spin_loop();
        }
    }
}
