//! What a loop waits for between operations: a sync, a pause, its share of a flow, or the next intended beginning.

use std::time::Duration;

use super::Controls;
use crate::storage::io::access::Access;
use crate::storage::pace::rate::Pace;
use crate::storage::results::metrics::Metrics;
use crate::storage::trace::iolog::Replay;
use crate::timing::clock::Clock;

/// Shortest wait that sleeps: below it the scheduler's wake-up is later than what is waited for, and the loop spins.
const SPIN_NS: u64 = 100_000;
/// Sleeps are cut, so that a request to stop takes effect.
const LONGEST_SLEEP_NS: u64 = 10_000_000;
/// A thread that is ahead of its flow checks again no sooner than this.
const FLOW_REST: Duration = Duration::from_micros(20);

impl Controls {
    /// Syncs, thinks, or waits for the next intended beginning, no longer than to `until_ns`; nothing may be in flight.
    pub fn settle<A: Access>(&mut self, access: &mut A, clock: Clock, until_ns: u64, metrics: &mut Metrics) {
        if let Some(whole) = self.sync.as_ref().and_then(|(every, whole)| every.is_due().then_some(*whole)) {
            let began = clock.now();
            match if whole { access.sync_whole() } else { access.sync() } {
                Ok(()) => self.on_synced(),
                Err(error) => metrics.fault(true, error.raw_os_error().unwrap_or(libc::EIO)),
            }
            if let Some(sync_latency) = &mut self.sync_latency {
                sync_latency.record_many(clock.now().saturating_sub(began), 1);
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
            sleep_until(clock, now.saturating_add(think.pause_ns).min(until_ns));
            if let (true, Some(pace)) = (think.shifts_rate, &mut self.pace) {
                pace.shift(clock.now().saturating_sub(now));
            }
            if let Some(every) = &mut think.every {
                every.done();
            }
            (think.is_due, think.since_ns) = (false, clock.now());
        } else if let Some(flow) = self.flow.as_ref().filter(|flow| flow.is_ahead()) {
            std::thread::sleep(flow.rest().clamp(FLOW_REST, Duration::from_nanos(LONGEST_SLEEP_NS)));
        } else if let Some(due_ns) = self.replay.as_ref().map(Replay::due_ns).or(self.pace.as_ref().map(Pace::next_ns))
        {
            sleep_until(clock, due_ns.min(until_ns).min(clock.now() + LONGEST_SLEEP_NS));
        }
    }
}

/// Waits until `until_ns`: sleeps as long as that is exact enough, then spins.
fn sleep_until(clock: Clock, until_ns: u64) {
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
