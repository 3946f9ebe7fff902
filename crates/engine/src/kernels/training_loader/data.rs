//! The data set of a loader: its files or objects, what is wrong with them, and what the page cache has of them.

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::choices::{Cache, Order, Parameters, Parse};
use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::Note;
use crate::object::place::Place;
use crate::sys;
use crate::training::access::Files;
use crate::training::dataset::{self, Format, Layout};
use crate::training::ledger::Ledger;
use crate::training::objects::{self, Objects};
use crate::training::source::Source;

/// Files whose share in the page cache is looked up: a sample beyond this many.
const SAMPLED: usize = 4096;

/// What is in a data set's place.
struct Listing {
    paths: Vec<PathBuf>,
    others: Vec<PathBuf>,
    objects: Option<Objects>,
}

/// Lists a folder, or the objects of a place in a bucket.
fn list(layout: &Layout, parameters: &Parameters, stop: &Stop) -> Result<Listing, Error> {
    if let Some(place) = Place::of(&layout.folder, &parameters.dataset.reach)? {
        let listed = objects::list(place, layout.format, stop)?;
        return Ok(Listing { paths: listed.names, others: listed.others, objects: Some(listed.objects) });
    }
    let (paths, others) = dataset::list(&layout.folder, layout.format)?;
    Ok(Listing { paths, others, objects: None })
}

/// Names the first file that is missing.
fn name_missing(layout: &Layout, paths: &[PathBuf], ledger: &Ledger) {
    if (paths.len() as u64) >= layout.files {
        return;
    }
    let is_there = |number: u64| paths.binary_search(&layout.path(number)).is_ok();
    let lacking = (0..layout.files).find(|&number| !is_there(number)).unwrap_or(0);
    let says =
        format!("{} is missing: {} of {} files are there", layout.path(lacking).display(), paths.len(), layout.files);
    ledger.fault("list", libc::ENOENT, says);
}

/// Lists the files and names what is wrong with them.
pub(super) fn source(
    layout: &Layout,
    parameters: &Parameters,
    ledger: &Ledger,
    notes: &mut Vec<Note>,
    stop: &Stop,
) -> Result<Source, Error> {
    let Listing { mut paths, others, objects } = list(layout, parameters, stop)?;
    let ending = layout.format.word();
    if paths.is_empty() {
        let found =
            others.first().map_or(String::new(), |other| format!("; {} is of another workload", other.display()));
        let folder = layout.folder.display();
        return Err(Error::Machine(
            format!("no .{ending} file under {folder}/train{found}: generate the data set first"),
            Some(libc::ENOENT),
        ));
    }
    for other in others.iter().filter(|path| path.extension().is_none_or(|ending| ending != "part")).take(20) {
        ledger.fault("list", 0, format!("{} is no .{ending}: of another workload, not read", other.display()));
    }
    name_missing(layout, &paths, ledger);
    if layout.files > 0 {
        paths.truncate(layout.files as usize);
    }
    if parameters.subset > 0 {
        paths.truncate(parameters.subset);
    }
    let mean_bytes = mean_size(layout, &sizes(&paths, objects.as_ref()), notes);
    let exact = layout.stdev == 0.0;
    let files = Files {
        paths,
        objects,
        direct: parameters.direct,
        transfer: parameters.transfer_size.next_multiple_of(4096),
        direct_refused: AtomicBool::new(false),
    };
    Ok(Source {
        files,
        format: layout.format,
        samples: layout.samples,
        batch: parameters.batch_size,
        ranks: parameters.accelerators,
        shuffled: parameters.order == Order::Shuffled,
        seed: layout.seed.into(),
        full: parameters.parse == Parse::Full,
        columns: parameters.read_columns,
        file_bytes: match (layout.format, exact) {
            (Format::Binary, true) => layout.dimensions().first().map_or(0, |&sides| layout.size(sides).0),
            _ => 0,
        },
        mean_bytes,
    })
}

/// The sizes of some of the files; of objects the listing has them.
fn sizes(files: &[PathBuf], objects: Option<&Objects>) -> Vec<f64> {
    let some = (0..files.len()).step_by(files.len().div_ceil(1024).max(1));
    let size = |at: usize| match objects {
        Some(objects) => objects.lengths.get(at).copied(),
        None => std::fs::metadata(&files[at]).ok().map(|about| about.len()),
    };
    some.filter_map(size).map(|bytes| bytes as f64).collect()
}

/// The mean size of the files; a remark where it is not the workload's: they are someone else's then.
fn mean_size(layout: &Layout, found: &[f64], notes: &mut Vec<Note>) -> f64 {
    let mean = found.iter().sum::<f64>() / found.len().max(1) as f64;
    let nominal = layout.record * if layout.format == Format::Csv { 3.57 } else { 1.0 };
    let expected = nominal * layout.samples as f64;
    // five standard errors of a mean of this many, and a fifth for what the container adds or a format saves
    let error = layout.stdev * layout.samples as f64 / (found.len().max(1) as f64).sqrt() * 5.0;
    if (mean - expected).abs() > error + 0.2 * expected + 4096.0 {
        notes.push(Note {
            code: "other_workload".into(),
            says: format!(
                "the files have {:.3} MB on average but this workload's have {:.3} MB: they belong to another one",
                mean / 1e6,
                expected / 1e6
            ),
        });
    }
    mean
}

/// Empties or fills the page cache, or leaves it; gives the share of the files' bytes that it holds then.
pub(super) fn prepare(source: &Source, cache: Cache, notes: &mut Vec<Note>, stop: &Stop) -> Option<f64> {
    if source.files.objects.is_some() {
        return None; // this host keeps no pages of objects
    }
    let every = if cache == Cache::Keep { source.files.paths.len().div_ceil(SAMPLED) } else { 1 };
    let mut buffer = if cache == Cache::Warm { vec![0_u8; 1 << 20] } else { Vec::new() };
    let (mut cached, mut total) = (0_u64, 0_u64);
    for path in source.files.paths.iter().step_by(every) {
        let (file, about) = match std::fs::File::open(path).and_then(|file| file.metadata().map(|about| (file, about)))
        {
            Ok(opened) => opened,
            Err(error) => {
                let says = format!("the page cache may hold what was not looked at: open {}: {error}", path.display());
                notes.push(Note { code: "cache_unknown".into(), says });
                return None;
            }
        };
        match cache {
            Cache::Drop => sys::files::forget(&file),
            // a file that cannot be read is named when it is, in the timed region
            Cache::Warm => while !stop.is_set() && (&file).read(&mut buffer).is_ok_and(|got| got > 0) {},
            Cache::Keep => {}
        }
        cached += sys::files::cached_bytes(&file, about.len())?;
        total += about.len();
    }
    (total > 0).then(|| cached as f64 / total as f64)
}
