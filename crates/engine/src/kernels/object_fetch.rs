//! Reads one object by ranges over kept connections, as a loader that streams a model does: from the first request on.

use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::contract::declare::{flag, integer, text, Group, INTERVAL_S};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Reading};
use crate::object::end::End;
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::options::StoreParameters;
use crate::object::place::{Line, Place};
use crate::object::tally;
use crate::parameters;
use crate::sys::net::memory_file;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::timing::team::{self, PerMember};
use crate::training::ledger::Ledger;

/// Bytes of each object of a null server.
const NULL_BYTES: u64 = 1 << 20;

/// The kernel `object_fetch`.
pub struct ObjectFetch;

parameters! {
    /// What `object_fetch` takes.
    pub struct Parameters {
        object: String = text("name of the object, below the prefix", "object"),
        threads: usize = integer("connections, each with a thread and one range in flight", "", (1, 1024), 8)
            .workers(),
        chunk: u64 = integer("size of one range", "B", (1, 1 << 30), 8 << 20).role(Role::Size),
        keep: bool = flag("write the bytes to a file in memory, whose descriptor is in the details and the caller's to \
            close; without, each connection receives into one buffer again and again", false),
        store: StoreParameters = Group,
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for ObjectFetch {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("object_fetch", "reading one object by ranges, from the first connection on", "range");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { threads, chunk, keep, ref store, .. } = *parameters;
        let end = End::of(store, Some(NULL_BYTES))?;
        let place = Place::at(&end, store);
        let key = format!("{}{}", store.prefix, parameters.object);
        let (url, keys) = (place.url(&key), Keys::listed(&[key]));
        let in_memory = |error: io::Error| Error::machine(format!("keep {url} in memory"), &error);
        let kept = if keep { Some(memory_file(b"").map_err(in_memory)?) } else { None };
        let mut lines: Vec<Line> = (0..threads as u64).map(|number| place.line(number)).collect();
        let ledger = Ledger::new(parameters.interval_s);
        crate::timing::start::hold_once();
        let start = now_ns();
        ledger.start(start);
        let length = match lines[0].length(&keys, 0, stop) {
            Err(_) if stop.is_set() => return Err(Error::stopped()),
            found => found.map_err(|failure| refusal(&url, failure))?,
        };
        let (lines, next) = (PerMember::new(lines), AtomicU64::new(0));
        let first_byte_ns = AtomicU64::new(u64::MAX);
        let fetch = Fetch { keys: &keys, length, chunk, kept: kept.as_ref(), ledger: &ledger, stop };
        let (first_byte, broken) = (&first_byte_ns, OnceLock::new());
        let members = team::run(threads, &[], |member| -> Result<Fetched, Error> {
            let mut line = lines.take(member)?;
            member.wait_for_start();
            let (mut latency, before) = (Histogram::new(), cpu_time::of_this_thread());
            while broken.get().is_none() && !stop.is_set() {
                let first = next.fetch_add(1, Ordering::Relaxed).saturating_mul(chunk);
                if first >= length {
                    break;
                }
                let began = now_ns();
                match fetch.range(&mut line, first, first_byte) {
                    Ok(()) => latency.record(now_ns() - began),
                    Err(_) if stop.is_set() => break,
                    Err(why) => drop(broken.set(why)),
                }
            }
            Ok(Fetched { latency, cpu: cpu_time::of_this_thread().since(before), line })
        })?;
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        match broken.into_inner() {
            Some(Ended::Store(failure)) => return Err(refusal(&url, failure)),
            Some(Ended::Memory(error)) => return Err(in_memory(error)),
            None => {}
        }
        let mut reading = report(&ledger, members, elapsed_s)?;
        reading.interrupted = stop.is_set();
        reading.detail("object_bytes", length);
        if let Some(until_ns) = first_byte_ns.load(Ordering::Relaxed).checked_sub(start).filter(|_| length > 0) {
            reading.detail("first_byte_s", until_ns as f64 / 1e9);
        }
        if let Some(file) = kept {
            reading.detail("descriptor", file.into_raw_fd());
        }
        Ok(reading)
    }
}

/// What one connection did.
struct Fetched {
    latency: Histogram,
    cpu: CpuTime,
    line: Line,
}

/// Why a range is not there.
enum Ended {
    Store(Failure),
    Memory(io::Error),
}

/// The object, and where its bytes go.
struct Fetch<'a> {
    keys: &'a Keys,
    length: u64,
    chunk: u64,
    kept: Option<&'a File>,
    ledger: &'a Ledger,
    stop: &'a Stop,
}

impl Fetch<'_> {
    /// Reads the range that begins at `first`, and notes when the object's first byte came.
    fn range(&self, line: &mut Line, first: u64, first_byte: &AtomicU64) -> Result<(), Ended> {
        let last = (first + self.chunk).min(self.length) - 1;
        let (mut at, mut refused) = (first, None);
        let mut see = |piece: &[u8]| {
            let now = now_ns();
            first_byte.fetch_min(now, Ordering::Relaxed);
            self.ledger.done(now, 0, piece.len() as u64);
            refused = self.kept.and_then(|file| file.write_all_at(piece, at).err());
            at += piece.len() as u64;
            refused.is_none()
        };
        let answer = line.read((self.keys, 0), (first, last, self.length), self.stop, &mut see);
        match (refused, answer) {
            (Some(error), _) => Err(Ended::Memory(error)),
            (None, Err(failure)) => Err(Ended::Store(failure)),
            (None, Ok(())) if at != last + 1 => Err(Ended::Store(Failure::Length)),
            (None, Ok(())) => {
                self.ledger.done(now_ns(), 1, 0);
                Ok(())
            }
        }
    }
}

/// What a failed request means to who reads that object.
fn refusal(url: &str, failure: Failure) -> Error {
    let line = match failure {
        Failure::Missing => format!("{}; check the bucket and the key", failure.says()),
        Failure::SlowDown => format!("{}; use fewer --threads, or try again later", failure.says()),
        _ => failure.line(),
    };
    Error::Machine(format!("read {url}: {line}"), None)
}

/// What all connections read.
fn report(ledger: &Ledger, members: Vec<Result<Fetched, Error>>, elapsed_s: f64) -> Result<Reading, Error> {
    let (mut latency, mut requests, mut repeated, mut connected) = (Histogram::new(), 0, 0, 0);
    let mut reading = Reading { elapsed_s, concurrency_requested: members.len() as f64, ..Reading::default() };
    for member in members {
        let Fetched { latency: mine, cpu, line } = member?;
        latency.merge(&mine);
        reading.cpu += cpu;
        requests += line.requests;
        repeated += line.all_repeated();
        connected += line.connected();
    }
    ledger.add(&mut reading, "read", &[("total", &latency)]);
    tally::note_repeated(repeated, &mut reading);
    for (name, count) in [("requests", requests), ("requests_repeated", repeated), ("connections_made", connected)] {
        reading.detail(name, count);
    }
    Ok(reading)
}
