//! What one thread leaves for another, in order.
//!
//! It does what a channel of the standard library does, in far less machine code, of which a wheel has little room.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See the module.
#[derive(Debug)]
pub struct Mailbox<T> {
    inside: Mutex<Inside<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Inside<T> {
    left: VecDeque<T>,
    is_closed: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        let inside = Inside { left: VecDeque::new(), is_closed: false };
        Self { inside: Mutex::new(inside), changed: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    /// Leaves one; nothing once it is closed.
    pub fn put(&self, one: T) {
        let mut inside = self.inside();
        if !inside.is_closed {
            inside.left.push_back(one);
            self.changed.notify_one();
        }
    }

    /// Takes the oldest, waiting for it as long as `at_most`; none if none came, or none will.
    pub fn take(&self, at_most: Duration) -> Option<T> {
        let is_awaited = |inside: &mut Inside<T>| inside.left.is_empty() && !inside.is_closed;
        let waited = self.changed.wait_timeout_while(self.inside(), at_most, is_awaited);
        waited.unwrap_or_else(PoisonError::into_inner).0.left.pop_front()
    }

    /// Takes the oldest, waiting for it; none if it is empty and closed.
    pub fn take_or_end(&self) -> Option<T> {
        let is_awaited = |inside: &mut Inside<T>| inside.left.is_empty() && !inside.is_closed;
        self.changed.wait_while(self.inside(), is_awaited).unwrap_or_else(PoisonError::into_inner).left.pop_front()
    }

    /// Lets nothing more be left. What was left can still be taken.
    pub fn close(&self) {
        self.inside().is_closed = true;
        self.changed.notify_all();
    }

    fn inside(&self) -> MutexGuard<'_, Inside<T>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_taken_in_order_and_nothing_after_the_end() {
        let mailbox = Mailbox::default();
        assert_eq!(mailbox.take(Duration::ZERO), None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..1000).for_each(|one| mailbox.put(one));
                mailbox.close();
                mailbox.put(1000);
            });
            for one in 0..1000 {
                assert_eq!(mailbox.take_or_end(), Some(one));
            }
            assert_eq!(mailbox.take_or_end(), None);
        });
        assert_eq!(mailbox.take(Duration::from_secs(1)), None);
    }
}
