//! Which request of a thread comes next, and when it is due.

use crate::object::mix::{Mix, Written};
use crate::object::options::Operation;
use crate::timing::rng::{mix, Rng};

/// What all threads do together.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// What each request does.
    pub operation: Operation,
    /// The shares of several operations, where it is a mix.
    pub mix: Mix,
    /// Number of objects.
    pub objects: u64,
    /// Bytes of an object.
    pub object_size: u64,
    /// Bytes of a range.
    pub range_size: u64,
    /// Bytes of a part.
    pub part_size: u64,
    /// Whether each object is visited once; else at random until time is over.
    pub once: bool,
    /// How often a request is sent that fails.
    pub attempts: u32,
    /// Requests a second of all threads; 0 for as many as the concurrency allows.
    pub rate: f64,
    /// Length of the timed region, s.
    pub runtime_s: f64,
    /// What decides the order.
    pub seed: u64,
}

/// What a request is of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All of it.
    Whole,
    /// The beginning of a multipart upload.
    Create,
    /// Its part of this number, from 1 on.
    Part(u32),
    /// Its end, which makes the object.
    Complete,
    /// Its end without an object.
    Abort,
}

/// One request to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub operation: Operation,
    /// The object's number.
    pub object: u64,
    /// First and last byte of a range.
    pub range: Option<(u64, u64)>,
    /// When it is meant to begin, ns; where there is no rate, the time at which it was taken.
    pub due_ns: u64,
    /// How often it failed before.
    pub failures: u32,
    /// What it is of its operation.
    pub stage: Stage,
    /// The place of its upload, or of the object of a mix, among those of its thread.
    pub slot: usize,
}

impl Step {
    /// That of a connection or an upload before its first request.
    pub const EMPTY: Self = Self {
        operation: Operation::Get,
        object: 0,
        range: None,
        due_ns: 0,
        failures: 0,
        stage: Stage::Whole,
        slot: 0,
    };
}

/// The requests of one thread.
pub struct Plan {
    work: Work,
    rng: Rng,
    /// The next number where each comes once or in order, and the step to the one after.
    next: u64,
    step: u64,
    begin_ns: u64,
    /// ns between two requests of this thread; 0 where there is no rate.
    every_ns: f64,
    first_ns: f64,
    taken: u64,
    /// What a mix has put and deleted; nothing otherwise.
    written: Written,
    first: u64,
    /// Requests that are to be tried again; as many as are in flight at most.
    again: Vec<Step>,
}

impl Plan {
    /// Those of thread `number` of `threads`, of which `in_flight` are under way at once.
    #[must_use]
    pub fn new(work: &Work, number: usize, threads: usize, in_flight: usize) -> Self {
        let places = work.objects.saturating_sub(number as u64).div_ceil(threads as u64).max(1);
        let room = if work.mix.is_none() { 0 } else { places as usize };
        let every_ns = if work.rate > 0.0 { 1e9 * threads as f64 / work.rate } else { 0.0 };
        Self {
            work: *work,
            rng: Rng::new(mix(work.seed ^ number as u64)),
            next: number as u64,
            step: threads as u64,
            begin_ns: 0,
            every_ns,
            first_ns: every_ns * number as f64 / threads as f64,
            taken: 0,
            written: Written::new(room),
            first: number as u64,
            again: Vec::with_capacity(in_flight),
        }
    }

    /// Time begins now.
    pub fn start(&mut self, now_ns: u64) {
        self.begin_ns = now_ns;
    }

