//! The file of a vector index, opened and searched.

/// What its header is made of.
pub const FIELDS: &[&str] = &[
    "\"index\":\"diskann\"",
    "\"index\":\"hnsw\"",
    "\"index\":\"ivf\"",
    "\"dim\":",
    "\"vectors\":",
    "\"blocks\":",
    "\"block_bytes\":",
    "\"entry_bytes\":",
    "\"entry\":",
    "\"code_low\":",
    "\"code_step\":",
    "\"queries\":",
];

/// A vector index, opened and searched.
pub mod vector_index {
    use std::fs::File;
    use std::path::Path;

    use serde_json::{json, Value};

    use crate::fuzzing::checks::{accepted, first_line};
    use crate::fuzzing::memory_file::MemoryFile;
    use crate::storage::data::buffers::BufferPool;
    use crate::storage::data::content::Content;
    use crate::storage::data::file_set::FileSet;
    use crate::storage::io::psync::Psync;
    use crate::storage::io::synchronous::Synchronous;
    use crate::storage::scratch::Scratch;
    use crate::timing::clock::now_ns;
    use crate::training::ledger::Ledger;
    use crate::training::vectors::file::SECTOR;
    use crate::training::vectors::index::Index;
    use crate::training::vectors::search::{Origin, Search, Searcher};
    use crate::Stop;

    const LONGEST_TEXT: usize = SECTOR - 16;

    /// A byte that chooses, the header's text, and behind a line end all that follows the header.
    ///
    /// Unless the byte is odd all checksums are made right, so that what they cover is read.
    pub fn read(input: &[u8]) -> bool {
        let Some((choice, rest)) = input.split_first() else { return false };
        let (text, body) = first_line(rest);
        let text = &text[..text.len().min(LONGEST_TEXT)];
        let mut bytes = b"hwdynoVS".to_vec();
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(crc32c::crc32c(text).to_le_bytes());
        bytes.extend(text);
        bytes.resize(SECTOR, 0);
        bytes.extend(body);
        if choice & 1 == 0 {
            repair(&mut bytes, text);
        }
        let file = MemoryFile::new(&bytes);
        let index = Index::open(&file.path());
        if let Ok(index) = &index {
            search(index, &file.path(), usize::from(choice >> 1) % 4 + 1);
        }
        accepted(index)
    }

    /// Makes the checksums of the blocks and of the sections right, where they are.
    fn repair(bytes: &mut [u8], text: &[u8]) {
        let header: Value = serde_json::from_slice(text).unwrap_or_default();
        let number = |name: &str| header[name].as_u64().unwrap_or(0) as usize;
        let Some(block) =
            number("entry_bytes").max(1).checked_add(16).and_then(|all| all.checked_next_multiple_of(SECTOR))
        else {
            return;
        };
        let Some(from) = number("blocks").checked_mul(block).and_then(|all| all.checked_add(SECTOR)) else { return };
        if from > bytes.len() {
            return;
        }
        for block in bytes[SECTOR..from].chunks_exact_mut(block) {
            let end = block.len() - 4;
            let sum = crc32c::crc32c(&block[..end]);
            block[end..].copy_from_slice(&sum.to_le_bytes());
        }
        let mut at = from;
        while let Some(head) = bytes.get(at..at + 12) {
            let size = head[..8].try_into().map_or(0, u64::from_le_bytes) as usize;
            let Some(section) = size.checked_add(at + 12).and_then(|end| bytes.get(at + 12..end)) else { return };
            let sum = crc32c::crc32c(section);
            bytes[at + 8..at + 12].copy_from_slice(&sum.to_le_bytes());
            at += 12 + size;
        }
    }

    fn search(index: &Index, path: &Path, beam: usize) {
        assert!(index.memory_bytes() < 1 << 30 && index.read_bytes() < 1 << 30, "it needs more than its file");
        let (ledger, content) = (Ledger::new(1.0), Content::default());
        let pool = BufferPool::new(beam, index.read_bytes(), false, 1, false, &content, 1);
        let (Ok(pool), Ok(file)) = (pool, File::open(path)) else { return };
        let search = Search { k: 5, list: 10, beam, probes: 3, end_ns: now_ns() + 2_000_000, seed: 1 };
        let access = Synchronous::new(Psync::new(FileSet::one(&file), &pool));
        let origin = Origin { name: "index", operation: "read" };
        let searcher = Searcher::new(index, search, access, &pool, &ledger, origin);
        let tally = searcher.run((0, 1), &Stop::new(), &Stop::new());
        assert!(tally.found <= tally.sought);
        for fault in ledger.faults() {
            accepted(Err::<(), _>(fault.says));
        }
    }

    /// One of each kind, as the engine builds it.
    pub fn seeds() -> Vec<Vec<u8>> {
        let scratch = Scratch::new("fuzz-vectors");
        let built = |kind: &str| {
            let folder = scratch.path(kind);
            let given = json!({"path": folder, "index": kind, "vectors": 30, "dim": 3, "degree": 4, "build_list": 8, "queries": 2, "threads": 1});
            crate::run("inference_vector_index", &given, &Stop::new()).ok()?;
            let bytes = std::fs::read(folder.join(crate::kernels::inference_vector_index::FILE)).ok()?;
            let length = bytes[8..12].try_into().map_or(0, u32::from_le_bytes) as usize;
            Some([&[2], &bytes[16..16 + length], b"\n", &bytes[SECTOR..]].concat())
        };
        ["diskann", "hnsw", "ivf"].into_iter().filter_map(built).collect()
    }
}
