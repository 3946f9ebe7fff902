//! Jobs that keep each other to a ratio of operations, whichever of them could go faster; fio's `flow`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the threads of one flow share.
#[derive(Debug, Default)]
pub struct Flow {
    operations: AtomicU64,
    weight: AtomicU64,
}

/// Every flow of a group of jobs, by its number.
#[derive(Debug, Default)]
pub struct Flows(Mutex<HashMap<u64, Arc<Flow>>>);

impl Flows {
    /// The flow of this number.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Arc<Flow> {
        // A panic elsewhere leaves the map whole.
        let mut all = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        all.entry(number).or_default().clone()
    }
}

/// What a job asks of its flow.
#[derive(Debug, Clone)]
pub struct FlowShare {
    /// Which flow.
    pub flow: Arc<Flow>,
    /// Its threads' part each, of the sum of all parts.
    pub weight: u64,
    /// How long a thread rests that is ahead.
    pub rest: Duration,
}

/// One thread's part in a flow; leaves it when dropped.
#[derive(Debug)]
pub struct FlowMember {
    share: FlowShare,
    operations: u64,
}

impl FlowMember {
    /// Joins.
    #[must_use]
    pub fn new(share: &FlowShare) -> Self {
        share.flow.weight.fetch_add(share.weight, Ordering::Relaxed);
        Self { share: share.clone(), operations: 0 }
    }

    /// How long to rest when it is ahead.
    #[must_use]
    pub fn rest(&self) -> Duration {
        self.share.rest
    }

    /// Whether it is ahead of its part, and has to wait for the others.
    #[inline]
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        let all = self.share.flow.operations.load(Ordering::Relaxed);
        let weights = self.share.flow.weight.load(Ordering::Relaxed);
        u128::from(self.operations) * u128::from(weights) > u128::from(all + 1) * u128::from(self.share.weight)
    }

    /// One operation more.
    #[inline]
    pub fn count(&mut self) {
        self.operations += 1;
        self.share.flow.operations.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for FlowMember {
    fn drop(&mut self) {
        // Those that stay are measured against each other alone.
        self.share.flow.operations.fetch_sub(self.operations, Ordering::Relaxed);
        self.share.flow.weight.fetch_sub(self.share.weight, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_go_by_weight_and_who_is_left_alone_goes_on() {
        let flows = Flows::default();
        let share = |weight| FlowShare { flow: flows.numbered(7), weight, rest: Duration::ZERO };
        let (mut slow, mut fast) = (FlowMember::new(&share(1)), FlowMember::new(&share(8)));
        let mut counts = [0_u64; 2];
        for _ in 0..9000 {
            // The one with the small part would be eight times as fast.
            for _ in 0..8 {
                if !slow.is_ahead() {
                    slow.count();
                    counts[0] += 1;
                }
            }
            if !fast.is_ahead() {
                fast.count();
                counts[1] += 1;
            }
        }
        assert!(counts[1].abs_diff(8 * counts[0]) <= 16 && counts[1] > 8000, "{counts:?}");
        drop(fast);
        for _ in 0..1000 {
            assert!(!slow.is_ahead());
            slow.count();
        }
    }
}
