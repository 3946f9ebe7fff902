//! Single requests outside of a timed region: each with one deadline, a bounded body, and one line for what went wrong.

use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::Reading;
use crate::object::attempts::Attempts;
use crate::object::caller::Caller;
use crate::object::failure::{text_of, Failure};
use crate::object::keys::{encode_query, Keys};
use crate::object::listing::{self, Page};
use crate::object::options::{Bucket, Checksum};
use crate::object::request::{listing_query, Body, Request, Subject};
use crate::object::response::Length;
use crate::object::signing::Signer;
use crate::object::tally;

/// Bytes of a body that are kept: a page of a listing has less than 2 MB.
const MAX_BODY: usize = 8 << 20;

/// Pages of a listing that are read: ten million keys.
const MAX_PAGES: usize = 10_000;
/// The status of a request that the store does not know.
const NOT_IMPLEMENTED: u16 = 501;

/// An answer.
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its length by its head, where it states one.
    pub length: Option<u64>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Sends single requests to a bucket.
pub struct Control {
    bucket: Bucket,
    caller: Caller,
    timeout_s: f64,
    stop: Stop,
}

impl Control {
    /// One that signs by `signer`, and waits at most this long for each answer.
    #[must_use]
    pub fn new(bucket: &Bucket, signer: Signer, timeout_s: f64) -> Self {
        Self { bucket: bucket.clone(), caller: Caller::new(bucket, signer, timeout_s, 0), timeout_s, stop: Stop::new() }
    }

    /// The same whose waits end by `stop`; others end by their deadline alone, because a removal follows a stop.
    #[must_use]
    pub fn until(self, stop: &Stop) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    /// How many requests were sent once more.
    #[must_use]
    pub fn repeated(&self) -> u64 {
        self.caller.repeated
    }

    /// Notes that in a reading.
    pub fn note_repeated(&self, reading: &mut Reading) {
        tally::note_repeated(self.repeated(), reading);
    }

    /// The object at a key; none where there is none.
    pub fn get(&mut self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let answer = self.of_object("GET", key, Body::Empty)?;
        self.present(&answer, &format!("read the object {key}")).map(|there| there.then_some(answer.body))
    }

    /// The length of the object at a key; none where there is none.
    pub fn length(&mut self, key: &str) -> Result<Option<u64>, Error> {
        let answer = self.of_object("HEAD", key, Body::Empty)?;
        self.present(&answer, &format!("look at the object {key}")).map(|there| answer.length.filter(|_| there))
    }

    /// Writes an object.
    pub fn put(&mut self, key: &str, content: &[u8]) -> Result<(), Error> {
        let answer = self.of_object("PUT", key, Body::Bytes(content))?;
        self.succeeded(&answer, &format!("write the object {key}"))
    }

    /// Removes an object; one that is not there is no error.
    pub fn remove(&mut self, key: &str) -> Result<(), Error> {
        let answer = self.of_object("DELETE", key, Body::Empty)?;
        self.present(&answer, &format!("remove the object {key}")).map(drop)
    }

    /// A page of the keys that begin with a prefix.
    pub fn list(&mut self, prefix: &str, delimiter: &str, token: &str) -> Result<Page, Error> {
        let query = listing_query(prefix, delimiter, token, 1000);
        let answer = self.exchange("GET", Subject::Bucket(&query), Body::Empty)?;
        let doing = format!("list the bucket {}", self.bucket.name);
        self.succeeded(&answer, &doing)?;
        listing::read(&answer.body).ok_or_else(|| Error::Machine(format!("{doing}: the answer is no listing"), None))
    }

