//! A place in a bucket that a path names, `s3://bucket/prefix`, with what reads, writes and lists its objects.

use std::path::Path;

use serde_json::{Map, Value};

use crate::contract::kernel::{Error, Stop};
use crate::object::attempts::Attempts;
use crate::object::caller::Caller;
use crate::object::control::Control;
use crate::object::credentials::Credentials;
use crate::object::end::End;
use crate::object::failure::{text_of, Failure};
use crate::object::keys::Keys;
use crate::object::layout::{self, Left};
use crate::object::marks;
use crate::object::options::{Bucket, Checksum, ReachParameters, StoreParameters, Style};
use crate::object::paths::{self, Paths};
use crate::object::request::{Body, Request, Subject};
use crate::object::response::{Head, Length};
use crate::object::signing::Signer;
use crate::object::stored::Stored;

/// How a path begins that names a place in a bucket.
const SCHEME: &str = "s3://";

/// A place in a bucket.
#[derive(Debug, Clone)]
pub struct Place {
    bucket: Bucket,
    credentials: Credentials,
    /// Deadline of a request, besides its transfer, s.
    timeout_s: f64,
    /// What its keys begin with: empty, or ending with a slash.
    pub prefix: String,
}

impl Place {
    /// The place that a path names; none where it is the path of a file or a folder.
    ///
    /// # Errors
    /// Usage: the bucket, the endpoint or the credentials are missing or wrong.
    pub fn of(path: &Path, reach: &ReachParameters) -> Result<Option<Self>, Error> {
        let Some(named) = path.to_str().and_then(|text| text.strip_prefix(SCHEME)) else { return Ok(None) };
        if reach.endpoint.is_empty() {
            return Err(Error::usage(
                "name the object store: --endpoint URL, such as http://127.0.0.1:9000, or AWS_ENDPOINT_URL_S3",
            ));
        }
        let (name, below) = named.split_once('/').unwrap_or((named, ""));
        let below = below.trim_end_matches('/');
        let prefix = if below.is_empty() { String::new() } else { format!("{below}/") };
        let bucket = reach.bucket(name, &prefix, Style::Path)?;
        Ok(Some(Self { bucket, credentials: Credentials::find("")?, timeout_s: reach.timeout, prefix }))
    }

    /// The place below the prefix of a store's parameters, at the end that they lead to.
    #[must_use]
    pub fn at(end: &End, store: &StoreParameters) -> Self {
        let (bucket, credentials) = (end.bucket.clone(), end.credentials.clone());
        Self { bucket, credentials, timeout_s: store.reach.timeout, prefix: store.prefix.clone() }
    }

    /// What names an object of this place to a user.
    #[must_use]
    pub fn url(&self, key: &str) -> String {
        format!("{SCHEME}{}/{key}", self.bucket.name)
    }

    /// Single requests to it, which end by `stop`.
    #[must_use]
    pub fn control(&self, stop: &Stop) -> Control {
        Control::new(&self.bucket, Signer::new(self.credentials.clone()), self.timeout_s).until(stop)
    }

    /// A connection of thread `number`, which is made by its first request.
    #[must_use]
    pub fn line(&self, number: u64) -> Line {
        let signer = Signer::new(self.credentials.clone());
        Line {
            caller: Caller::new(&self.bucket, signer, self.timeout_s, number as usize),
            timeout_s: self.timeout_s,
            requests: 0,
            repeated: 0,
        }
    }

    /// Adds what is known of the way to it.
    pub fn describe_path(&self, details: &mut Map<String, Value>) {
        paths::describe_route(&self.bucket, true, details);
    }

    /// Marks it as this run's, where that is not done yet; nothing else is written or removed there.
    ///
    /// # Errors
    /// Usage or Machine: it is no run's folder, objects are in it already, or the store refuses.
    pub fn claim(&self, stop: &Stop) -> Result<Left, Error> {
        self.claim_by(&mut self.control(stop), stop)
    }

    /// The same by these requests.
    ///
    /// # Errors
    /// Likewise.
    pub fn claim_by(&self, control: &mut Control, stop: &Stop) -> Result<Left, Error> {
        if marks::is_folder(&self.prefix) && marks::check(control, &self.prefix).is_ok() {
            return Ok(Left::default());
        }
        let stored = Stored::listed(&self.prefix, &[]);
        let load = layout::for_removal(&self.bucket, &self.credentials, &stored, self.timeout_s);
        layout::claim(control, &load, &self.prefix, stop)
    }
}

/// A kept connection of one thread, with its requests counted.
pub struct Line {
    caller: Caller,
    timeout_s: f64,
    /// Requests that were sent.
    pub requests: u64,
    /// Those that were sent again, because one failed by what may pass.
    pub repeated: u64,
}

