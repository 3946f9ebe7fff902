//! Keeps the KV cache of a served language model in memory and on storage, as its users' conversations ask.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::timing::rng::mix;
use serde_json::Value;

use crate::contract::declare::{choice_or, flag, integer, number, required, text, Group, INTERVAL_S, SEED};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop, Writes};
use crate::contract::parameter::Role;
use crate::contract::reading::{counted, Reading};
use crate::object::multipart::MIN_PART;
use crate::object::options::ReachParameters;
use crate::object::paths::Flow;
use crate::object::place::Place;
use crate::storage::results::counters::{Device, Snapshot};
use crate::survey::platform::available_bytes;
use crate::timing::clock::now_ns;
use crate::timing::team;
use crate::training::kv_files::{Buffers, Shelf, Way, BLOCK};
use crate::training::kv_tiers::Tiers;
use crate::training::kv_users::{serve, Service, Tally, Traffic, UserKind};
use crate::training::ledger::Ledger;
use crate::training::target::Target;
use crate::{parameters, sys};

/// The share of the free room that the cache may take: others need some too.
const ROOM: f64 = 0.9;
/// The share of the free memory that tier and buffers may take together.
const MEMORY: f64 = 0.6;

/// The kernel `training_kv_cache`.
pub struct KvCache;

parameters! {
    /// What `inference_kv_cache` takes.
    pub struct Parameters {
        path: PathBuf = required("folder for the files, in a directory of this run, or that of a run in a bucket \
            (s3://BUCKET/hwdyno-…); removed afterwards"),
        users: usize = integer("concurrent users, each waiting for an \
            answer", "", (1, 4096), 8).role(Role::Concurrency),
        bytes_per_token: u64 = integer("cache bytes per token", "B", (1, 1 << 30), 131_072),
        scale: f64 = number("share of a real context's tokens in each turn", "", (1e-6, 1.0), 1.0),
        user_kind: Option<UserKind> = choice_or("mixed", "kind of users: tokens per turn and think time"),
        turns: u64 = integer("most turns of a conversation; each reads all earlier ones", "", (1, 10_000), 50),
        decode_batch: u64 = integer("tokens generated per read of the turn's entry", "", (1, 1 << 20), 32),
        token_time: f64 = number("compute time per generated token; 0 for storage only", "s", (0.0, 10.0), 0.0),
        think: f64 = number("factor on the users' think time; 0 for none", "", (0.0, 1000.0), 1.0),
        memory: u64 = integer("size of the memory tier above the storage; 0 for none", "B", (0, 1 << 50), 0),
        capacity: u64 = integer("size of the storage tier; the least recently used entry is \
            evicted", "B", (4096, 1 << 50), 8 << 30),
        transfer_size: u64 = integer("size of one read or write", "B", (4096, 1 << 30), 1 << 20).role(Role::Size),
        runtime: f64 = number("length of the timed region", "s", (0.001, 1e7), 10.0),
        direct: bool = flag("bypass the page cache (O_DIRECT)", true),
        drop_cache: bool = flag("without direct: drop an entry from the page cache before reading it", true),
        fsync: bool = flag("sync at the end of a write", true),
        verify: bool = flag("verify every block read", true),
        seed: u64 = SEED.means("seed of users and turns"),
        interval_s: f64 = INTERVAL_S,
        #[allow(dead_code, reason = "only recorded in the reading")]
        model: String = text("name of the model; recorded, not used", ""),
        #[allow(dead_code, reason = "only recorded in the reading")]
        storage: String = text("name of the storage; recorded, not used", ""),
        reach: ReachParameters = Group,
    }
}

