//! Requests to an object store: get, range, put, multipart, head, list or delete, in a closed loop or at a rate.

use crate::contract::declare::{choice, integer, number, text, Group, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::object::client::Load;
use crate::object::control::Control;
use crate::object::end::End;
use crate::object::layout;
use crate::object::marks;
use crate::object::mix::Mix;
use crate::object::multipart::{self, MAX_PART, MIN_PART};
use crate::object::options::{Checksum, LoadParameters, Operation, StoreParameters, Visit};
use crate::object::paths::{self, Flow};
use crate::object::plan::Work;
use crate::object::stored::Stored;
use crate::object::tally::make_reading;
use crate::parameters;

/// The kernel `object_requests`.
pub struct ObjectRequests;

parameters! {
    /// What `object_requests` takes.
    pub struct Parameters {
        operation: Operation = choice("what each request does"),
        concurrency: usize = integer("requests in flight, each on its connection", "", (1, 4096), 20).role(Role::Concurrency),
        rate: f64 = number("requests per second, whether those before are complete or not (open loop); 0 for a closed \
            loop", "/s", (0.0, 1e7), 0.0).role(Role::Rate),
        range_size: u64 = integer("size of a range", "B", (1, 1 << 40), 8 << 20).role(Role::Size),
        part_size: u64 = integer("size of a part of a multipart upload; the last one may be smaller", "B", (MIN_PART as i64, MAX_PART as i64),
            MIN_PART as i64).role(Role::Size),
        mix: String = text("shares of get, put, head, list and delete, where the operation is mixed; those of warp",
            "get=45,head=30,put=15,delete=10"),
        existing: String = text("ending of the names of objects below the prefix that are read in place of the run's, such \
            as npz; empty for the run's", ""),
        visit: Visit = choice("how often an object was read before a get: any number of times, never since it was written, \
            or once"),
        load: LoadParameters = Group,
        store: StoreParameters = Group,
        runtime: f64 = RUNTIME,
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for ObjectRequests {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new("object_requests", "requests to an object store (S3): throughput and latency", "request")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { operation, concurrency, rate, range_size, part_size, visit, ref load, ref store, .. } =
            *parameters;
        check_sizes(parameters)?;
        let end = End::of(store, Some(load.object_size))?;
        let is_any = visit == Visit::Any;
        let read =
            if is_any { store.keys_of(operation, load.object_size) } else { store.keys_of_visits(load.object_size) };
        let stored = match parameters.existing.as_str() {
            "" => Stored::numbered(&read)?,
            ending => Stored::existing(&store.prefix, end.control().until(stop).list_all(&store.prefix)?, ending)?,
        };
        let writes = if operation == Operation::Mixed { Operation::Put } else { operation };
        let written = Stored::numbered(&store.keys_of(writes, load.object_size))?;
        let once = operation == Operation::Delete || !is_any;
        let mix = if operation == Operation::Mixed { Mix::read(&parameters.mix)? } else { Mix::default() };
        let work = Work {
            operation,
            mix,
            objects: if stored.lengths.is_empty() { load.objects } else { stored.lengths.len() as u64 },
            // A range is one that each object has.
            object_size: stored.lengths.iter().min().copied().unwrap_or(load.object_size),
            range_size,
            part_size,
            once,
            attempts: 1,
            rate,
            runtime_s: parameters.runtime,
            seed: store.seed,
        };
        let load = Load {
            bucket: &end.bucket,
            credentials: &end.credentials,
            stored: &stored,
            written: &written,
            work,
            checksum: load.checksum,
            concurrency,
            threads: load.client_threads,
            timeout_s: store.reach.timeout,
            keep_alive: load.keep_alive,
            interval_s: parameters.interval_s,
        };
        let checked = if end.is_null() {
            Checked::default()
        } else {
            check(&mut end.control().until(stop), &load, store, visit, stop)?
        };
        let tally = load.run(stop)?;
        let mut reading = make_reading(&tally, &work, concurrency);
        reading.detail("client_threads", load.count_threads() as u64);
        let uploads = matches!(operation, Operation::Put | Operation::Multipart);
        tally.paths.describe(if uploads { Flow::Up } else { Flow::Down }, &mut reading);
        checked.describe(&mut reading);
        paths::describe_route(&end.bucket, !end.is_null(), &mut reading.details);
        Ok(reading)
    }
}

/// Refuses a range beyond the object, more parts than S3 takes, and visits that are no reads of whole objects.
fn check_sizes(parameters: &Parameters) -> Result<(), Error> {
    let Parameters { operation, range_size, part_size, visit, ref load, .. } = *parameters;
    if visit != Visit::Any && operation != Operation::Get {
        return Err(Error::usage(format!("visit = {}: it is for operation get", visit.word())));
    }
    if operation == Operation::Range && range_size > load.object_size {
        return Err(Error::usage(format!(
            "range_size = {range_size}: an object of {} bytes has no such range; use a smaller one",
            load.object_size
        )));
    }
    if !parameters.existing.is_empty()
        && (!matches!(operation, Operation::Get | Operation::Range) || visit != Visit::Any)
    {
        return Err(Error::usage("existing: objects that are there are read by operation get or range alone"));
    }
    let parts = multipart::count_parts(load.object_size, part_size);
    if operation == Operation::Multipart && parts > multipart::MAX_PARTS {
        return Err(Error::usage(format!(
            "part_size = {part_size}: an object of {} bytes has {parts} parts, and S3 takes 10,000; use a larger one",
            load.object_size
        )));
    }
    Ok(())
}

/// What was found before time began.
#[derive(Default)]
struct Checked {
    /// The keys of a page, where pages are listed.
    page_keys: Option<u64>,
    /// Why incomplete uploads cannot be listed, where some may be left.
    unlisted: Option<Error>,
}

impl Checked {
    fn describe(&self, reading: &mut Reading) {
        if let Some(keys) = self.page_keys {
            reading.detail("keys_a_page", keys);
        }
        if let Some(error) = &self.unlisted {
            let text = format!("{error}; so uploads that a killed run leaves are not found and aborted");
            reading.note("uploads_not_listed", text);
        }
    }
}

/// Looks before time begins whether the store has what is read, and whether keys may be written; makes what is deleted or
/// visited.
fn check(
    control: &mut Control,
    load: &Load<'_>,
    store: &StoreParameters,
    visit: Visit,
    stop: &Stop,
) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    let size = load.work.object_size;
    let each_once = |operation| layout::each_once(operation, load.work.objects, size, load.work.seed);
    match load.work.operation {
        Operation::Get if visit != Visit::Any => {
            marks::check(control, &store.prefix)?;
            let written =
                Load { written: load.stored, work: each_once(Operation::Put), checksum: Checksum::Nothing, ..*load };
            layout::make(&written, stop)?;
            if visit == Visit::Second {
                layout::read(&Load { work: each_once(Operation::Get), ..*load }, stop)?;
            }
        }
        Operation::Mixed => {
            for operation in load.work.operations() {
                match operation {
                    Operation::Put | Operation::Delete => marks::check(control, &store.prefix)?,
                    _ => check_stored(control, load, store)?,
                }
            }
        }
        Operation::Put => marks::check(control, &store.prefix)?,
        Operation::Multipart => {
            marks::check(control, &store.prefix)?;
            checked.unlisted = control.list_uploads(&store.prefix)?.err();
        }
        Operation::Delete => {
            marks::check(control, &store.prefix)?;
            layout::make(&Load { work: each_once(Operation::Put), checksum: Checksum::Nothing, ..*load }, stop)?;
        }
        Operation::List => {
            checked.page_keys = Some(control.list(&load.stored.prefix, "", "")?.keys.len() as u64);
        }
        // What a listing has found is there.
        Operation::Get | Operation::Range if !load.stored.lengths.is_empty() => {}
        Operation::Get | Operation::Range | Operation::Head => check_stored(control, load, store)?,
    }
    Ok(checked)
}

/// Looks whether the first object that is read is there, and as long as the others.
fn check_stored(control: &mut Control, load: &Load<'_>, store: &StoreParameters) -> Result<(), Error> {
    let (size, key) = (load.work.object_size, format!("{}{:08}", load.stored.prefix, 0));
    match control.length(&key)? {
        Some(bytes) if bytes == size => Ok(()),
        Some(bytes) => Err(Error::usage(format!("the object {key} has {bytes} bytes, not {size}"))),
        None => Err(Error::usage(format!("there is no object {key} in the bucket {}", store.bucket))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::*;
    use crate::contract::kernel::Entry;

    fn measured(given: Value) -> Reading {
        ObjectRequests.measure(&given, &Stop::new()).unwrap()
    }

    #[test]
    fn each_operation_is_complete_against_the_null_server() {
        for operation in ["get", "range", "put", "multipart", "head", "list", "delete"] {
            for checksum in ["none", "sha256", "crc32c", "crc64nvme", "sha256-trailer"] {
                let given = json!({"operation": operation, "object_size": 100_000, "range_size": 5000, "concurrency": 3,
                                   "objects": 20, "runtime": 0.05, "checksum": checksum, "client_threads": 2});
                let reading = measured(given);
                assert!(reading.faults.is_empty(), "{operation} {checksum}: {:?}", reading.faults);
                let stream = &reading.streams[0];
                assert!(stream.operations >= 3, "{operation} {checksum}: {stream:?}");
                let bytes = match operation {
                    "get" | "put" | "multipart" => 100_000,
                    "range" => 5000,
                    _ => 0,
                };
                assert_eq!(stream.bytes, stream.operations * bytes, "{operation}");
                for kind in ["total", "first_byte"] {
                    assert_eq!(stream.latency_ns[kind]["count"], stream.operations, "{operation}");
                }
            }
        }
    }

    #[test]
    fn each_operation_of_a_mix_is_counted_and_timed_apart() {
        let reading = measured(
            json!({"operation": "mixed", "object_size": 10_000, "concurrency": 4, "objects": 8, "runtime": 0.2,
                                      "client_threads": 2}),
        );
        assert!(reading.faults.is_empty(), "{:?}", reading.faults);
        let names: Vec<&str> = reading.streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["get", "put", "head", "delete"]);
        let sum: u64 = reading.streams.iter().map(|stream| stream.operations).sum();
        for (stream, (share, bytes)) in reading.streams.iter().zip([(0.45, 10_000), (0.15, 10_000), (0.3, 0), (0.1, 0)])
        {
            let found = stream.operations as f64 / sum as f64;
            assert!((found - share).abs() < 0.06, "{} of {sum}: {found}", stream.name);
            assert_eq!(stream.bytes, stream.operations * bytes);
            assert_eq!(stream.latency_ns["total"]["count"], stream.operations);
        }
    }

    #[test]
    fn connections_can_be_made_anew_for_each_request() {
        let reading = measured(json!({"object_size": 1000, "concurrency": 2, "runtime": 0.05, "keep_alive": false}));
        assert!(reading.faults.is_empty(), "{:?}", reading.faults);
        let made = reading.details["connections_made"].as_u64().unwrap();
        assert!(made + 2 >= reading.streams[0].operations, "{made} connections");
    }

    #[test]
    fn a_rate_is_kept() {
        let given = json!({"object_size": 1000, "concurrency": 16, "runtime": 0.5, "rate": 200.0});
        let reading = measured(given);
        let operations = reading.streams[0].operations;
        assert!((95..=100).contains(&operations), "{operations} requests in 0.5 s");
    }

    #[test]
    fn what_cannot_be_is_refused_in_one_line() {
        let refused = |given: Value| ObjectRequests.measure(&given, &Stop::new()).unwrap_err().to_string();
        assert!(refused(json!({"operation": "range", "object_size": 10})).contains("has no such range"));
        assert!(refused(json!({"bucket": "Wrong_Name"})).contains("a bucket's name has"));
        assert!(refused(json!({"endpoint": "https://x"})).contains("the endpoint's URL says otherwise"));
    }
}