impl Line {
    /// Connections that were made.
    #[must_use]
    pub fn connected(&self) -> u64 {
        self.caller.connected
    }

    /// Requests that were sent again, also those whose kept connection the store had closed.
    #[must_use]
    pub fn all_repeated(&self) -> u64 {
        self.repeated + self.caller.repeated
    }

    /// Adds what is known of its connection, where there is one.
    pub fn look(&self, paths: &mut Paths) {
        self.caller.look(paths);
    }

    /// Gives its requests another deadline; returns the one before, s.
    pub fn limit(&mut self, timeout_s: f64) -> f64 {
        self.caller.limit(timeout_s);
        std::mem::replace(&mut self.timeout_s, timeout_s)
    }

    /// Connects before time begins.
    ///
    /// # Errors
    /// Machine: the store cannot be reached.
    pub fn connect(&mut self, stop: &Stop) -> Result<(), Error> {
        self.caller.connect(stop)
    }

    /// Requests bytes `first` to `last` of an object of `length` bytes, which the next [`Line::read`] receives: it must be
    /// of the same bytes.
    pub fn begin_read(&mut self, place: (&Keys, u64), range: (u64, u64, u64), stop: &Stop) {
        self.caller.begin(&range_request(place, range), Some(range.1 + 1 - range.0), stop);
    }

    /// The length of an object by its head.
    ///
    /// # Errors
    /// Why it is unknown.
    pub fn length(&mut self, keys: &Keys, object: u64, stop: &Stop) -> Result<u64, Failure> {
        let (method, subject) = ("HEAD", Subject::Object(keys, object));
        let request = Request { method, subject, range: None, checksum: Checksum::Nothing, body: Body::Empty };
        match self.send(&request, None, stop, &mut |_| true)?.length {
            Length::Bytes(length) => Ok(length),
            Length::Chunks | Length::Open => Err(Failure::Length),
        }
    }

    /// Reads bytes `first` to `last` of an object of `length` bytes, and gives them to `see` piece by piece, as long as it
    /// wants more.
    ///
    /// # Errors
    /// Why they are not all there.
    pub fn read(
        &mut self,
        place: (&Keys, u64),
        range: (u64, u64, u64),
        stop: &Stop,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Failure> {
        let wanted = range.1 + 1 - range.0;
        self.send(&range_request(place, range), Some(wanted), stop, see).map(drop)
    }

    /// Writes a whole object.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn write(&mut self, keys: &Keys, object: u64, content: &[u8], stop: &Stop) -> Result<(), Failure> {
        let (subject, body) = (Subject::Object(keys, object), Body::Unsigned(content));
        let request = Request { method: "PUT", subject, range: None, checksum: Checksum::Nothing, body };
        self.send(&request, None, stop, &mut |_| true).map(drop)
    }

    /// Removes an object; one that is not there is no error.
    ///
    /// # Errors
    /// Why it may still be there.
    pub fn remove(&mut self, keys: &Keys, object: u64, stop: &Stop) -> Result<(), Failure> {
        let (method, subject) = ("DELETE", Subject::Object(keys, object));
        let request = Request { method, subject, range: None, checksum: Checksum::Nothing, body: Body::Empty };
        match self.send(&request, None, stop, &mut |_| true) {
            Ok(_) | Err(Failure::Missing) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// Sends a request until it succeeds, fails by what will not pass or too often, or its deadline is over.
    ///
    /// # Errors
    /// Its last failure.
    pub fn send(
        &mut self,
        request: &Request<'_>,
        wanted: Option<u64>,
        stop: &Stop,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Head, Failure> {
        let mut attempts = Attempts::new(self.timeout_s);
        loop {
            self.requests += 1;
            let mut has_seen = false;
            let mut watched = |piece: &[u8]| {
                has_seen = true;
                see(piece)
            };
            let answer = self.caller.call(request, wanted, stop, &mut watched).and_then(|head| {
                let code = text_of(self.caller.kept(), "Code");
                Failure::of_response(head.status, code).map_or(Ok(head), Err)
            });
            let Err(failure) = answer else { return answer };
            // What was given away cannot be taken back.
            if has_seen || !attempts.go_on(failure, stop) {
                return Err(failure);
            }
            self.repeated += 1;
        }
    }
}

/// The request of bytes `first` to `last` of an object of `length` bytes.
fn range_request((keys, object): (&Keys, u64), (first, last, length): (u64, u64, u64)) -> Request<'_> {
    let is_whole = first == 0 && last + 1 == length;
    Request {
        method: "GET",
        subject: Subject::Object(keys, object),
        range: (!is_whole).then_some((first, last)),
        checksum: Checksum::Nothing,
        body: Body::Empty,
    }
}
