//! Writes the bytes of a file as one object of this run, in parts where it is long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::contract::declare::{integer, required, text, Group};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::Reading;
use crate::object::end::End;
use crate::object::failure::Failure;
use crate::object::keys::Keys;
use crate::object::multipart::{MAX_PART, MAX_PARTS, MIN_PART};
use crate::object::options::StoreParameters;
use crate::object::place::{Line, Place};
use crate::object::tally;
use crate::object::upload::Upload;
use crate::parameters;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::training::ledger::Ledger;

/// The kernel `object_upload`.
pub struct ObjectUpload;

parameters! {
    /// What `object_upload` takes.
    pub struct Parameters {
        file: PathBuf = required("file whose bytes are written"),
        object: String = text("name of the object, below the prefix", "object"),
        part_size: u64 = integer("size of a part; a shorter file is one request", "B", (MIN_PART as i64, MAX_PART as i64),
            16 << 20).role(Role::Size),
        store: StoreParameters = Group,
    }
}

impl Kernel for ObjectUpload {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        grows: true,
        ..Declaration::new("object_upload", "writing a file's bytes as one object", "part")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { ref file, part_size, ref store, .. } = *parameters;
        let unread = |error: io::Error| Error::machine(format!("read {}", file.display()), &error);
        let source = File::open(file).map_err(unread)?;
        let length = source.metadata().map_err(unread)?.len();
        let part = part_size.max(length.div_ceil(MAX_PARTS));
        let end = End::of(store, None)?;
        let place = Place::at(&end, store);
        let mut control = place.control(stop);
        let left = place.claim_by(&mut control, stop)?;
        let key = format!("{}{}", store.prefix, parameters.object);
        let (url, keys) = (place.url(&key), Keys::listed(&[key]));
        let (mut line, ledger, mut latency) = (place.line(0), Ledger::new(0.1), Histogram::new());
        let (start, before) = (now_ns(), cpu_time::of_this_thread());
        ledger.start(start);
        match write(&source, (length, part), (&mut line, &keys), (&ledger, &mut latency), stop) {
            Ok(()) => {}
            Err(_) if stop.is_set() => {}
            Err(Ended::File(error)) => return Err(unread(error)),
            Err(Ended::Store(failure)) => {
                return Err(Error::Machine(format!("write {url}: {}", failure.line()), None));
            }
        }
        let mut reading = Reading { elapsed_s: (now_ns() - start) as f64 / 1e9, ..Reading::default() };
        reading.interrupted = stop.is_set();
        reading.cpu = cpu_time::of_this_thread().since(before);
        ledger.add(&mut reading, "write", &[("total", &latency)]);
        left.describe(&mut reading);
        tally::note_repeated(control.repeated() + line.all_repeated(), &mut reading);
        Ok(reading)
    }
}

/// Why an object is not there.
enum Ended {
    File(io::Error),
    Store(Failure),
}

/// Writes the file's `length` bytes by one request, or by one for each `part` bytes.
fn write(
    source: &File,
    (length, part): (u64, u64),
    (line, keys): (&mut Line, &Keys),
    (ledger, latency): (&Ledger, &mut Histogram),
    stop: &Stop,
) -> Result<(), Ended> {
    let mut buffer = vec![0; length.min(part) as usize];
    let mut count = |began: u64, bytes: u64| {
        let now = now_ns();
        latency.record(now - began);
        ledger.done(now, 1, bytes);
    };
    if length <= part {
        source.read_exact_at(&mut buffer, 0).map_err(Ended::File)?;
        let began = now_ns();
        line.write(keys, 0, &buffer, stop).map_err(Ended::Store)?;
        count(began, length);
        return Ok(());
    }
    let parts = length.div_ceil(part);
    let mut upload = Upload::begin(line, (keys, 0), parts as usize, stop).map_err(Ended::Store)?;
    for number in 0..parts {
        let at = number * part;
        let piece = &mut buffer[..(length - at).min(part) as usize];
        source.read_exact_at(piece, at).map_err(Ended::File)?;
        let began = now_ns();
        upload.part(number as usize + 1, piece).map_err(Ended::Store)?;
        count(began, piece.len() as u64);
    }
    upload.complete().map_err(Ended::Store)
}
