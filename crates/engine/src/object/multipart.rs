//! Multipart uploads of one thread: which request of which upload comes next, and what each has brought.

use std::io::Write as _;

use crate::object::checksum::Kind;
use crate::object::failure::{text_of, Failure};
use crate::object::keys::{encode_query, write_number};
use crate::object::plan::{Stage, Step, Work};
use crate::object::response::Etag;

/// Bytes of a part, and parts of an object (Amazon S3's limits; the last part may be smaller).
pub const MIN_PART: u64 = 5 << 20;
/// The longest part.
pub const MAX_PART: u64 = 5 << 30;
/// Parts of an object.
pub const MAX_PARTS: u64 = 10_000;
/// Characters of an upload's name; Amazon S3's have about 130.
const MAX_ID: usize = 512;
/// Bytes of a part in the request that completes an upload.
pub const PART_ROOM: usize = 256;

/// What a store has said of a part.
#[derive(Clone, Copy)]
pub struct Receipt {
    etag: Etag,
    /// Its checksum in base64, as it was sent.
    sum: [u8; 44],
    sum_length: usize,
}

impl Receipt {
    /// That of a part with this `ETag`, and without a checksum.
    #[must_use]
    pub fn new(etag: Etag) -> Self {
        Self { etag, sum: [0; 44], sum_length: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Free,
    Creating,
    Open,
    Ending,
}

/// One upload.
struct Upload {
    phase: Phase,
    /// The object's step.
    step: Step,
    id: Vec<u8>,
    receipts: Vec<Option<Receipt>>,
    next: u32,
    done: u32,
    in_flight: u32,
    has_failed: bool,
    /// What orders uploads by age.
    number: u64,
}

/// All uploads of a thread.
pub struct Uploads {
    slots: Vec<Upload>,
    parts: u32,
    part_size: u64,
    object_size: u64,
    begun: u64,
}

/// How many parts an object has.
#[must_use]
pub fn count_parts(object_size: u64, part_size: u64) -> u64 {
    object_size.div_ceil(part_size.max(1)).max(1)
}

impl Uploads {
    /// None yet, with room for as many as there are connections, and one more.
    #[must_use]
    pub fn new(work: &Work, connections: usize) -> Self {
        let parts = count_parts(work.object_size, work.part_size) as u32;
        let make = |_| Upload {
            phase: Phase::Free,
            step: Step::EMPTY,
            id: Vec::with_capacity(MAX_ID * 3),
            receipts: vec![None; parts as usize],
            next: 0,
            done: 0,
            in_flight: 0,
            has_failed: false,
            number: 0,
        };
        let slots = (0..=connections).map(make).collect();
        Self { slots, parts, part_size: work.part_size, object_size: work.object_size, begun: 0 }
    }

    /// Whether no upload is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.iter().all(|upload| upload.phase == Phase::Free)
    }

    /// Whether another upload should begin, so that this many connections have parts to send.
    #[must_use]
    pub fn wants_more(&self, connections: usize) -> bool {
        let waiting = |upload: &Upload| match upload.phase {
            Phase::Creating | Phase::Open if !upload.has_failed => (self.parts - upload.next) as usize,
            _ => 0,
        };
        let sum: usize = self.slots.iter().map(waiting).sum();
        sum < connections && self.slots.iter().any(|upload| upload.phase == Phase::Free)
    }

    /// Begins the upload of an object.
    pub fn begin(&mut self, step: Step) -> Option<Step> {
        let slot = self.slots.iter().position(|upload| upload.phase == Phase::Free)?;
        self.begun += 1;
        let upload = &mut self.slots[slot];
        let step = Step { stage: Stage::Create, slot, ..step };
        (upload.phase, upload.step, upload.has_failed, upload.number) = (Phase::Creating, step, false, self.begun);
        (upload.next, upload.done, upload.in_flight) = (0, 0, 0);
        Some(step)
    }

    /// The request that ends an upload whose parts are complete, or which failed.
    pub fn take_end(&mut self) -> Option<Step> {
        let parts = self.parts;
        let is_over = |upload: &Upload| {
            upload.phase == Phase::Open && upload.in_flight == 0 && (upload.has_failed || upload.done == parts)
        };
        let upload = self.slots.iter_mut().find(|upload| is_over(upload))?;
        upload.phase = Phase::Ending;
        let stage = if upload.has_failed { Stage::Abort } else { Stage::Complete };
        Some(Step { stage, ..upload.step })
    }

    /// The next part of the oldest upload that has one.
    pub fn take_part(&mut self, now_ns: u64) -> Option<Step> {
        let parts = self.parts;
        let is_ready = |upload: &&mut Upload| upload.phase == Phase::Open && !upload.has_failed && upload.next < parts;
        let upload = self.slots.iter_mut().filter(is_ready).min_by_key(|upload| upload.number)?;
        upload.next += 1;
        upload.in_flight += 1;
        Some(Step { stage: Stage::Part(upload.next), due_ns: now_ns, ..upload.step })
    }

    /// Bytes of an object that a request carries.
    #[must_use]
    pub fn bytes(&self, step: &Step) -> u64 {
        match step.stage {
            Stage::Part(number) => self.part_size.min(self.object_size - u64::from(number - 1) * self.part_size),
            _ => 0,
        }
    }

    /// Writes the query of a request, encoded and sorted.
    pub fn write_query(&self, step: &Step, query: &mut Vec<u8>) {
        write_query(step.stage, &self.slots[step.slot].id, query);
    }

    /// Writes the body of the request that completes an upload.
    pub fn write_parts(&self, step: &Step, kind: Option<&Kind>, body: &mut Vec<u8>) {
        write_parts(&self.slots[step.slot].receipts, kind, body);
    }

    /// Takes the answer that names an upload; gives the object's due time where it names none.
    pub fn created(&mut self, step: &Step, answer: &[u8]) -> Result<(), u64> {
        let upload = &mut self.slots[step.slot];
        if !read_id(answer, &mut upload.id) {
            upload.phase = Phase::Free;
            return Err(upload.step.due_ns);
        }
        upload.phase = Phase::Open;
        Ok(())
    }

    /// Takes what a store has said of a part, and the trailer that was sent behind it.
    pub fn received(&mut self, step: &Step, etag: Etag, trailer: &[u8]) {
        let Stage::Part(number) = step.stage else { return };
        let upload = &mut self.slots[step.slot];
        upload.in_flight -= 1;
        upload.done += 1;
        let from = trailer.iter().position(|byte| *byte == b':').map_or(trailer.len(), |at| at + 1);
        let text = trailer[from..].trim_ascii_end();
        let mut receipt = Receipt { sum_length: text.len().min(44), ..Receipt::new(etag) };
        receipt.sum[..receipt.sum_length].copy_from_slice(&text[..receipt.sum_length]);
        upload.receipts[number as usize - 1] = Some(receipt);
    }

    /// An upload is complete or aborted.
    pub fn end(&mut self, step: &Step) {
        self.slots[step.slot].phase = Phase::Free;
    }

    /// A request failed; gives the object's due time where that is the first failure of its upload.
    pub fn fail(&mut self, step: &Step) -> Option<u64> {
        let upload = &mut self.slots[step.slot];
        let is_first = !upload.has_failed;
        upload.has_failed = true;
        match step.stage {
            Stage::Part(_) => upload.in_flight -= 1,
            Stage::Complete => upload.phase = Phase::Open,
            Stage::Whole | Stage::Create | Stage::Abort => upload.phase = Phase::Free,
        }
        is_first.then_some(upload.step.due_ns)
    }
}

/// Reads the name of an upload that has begun, encoded for a query; false where the answer has none.
pub fn read_id(answer: &[u8], id: &mut Vec<u8>) -> bool {
    let text = std::str::from_utf8(text_of(answer, "UploadId")).unwrap_or_default();
    id.clear();
    encode_query(text, id);
    !text.is_empty() && text.len() <= MAX_ID
}

/// Writes the query of a request of the upload with this name, encoded and sorted.
pub fn write_query(stage: Stage, id: &[u8], query: &mut Vec<u8>) {
    query.clear();
    match stage {
        Stage::Whole | Stage::Create => return query.extend_from_slice(b"uploads="),
        Stage::Part(number) => {
            query.extend_from_slice(b"partNumber=");
            write_number(number.into(), query);
            query.extend_from_slice(b"&uploadId=");
        }
        Stage::Complete | Stage::Abort => query.extend_from_slice(b"uploadId="),
    }
    query.extend_from_slice(id);
}

/// Writes the body of the request that completes an upload.
pub fn write_parts(receipts: &[Option<Receipt>], kind: Option<&Kind>, body: &mut Vec<u8>) {
    body.clear();
    body.extend_from_slice(b"<CompleteMultipartUpload>");
    for (number, receipt) in receipts.iter().enumerate() {
        let Some(receipt) = receipt else { continue };
        // A Vec takes all that is written.
        let _ = write!(body, "<Part><PartNumber>{}</PartNumber><ETag>", number + 1);
        for byte in receipt.etag.as_bytes() {
            match byte {
                b'"' => body.extend_from_slice(b"&quot;"),
                b'&' => body.extend_from_slice(b"&amp;"),
                b'<' => body.extend_from_slice(b"&lt;"),
                _ => body.push(*byte),
            }
        }
        body.extend_from_slice(b"</ETag>");
        if let Some(kind) = kind {
            for part in [b"<", kind.element.as_bytes(), b">", &receipt.sum[..receipt.sum_length], b"</"] {
                body.extend_from_slice(part);
            }
            body.extend_from_slice(kind.element.as_bytes());
            body.push(b'>');
        }
        body.extend_from_slice(b"</Part>");
    }
    body.extend_from_slice(b"</CompleteMultipartUpload>");
}

/// The failure in the body of a response that began as a success: a store may say so only when it has put the parts together.
#[must_use]
pub fn late_failure(body: &[u8]) -> Option<Failure> {
    let has_error = body.windows(7).any(|text| text == b"<Error>");
    if has_error {
        Failure::of_response(500, text_of(body, "Code"))
    } else {
        None
    }
}
