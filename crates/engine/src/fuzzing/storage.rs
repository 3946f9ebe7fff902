//! What storage keeps: the journal of acknowledged writes, blocks that identify themselves, traces, a device's marks.

/// A journal, and the file that it reports.
pub mod journal {
    use crate::fuzzing::checks::accepted;
    use crate::fuzzing::memory_file::MemoryFile;
    use crate::storage::integrity::check::{Check, Interruption};
    use crate::storage::integrity::journal::Journal;
    use crate::storage::integrity::verify::seal;
    use crate::storage::order::blocks::Span;
    use crate::storage::scratch::Scratch;
    use crate::Stop;

    /// The header's words come first, directly followed by the jobs: the path between is left out of the input.
    const HEADER: usize = 64;
    const PARTS: usize = 8192;

    /// A byte that chooses, then the journal without its path. If the byte is odd, the journal states its true length.
    pub fn read(input: &[u8]) -> bool {
        let Some((choice, rest)) = input.split_first() else { return false };
        let mut bytes = rest[..rest.len().min(HEADER)].to_vec();
        bytes.resize(PARTS, b'x');
        bytes.extend(rest.get(HEADER..).unwrap_or(&[]));
        if choice & 1 == 1 {
            let total = bytes.len() as u64 / 8;
            bytes[8..16].copy_from_slice(&total.to_ne_bytes());
        }
        let (file, journal) = (MemoryFile::new(&blocks()), MemoryFile::new(&bytes));
        let interruption = if choice & 2 == 0 { Interruption::Kill } else { Interruption::PowerCut };
        let check = Check { journal: journal.path(), path: Some(file.path()), interruption };
        let reading = check.run(&Stop::new());
        if let Ok(reading) = &reading {
            assert!(serde_json::to_string(reading).is_ok());
        }
        accepted(reading)
    }

    fn blocks() -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..8 * 512_u32).map(|at| (at * 7) as u8).collect();
        for (number, block) in bytes.chunks_exact_mut(512).enumerate() {
            seal(block, number as u64 * 512, 77, 1 + number as u32 % 3);
        }
        bytes
    }

    /// Journals of one job and of two, with writes in flight.
    pub fn seeds() -> Vec<Vec<u8>> {
        let scratch = Scratch::new("fuzz-journal");
        let (path, data) = (scratch.path("journal"), scratch.path("data"));
        let part = |offset, blocks| Span { offset, blocks, block: 512 };
        let seed = |parts: &[Span]| {
            let _ = std::fs::write(&data, b"x");
            let journal = Journal::create(&path, &data, 77, parts).ok()?;
            for job in 0..journal.jobs() {
                let ledger = journal.ledger(job);
                for number in 0..ledger.blocks() {
                    let _ = ledger.begin_write(number, 1);
                    ledger.end(number, number % 2 == 0);
                }
                ledger.synced();
            }
            journal.end();
            drop(journal);
            let bytes = std::fs::read(&path).ok()?;
            let _ = std::fs::remove_file(&path);
            Some([&[1], &bytes[..HEADER], &bytes[PARTS..]].concat())
        };
        [seed(&[part(0, 4)]), seed(&[part(0, 2), part(1024, 6)])].into_iter().flatten().collect()
    }
}

/// A place in 64 bits, then a block that says where it belongs.
pub mod verified_block {
    use crate::storage::integrity::verify::{inspect, seal, MIN_BLOCK};

    const NONCE: u32 = 77;

    /// A block that is accepted is what its writer would make of it.
    pub fn read(input: &[u8]) -> bool {
        let Some((offset, block)) = input.split_first_chunk::<8>() else { return false };
        if block.len() < MIN_BLOCK as usize {
            return false;
        }
        let offset = u64::from_le_bytes(*offset);
        let seen = inspect(block, offset, NONCE);
        if let Ok(generation) = seen {
            let mut again = block.to_vec();
            seal(&mut again, offset, NONCE, generation);
            assert_eq!(again, block);
        }
        seen.is_ok()
    }