    /// All keys that begin with a prefix, with the lengths of their objects.
    ///
    /// # Errors
    /// Machine: the store refuses, or lists without end.
    pub fn list_all(&mut self, prefix: &str) -> Result<Vec<(String, u64)>, Error> {
        let (mut found, mut token) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let page = self.list(prefix, "", &token)?;
            found.extend(page.keys.into_iter().zip(page.sizes));
            let Some(next) = page.next else { return Ok(found) };
            token = next;
        }
        Err(Error::Machine(format!("the store lists keys below {prefix} without end"), None))
    }

    /// The keys and names of some incomplete multipart uploads below a prefix, or why the store refuses to list them.
    ///
    /// # Errors
    /// Machine: no answer came.
    pub fn list_uploads(&mut self, prefix: &str) -> Result<Result<Vec<(String, String)>, Error>, Error> {
        let mut query = b"max-uploads=1000&prefix=".to_vec();
        encode_query(prefix, &mut query);
        query.extend_from_slice(b"&uploads=");
        let answer = self.exchange("GET", Subject::Bucket(&query), Body::Empty)?;
        if text_of(&answer.body, "Code") == b"NoSuchUpload" {
            // rclone says so where S3 gives an empty list.
            return Ok(Ok(Vec::new()));
        }
        let doing = format!("list the uploads in the bucket {}", self.bucket.name);
        let unread = || Error::Machine(format!("{doing}: the answer is no listing"), None);
        Ok(self.succeeded(&answer, &doing).and_then(|()| listing::read_uploads(&answer.body).ok_or_else(unread)))
    }

    /// Ends an upload without an object; one that is not there is no error.
    pub fn abort(&mut self, key: &str, upload: &str) -> Result<(), Error> {
        let mut query = b"uploadId=".to_vec();
        encode_query(upload, &mut query);
        let keys = Keys::listed(&[key.to_string()]);
        let answer = self.exchange("DELETE", Subject::Upload(&keys, 0, &query), Body::Empty)?;
        self.present(&answer, &format!("abort the upload of {key}")).map(drop)
    }

    /// Makes the bucket; whether it was not there before.
    pub fn make_bucket(&mut self) -> Result<bool, Error> {
        let answer = self.exchange("HEAD", Subject::Bucket(b""), Body::Empty)?;
        if (200..300).contains(&answer.status) {
            return Ok(false);
        }
        let answer = self.exchange("PUT", Subject::Bucket(b""), Body::Empty)?;
        let code = text_of(&answer.body, "Code");
        if code == b"BucketAlreadyOwnedByYou" {
            return Ok(false);
        }
        self.succeeded(&answer, &format!("make the bucket {}", self.bucket.name)).map(|()| true)
    }

    fn of_object(&mut self, method: &'static str, key: &str, body: Body<'_>) -> Result<Answer, Error> {
        let keys = Keys::listed(&[key.to_string()]);
        self.exchange(method, Subject::Object(&keys, 0), body)
    }

    /// Whether an answer is a success or says that the key is missing.
    fn present(&self, answer: &Answer, doing: &str) -> Result<bool, Error> {
        let missing_key = answer.status == 404 && text_of(&answer.body, "Code") != b"NoSuchBucket";
        if missing_key {
            return Ok(false);
        }
        self.succeeded(answer, doing).map(|()| true)
    }

    fn succeeded(&self, answer: &Answer, doing: &str) -> Result<(), Error> {
        let code = text_of(&answer.body, "Code");
        // Servers of Go and nginx answer plain HTTP at a port for TLS so.
        let is_plain = self.bucket.places.first().is_some_and(|place| place.security.is_none());
        if is_plain && answer.status == 400 && answer.body.windows(5).any(|text| text == b"HTTPS") {
            return Err(self.refusal(doing, Failure::Encrypted, b""));
        }
        Failure::of_response(answer.status, code).map_or(Ok(()), |failure| Err(self.refusal(doing, failure, code)))
    }

    /// One line for a failure. Of what the store wrote it has the code alone, because a message may repeat a signature.
    fn refusal(&self, doing: &str, failure: Failure, code: &[u8]) -> Error {
        let is_code = !code.is_empty() && code.len() <= 64 && code.iter().all(u8::is_ascii_alphanumeric);
        let code = if is_code { format!(" ({})", String::from_utf8_lossy(code)) } else { String::new() };
        let place = self.bucket.places.first().map_or("", |place| place.host.as_str());
        let error = Error::Machine(format!("{doing} at {place}: {}{code}", failure.says()), None);
        if failure.advice().is_empty() {
            error
        } else {
            error.also(failure.advice())
        }
    }

    /// Sends a request and receives the answer; it is sent again where the store refuses it only for the moment.
    fn exchange(&mut self, method: &'static str, subject: Subject<'_>, body: Body<'_>) -> Result<Answer, Error> {
        let mut attempts = Attempts::new(self.timeout_s);
        loop {
            let answer = self.attempt(method, subject, body)?;
            let failure = Failure::of_response(answer.status, text_of(&answer.body, "Code"));
            let is_known = answer.status != NOT_IMPLEMENTED;
            if !failure.is_some_and(|failure| is_known && attempts.go_on(failure, &self.stop)) {
                return Ok(answer);
            }
            self.caller.repeated += 1;
        }
    }

    fn attempt(&mut self, method: &'static str, subject: Subject<'_>, body: Body<'_>) -> Result<Answer, Error> {
        self.caller.connect(&self.stop)?;
        let request = Request { method, subject, range: None, checksum: Checksum::Sha256, body };
        let mut received = Vec::new();
        let mut keep = |piece: &[u8]| {
            received.extend_from_slice(piece);
            received.len() <= MAX_BODY
        };
        let answer = self.caller.call(&request, None, &self.stop, &mut keep);
        let head = match answer {
            Ok(_) if received.len() > MAX_BODY => Err(Failure::Length),
            answer => answer,
        };
        let head = head.map_err(|failure| {
            if self.stop.is_set() {
                return Error::stopped();
            }
            let refusal = self.refusal(&format!("{method} from the store"), failure, b"");
            let is_plain = self.bucket.places.first().is_some_and(|place| place.security.is_none());
            if failure == Failure::Lost && is_plain {
                // versitygw ends a connection without a word that does not begin as TLS.
                return refusal.also("if the store uses TLS, use https:// in --endpoint");
            }
            refusal
        })?;
        let length = match head.length {
            Length::Bytes(length) => Some(length),
            _ => None,
        };
        let is_right = (200..300).contains(&head.status);
        let body = if is_right { received } else { self.caller.kept().to_vec() };
        Ok(Answer { status: head.status, length, body })
    }
}
