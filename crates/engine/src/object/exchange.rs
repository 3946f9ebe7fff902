//! One request and its response on a connection: what is sent, what must come back, and when it did.

use crate::object::failure::Failure;
use crate::object::options::{Checksum, Operation};
use crate::object::plan::Step;

/// How long the answer of a store is awaited that has closed the connection, ns.
pub const LAST_WORDS_NS: u64 = 1_000_000_000;

/// What a look at a connection brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing that ends anything.
    Pending,
    /// It is connected, without a request.
    Connected,
    /// The store closed it while it had no request.
    Closed,
    /// The request is complete.
    Done,
    /// The request failed.
    Failed(Failure),
}

/// What a response must be.
#[derive(Debug, Clone, Copy)]
pub struct Expected {
    /// Bytes of the object; none where any length is right.
    pub bytes: Option<u64>,
    /// Whether the body is kept, because the next request needs it.
    pub keep: bool,
    /// Whether the response has no body, no matter what its head says.
    pub no_body: bool,
    /// The object's checksum that is computed, where it is one of a trailer.
    pub checksum: Checksum,
}

/// What a request is and when it has to be over.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// The step of the plan.
    pub step: Step,
    /// Bytes of the object that follow the head.
    pub body_bytes: u64,
    /// The number of the content that they are.
    pub content: u64,
    /// What comes back.
    pub expected: Expected,
    /// When it has to be over, ns.
    pub deadline_ns: u64,
}

impl Sending {
    /// Whether it makes an object, or an upload.
    #[must_use]
    pub fn writes(&self) -> bool {
        matches!(self.step.operation, Operation::Put | Operation::Multipart)
    }

    /// Bytes of an object that it moves.
    #[must_use]
    pub fn moved_bytes(&self) -> u64 {
        self.expected.bytes.unwrap_or(self.body_bytes)
    }
}

/// The moments of the last request, ns.
#[derive(Debug, Clone, Copy, Default)]
#[allow(clippy::struct_field_names, reason = "each has its unit")]
pub struct Moments {
    /// When it was due.
    pub due_ns: u64,
    /// When its first byte came.
    pub first_ns: u64,
    /// When its last byte came.
    pub last_ns: u64,
}
