//! Makes a run's objects below its marked prefix, and removes them, also those that a killed run left.

use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::Reading;
use crate::object::client::Load;
use crate::object::control::Control;
use crate::object::credentials::Credentials;
use crate::object::marks::{self, Owner};
use crate::object::mix::Mix;
use crate::object::options::{Bucket, Checksum, Operation};
use crate::object::plan::Work;
use crate::object::stored::Stored;
use crate::object::tally::Tally;

/// How often a request is sent before a layout or a removal is given up.
const ATTEMPTS: u32 = 5;
/// Removals in flight.
const REMOVALS: usize = 16;
/// Pages of a listing that are removed: ten million keys.
const MAX_PAGES: usize = 10_000;

/// Writes the objects of a load, each once.
///
/// # Errors
/// Machine: one could not be written.
pub fn make(load: &Load<'_>, stop: &Stop) -> Result<Tally, Error> {
    let tally = load.run(stop)?;
    failure_of(&tally, "write the objects").map_or(Ok(tally), Err)
}

/// Reads the objects of a load, each once.
///
/// # Errors
/// Machine: one could not be read.
pub fn read(load: &Load<'_>, stop: &Stop) -> Result<(), Error> {
    failure_of(&load.run(stop)?, "read the objects").map_or(Ok(()), Err)
}

/// The first kind of failure, as an error.
fn failure_of(tally: &Tally, doing: &str) -> Option<Error> {
    let (kind, count) = crate::object::failure::ALL.into_iter().zip(tally.failures()).find(|(_, count)| *count > 0)?;
    let objects = if count == 1 { "object" } else { "objects" };
    Some(Error::Machine(format!("{doing}: {count} {objects} failed: {}", kind.line()), None))
}

/// The work of going through some objects once, each until it succeeds.
#[must_use]
pub fn each_once(operation: Operation, objects: u64, object_size: u64, seed: u64) -> Work {
    Work {
        operation,
        mix: Mix::default(),
        objects,
        object_size,
        range_size: 1,
        part_size: 1,
        once: true,
        attempts: ATTEMPTS,
        rate: 0.0,
        runtime_s: 1.0,
        seed,
    }
}

/// A load that does nothing yet but by which objects can be removed.
#[must_use]
pub fn for_removal<'a>(
    bucket: &'a Bucket,
    credentials: &'a Credentials,
    stored: &'a Stored,
    timeout_s: f64,
) -> Load<'a> {
    Load {
        bucket,
        credentials,
        stored,
        written: stored,
        work: each_once(Operation::Delete, 0, 0, 1),
        checksum: Checksum::Nothing,
        concurrency: 1,
        threads: 1,
        timeout_s,
        keep_alive: true,
        interval_s: 1.0,
    }
}

/// Marks the folder of a run as this process's, after what killed runs left beside it was removed.
///
/// # Errors
/// Usage or Machine: the prefix is no run's, objects are below it already, or the store refuses.
pub fn claim(control: &mut Control, load: &Load<'_>, prefix: &str, stop: &Stop) -> Result<Left, Error> {
    let folder = prefix.trim_end_matches('/');
    let base = &prefix[..folder.rfind('/').map_or(0, |at| at + 1)];
    let left = remove_left(control, load, base, stop)?;
    marks::make(control, prefix)?;
    Ok(left)
}

/// Removes all objects and incomplete uploads of a run, its mark last; gives how many there were.
///
/// # Errors
/// Usage or Machine: the prefix has no mark of a run, or the store refuses.
pub fn remove(control: &mut Control, load: &Load<'_>, prefix: &str, stop: &Stop) -> Result<u64, Error> {
    marks::check(control, prefix)?;
    let mut removed = abort_uploads(control, prefix)?;
    for _ in 0..MAX_PAGES {
        let mut keys = control.list(prefix, "", "")?.keys;
        if let Some(key) = keys.iter().find(|key| !key.starts_with(prefix)) {
            return Err(Error::Machine(
                format!("the store listed {key} below {prefix}, where it is not; nothing more was removed"),
                None,
            ));
        }
        keys.retain(|key| !marks::is_mark(prefix, key));
        if keys.is_empty() {
            marks::remove(control, prefix)?;
            return Ok(removed + 1);
        }
        let stored = Stored::listed(prefix, &keys);
        let work = each_once(Operation::Delete, keys.len() as u64, 0, 1);
        let concurrency = REMOVALS.min(keys.len());
        let (checksum, threads) = (Checksum::Nothing, 1);
        let tally =
            Load { stored: &stored, written: &stored, work, checksum, concurrency, threads, keep_alive: true, ..*load }
                .run(stop)?;
        if let Some(error) = failure_of(&tally, "remove the objects") {
            return Err(error);
        }
        removed += tally.operations();
        if tally.stopped {
            return Err(Error::stopped());
        }
    }
    Err(Error::Machine(format!("the store lists keys below {prefix} without end"), None))
}

/// Ends the multipart uploads of a run that were not complete; gives how many there were.
fn abort_uploads(control: &mut Control, prefix: &str) -> Result<u64, Error> {
    let mut aborted = 0;
    for _ in 0..MAX_PAGES {
        // A store without multipart uploads, or a key that may not list them, has none to end.
        let Ok(mut uploads) = control.list_uploads(prefix)? else { break };
        uploads.retain(|(key, _)| key.starts_with(prefix));
        if uploads.is_empty() {
            break;
        }
        for (key, upload) in &uploads {
            control.abort(key, upload)?;
        }
        aborted += uploads.len() as u64;
    }
    Ok(aborted)
}

/// What was found of earlier runs.
#[derive(Debug, Default)]
pub struct Left {
    /// Objects of killed runs that were removed.
    pub removed: u64,
    /// Folders of runs that may still go on, or that are another machine's.
    pub others: u64,
}

impl Left {
    /// Adds it to a reading.
    pub fn describe(&self, reading: &mut Reading) {
        reading.detail("left_objects_removed", self.removed);
        reading.detail("other_runs_found", self.others);
    }
}

/// Removes what killed runs left below a prefix.
///
/// # Errors
/// Machine: the store refuses.
pub fn remove_left(control: &mut Control, load: &Load<'_>, base: &str, stop: &Stop) -> Result<Left, Error> {
    let mut left = Left::default();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let page = control.list(&format!("{base}{}", marks::FOLDER), "/", &token)?;
        for folder in page.prefixes.iter().filter(|folder| folder.starts_with(base) && marks::is_folder(folder)) {
            match marks::find_owner(control, folder)? {
                Owner::Gone => left.removed += remove(control, load, folder, stop)?,
                Owner::Other => left.others += 1,
                Owner::This => {}
            }
        }
        match page.next {
            Some(next) => token = next,
            None => break,
        }
    }
    Ok(left)
}
