//! The users of a served language model: their conversations, and what each turn reads and writes of the KV cache.
//!
//! The shapes of users, turns and reads are those of `MLPerf` Storage v3 (mlcommons/storage,
//! `kv_cache_benchmark/kv_cache/workload.py` and `benchmark.py`): three kinds of users in equal parts, a
//! conversation that goes on with probability 0.8, a turn that reads the entries of all turns before it, writes its
//! own (prefill) and reads that once and once more for every 32 tokens generated (decode). Unlike there, a user asks
//! again only after his answer: the load is the number of users, not a backlog.

use crate::timing::rng::{mix, Rng};

use super::kv_files::{Buffers, Ended, Shelf, BLOCK};
use super::kv_tiers::{Tier, Tiers};
use super::ledger::Ledger;
use crate::contract::kernel::Stop;
use crate::contract::reading::CpuTime;
use crate::object::line_totals::LineTotals;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::{sys, words};

words! {
    /// A kind of user.
    pub enum UserKind {
        /// Asks and is answered shortly.
        Chatbot = "chatbot",
        /// Has much context and long answers.
        Coding = "coding",
        /// Reads long documents.
        Document = "document",
    }
}

/// What a kind of user does: tokens of context and of answer, and the time to think between turns, s.
struct Shape {
    context: (u64, u64),
    answer: (u64, u64),
    think_s: (f64, f64),
}

/// The kinds of users, in the order of [`UserKind`].
const SHAPES: [Shape; 3] = [
    Shape { context: (512, 4096), answer: (50, 200), think_s: (0.1, 0.5) },
    Shape { context: (4096, 25_000), answer: (100, 500), think_s: (0.2, 1.0) },
    Shape { context: (4096, 16_384), answer: (200, 800), think_s: (0.3, 1.5) },
];
/// A conversation goes on with this probability after each turn.
const GOES_ON: f64 = 0.8;
/// Tokens of context from which on a turn only fills the cache; its answer comes from elsewhere.
const PREFILL_ONLY: u64 = 10_000;
/// A long wait is slept in parts of this length, to see a request to stop.
const NAP_NS: u64 = 50_000_000;

/// What users do; the same for all.
pub struct Traffic {
    /// Bytes of the cache a token.
    pub bytes_per_token: u64,
    /// Context tokens are this share of the real ones.
    pub scale: f64,
    /// The kind of all users; none if they are mixed.
    pub kind: Option<UserKind>,
    /// Turns of a conversation at most.
    pub turns: u64,
    /// Tokens generated a read of the turn's entry.
    pub decode_batch: u64,
    /// Time that generating a token takes, s.
    pub token_s: f64,
    /// Times to think are multiplied by this.
    pub think: f64,
    /// Decides all draws.
    pub seed: u64,
    /// When to end, ns of the monotonic clock.
    pub end_ns: u64,
}

/// What one user did.
#[derive(Default)]
pub struct Tally {
    /// Storage's time of each entry read and written.
    pub read: Histogram,
    /// Storage's time of each entry written.
    pub written: Histogram,
    /// Whole time of each turn, from asking to the last token.
    pub request: Histogram,
    /// Turns answered.
    pub requests: u64,
    /// Tokens generated, and tokens of context that were written.
    pub tokens: u64,
    /// Tokens of context that were written.
    pub prefilled: u64,
    /// Entries found in memory and on storage, and not found any more.
    pub memory_hits: u64,
    /// Entries found on storage.
    pub storage_hits: u64,
    /// Entries not found any more.
    pub misses: u64,
    /// Bytes of entries that memory gave and took.
    pub memory_read: u64,
    /// Bytes of entries that memory took.
    pub memory_written: u64,
    /// Entries that found no room.
    pub turned_away: u64,
    /// The connections to a store.
    pub lines: LineTotals,
    /// CPU time.
    pub cpu: CpuTime,
}

impl Tally {
    /// Adds another user's.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.written.merge(&other.written);
        self.request.merge(&other.request);
        for (mine, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.tokens, other.tokens),
            (&mut self.prefilled, other.prefilled),
            (&mut self.memory_hits, other.memory_hits),
            (&mut self.storage_hits, other.storage_hits),
            (&mut self.misses, other.misses),
            (&mut self.memory_read, other.memory_read),
            (&mut self.memory_written, other.memory_written),
            (&mut self.turned_away, other.turned_away),
        ] {
            *mine += theirs;
        }
        self.lines.merge(&other.lines);
        self.cpu += other.cpu;
    }
}

/// Where users keep what, shared by all.
pub struct Service<'a> {
    /// What they do.
    pub traffic: &'a Traffic,
    /// Where each entry is.
    pub tiers: &'a Tiers,
    /// The files.
    pub shelf: &'a Shelf,
    /// Progress of reads and of writes.
    pub reads: &'a Ledger,
    /// Progress of writes.
    pub writes: &'a Ledger,
    /// A request to end, and the end for all after a failure that will not pass.
    pub stop: &'a Stop,
    /// The end for all after a failure that will not pass.
    pub broken: &'a Stop,
}