    /// When the timed region ends; never, where each object comes once.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        if self.work.once {
            u64::MAX
        } else {
            self.begin_ns + (self.work.runtime_s * 1e9) as u64
        }
    }

    /// When the next request may begin; none where it may at any time.
    #[must_use]
    pub fn next_due_ns(&self) -> Option<u64> {
        (self.every_ns > 0.0).then(|| self.due_ns(self.taken))
    }

    /// Requests that were due before `end_ns` and have not begun.
    #[must_use]
    pub fn late(&self, end_ns: u64) -> u64 {
        if self.every_ns == 0.0 || self.due_ns(self.taken) >= end_ns {
            return 0;
        }
        ((end_ns - self.due_ns(self.taken)) as f64 / self.every_ns).ceil() as u64
    }

    fn due_ns(&self, number: u64) -> u64 {
        self.begin_ns + (self.first_ns + self.every_ns * number as f64) as u64
    }

    /// The next request that may begin now; none where there is none, or not yet.
    pub fn take(&mut self, now_ns: u64) -> Option<Step> {
        if let Some(step) = self.again.pop() {
            return Some(step);
        }
        let due_ns = self.next_due_ns().unwrap_or(now_ns);
        if due_ns > now_ns || now_ns >= self.end_ns() {
            return None;
        }
        let Work { operation, objects, once, mix, .. } = self.work;
        if !mix.is_none() {
            self.taken += 1;
            return Some(self.mixed(due_ns));
        }
        let object = if once || matches!(operation, Operation::Put | Operation::Multipart) {
            let next = self.next;
            if once && next >= objects {
                return None;
            }
            self.next += self.step;
            next % objects
        } else {
            self.rng.below(objects)
        };
        self.taken += 1;
        Some(Step { operation, object, range: self.range(), due_ns, failures: 0, stage: Stage::Whole, slot: 0 })
    }

    /// The next request of a mix.
    fn mixed(&mut self, due_ns: u64) -> Step {
        let Work { objects, mix, .. } = self.work;
        let (operation, place) = self.written.settle(mix.pick(&mut self.rng));
        let object = place.map_or_else(|| self.rng.below(objects), |place| (self.first + place * self.step) % objects);
        let slot = place.unwrap_or_default() as usize;
        Step { operation, object, range: None, due_ns, failures: 0, stage: Stage::Whole, slot }
    }

    /// A request has ended: what a mix has put may be deleted.
    pub fn end(&mut self, step: &Step, is_done: bool) {
        if matches!(step.operation, Operation::Put | Operation::Delete) {
            self.written.end(step.slot as u64, is_done && step.operation == Operation::Put);
        }
    }

    /// Puts back a request that failed.
    pub fn repeat(&mut self, step: Step) {
        self.again.push(Step { failures: step.failures + 1, ..step });
    }

    /// A range on a multiple of its length, so that a store's parts are met as they were written.
    fn range(&mut self) -> Option<(u64, u64)> {
        let Work { operation: Operation::Range, object_size, range_size, .. } = self.work else {
            return None;
        };
        let length = range_size.clamp(1, object_size.max(1));
        let first = self.rng.below((object_size / length).max(1)) * length;
        Some((first, first + length - 1))
    }
}

impl Work {
    /// The operations that its requests have.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        if self.mix.is_none() {
            vec![self.operation]
        } else {
            self.mix.operations()
        }
    }

    /// Bytes of an object that an operation of this work moves.
    #[must_use]
    pub fn bytes(&self, operation: Operation) -> u64 {
        match operation {
            Operation::Get | Operation::Put | Operation::Multipart => self.object_size,
            Operation::Range => self.range_size.clamp(1, self.object_size.max(1)),
            Operation::Head | Operation::List | Operation::Delete | Operation::Mixed => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(operation: Operation) -> Work {
        Work {
            operation,
            mix: Mix::default(),
            objects: 5,
            object_size: 1000,
            range_size: 300,
            part_size: 5 << 20,
            once: false,
            attempts: 1,
            rate: 0.0,
            runtime_s: 1.0,
            seed: 1,
        }
    }

    #[test]
    fn each_object_comes_once_to_some_thread() {
        let whole = Work { once: true, ..work(Operation::Put) };
        let mut seen: Vec<u64> = Vec::new();
        for number in 0..3 {
            let mut plan = Plan::new(&whole, number, 3, 1);
            plan.start(0);
            while let Some(step) = plan.take(7) {
                seen.push(step.object);
                if step.failures == 0 && step.object == 4 {
                    plan.repeat(step);
                }
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3, 4, 4]);
    }

    #[test]
    fn a_rate_is_shared_by_the_threads() {
        let paced = Work { rate: 10.0, ..work(Operation::Get) };
        let mut due: Vec<u64> = Vec::new();
        for number in 0..2 {
            let mut plan = Plan::new(&paced, number, 2, 1);
            plan.start(0);
            assert_eq!(plan.late(1_000_000_000), 5);
            while let Some(step) = plan.take(999_999_999) {
                due.push(step.due_ns / 1_000_000);
            }
            assert_eq!((plan.late(1_000_000_000), plan.take(1_000_000_001)), (0, None));
        }
        due.sort_unstable();
        assert_eq!(due, (0..10).map(|number| number * 100).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_lie_on_their_multiples() {
        let mut plan = Plan::new(&work(Operation::Range), 0, 1, 1);
        for _ in 0..100 {
            let (first, last) = plan.take(5).unwrap().range.unwrap();
            assert!(first % 300 == 0 && last < 1000 && last - first == 299);
        }
        assert_eq!(work(Operation::Range).bytes(Operation::Range), 300);
        assert_eq!(Work { object_size: 10, ..work(Operation::Range) }.bytes(Operation::Range), 10);
    }

    #[test]
    fn a_mix_deletes_what_its_thread_has_put() {
        let mixed = Work { mix: Mix::read("get=1,put=2,delete=2").unwrap(), ..work(Operation::Mixed) };
        let (mut plan, mut there, mut deleted) = (Plan::new(&mixed, 1, 2, 1), std::collections::BTreeSet::new(), 0);
        for _ in 0..1000 {
            let step = plan.take(5).unwrap();
            match step.operation {
                Operation::Put => {
                    assert!([1, 3].contains(&step.object), "{step:?}");
                    there.insert(step.object);
                    plan.end(&step, true);
                }
                Operation::Delete => {
                    assert!(there.remove(&step.object), "{step:?}");
                    plan.end(&step, true);
                    deleted += 1;
                }
                _ => assert!(step.object < 5),
            }
        }
        assert!((300..500).contains(&deleted), "{deleted}");
    }
}