impl Kernel for KvCache {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        pass: &[("operations", "1"), ("bytes", "the entry's")],
        writes: Writes::Folder,
        stateful: true,
        ..Declaration::new("inference_kv_cache", "writing and reading the KV cache of a served language model", "entry")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let folder = parameters.path.as_path();
        let target = Target::of(folder, &parameters.reach, stop)?;
        let place = target.store().cloned();
        let seed = parameters.seed;
        let run = mix(seed ^ now_ns()) as u32;
        let way = match (parameters.direct, parameters.drop_cache) {
            (true, _) => Way::Direct,
            (false, true) => Way::Emptied,
            (false, false) => Way::Cached,
        };
        let stored = Shelf::new(target, way, parameters.fsync, parameters.verify, run);
        let users = parameters.users;
        let transfer = parameters.transfer_size.next_multiple_of(BLOCK as u64) as usize;
        check_memory(parameters, (users * 2 * transfer) as u64)?;
        match &place {
            Some(_) => check_parts(transfer as u64)?,
            None => check_room(parameters, folder)?,
        }
        let buffers = team::PerMember::new(user_buffers(users, transfer, seed, place.as_ref(), stop)?);
        let device = std::fs::metadata(folder).ok().and_then(|about| Device::of(&about, false));
        let places = Tiers::new(parameters.memory, parameters.capacity);
        let (reads, writes) = (Ledger::new(parameters.interval_s), Ledger::new(parameters.interval_s));
        crate::timing::start::hold_once();
        let start = now_ns();
        reads.start(start);
        writes.start(start);
        let traffic = traffic(parameters, start);
        let broken = Stop::new();
        let service = Service {
            traffic: &traffic,
            tiers: &places,
            shelf: &stored,
            reads: &reads,
            writes: &writes,
            stop,
            broken: &broken,
        };
        let before = Snapshot::take(device.as_ref());
        let served = team::run(users, &[], |member| {
            let buffers = buffers.take(member);
            member.wait_for_start();
            buffers.map(|buffers| serve(&service, member.number as u64, buffers))
        });
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let counters = Snapshot::take(device.as_ref()).since(&before);
        let mut all = Tally::default();
        for one in served? {
            all.merge(&one?);
        }
        let mut reading = report(&all, (&reads, &writes), elapsed_s);
        match &place {
            Some(place) => all.lines.describe(place, "store_requests", users, Flow::Both, &mut reading),
            None => reading.counters = counters, // what this host's storage did is not a store's
        }
        reading.interrupted = stop.is_set();
        describe(&mut reading, parameters, &all, &stored, &places);
        Ok(reading)
    }
}

/// Buffers for each user, of two transfers, with a connection where there is a store.
fn user_buffers(
    users: usize,
    transfer: usize,
    seed: u64,
    place: Option<&Place>,
    stop: &Stop,
) -> Result<Vec<Buffers>, Error> {
    let mut buffers = Vec::with_capacity(users);
    for number in 0..users as u64 {
        let of_user = Buffers::new(transfer, mix(seed.wrapping_add(number)))
            .map_err(|error| Error::machine("set up the users' buffers; use fewer users", &error))?;
        buffers.push(of_user.with_line(place.map(|place| place.line(number)), stop));
    }
    Ok(buffers)
}

/// What the users request, from `start_ns` on.
fn traffic(parameters: &Parameters, start_ns: u64) -> Traffic {
    Traffic {
        bytes_per_token: parameters.bytes_per_token,
        scale: parameters.scale,
        kind: parameters.user_kind,
        turns: parameters.turns,
        decode_batch: parameters.decode_batch,
        token_s: parameters.token_time,
        think: parameters.think,
        seed: parameters.seed,
        end_ns: start_ns + (parameters.runtime * 1e9) as u64,
    }
}

/// Refuses transfers that can be no parts of an object.
fn check_parts(transfer: u64) -> Result<(), Error> {
    if transfer >= MIN_PART {
        return Ok(());
    }
    Err(Error::usage(format!("transfer_size = {transfer}: a part of an object has at least {MIN_PART} bytes")))
}

