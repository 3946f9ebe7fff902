//! Entries of a KV cache as objects of a store.

use super::{entry_name, Buffers, Ended, Shelf};
use crate::object::failure::Failure;
use crate::object::place::Place;
use crate::object::upload::Upload;
use crate::timing::clock::now_ns;
use crate::training::ledger::Ledger;
use crate::training::target::key;

impl Shelf {
    /// Writes an entry as an object: in one request where it fits into a buffer, else in parts of that length.
    pub(super) fn put(
        &self,
        place: &Place,
        (entry, length): (u64, u64),
        memory: Option<&[u8]>,
        buffers: &Buffers,
        ledger: &Ledger,
        halt: &dyn Fn() -> bool,
    ) -> Result<u64, Ended> {
        let mut line = buffers.line.borrow_mut();
        let Some(line) = line.as_mut() else { return Err(Ended::Halted) };
        let keys = key(place, &entry_name(entry));
        let failed = |failure| self.ended("put", entry, failure, buffers);
        let whole = length.min(buffers.length as u64) as usize;
        let parts = length.div_ceil(whole as u64) as usize;
        let region = self.fill(buffers, (entry, 0, whole), memory);
        let mut begun = now_ns();
        let mut took = 0;
        if parts == 1 {
            region.lend(0, whole, |bytes| line.write(&keys, 0, bytes, &buffers.stop)).map_err(failed)?;
            ledger.done(now_ns(), 0, length);
        } else {
            let mut upload = Upload::begin(line, (&keys, 0), parts, &buffers.stop).map_err(failed)?;
            for part in 1..=parts {
                let at = (part - 1) as u64 * whole as u64;
                let piece = (length - at).min(whole as u64) as usize;
                if halt() {
                    return Err(Ended::Halted);
                }
                if part > 1 {
                    took += now_ns() - begun;
                    self.fill(buffers, (entry, at, piece), memory);
                    begun = now_ns();
                }
                region.lend(0, piece, |bytes| upload.part(part, bytes)).map_err(failed)?;
                ledger.done(now_ns(), 0, piece as u64);
            }
            upload.complete().map_err(failed)?;
        }
        let now = now_ns();
        ledger.done(now, 1, 0);
        Ok(took + now - begun)
    }

    /// Reads an entry that is an object, by one request; its blocks are verified as they come, which takes no time of the
    /// store's.
    pub(super) fn get(
        &self,
        place: &Place,
        (entry, length): (u64, u64),
        buffers: &Buffers,
        ledger: &Ledger,
        halt: &dyn Fn() -> bool,
    ) -> Result<u64, Ended> {
        let mut line = buffers.line.borrow_mut();
        let Some(line) = line.as_mut() else { return Err(Ended::Halted) };
        let (path, begun) = (self.path(entry), now_ns());
        let (mut at, mut filled, mut verified_ns) = (0_u64, 0_usize, 0);
        let mut verify = |at: u64, filled: usize| {
            let begun = now_ns();
            if self.verify {
                buffers.back.lend(0, filled, |bytes| self.verify(entry, at, bytes, &path, ledger));
            }
            verified_ns += now_ns() - begun;
        };
        let mut see = |mut bytes: &[u8]| {
            ledger.done(now_ns(), 0, bytes.len() as u64);
            while !bytes.is_empty() {
                let count = bytes.len().min(buffers.length - filled);
                buffers.back.lend(filled, count, |to| to.copy_from_slice(&bytes[..count]));
                (filled, bytes) = (filled + count, &bytes[count..]);
                if filled == buffers.length || at + filled as u64 == length {
                    verify(at, filled);
                    (at, filled) = (at + filled as u64, 0);
                }
            }
            !halt()
        };
        let found = line.read((&key(place, &entry_name(entry)), 0), (0, length - 1, length), &buffers.stop, &mut see);
        if halt() && at < length {
            return Err(Ended::Halted);
        }
        found.map_err(|failure| self.ended("get", entry, failure, buffers))?;
        let now = now_ns();
        ledger.done(now, 1, 0);
        Ok(now - begun - verified_ns)
    }

    /// Why a request ended a transfer.
    fn ended(&self, operation: &'static str, entry: u64, failure: Failure, buffers: &Buffers) -> Ended {
        if buffers.stop.is_set() {
            return Ended::Halted;
        }
        Ended::Failed(operation, failure.errno(), format!("{}: {}", self.path(entry).display(), failure.says()))
    }
}
