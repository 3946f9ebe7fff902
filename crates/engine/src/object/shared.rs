//! What all threads of a run share, and the requests that follow from it.

use crate::contract::kernel::Stop;
use crate::object::exchange::{Expected, Sending};
use crate::object::options::{Bucket, Checksum, Operation};
use crate::object::payload::Payload;
use crate::object::plan::{Stage, Step, Work};
use crate::object::request::{Body, Request, Subject};
use crate::object::stored::Stored;

/// What every thread of a run shares.
pub struct Shared<'a> {
    /// The bucket.
    pub bucket: &'a Bucket,
    /// Its objects.
    pub stored: &'a Stored,
    /// Those that it puts and deletes: others, where it is a mix.
    pub written: &'a Stored,
    /// What is done.
    pub work: &'a Work,
    /// What protects bodies.
    pub checksum: Checksum,
    /// The bytes of what is written.
    pub payload: &'a Payload,
    /// Deadline of a request beside its transfer, ns.
    pub timeout_ns: u64,
    /// Whether connections are kept.
    pub keep_alive: bool,
    /// Ends it early.
    pub stop: &'a Stop,
    /// Ends all threads where one found that nothing can be measured.
    pub broken: &'a Stop,
}

impl<'a> Shared<'a> {
    /// Bytes of an object that a step moves.
    #[must_use]
    pub fn bytes(&self, step: &Step) -> u64 {
        let known = self.stored.lengths.get(step.object as usize).filter(|_| step.operation == Operation::Get);
        known.copied().unwrap_or_else(|| self.work.bytes(step.operation))
    }

    /// The request of a step, with the bytes of an object that it moves. A listing and an upload have a query, and an upload
    /// ends with the list of its parts.
    #[must_use]
    pub fn request(&self, step: &Step, bytes: u64, query: &'a [u8], parts: &'a [u8]) -> Request<'a> {
        let operation = step.operation;
        let method = match (operation, step.stage) {
            (Operation::Get | Operation::Range | Operation::List, _) => "GET",
            (Operation::Head, _) => "HEAD",
            (Operation::Multipart, Stage::Create | Stage::Complete) => "POST",
            (Operation::Put | Operation::Multipart, Stage::Whole | Stage::Part(_)) => "PUT",
            _ => "DELETE",
        };
        let writes = matches!(operation, Operation::Put | Operation::Delete);
        let keys = if writes { &self.written.keys } else { &self.stored.keys };
        let subject = match operation {
            Operation::List => Subject::Bucket(query),
            Operation::Multipart => Subject::Upload(keys, step.object, query),
            _ => Subject::Object(keys, step.object),
        };
        let body = match step.stage {
            Stage::Complete => Body::Bytes(parts),
            _ if method == "PUT" => Body::Object(self.payload, content_of(step), bytes),
            _ => Body::Empty,
        };
        let has_sum = method == "PUT" || reads(operation) || step.stage == Stage::Create;
        let checksum = if has_sum { self.checksum } else { Checksum::Nothing };
        Request { method, subject, range: step.range, checksum, body }
    }

    /// What is sent and comes back for the same step.
    #[must_use]
    pub fn sending(&self, step: Step, bytes: u64, deadline_ns: u64) -> Sending {
        let expected = Expected {
            bytes: reads(step.operation).then_some(bytes),
            keep: matches!(step.stage, Stage::Create | Stage::Complete),
            no_body: step.operation == Operation::Head,
            checksum: if reads(step.operation) { self.checksum } else { Checksum::Nothing },
        };
        let sending = Sending { step, body_bytes: 0, content: content_of(&step), expected, deadline_ns };
        Sending { body_bytes: if sending.writes() { bytes } else { 0 }, ..sending }
    }
}

fn reads(operation: Operation) -> bool {
    matches!(operation, Operation::Get | Operation::Range)
}

/// The number of the content of an object or a part: a part has that of an object of another number.
fn content_of(step: &Step) -> u64 {
    match step.stage {
        Stage::Part(number) => step.object + u64::from(number),
        _ => step.object,
    }
}