/// Refuses what would fill the storage.
fn check_room(parameters: &Parameters, folder: &Path) -> Result<(), Error> {
    let capacity = parameters.capacity;
    let free = sys::filesystem::free_bytes(folder)
        .map_err(|error| Error::machine(format!("query free space of {}", folder.display()), &error))?;
    if capacity as f64 > free as f64 * ROOM {
        let says = format!(
            "a KV cache of {:.2} GB does not fit in the {:.2} GB free in {}: use a capacity of at most {:.0}M",
            capacity as f64 / 1e9,
            free as f64 / 1e9,
            folder.display(),
            (free as f64 * ROOM / f64::from(1 << 20)).floor()
        );
        return Err(Error::Machine(says, Some(libc::ENOSPC)));
    }
    Ok(())
}

/// Refuses what would fill the memory.
fn check_memory(parameters: &Parameters, buffers: u64) -> Result<(), Error> {
    let memory = parameters.memory;
    let Some(available) = available_bytes() else { return Ok(()) };
    if (memory + buffers) as f64 > available as f64 * MEMORY {
        let says = format!(
            "a memory tier of {:.2} GB and the users' buffers of {:.2} GB do not fit in the {:.2} GB of free memory: \
            use less memory or fewer users",
            memory as f64 / 1e9,
            buffers as f64 / 1e9,
            available as f64 / 1e9,
        );
        return Err(Error::Machine(says, Some(libc::ENOMEM)));
    }
    Ok(())
}

fn report(all: &Tally, (reads, writes): (&Ledger, &Ledger), elapsed_s: f64) -> Reading {
    let mut reading = Reading { elapsed_s, cpu: all.cpu, ..Reading::default() };
    // Of whole turns: the storage's part and the time of their tokens.
    reads.add(&mut reading, "read", &[("total", &all.read), ("request", &all.request)]);
    writes.add(&mut reading, "write", &[("total", &all.written)]);
    for (at, name) in ["read_bytes_s", "write_bytes_s"].into_iter().enumerate() {
        let bytes = reading.streams[at].bytes;
        reading.detail(name, bytes as f64 / elapsed_s);
    }
    reading
}

fn describe(reading: &mut Reading, parameters: &Parameters, all: &Tally, shelf: &Shelf, tiers: &Tiers) {
    let counts = tiers.counts();
    let read_bytes = reading.streams.first().map_or(0, |stream| stream.bytes);
    let seen = reading.counters.get("process_read_bytes").and_then(Value::as_u64);
    let cached = seen.filter(|_| read_bytes > 0).map(|seen| (1.0 - seen as f64 / read_bytes as f64).max(0.0));
    let elapsed_s = reading.elapsed_s;
    reading.detail("tokens_s", all.tokens as f64 / elapsed_s);
    reading.detail("prefill_tokens_s", all.prefilled as f64 / elapsed_s);
    reading.detail("requests", all.requests);
    reading.detail("requests_s", all.requests as f64 / elapsed_s);
    reading.detail("memory_hits", all.memory_hits);
    reading.detail("storage_hits", all.storage_hits);
    reading.detail("misses", all.misses);
    reading.detail("memory_read_bytes", all.memory_read);
    reading.detail("memory_written_bytes", all.memory_written);
    reading.detail("turned_away", all.turned_away);
    reading.detail("demoted_entries", counts.demoted);
    reading.detail("evicted_entries", counts.deleted);
    reading.detail("most_on_storage_bytes", counts.max_on_storage);
    reading.detail("most_in_memory_bytes", counts.max_in_memory);
    reading.detail("corrupt_blocks", shelf.corrupt.load(Ordering::Relaxed));
    reading.detail("cached_share_by_device", cached);
    let capacity = parameters.capacity;
    if shelf.direct_refused.load(Ordering::Relaxed) {
        reading.note("direct_refused", "the filesystem refuses O_DIRECT: entries went through the page cache");
    }
    if all.turned_away > 0 {
        reading.note(
            "no_room",
            format!(
                "{} did not fit in the capacity of {:.2} GB: use more capacity",
                counted(all.turned_away, "entry", "entries"),
                capacity as f64 / 1e9
            ),
        );
    }
    if all.requests == 0 {
        reading.note("no_step", "no turn was answered");
    }
}
