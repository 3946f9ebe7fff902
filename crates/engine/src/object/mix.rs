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

/// Objects of a thread that a mix puts and deletes. No two requests at once change one, so that a store finds what is deleted.
#[derive(Debug)]
pub struct Written {
    places: Vec<Place>,
    /// The places of those that are there, oldest first, from `first` on around the end.
    order: Vec<u32>,
    first: usize,
    count: usize,
    puts: usize,
    /// Deletions that had nothing to delete.
    owed: u64,
}

/// What is known of one object.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    is_there: bool,
    /// Requests under way that put or delete it: more than one only where there are more requests than objects.
    changes: u32,
    /// Whether a put began while another change was under way: which of them the store did last is unknown.
    is_doubtful: bool,
}

impl Written {
    /// None yet, of this number of objects.
    #[must_use]
    pub fn new(objects: usize) -> Self {
        Self { places: vec![Place::default(); objects], order: vec![0; objects], first: 0, count: 0, puts: 0, owed: 0 }
    }

    /// The place of the next object that no request changes, which is to be put.
    fn put(&mut self) -> u64 {
        let total = self.places.len();
        let next = self.puts % total;
        let ahead = (0..total).find(|ahead| self.places[(next + ahead) % total].changes == 0).unwrap_or(0);
        self.puts += ahead + 1;
        let number = (next + ahead) % total;
        let place = &mut self.places[number];
        place.is_doubtful |= place.changes > 0;
        place.changes += 1;
        number as u64
    }

    /// The place of the oldest object that no request changes, which is to be deleted.
    fn take(&mut self) -> Option<u64> {
        let total = self.order.len();
        let at = |ahead: usize| (self.first + ahead) % total;
        let ahead = (0..self.count).find(|&ahead| self.places[self.order[at(ahead)] as usize].changes == 0)?;
        let number = self.order[at(ahead)];
        for later in (0..ahead).rev() {
            self.order[(self.first + later + 1) % total] = self.order[(self.first + later) % total];
        }
        self.first = (self.first + 1) % total;
        self.count -= 1;
        self.places[number as usize] = Place { is_there: false, changes: 1, is_doubtful: false };
        Some(number.into())
    }

    /// A put or a deletion of an object at a place has ended: it may be deleted where it was put.
    pub fn end(&mut self, place: u64, was_put: bool) {
        let number = place as usize;
        let Some(place) = self.places.get_mut(number) else { return };
        place.changes = place.changes.saturating_sub(1);
        if place.changes > 0 {
            return;
        }
        if was_put && !place.is_doubtful && !place.is_there {
            place.is_there = true;
            let end = (self.first + self.count) % self.order.len();
            self.order[end] = number as u32;
            self.count += 1;
        }
        self.places[number].is_doubtful = false;
    }

    /// What is done for an operation that chance has picked: a deletion waits until there is something to delete, and a put
    /// replaces it. Gives the object's place where it is put or deleted.
    pub fn settle(&mut self, picked: Operation) -> (Operation, Option<u64>) {
        if picked == Operation::Delete {
            self.owed += 1;
        }
        match picked {
            Operation::Put | Operation::Delete if self.owed > 0 => match self.take() {
                Some(place) => {
                    self.owed -= 1;
                    (Operation::Delete, Some(place))
                }
                None => (Operation::Put, Some(self.put())),
            },
            Operation::Put => (Operation::Put, Some(self.put())),
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

    const PUT: Operation = Operation::Put;
    const DELETE: Operation = Operation::Delete;

    #[test]
    fn only_what_was_put_is_deleted_oldest_first() {
        let mut written = Written::new(2);
        assert_eq!(written.settle(DELETE), (PUT, Some(0)));
        assert_eq!(written.settle(DELETE), (PUT, Some(1)));
        written.end(1, true);
        written.end(0, true);
        assert_eq!(written.settle(PUT), (DELETE, Some(1)));
        assert_eq!(written.settle(PUT), (DELETE, Some(0)));
        written.end(1, false);
        written.end(0, false);
        assert_eq!(written.settle(PUT), (PUT, Some(0)));
        assert_eq!(written.settle(Operation::Head), (Operation::Head, None));
        written.end(9, true);
        assert_eq!(written.settle(DELETE), (PUT, Some(1)));
    }

    #[test]
    fn an_object_that_a_request_changes_is_neither_put_nor_deleted() {
        let mut written = Written::new(3);
        for place in 0..3 {
            assert_eq!(written.settle(PUT), (PUT, Some(place)));
            written.end(place, true);
        }
        assert_eq!(written.settle(PUT), (PUT, Some(0)));
        assert_eq!(written.settle(DELETE), (DELETE, Some(1)));
        assert_eq!(written.settle(PUT), (PUT, Some(2)));
        written.end(0, true);
        assert_eq!(written.settle(DELETE), (DELETE, Some(0)));
    }

    #[test]
    fn what_was_put_during_another_change_is_not_deleted() {
        let mut written = Written::new(1);
        assert_eq!(written.settle(PUT), (PUT, Some(0)));
        written.end(0, true);
        assert_eq!(written.settle(DELETE), (DELETE, Some(0)));
        assert_eq!(written.settle(PUT), (PUT, Some(0)));
        written.end(0, false);
        written.end(0, true);
        assert_eq!(written.settle(DELETE), (PUT, Some(0)));
        written.end(0, true);
        assert_eq!(written.settle(DELETE), (DELETE, Some(0)));
    }
}
