//! What a job is asked beyond blocks at full speed, and the [`Extras`] that each of its threads makes of it.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{json, Map, Value};

use super::choice::{Choice, Spread, Walk};
use super::counters::Device;
use super::extras::{Extras, Think};
use super::journal::Journal;
use super::ledger::Ledger;
use super::many::{Many, Service};
use super::order::{Order, Span};
use super::pace::{Every, Pace};
use super::steady::{Criterion, Shared, Steady};
use super::verify::{self, Findings, Verify, LEAST_BLOCK};
use crate::histogram::Histogram;
use crate::kernel::{Error, Parameters};
use crate::reading::{Fault, Note, Reading};
use crate::sys::memory::mix;

/// Below this share of the rate asked for, operations queued up.
const RATE_MISSED: f64 = 0.98;
/// With fewer operations the share is chance.
const LEAST_TO_JUDGE: u64 = 1000;

/// One thread's part of a run.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// Its region, of all its files.
    pub span: Span,
    /// How many files that is, each as long.
    pub files: u64,
    /// Which thread.
    pub number: usize,
    /// Of how many.
    pub jobs: u64,
    /// In random order.
    pub random: bool,
    /// Only time ends it.
    pub endless: bool,
    /// Share of reads.
    pub read_percent: u64,
    /// Decides every random choice.
    pub seed: u64,
    /// What all threads share.
    pub shared: &'a Arc<Shared>,
    /// Where it is written down which writes were acknowledged.
    pub journal: Option<&'a Journal>,
}

/// See the module; the default asks for nothing.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "options that are independent of each other")]
pub struct Asked {
    /// Operations/s of all threads together; 0 for as fast as the depth allows.
    pub rate: f64,
    /// Bytes/s likewise; 0 for no limit.
    pub rate_bytes: u64,
    /// Operations begin at random moments, not evenly spaced.
    pub poisson: bool,
    /// Without operations, s, after every `think_blocks`.
    pub think_s: f64,
    /// See `think_s`.
    pub think_blocks: u32,
    /// Of that so much spinning, s.
    pub think_spin_s: f64,
    /// Or after so long, s, whatever the number of operations; 0 for operations alone.
    pub think_busy_s: f64,
    /// Passes, where time does not end the run.
    pub loops: u64,
    /// How the next of several files is chosen, and after how many operations.
    pub service: (Service, u32),
    /// So many of the files are in use at a time; 0 for all.
    pub open_files: usize,
    /// Ends the run early.
    pub steady: Option<Criterion>,
    /// Each thread's progress is told, with latencies.
    pub log: bool,
    /// A sync after so many writes; 0 for none.
    pub sync_every: u32,
    /// The sync is of all that describes the file too.
    pub sync_whole: bool,
    /// How often each block is visited, where the order is random.
    pub spread: Spread,
    /// Lengths with their cumulative share, of reads and of writes; empty for one length.
    pub lengths: [Vec<(f64, u64)>; 2],
    /// From one beginning to the next in sequence, B; 0 for block after block.
    pub stride: u64,
    /// In sequence from the end down.
    pub backward: bool,
    /// Bytes of one pass, all threads together; 0 for the region's.
    pub io_size: u64,
    /// Blocks say what they are, and are checked.
    pub verify: bool,
    /// Of what is written first.
    pub generation: u32,
    /// Tells blocks of this run from those of others.
    pub verify_seed: u64,
    /// The file that tells which writes were acknowledged; empty for none.
    pub journal: PathBuf,
    /// The raw device is discarded first.
    pub purge: bool,
    /// Completions are polled for at the device, not announced by an interrupt.
    pub hipri: bool,
    /// Buffers lie in huge pages.
    pub huge: bool,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            rate: 0.0,
            rate_bytes: 0,
            poisson: false,
            think_s: 0.0,
            think_blocks: 1,
            think_spin_s: 0.0,
            think_busy_s: 0.0,
            loops: 1,
            service: (Service::RoundRobin, 1),
            open_files: 0,
            steady: None,
            log: false,
            sync_every: 0,
            sync_whole: false,
            spread: Spread::Even,
            lengths: Default::default(),
            stride: 0,
            backward: false,
            io_size: 0,
            verify: false,
            generation: 1,
            verify_seed: 1,
            journal: PathBuf::new(),
            purge: false,
            hipri: false,
            huge: true,
        }
    }
}

