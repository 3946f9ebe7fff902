//! Checks a file against the journal of an interrupted run: acknowledged writes must be there, and only writes in
//! flight may be old, new or torn.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::{json, Map};

use super::journal::Journal;
use super::ledger::{Entry, Ledger};
use super::verify::{each_block, inspect, Damage, DamageReport};
use crate::contract::kernel::{Error, Stop};
use crate::contract::reading::{counted, Note, Reading, Stream};
use crate::storage::data::file_set::FileSet;
use crate::storage::order::blocks::Span;
use crate::sys::files;
use crate::sys::memory::Region;
use crate::timing::clock::Clock;
use crate::timing::cpu_time;
use crate::words;

words! {
    /// What interrupted the writes.
    pub enum Interruption {
        /// The process was killed: all that was acknowledged has to be there.
        Kill = "kill",
        /// The power was cut: all that a sync had covered has to be there.
        PowerCut = "power_cut",
    }
}

/// A check.
#[derive(Debug, Clone)]
pub struct Check {
    /// The journal.
    pub journal: PathBuf,
    /// The file, where it is no longer the one that the journal names.
    pub path: Option<PathBuf>,
    /// What cut the run short.
    pub interruption: Interruption,
}

/// What a block turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It holds a write that it may hold.
    Good(u32),
    /// It holds parts of writes of which none had to be there whole.
    Partly,
    /// It holds a later write than the journal knows: that is older than the file.
    Later,
    /// It has lost what was promised.
    Bad(Damage),
}

impl Interruption {
    fn promised(self, entry: Entry) -> u32 {
        match self {
            Self::Kill => entry.acknowledged,
            Self::PowerCut => entry.covered,
        }
    }

    fn judge(self, seen: Result<u32, Damage>, entry: Entry) -> Verdict {
        let promised = self.promised(entry);
        match seen {
            Ok(generation) if generation > entry.begun => Verdict::Later,
            Ok(generation) if generation >= promised => Verdict::Good(generation),
            Ok(_) => Verdict::Bad(Damage::Stale),
            Err(_) if promised == 0 => Verdict::Partly,
            // A write cut inside a sector leaves the sectors' serials alike, and the checksum wrong.
            Err(Damage::Torn | Damage::Flipped) if entry.begun > promised => Verdict::Partly,
            Err(damage) => Verdict::Bad(damage),
        }
    }
}

/// Blocks by their state.
#[derive(Debug, Default)]
struct BlockCounts {
    found: DamageReport,
    acknowledged: u64,
    covered: u64,
    in_flight: u64,
    in_flight_new: u64,
    in_flight_torn: u64,
    lost_after_sync: u64,
    later: u64,
}

impl BlockCounts {
    fn count(&mut self, interruption: Interruption, offset: u64, entry: Entry, seen: Result<u32, Damage>) {
        let in_flight = entry.begun > entry.acknowledged;
        self.found.checked += 1;
        self.acknowledged += u64::from(entry.acknowledged > 0);
        self.covered += u64::from(entry.covered > 0);
        self.in_flight += u64::from(in_flight);
        match interruption.judge(seen, entry) {
            Verdict::Good(generation) => self.in_flight_new += u64::from(in_flight && generation == entry.begun),
            Verdict::Partly => self.in_flight_torn += u64::from(in_flight && seen == Err(Damage::Torn)),
            Verdict::Later => self.later += 1,
            Verdict::Bad(damage) => {
                self.found.count(offset, damage);
                self.lost_after_sync += u64::from(matches!(Interruption::PowerCut.judge(seen, entry), Verdict::Bad(_)));
            }
        }
    }
}

impl Check {
    /// Reads every block that the journal knows of, and changes nothing.
    ///
    /// # Errors
    /// A journal that is none, or a file that cannot be read.
    pub fn run(&self, stop: &Stop) -> Result<Reading, Error> {
        let journal = Journal::open(&self.journal)?;
        let path = self.path.clone().unwrap_or_else(|| journal.file());
        let clock = Clock::best();
        crate::timing::start::hold_once();
        let (began, cpu) = (clock.now(), cpu_time::of_this_thread());
        let mut counts = BlockCounts::default();
        let mut direct = true;
        for job in 0..journal.jobs() {
            let (span, ledger) = (journal.part(job), journal.ledger(job));
            direct &= check_part(
                &path,
                span,
                &ledger,
                |number, offset, bytes| match bytes {
                    Some(bytes) => {
                        let seen = inspect(bytes, offset, journal.nonce());
                        counts.count(self.interruption, offset, ledger.entry(number), seen);
                    }
                    None => counts.found.unreadable += 1,
                },
                stop,
            )?;
        }
        let elapsed_s = clock.now().saturating_sub(began) as f64 / 1e9;
        Ok(self.make_reading(
            &counts,
            &path,
            &journal,
            direct,
            Reading {
                elapsed_s,
                cpu: cpu_time::of_this_thread().since(cpu),
                interrupted: stop.is_set(),
                concurrency_requested: 1.0,
                ..Reading::default()
            },
        ))
    }