/// One user's state.
struct User<'a> {
    service: &'a Service<'a>,
    buffers: Buffers,
    rng: Rng,
    number: u64,
    /// Entries that he has made so far.
    made: u64,
    tally: Tally,
}

/// Tokens of an entry at the traffic's scale.
fn scaled(traffic: &Traffic, tokens: u64) -> u64 {
    ((tokens as f64 * traffic.scale).round() as u64).max(1)
}

/// The length of an entry: its tokens' bytes in whole blocks.
fn entry_bytes(traffic: &Traffic, tokens: u64) -> u64 {
    (scaled(traffic, tokens) * traffic.bytes_per_token).next_multiple_of(BLOCK as u64)
}

/// Serves user `number` until the time is over, and tells what he did.
#[must_use]
pub fn serve(service: &Service<'_>, number: u64, buffers: Buffers) -> Tally {
    let seed = service.traffic.seed.wrapping_mul(0x1_0001).wrapping_add(number);
    let mut user = User { service, buffers, rng: Rng::new(mix(seed)), number, made: 0, tally: Tally::default() };
    let before = cpu_time::of_this_thread();
    user.talk();
    user.tally.cpu = cpu_time::of_this_thread().since(before);
    user.buffers.add_to(&mut user.tally.lines);
    user.tally
}

