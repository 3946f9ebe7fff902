//! The files of data sets as a loader reads them, and the entries of a KV cache.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::fuzzing::checks::accepted;
use crate::fuzzing::memory_file::MemoryFile;
use crate::safe_files::Folder;
use crate::storage::scratch::Scratch;
use crate::training::access::Files;
use crate::training::dataset::{Format, Layout};
use crate::training::sink::Sink;
use crate::training::source::{Reader, Source};
use crate::Stop;

/// Bytes before the file: samples, first sample and reads' size, columns, switches.
const CHOICES: usize = 4;

/// Reads one batch of a file that holds `input` behind its choices; whether every sample was delivered.
fn loaded(format: Format, input: &[u8]) -> bool {
    let Some((choices, content)) = input.split_first_chunk::<CHOICES>() else { return false };
    let [samples, sizes, columns, switches] = choices.map(u64::from);
    let file = MemoryFile::new(content);
    let direct = switches & 1 == 1;
    let samples = samples % 8 + 1;
    let files = Files {
        paths: vec![file.path()],
        objects: None,
        direct,
        // Small reads, so that what belongs together arrives apart.
        transfer: if direct { 4096 } else { sizes % 16 * 16 + 1 },
        direct_refused: AtomicBool::new(false),
    };
    let source = Source {
        files,
        format,
        samples,
        batch: samples - sizes % samples,
        ranks: 1,
        shuffled: switches & 2 == 2,
        seed: 1,
        full: switches & 4 == 0,
        columns: columns as usize % 4,
        file_bytes: if switches & 8 == 8 { 84 } else { 0 },
        mean_bytes: 84.0,
    };
    let stop = Stop::new();
    let mut reader = Reader::new(&source, 0, &stop);
    let mut failures = Vec::new();
    reader.batch(0, 0, 0, |trouble| failures.push(trouble.says));
    for says in &failures {
        accepted(Err::<(), _>(says));
    }
    assert_eq!(reader.lost == 0, failures.is_empty());
    let most = (content.len() as u64 + 4096) * 4 * samples + (64 << 10);
    let bytes = reader.access.bytes;
    assert!(bytes <= most, "{bytes} bytes were read of {}", content.len());
    failures.is_empty()
}

/// Files as the engine itself writes them, of one sample and of three.
fn written(format: Format) -> Vec<Vec<u8>> {
    let scratch = Scratch::new(&format!("fuzz-{}", format.word()));
    let file = |samples: u64, columns: u64| {
        let name = PathBuf::from(format!("file-{samples}"));
        let layout = Layout {
            folder: scratch.path(""),
            format,
            files: 1,
            samples,
            record: 28.0,
            stdev: 0.0,
            subfolders: 0,
            prefix: String::new(),
            seed: 1,
            group: 2,
            columns,
        };
        let (stop, mut buffer) = (Stop::new(), Vec::new());
        let folder = Folder::named(&layout.folder).ok()?;
        let mut sink = Sink::create(&folder, &name, &mut buffer, 1, &stop).ok()?;
        layout.write(&mut sink, (4, 7)).ok()?;
        sink.finish().ok()?;
        let content = std::fs::read(scratch.path("").join(name)).ok()?;
        Some([&[samples as u8 - 1, 0x20, 0, 0], content.as_slice()].concat())
    };
    [file(1, 1), file(3, 2)].into_iter().flatten().collect()
}

macro_rules! formats {
    ($($name:ident: $format:ident),*) => {$(
        #[doc = concat!("Files of the format ", stringify!($name), ".")]
        pub mod $name {
            use super::Format;

            /// Reads a batch of one.
            pub fn read(input: &[u8]) -> bool {
                super::loaded(Format::$format, input)
            }

            /// Seeds as the engine writes them; see [`super::written`].
            pub fn seeds() -> Vec<Vec<u8>> {
                super::written(Format::$format)
            }
        }
    )*};
}

formats! {
    npz: Npz, npy: Npy, tfrecord: Tfrecord, hdf5: Hdf5, jpeg: Jpeg, png: Png, csv: Csv, binary: Binary, parquet: Parquet
}

/// The file of an entry of a KV cache.
pub mod kv_entry {
    use super::{accepted, Scratch};
    use crate::safe_files::scratch::Private;
    use crate::training::kv_files::{Buffers, Shelf, Way, BLOCK};
    use crate::training::ledger::Ledger;
    use crate::training::target::Target;

    const ENTRY: u64 = 3;
    const RUN: u32 = 7;

    fn shelf(scratch: &Scratch) -> Option<Shelf> {
        Some(Shelf::new(Target::Folder(Private::at(&scratch.path("")).ok()?), Way::Cached, false, true, RUN))
    }

    /// An entry of two blocks is read whole, or its damage is named.
    pub fn read(input: &[u8]) -> bool {
        let scratch = Scratch::new("fuzz-kv");
        let (Some(shelf), Ok(buffers)) = (shelf(&scratch), Buffers::new(BLOCK, 1)) else { return false };
        let ledger = Ledger::new(1.0);
        if std::fs::write(shelf.path(ENTRY), input).is_err() {
            return false;
        }
        let ended = shelf.read(ENTRY, 2 * BLOCK as u64, &buffers, &ledger, &|| false);
        for fault in ledger.faults() {
            accepted(Err::<(), _>(fault.says));
        }
        ended.is_ok() && ledger.faults().is_empty()
    }

    /// One as it is written.
    pub fn seeds() -> Vec<Vec<u8>> {
        let scratch = Scratch::new("fuzz-kv-seed");
        let (Some(shelf), Ok(buffers)) = (shelf(&scratch), Buffers::new(BLOCK, 1)) else { return Vec::new() };
        vec![shelf.compose(ENTRY, 2 * BLOCK as u64, &buffers)]
    }
}
