//! How often a request is sent that failed by what may pass, as clients of S3 do.

use crate::contract::kernel::Stop;
use crate::object::failure::Failure;
use crate::sys::pause;
use crate::timing::clock::now_ns;

/// Attempts of a request at most.
const ATTEMPTS: u32 = 4;
/// The rest after the first failure, doubled by each in a row.
const REST_NS: u64 = 50_000_000;
/// How often a rest looks at the stop.
const LOOK_NS: u64 = 50_000_000;

/// The attempts of one request, which share its deadline: one without an answer until then is not sent again.
pub struct Attempts {
    failed: u32,
    until_ns: u64,
}

impl Attempts {
    /// Those of a request that has this long, besides its transfer.
    #[must_use]
    pub fn new(timeout_s: f64) -> Self {
        Self { failed: 0, until_ns: now_ns() + (timeout_s * 1e9) as u64 }
    }

    /// Whether a request that failed is sent again now, after a rest.
    pub fn go_on(&mut self, failure: Failure, stop: &Stop) -> bool {
        self.failed += 1;
        let until_ns = now_ns() + (REST_NS << (self.failed - 1));
        if self.failed == ATTEMPTS || !failure.may_pass() || until_ns > self.until_ns {
            return false;
        }
        while now_ns() < until_ns && !stop.is_set() {
            pause::until(until_ns.min(now_ns() + LOOK_NS));
        }
        !stop.is_set()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_sent_again_and_never_after_the_deadline() {
        let stop = Stop::new();
        let mut attempts = Attempts::new(30.0);
        assert!(!attempts.go_on(Failure::Missing, &stop));
        let counted = |mut attempts: Attempts| (0..9).take_while(|_| attempts.go_on(Failure::SlowDown, &stop)).count();
        assert_eq!(counted(Attempts::new(30.0)), 3);
        assert_eq!(counted(Attempts::new(0.12)), 1);
        stop.set();
        assert!(!Attempts::new(30.0).go_on(Failure::SlowDown, &stop));
    }
}