    /// Blocks of one sector, and of several.
    pub fn seeds() -> Vec<Vec<u8>> {
        [512, 777, 4096]
            .map(|length| {
                let mut block: Vec<u8> = (0..length).map(|at| (at * 31) as u8).collect();
                seal(&mut block, 8192, NONCE, 5);
                [&8192_u64.to_le_bytes()[..], &block].concat()
            })
            .into()
    }
}

/// What to leave out on a line, then a trace.
pub mod iolog {
    use std::sync::Arc;

    use crate::fuzzing::checks::{accepted, first_line};
    use crate::fuzzing::memory_file::MemoryFile;
    use crate::storage::trace::iolog::{Iolog, Replay, Step};

    const LENGTH: u64 = 1 << 20;

    /// A trace that fits two files is replayed within them.
    pub fn read(input: &[u8]) -> bool {
        let (skip, text) = first_line(input);
        let file = MemoryFile::new(text);
        let iolog = Iolog::read(&file.path(), &String::from_utf8_lossy(skip));
        let checked = iolog.and_then(|iolog| iolog.check(2, LENGTH, 1 << 16).map(|()| iolog));
        if let Ok(iolog) = &checked {
            let mut replay = Replay::new(Arc::new(iolog.clone()), 0.5, 0, LENGTH);
            replay.restart(1000);
            let mut latest = 0;
            while !replay.is_over() {
                assert!(replay.due_ns() >= latest);
                latest = replay.due_ns();
                if let Some(Step::Transfer { offset, length, .. }) = replay.step() {
                    assert!(offset + length <= 2 * LENGTH);
                }
            }
        }
        accepted(checked)
    }

    /// Traces of either version.
    pub fn seeds() -> Vec<Vec<u8>> {
        [
            "\nfio version 3 iolog\n0 /tmp/a add\n1 /tmp/a open\n10 /tmp/a read 0 4096\n20 /tmp/a write 8192 512\n30 /tmp/a close\n",
            "sync, trim\nfio version 2 iolog\n/a add\n/a open\n/b add\n/a wait 5\n/a read 0 4096\n/b write 65536 8192\n/a trim 0 1\n/a datasync 0 0\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .into()
    }
}

/// Places on a device and their content: 4 bytes of place, of which the first bit counts from the end, then 16.
pub mod device_marks {
    use std::io;

    use crate::storage::raw::signatures::find;

    /// Looks for marks on a device of some MiB; the first byte sets its size.
    pub fn read(input: &[u8]) -> bool {
        let Some((&size, places)) = input.split_first() else { return false };
        let mut device = vec![0_u8; (usize::from(size) + 1) * 4099];
        for place in places.chunks(20) {
            let (at, bytes) = place.split_at(place.len().min(4));
            let at = at.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
            let last = device.len() - 1;
            let from =
                if at >> 31 == 1 { device.len().saturating_sub(at & 0x7fff_ffff).min(last) } else { at.min(last) };
            let to = (from + bytes.len()).min(device.len());
            device[from..to].copy_from_slice(&bytes[..to - from]);
        }
        let found = find(device.len() as u64, |buffer, at| {
            let from = at as usize;
            let source = device.get(from..from + buffer.len());
            buffer.copy_from_slice(source.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        });
        assert!(found.is_ok());
        found.is_ok_and(|mark| mark.is_none())
    }

    /// Nothing, and marks that look for more.
    pub fn seeds() -> Vec<Vec<u8>> {
        let mark = |at: u32, bytes: &[u8]| {
            let mut all = vec![200];
            all.extend(at.to_be_bytes());
            all.extend(bytes);
            all
        };
        vec![vec![0], vec![255], mark(510, b"\x55"), mark(4086, b"SWAPSPACE"), mark(0x8000_0200, b"EFI PAR")]
    }
}
