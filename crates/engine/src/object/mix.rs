//! A mix of operations, each with its share of all requests: `get=45,head=30,put=15,delete=10`.

use crate::contract::kernel::Error;
use crate::object::options::Operation;
use crate::timing::rng::Rng;

/// Operations that a mix may have.
const KNOWN: [Operation; 5] = [Operation::Get, Operation::Put, Operation::Head, Operation::List, Operation::Delete];

/// Shares of operations. All are 0 where each request does the same.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mix([f64; KNOWN.len()]);

impl Mix {
    /// Reads shares as a user writes them; what they sum to does not matter.
    ///
    /// # Errors
    /// Usage: an unknown operation, a share that is no number, or more removals than writes.
    pub fn read(text: &str) -> Result<Self, Error> {
        let mut shares = [0.0; KNOWN.len()];
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, share) = pair.split_once('=').unwrap_or((pair, ""));
            let at = KNOWN.iter().position(|operation| operation.word() == name.trim());
            let share = share.trim().parse().ok().filter(|share| (0.0..=1e6).contains(share));
            let (Some(at), Some(share)) = (at, share) else {
                return Err(Error::usage(format!(
                    "mix = {text}: '{pair}' is no share of get, put, head, list or delete; use such as \
                     get=45,head=30,put=15,delete=10"
                )));
            };
            shares[at] = share;
        }
        let mix = Self(shares);
        if mix.is_none() {
            return Err(Error::usage(format!("mix = {text}: no operation has a share; use such as get=75,put=25")));
        }
        if mix.share(Operation::Delete) > mix.share(Operation::Put) {
            return Err(Error::usage(format!(
                "mix = {text}: only what was put is deleted, so put needs at least its share"
            )));
        }
        Ok(mix)
    }

    /// Whether each request does the same.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0.iter().all(|share| *share == 0.0)
    }

    /// The operations that it has.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        KNOWN.into_iter().filter(|operation| self.share(*operation) > 0.0).collect()
    }

    fn share(&self, operation: Operation) -> f64 {
        KNOWN.iter().zip(self.0).find(|(known, _)| **known == operation).map_or(0.0, |(_, share)| share)
    }

    /// The operation that comes next, by chance.
    pub fn pick(&self, rng: &mut Rng) -> Operation {
        let mut left = rng.share() * self.0.iter().sum::<f64>();
        for (operation, share) in KNOWN.into_iter().zip(self.0) {
            left -= share;
            if left <= 0.0 && share > 0.0 {
                return operation;
            }
        }
        Operation::Get
    }
}

/// What a thread has put and not deleted yet.
#[derive(Debug)]
pub struct Written {
    /// Whether each of its objects is there, by its place.
    is_there: Vec<bool>,
    /// The places of those that are there, oldest first, from `first` on around the end.
    order: Vec<u32>,
    first: usize,
    count: usize,
    /// Deletions that had nothing to delete.
    owed: u64,
}

impl Written {
    /// None yet, of this number of objects.
    #[must_use]
    pub fn new(objects: usize) -> Self {
        Self { is_there: vec![false; objects], order: vec![0; objects], first: 0, count: 0, owed: 0 }
    }

    /// An object at a place was put.
    pub fn add(&mut self, place: u64) {
        let place = place as usize;
        if self.is_there.get(place) == Some(&false) {
            self.is_there[place] = true;
            let end = (self.first + self.count) % self.order.len();
            self.order[end] = place as u32;
            self.count += 1;
        }
    }

    /// The place of the oldest object, which is to be deleted.
    fn take(&mut self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let place = self.order[self.first];
        self.first = (self.first + 1) % self.order.len();
        self.count -= 1;
        self.is_there[place as usize] = false;
        Some(place.into())
    }

    /// What is done for an operation that chance has picked: a deletion waits until there is something to delete, and a put
    /// replaces it. Gives the object's place where it is a deletion.
    pub fn settle(&mut self, picked: Operation) -> (Operation, Option<u64>) {
        match picked {
            Operation::Delete => {
                if let Some(place) = self.take() {
                    return (Operation::Delete, Some(place));
                }
                self.owed += 1;
                (Operation::Put, None)
            }
            Operation::Put if self.owed > 0 => match self.take() {
                Some(place) => {
                    self.owed -= 1;
                    (Operation::Delete, Some(place))
                }
                None => (Operation::Put, None),
            },
            other => (other, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_need_no_certain_sum() {
        let mix = Mix::read("get=45, head=30,put=15,delete=10").unwrap();
        assert_eq!(mix.operations(), [Operation::Get, Operation::Put, Operation::Head, Operation::Delete]);
        assert!(!mix.is_none() && Mix::default().is_none());
        let (mut rng, mut gets) = (Rng::new(1), 0);
        for _ in 0..10_000 {
            gets += u32::from(mix.pick(&mut rng) == Operation::Get);
        }
        assert!((4300..4700).contains(&gets), "{gets}");
    }

    #[test]
    fn what_is_no_mix_is_refused() {
        for (text, says) in [
            ("", "no operation has a share"),
            ("get=0", "no operation has a share"),
            ("get", "'get' is no share"),
            ("get=x", "is no share"),
            ("get=-1", "is no share"),
            ("get=nan", "is no share"),
            ("stat=5", "is no share"),
            ("multipart=5", "is no share"),
            ("put=5,delete=6", "put needs at least its share"),
        ] {
            let error = Mix::read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn only_what_was_put_is_deleted_oldest_first() {
        let mut written = Written::new(2);
        assert_eq!(written.settle(Operation::Delete), (Operation::Put, None));
        written.add(1);
        written.add(0);
        written.add(1);
        assert_eq!(written.settle(Operation::Put), (Operation::Delete, Some(1)));
        assert_eq!(written.settle(Operation::Delete), (Operation::Delete, Some(0)));
        assert_eq!(written.settle(Operation::Put), (Operation::Put, None));
        assert_eq!(written.settle(Operation::Head), (Operation::Head, None));
        written.add(9);
        assert_eq!(written.settle(Operation::Delete), (Operation::Put, None));
    }
}
