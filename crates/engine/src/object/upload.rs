//! An object that one connection writes in parts; what is not completed is aborted.

use crate::contract::kernel::Stop;
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::multipart::{late_failure, read_id, write_parts, write_query, Receipt};
use crate::object::options::Checksum;
use crate::object::place::Line;
use crate::object::plan::Stage;
use crate::object::request::{Body, Request, Subject};
use crate::object::response::Head;
use crate::sys::pause;
use crate::timing::clock::now_ns;

/// How long the end of an upload is awaited that is not completed, s: a store that is silent has made the run wait already.
const ABORT_S: f64 = 2.0;

/// An upload under way.
pub struct Upload<'a> {
    line: &'a mut Line,
    keys: &'a Keys,
    object: u64,
    stop: &'a Stop,
    id: Vec<u8>,
    query: Vec<u8>,
    receipts: Vec<Option<Receipt>>,
    is_open: bool,
    /// Whether a part was not answered.
    is_cut: bool,
}

/// How often an upload is ended whose part was cut.
const ENDS: u32 = 4;
/// The rest between two ends, ns.
const REST_NS: u64 = 150_000_000;

impl<'a> Upload<'a> {
    /// Begins the upload of an object of `parts` parts.
    ///
    /// # Errors
    /// Why it did not begin.
    pub fn begin(
        line: &'a mut Line,
        (keys, object): (&'a Keys, u64),
        parts: usize,
        stop: &'a Stop,
    ) -> Result<Self, Failure> {
        let (id, query) = (Vec::with_capacity(512), Vec::with_capacity(512));
        let receipts = vec![None; parts];
        let mut upload = Self { line, keys, object, stop, id, query, receipts, is_open: false, is_cut: false };
        let answer = upload.turn("POST", Stage::Create, Body::Empty, stop)?;
        upload.is_open = read_id(&answer.1, &mut upload.id);
        if upload.is_open {
            Ok(upload)
        } else {
            Err(Failure::Malformed)
        }
    }

    /// Writes a part, whose number begins at 1.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn part(&mut self, number: usize, content: &[u8]) -> Result<(), Failure> {
        self.is_cut = true;
        let (head, _) = self.turn("PUT", Stage::Part(number as u32), Body::Unsigned(content), self.stop)?;
        self.is_cut = false;
        if self.receipts.len() < number {
            self.receipts.resize(number, None);
        }
        self.receipts[number - 1] = Some(Receipt::new(head.etag));
        Ok(())
    }

    /// Makes the object of its parts.
    ///
    /// # Errors
    /// Why there is none.
    pub fn complete(mut self) -> Result<(), Failure> {
        let mut body = Vec::new();
        write_parts(&self.receipts, None, &mut body);
        let (_, answer) = self.turn("POST", Stage::Complete, Body::Bytes(&body), self.stop)?;
        if let Some(failure) = late_failure(&answer) {
            return Err(failure);
        }
        self.is_open = false;
        Ok(())
    }

    fn turn(
        &mut self,
        method: &'static str,
        stage: Stage,
        body: Body<'_>,
        stop: &Stop,
    ) -> Result<(Head, Vec<u8>), Failure> {
        write_query(stage, &self.id, &mut self.query);
        let subject = Subject::Upload(self.keys, self.object, &self.query);
        let request = Request { method, subject, range: None, checksum: Checksum::Nothing, body };
        let mut answer = Vec::new();
        let head = self.line.send(&request, None, stop, &mut |piece| {
            answer.extend_from_slice(piece);
            answer.len() < 64 << 10
        })?;
        Ok((head, answer))
    }
}

impl Drop for Upload<'_> {
    /// Ends it without an object, also after a stop; what cannot be ended soon goes with the run's folder.
    ///
    /// A part whose connection was cut may still be written by the store and outlive a first end, as S3 says of it: so the
    /// upload is ended again until the store does not know it.
    fn drop(&mut self) {
        let stop = Stop::new();
        let before_s = self.line.limit(ABORT_S);
        for attempt in 0..ENDS {
            if !self.is_open || (attempt > 0 && !self.is_cut) {
                break;
            }
            if attempt > 0 {
                pause::until(now_ns() + REST_NS);
            }
            if self.turn("DELETE", Stage::Abort, Body::Empty, &stop).is_err() {
                break;
            }
        }
        self.line.limit(before_s);
    }
}