impl Asked {
    /// Reads the parameters of `storage_blocks`.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn of(parameters: &Parameters) -> Result<Self, Error> {
        let syncs = [parameters.integer("fsync"), parameters.integer("fdatasync")];
        if syncs[0] > 0 && syncs[1] > 0 {
            return Err(Error::usage("fsync and fdatasync exclude each other: give one of them"));
        }
        if parameters.number("rate") > 0.0 && parameters.integer("rate_bytes") > 0 {
            return Err(Error::usage("rate and rate_bytes exclude each other: give one of them"));
        }
        Ok(Self {
            rate: parameters.number("rate"),
            rate_bytes: parameters.integer("rate_bytes"),
            poisson: parameters.text("rate_process") == "poisson",
            think_s: parameters.number("thinktime"),
            think_blocks: parameters.integer("thinktime_blocks") as u32,
            think_spin_s: parameters.number("thinktime_spin"),
            think_busy_s: parameters.number("thinktime_iotime"),
            loops: parameters.integer("loops"),
            service: Service::parse(parameters.text("file_service_type")).map_err(Error::usage)?,
            open_files: parameters.integer("openfiles") as usize,
            steady: Criterion::parse(
                parameters.text("steadystate"),
                parameters.number("steadystate_duration"),
                parameters.number("steadystate_ramp_time"),
                parameters.number("steadystate_interval"),
            )
            .map_err(Error::usage)?,
            log: parameters.flag("log"),
            sync_every: syncs[0].max(syncs[1]) as u32,
            sync_whole: syncs[0] > 0,
            spread: Spread::parse(parameters.text("random_distribution")).map_err(Error::usage)?,
            lengths: {
                let both = super::choice::lengths(parameters.text("bssplit")).map_err(Error::usage)?;
                let writes = super::choice::lengths(parameters.text("bssplit_write")).map_err(Error::usage)?;
                let writes = if writes.is_empty() { both.clone() } else { writes };
                [both, writes]
            },
            stride: parameters.integer("stride"),
            backward: parameters.text("pattern") == "backward",
            io_size: parameters.integer("io_size"),
            verify: parameters.text("verify") == "crc32c",
            generation: parameters.integer("generation") as u32,
            verify_seed: parameters.integer("verify_seed"),
            journal: PathBuf::from(parameters.text("journal")),
            purge: parameters.flag("purge"),
            hipri: parameters.flag("hipri"),
            huge: parameters.text("mem") == "huge",
        })
    }

    /// Operations begin at a rate, so that any number of them may have to wait.
    #[must_use]
    pub fn open_loop(&self) -> bool {
        self.rate > 0.0 || self.rate_bytes > 0
    }

    /// It is written down which writes were acknowledged.
    #[must_use]
    pub fn keeps_journal(&self) -> bool {
        !self.journal.as_os_str().is_empty()
    }

    /// The longest operation, B; `block` where all are alike.
    #[must_use]
    pub fn longest(&self, block: u64) -> u64 {
        self.lengths.iter().flatten().map(|&(_, bytes)| bytes).max().unwrap_or(block)
    }

    /// The shortest operation, B.
    #[must_use]
    pub fn shortest(&self, block: u64) -> u64 {
        self.lengths.iter().flatten().map(|&(_, bytes)| bytes).min().unwrap_or(block)
    }

    /// Operations differ in length.
    #[must_use]
    pub fn varied(&self) -> bool {
        self.lengths.iter().any(|lengths| !lengths.is_empty())
    }

    /// What cannot be together.
    ///
    /// # Errors
    /// Which, and what mends it.
    pub fn check(&self, random: bool, shared: bool, block: u64) -> Result<(), Error> {
        if self.verify && self.varied() {
            return Err(Error::usage("verify needs blocks of one length: leave bssplit out"));
        }
        if self.verify && (self.stride % block != 0) {
            return Err(Error::usage("verify needs whole blocks: take a stride that is a multiple of bs"));
        }
        if self.verify && block < LEAST_BLOCK {
            return Err(Error::usage(format!(
                "verify needs blocks of {LEAST_BLOCK} B or more: their header is as long"
            )));
        }
        if self.verify && shared {
            return Err(Error::usage("verify needs blocks of one job's own: use share=partition, or numjobs 1"));
        }
        if self.keeps_journal() && !self.verify {
            return Err(Error::usage("a journal tells of blocks that say what they are: add verify crc32c"));
        }
        if !random && self.spread != Spread::Even {
            return Err(Error::usage("random_distribution needs a random order: use rw randread, randwrite or randrw"));
        }
        if random && (self.stride > 0 || self.backward) {
            return Err(Error::usage("pattern and stride need an order in sequence: use rw read, write or rw"));
        }
        Ok(())
    }

    /// Polling needs a queue that is made for it, or it spins for ever.
    ///
    /// # Errors
    /// What is missing, and what mends it.
    pub fn check_polling(&self, uring: bool, direct: bool, device: Option<&Device>) -> Result<(), Error> {
        if !self.hipri {
            return Ok(());
        }
        let missing = match (uring, direct, device.is_some_and(Device::polls)) {
            (false, _, _) => "ioengine io_uring",
            (_, false, _) => "direct, on a filesystem that allows it",
            (_, _, false) => {
                "a device with polling queues (queue/io_poll is 1; for NVMe load the driver with poll_queues=N)"
            }
            _ => return Ok(()),
        };
        Err(Error::usage(format!("hipri needs {missing}: mend that, or leave hipri out")))
    }

    /// What one of the threads does of it.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share of a rate has few digits")]
    pub fn extras(&self, part: &Part<'_>) -> Extras {
        let &Part { span, files, jobs, random, endless, seed, .. } = part;
        let size = span.blocks * span.block;
        let a_file = size / files;
        let chosen = self.varied() || self.spread != Spread::Even || self.stride > 0 || self.backward;
        let walk = match (random, self.backward) {
            (true, _) => Walk::Random,
            (false, true) => Walk::Down { step: self.stride },
            (false, false) => Walk::Up { step: self.stride },
        };
        let choice = |offset, size, seed| {
            chosen.then(|| Choice::new(offset, size, span.block, self.lengths.clone(), walk, &self.spread, seed))
        };
        let many = (files > 1).then(|| {
            let courses = (0..files).map(|number| {
                let own =
                    Span { offset: span.offset + number * a_file, blocks: span.blocks / files, block: span.block };
                let seed = mix(seed ^ mix(number));
                (Order::new(own, random, part.read_percent, false, seed), choice(own.offset, a_file, seed))
            });
            let again = endless || self.io_size > 0 || self.loops > 1;
            Many::new(courses.collect(), a_file, self.service.clone(), self.open_files, again, seed)
        });
        let limited = !endless && (chosen || self.io_size > 0 || self.loops > 1);
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        Extras {
            pace: self
                .open_loop()
                .then(|| Pace::new(self.rate / jobs as f64, self.rate_bytes.div_ceil(jobs), self.poisson, seed)),
            think: (self.think_s > 0.0).then(|| Think {
                every: Every::new(self.think_blocks).filter(|_| self.think_busy_s <= 0.0),
                busy_ns: ns(self.think_busy_s),
                pause_ns: ns(self.think_s),
                spin_ns: ns(self.think_spin_s),
                ..Think::default()
            }),
            sync: Every::new(self.sync_every).map(|every| (every, self.sync_whole)),
            choice: if many.is_some() { None } else { choice(span.offset, size, seed) },
            many,
            steady: self.steady.as_ref().map(|criterion| Steady::new(criterion, part.shared, part.number, span.block)),
            limit: limited.then(|| if self.io_size > 0 { self.io_size.div_ceil(jobs) } else { size * self.loops }),
            verify: self.verify.then(|| {
                let reads_only = part.read_percent == 100;
                let ledger =
                    part.journal.map_or_else(|| Ledger::new(span.blocks), |journal| journal.ledger(part.number));
                let nonce = part.journal.map_or_else(|| verify::nonce(self.verify_seed), Journal::nonce);
                Verify::new(span, ledger, nonce, self.generation, reads_only)
            }),
            synced: (self.sync_every > 0).then(Histogram::new),
            ..Extras::default()
        }
    }

    /// Tells how much of its rate an open loop reached, with a note where operations queued up.
    pub fn tell_rate(&self, reading: &mut Reading, details: &mut Map<String, Value>) -> Option<Note> {
        if !self.open_loop() {
            return None;
        }
        // More may be waiting than the depth holds; what was asked for is a rate.
        reading.concurrency_asked = 0.0;
        let operations: u64 = reading.streams.iter().map(|stream| stream.operations).sum();
        let bytes: u64 = reading.streams.iter().map(|stream| stream.bytes).sum();
        let (asked, done) = if self.rate > 0.0 { (self.rate, operations) } else { (self.rate_bytes as f64, bytes) };
        let reached = done as f64 / reading.elapsed_s.max(1e-9) / asked;
        details.insert("rate_reached_share".into(), json!(reached));
        (reached < RATE_MISSED && operations > LEAST_TO_JUDGE).then(|| Note {
            code: "rate_not_reached".into(),
            says: format!(
                "{:.0}% of the rate asked for was reached, so operations queued up and their latency grows with the runtime",
                reached * 100.0
            ),
        })
    }

    /// Whether the plain order has to go on beyond one pass, because bytes are what ends it.
    #[must_use]
    pub fn endless(&self, time_based: bool) -> bool {
        time_based || self.io_size > 0 || self.loops > 1
    }
}

/// What all threads' extras came to.
#[derive(Debug, Default)]
pub struct Told {
    verified: Option<Findings>,
    synced: Option<Histogram>,
    steady: Option<Steady>,
}

impl Told {
    /// Adds one thread's.
    pub fn add(&mut self, extras: Extras) {
        // The first thread judges for all.
        self.steady = self.steady.take().or(extras.steady);
        if let Some(verify) = extras.verify {
            self.verified.get_or_insert_with(Findings::default).merge(&verify.found);
        }
        if let Some(synced) = extras.synced {
            self.synced.get_or_insert_with(Histogram::new).merge(&synced);
        }
    }

    /// Tells it in a reading: `details`, and a fault for each kind of damage.
    pub fn write(&self, details: &mut Map<String, Value>, faults: &mut Vec<Fault>) {
        if let Some(synced) = &self.synced {
            details.insert("sync_count".into(), json!(synced.count()));
            details.insert("sync_latency_ns".into(), synced.to_json());
            details.insert("sync_latency_ns_mean".into(), json!(synced.mean()));
        }
        if let Some(steady) = &self.steady {
            steady.write(details);
        }
        if let Some(found) = &self.verified {
            found.write("", details, faults);
        }
    }
}