impl User<'_> {
    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.rng.below(high.saturating_sub(low) + 1)
    }

    fn over(&self) -> bool {
        let service = self.service;
        service.stop.is_set() || service.broken.is_set() || now_ns() >= service.traffic.end_ns
    }

    /// Sleeps unless the end comes first.
    fn pause(&self, seconds: f64) {
        let deadline = (now_ns() + (seconds * 1e9) as u64).min(self.service.traffic.end_ns);
        while now_ns() < deadline && !self.over() {
            sys::pause::until(deadline.min(now_ns() + NAP_NS));
        }
    }

    fn talk(&mut self) {
        let traffic = self.service.traffic;
        let kind = traffic.kind.map(|kind| kind as usize);
        let shape = &SHAPES[kind.unwrap_or_else(|| self.rng.below(SHAPES.len() as u64) as usize)];
        let (context, answer) = (self.between(shape.context), self.between(shape.answer));
        let think_s = shape.think_s.0 + (shape.think_s.1 - shape.think_s.0) * self.rng.share();
        let mut turns: Vec<u64> = Vec::new();
        while !self.over() {
            let pause_s = think_s * (0.8 + 0.4 * self.rng.share()) * traffic.think;
            self.pause(pause_s);
            if turns.len() as u64 >= traffic.turns || self.rng.share() >= GOES_ON {
                turns.clear();
            }
            let tokens = self.between(((context / 4).max(1), context));
            let generated = self.between(((answer / 4).max(1), answer));
            let begun = now_ns();
            if self.turn(&turns, tokens, generated).is_err() {
                return;
            }
            self.pause(generated as f64 * traffic.token_s);
            self.tally.request.record(now_ns() - begun);
            self.tally.requests += 1;
            self.tally.tokens += generated;
            turns.push(self.id(self.made));
        }
    }

    fn id(&self, made: u64) -> u64 {
        (self.number << 32) | made
    }

    /// One turn: what the turns before have left is read, the new entry written and read while tokens are generated.
    fn turn(&mut self, before: &[u64], tokens: u64, generated: u64) -> Result<(), ()> {
        for id in before {
            self.fetch(*id)?;
        }
        self.made += 1;
        let id = self.id(self.made);
        self.keep(id, entry_bytes(self.service.traffic, tokens))?;
        self.tally.prefilled += scaled(self.service.traffic, tokens);
        if tokens < PREFILL_ONLY {
            for _ in 0..=generated.div_ceil(self.service.traffic.decode_batch) {
                self.fetch(id)?;
            }
        }
        Ok(())
    }

    /// Reads an entry from wherever it is.
    fn fetch(&mut self, id: u64) -> Result<(), ()> {
        if self.over() {
            return Err(());
        }
        let service = self.service;
        let Some((bytes, data)) = service.tiers.hold(id) else {
            self.tally.misses += 1;
            return Ok(());
        };
        if let Some(data) = data {
            // what a copy to an accelerator would read
            std::hint::black_box(crc32c::crc32c(&data));
            self.tally.memory_hits += 1;
            self.tally.memory_read += bytes;
            service.tiers.release(id);
            return Ok(());
        }
        let answer = service.shelf.read(id, bytes, &self.buffers, service.reads, &|| self.over());
        service.tiers.release(id);
        match answer {
            Ok(took) => {
                self.tally.read.record(took);
                self.tally.storage_hits += 1;
                Ok(())
            }
            Err(Ended::Halted) => Err(()),
            Err(Ended::Failed(operation, errno, says)) => {
                service.reads.fault(operation, errno, says);
                service.tiers.forget(id);
                self.tally.misses += 1;
                self.gone_on(errno)
            }
        }
    }

    /// Writes a new entry, after those that have to leave for it.
    fn keep(&mut self, id: u64, bytes: u64) -> Result<(), ()> {
        let service = self.service;
        let admission = service.tiers.admit(id, bytes);
        for gone in &admission.delete {
            service.shelf.remove(*gone, &self.buffers);
        }
        let mut answer = Ok(());
        for (older, data) in &admission.demote {
            answer = answer.and(self.write(*older, data.len() as u64, Some(data)));
            if answer.is_ok() {
                service.tiers.demoted(*older);
            } else {
                service.tiers.forget(*older);
            }
        }
        answer?;
        match admission.tier {
            Tier::Memory => {
                let data = service.shelf.compose(id, bytes, &self.buffers);
                service.tiers.fill(id, data);
                self.tally.memory_written += bytes;
            }
            Tier::Storage => self.write(id, bytes, None).inspect_err(|()| service.tiers.forget(id))?,
            Tier::None => self.tally.turned_away += 1,
        }
        service.tiers.release(id);
        Ok(())
    }

    fn write(&mut self, id: u64, bytes: u64, memory: Option<&[u8]>) -> Result<(), ()> {
        let service = self.service;
        match service.shelf.write(id, bytes, memory, &self.buffers, service.writes, &|| self.over()) {
            Ok(took) => {
                self.tally.written.record(took);
                Ok(())
            }
            Err(ended) => {
                service.shelf.remove(id, &self.buffers);
                if let Ended::Failed(operation, errno, says) = ended {
                    service.writes.fault(operation, errno, says);
                    // storage that takes no more makes every further figure another one's
                    service.broken.set();
                }
                Err(())
            }
        }
    }

    /// Whether a failed read leaves anything to go on with: a missing or short file does, a broken device does not.
    fn gone_on(&self, errno: i32) -> Result<(), ()> {
        if errno == 0 || errno == libc::ENOENT {
            return Ok(());
        }
        self.service.broken.set();
        Err(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe_files::scratch::Private;
    use crate::training::kv_files::Way;
    use crate::training::target::Target;

    #[test]
    fn an_entry_is_its_tokens_in_whole_blocks() {
        let traffic = Traffic {
            bytes_per_token: 131_072,
            scale: 0.01,
            kind: None,
            turns: 50,
            decode_batch: 32,
            token_s: 0.0,
            think: 1.0,
            seed: 1,
            end_ns: 0,
        };
        assert_eq!(entry_bytes(&traffic, 1000), 10 * 131_072);
        assert_eq!(entry_bytes(&traffic, 1), 131_072);
        assert_eq!(entry_bytes(&Traffic { bytes_per_token: 5000, ..traffic }, 100), 8192);
    }

    /// A service in a separate folder, and what it needs.
    fn served(name: &str, work: impl FnOnce(&mut User<'_>, &Ledger, &Stop)) {
        let folder = std::env::temp_dir().join(format!("hwdyno-kv-users-{name}-{}", std::process::id()));
        let private = Private::at(&folder).unwrap();
        let traffic = Traffic {
            bytes_per_token: 4096,
            scale: 1.0,
            kind: None,
            turns: 50,
            decode_batch: 32,
            token_s: 0.0,
            think: 0.0,
            seed: 1,
            end_ns: u64::MAX,
        };
        let (tiers, shelf) =
            (Tiers::new(0, 1 << 20), Shelf::new(Target::Folder(private), Way::Emptied, false, true, 1));
        let (reads, writes, stop, broken) = (Ledger::new(0.1), Ledger::new(0.1), Stop::new(), Stop::new());
        let service = Service {
            traffic: &traffic,
            tiers: &tiers,
            shelf: &shelf,
            reads: &reads,
            writes: &writes,
            stop: &stop,
            broken: &broken,
        };
        let buffers = Buffers::new(2 * BLOCK, 1).unwrap();
        let mut user =
            User { service: &service, buffers, rng: Rng::new(1), number: 0, made: 0, tally: Tally::default() };
        let ledger = if name == "gone" { &writes } else { &reads };
        work(&mut user, ledger, &broken);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn an_entry_that_somebody_removed_is_named_and_missed_and_the_talk_goes_on() {
        served("missing", |user, reads, broken| {
            user.keep(1, 8192).unwrap();
            user.fetch(1).unwrap();
            user.service.shelf.remove(1, &user.buffers);
            user.fetch(1).unwrap();
            user.fetch(1).unwrap();
            assert_eq!((user.tally.storage_hits, user.tally.misses, broken.is_set()), (1, 2, false));
            let faults = reads.faults();
            assert_eq!((faults.len(), faults[0].operation.as_str(), faults[0].errno), (1, "open", libc::ENOENT));
            assert!(faults[0].says.contains("kv-00000001.hwdyno: No such file"), "{}", faults[0].says);
        });
    }

    #[test]
    fn storage_that_takes_no_more_ends_it_for_all_and_is_named() {
        served("gone", |user, writes, broken| {
            user.keep(1, 8192).unwrap();
            std::fs::remove_dir_all(user.service.shelf.path(1).parent().unwrap()).unwrap();
            assert!(user.keep(2, 8192).is_err());
            assert!(broken.is_set());
            assert_eq!(writes.faults()[0].operation, "open");
            assert!(user.fetch(1).is_err(), "it is over for all");
        });
    }
}