    fn make_reading(
        &self,
        counts: &BlockCounts,
        path: &Path,
        journal: &Journal,
        direct: bool,
        reading: Reading,
    ) -> Reading {
        let mut details = Map::new();
        let mut faults = Vec::new();
        let which = match self.interruption {
            Interruption::Kill => " whose write was acknowledged",
            Interruption::PowerCut => " that a sync had covered",
        };
        counts.found.write(which, &mut details, &mut faults);
        for (name, count) in [
            ("acknowledged", counts.acknowledged),
            ("covered_by_sync", counts.covered),
            ("in_flight", counts.in_flight),
            ("in_flight_new", counts.in_flight_new),
            ("in_flight_torn", counts.in_flight_torn),
            ("lost_after_sync", counts.lost_after_sync),
            ("later", counts.later),
        ] {
            details.insert(format!("journal_{name}_blocks"), json!(count));
        }
        details.insert("journal_ended".into(), json!(journal.has_ended()));
        details.insert("direct_used".into(), json!(direct));
        details.insert("path".into(), json!(path.to_string_lossy()));
        let notes = (counts.later > 0).then(|| Note {
            code: "journal_older".into(),
            says: format!(
                "{} with a later write than the journal has: it is older than the file",
                counted(counts.later, "block", "blocks")
            ),
        });
        let operations = counts.found.checked;
        let stream =
            Stream { name: "read".into(), operations, bytes: operations * journal.block(), ..Stream::default() };
        Reading { streams: vec![stream], details, faults, notes: notes.into_iter().collect(), ..reading }
    }
}

/// Hands every block of one job that was ever written to `see`; whether it was read past the page cache.
fn check_part(
    path: &Path,
    span: Span,
    ledger: &Ledger,
    mut see: impl FnMut(usize, u64, Option<&[u8]>),
    stop: &Stop,
) -> Result<bool, Error> {
    let failed = |e: &std::io::Error| Error::machine(format!("read {}", path.display()), e);
    let was_written = |number: usize| ledger.entry(number).begun > 0;
    let length = File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).map_err(|e| failed(&e))?;
    if span.block > length {
        // No memory is taken for blocks that only the journal says are so long.
        let numbers = (0..span.blocks as usize).filter(|&number| was_written(number));
        numbers.for_each(|number| see(number, span.offset + number as u64 * span.block, None));
        return Ok(true);
    }
    let probe = Region::new(span.block as usize).map_err(|e| failed(&e))?;
    // EINVAL alone means that there is no way past the cache here.
    let past_the_cache = match files::open(path, true) {
        Ok(file) => {
            let answer = files::read_at(&file, &probe, 0, span.block as usize, span.offset);
            (answer != -i64::from(libc::EINVAL)).then_some(file)
        }
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => None,
        Err(error) => return Err(failed(&error)),
    };
    let direct = past_the_cache.is_some();
    let file = match past_the_cache {
        Some(file) => file,
        None => files::open(path, false).map_err(|e| failed(&e))?,
    };
    each_block(FileSet::one(&file), span, was_written, &|| stop.is_set(), see).map_err(|e| failed(&e))?;
    Ok(direct)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(begun: u32, acknowledged: u32, covered: u32) -> Entry {
        Entry { begun, acknowledged, covered, busy: false }
    }

    #[test]
    fn only_what_was_not_promised_may_be_old_or_torn() {
        use Damage::{Flipped, Lost, Misplaced, Stale, Torn};
        use Interruption::{Kill, PowerCut};
        use Verdict::{Bad, Good, Later, Partly};
        for (interruption, entry, seen, verdict) in [
            // Acknowledged and nothing since: that very write.
            (Kill, entry(3, 3, 0), Ok(3), Good(3)),
            (Kill, entry(3, 3, 0), Ok(2), Bad(Stale)),
            (Kill, entry(3, 3, 0), Err(Torn), Bad(Torn)),
            (Kill, entry(3, 3, 3), Err(Lost), Bad(Lost)),
            (Kill, entry(3, 3, 3), Ok(4), Later),
            // The next one in flight: either, or parts of both; nothing else.
            (Kill, entry(4, 3, 0), Ok(3), Good(3)),
            (Kill, entry(4, 3, 0), Ok(4), Good(4)),
            (Kill, entry(4, 3, 0), Err(Torn), Partly),
            (Kill, entry(4, 3, 0), Err(Flipped), Partly),
            (Kill, entry(4, 3, 0), Ok(2), Bad(Stale)),
            (Kill, entry(4, 3, 0), Err(Misplaced), Bad(Misplaced)),
            (Kill, entry(4, 3, 0), Err(Lost), Bad(Lost)),
            // The first one in flight: the block may contain anything.
            (Kill, entry(1, 0, 0), Err(Lost), Partly),
            (Kill, entry(1, 0, 0), Err(Stale), Partly),
            (Kill, entry(1, 0, 0), Ok(1), Good(1)),
            // After a power cut only what a sync covered was promised.
            (PowerCut, entry(5, 5, 3), Ok(3), Good(3)),
            (PowerCut, entry(5, 5, 3), Err(Torn), Partly),
            (PowerCut, entry(5, 5, 3), Ok(2), Bad(Stale)),
            (PowerCut, entry(5, 5, 5), Ok(4), Bad(Stale)),
            (PowerCut, entry(5, 5, 0), Err(Lost), Partly),
            (PowerCut, entry(5, 5, 5), Err(Torn), Bad(Torn)),
        ] {
            assert_eq!(interruption.judge(seen, entry), verdict, "{interruption:?} {entry:?} {seen:?}");
        }
    }
}
