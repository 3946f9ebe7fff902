//! Keeps the KV cache of a served language model in memory and on storage, as its users' conversations ask.

use std::path::Path;
use std::sync::atomic::Ordering;

use serde_json::{json, Value};

use crate::clock::now_ns;
use crate::declare::{choice, flag, integer, interval_s, number, path, text};
use crate::kernel::{Error, Kernel, KernelInfo, Parameter, Parameters, Stop};
use crate::reading::{Note, Reading};
use crate::rng::mix;
use crate::storage::results::counters::{Device, Snapshot};
use crate::training::kv_files::{Buffers, Shelf, Way, BLOCK};
use crate::training::kv_tiers::Tiers;
use crate::training::kv_users::{serve, Service, Told, Traffic};
use crate::training::ledger::Ledger;
use crate::{sys, team};

/// The share of the free room that the cache may take: others need some too.
const ROOM: f64 = 0.9;
/// The share of the free memory that tier and buffers may take together.
const MEMORY: f64 = 0.6;

/// See the module.
pub struct KvCache;

fn parameters() -> Vec<Parameter> {
    vec![
        path("a folder of this kernel's own; its files are removed after"),
        integer("users", "users who talk to the model, each waiting for his answer", "", (1, 4096), 8),
        integer("bytes_per_token", "bytes of the cache a token", "B", (1, 1 << 30), 131_072),
        number("scale", "share of a real context's tokens that a turn has", "", (1e-6, 1.0), 1.0),
        choice(
            "user_kind",
            "what users ask for: how many tokens, how often",
            &["mixed", "chatbot", "coding", "document"],
        ),
        integer("turns", "turns of a conversation at most; each reads all before it", "", (1, 10_000), 50),
        integer("decode_batch", "tokens generated a read of the turn's entry", "", (1, 1 << 20), 32),
        number("token_time", "time that generating a token takes; 0 for storage alone", "s", (0.0, 10.0), 0.0),
        number("think", "factor on the users' times to think; 0 for none", "", (0.0, 1000.0), 1.0),
        integer("memory", "size of the memory tier above the storage; 0 for none", "B", (0, 1 << 50), 0),
        integer("capacity", "size of the storage tier; the least recently used goes", "B", (4096, 1 << 50), 8 << 30),
        integer("transfer_size", "bytes of one read or write", "B", (4096, 1 << 30), 1 << 20),
        number("runtime", "length of the timed region", "s", (0.001, 1e7), 10.0),
        flag("direct", "bypass the page cache (O_DIRECT)", true),
        flag("drop_cache", "without direct: empty the page cache of an entry before it is read", true),
        flag("fsync", "a write ends when its data is on the storage", true),
        flag("verify", "hold every block read against what was written", true),
        integer("seed", "decides users and turns", "", (0, i64::MAX), 1),
        interval_s(),
        text("model", "name of the model; told on, not used", ""),
        text("storage", "name of the storage; told on, not used", ""),
    ]
}

impl Kernel for KvCache {
    fn info(&self) -> KernelInfo {
        KernelInfo {
            name: "training_kv_cache",
            measures: "how fast storage takes and gives back the KV cache of a served language model",
            parameters: parameters(),
            pass: vec![("operations", "1"), ("bytes", "the entry's")],
        }
    }

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let folder = Path::new(parameters.text("path"));
        std::fs::create_dir_all(folder)
            .map_err(|error| Error::machine(format!("make {}", folder.display()), &error))?;
        let seed = parameters.integer("seed");
        let run = mix(seed ^ now_ns()) as u32;
        let way = match (parameters.flag("direct"), parameters.flag("drop_cache")) {
            (true, _) => Way::Direct,
            (false, true) => Way::Emptied,
            (false, false) => Way::Cached,
        };
        let stored = Shelf::new(folder, way, parameters.flag("fsync"), parameters.flag("verify"), run);
        stored.clear();
        let users = parameters.integer("users");
        let transfer = parameters.integer("transfer_size").next_multiple_of(BLOCK as u64) as usize;
        check_room(parameters, folder, users * 2 * transfer as u64)?;
        let mut buffers = Vec::with_capacity(users as usize);
        for number in 0..users {
            let one = Buffers::new(transfer, mix(seed.wrapping_add(number)))
                .map_err(|error| Error::machine("set up the users' buffers; ask for fewer users", &error))?;
            buffers.push(std::sync::Mutex::new(Some(one)));
        }
        let device = std::fs::metadata(folder).ok().and_then(|about| Device::of(&about, false));
        let places = Tiers::new(parameters.integer("memory"), parameters.integer("capacity"));
        let (reads, writes) =
            (Ledger::new(parameters.number("interval_s")), Ledger::new(parameters.number("interval_s")));
        let start = now_ns();
        reads.start(start);
        writes.start(start);
        let traffic = Traffic {
            bytes_per_token: parameters.integer("bytes_per_token"),
            scale: parameters.number("scale"),
            kind: parameters.text("user_kind").into(),
            turns: parameters.integer("turns"),
            decode_batch: parameters.integer("decode_batch"),
            token_s: parameters.number("token_time"),
            think: parameters.number("think"),
            seed,
            end_ns: start + (parameters.number("runtime") * 1e9) as u64,
        };
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
        let told = team::run(users as usize, &[], |member| {
            let own = buffers[member.number].lock().ok().and_then(|mut place| place.take());
            member.wait_for_start();
            own.map(|buffers| serve(&service, member.number as u64, buffers)).unwrap_or_default()
        });
        let elapsed_s = (now_ns() - start) as f64 / 1e9;
        let counters = Snapshot::take(device.as_ref()).since(&before);
        stored.clear();
        let mut all = Told::default();
        told?.iter().for_each(|one| all.merge(one));
        let mut reading = report(parameters, &all, (&reads, &writes), elapsed_s);
        reading.kernel = self.info().name.into();
        reading.counters = counters;
        reading.interrupted = stop.is_set();
        tell(&mut reading, parameters, &all, &stored, &places);
        Ok(reading)
    }
}

/// Refuses what would fill the storage or the memory.
fn check_room(parameters: &Parameters, folder: &Path, buffers: u64) -> Result<(), Error> {
    let (capacity, memory) = (parameters.integer("capacity"), parameters.integer("memory"));
    let free = sys::filesystem::free_bytes(folder)
        .map_err(|error| Error::machine(format!("ask {} for its room", folder.display()), &error))?;
    if capacity as f64 > free as f64 * ROOM {
        let says = format!(
            "a KV cache of {:.2} GB does not fit into the {:.2} GB free in {}: give a capacity of at most {:.0}M",
            capacity as f64 / 1e9,
            free as f64 / 1e9,
            folder.display(),
            (free as f64 * ROOM / f64::from(1 << 20)).floor()
        );
        return Err(Error::Machine(says, Some(libc::ENOSPC)));
    }
    let Some(available) = sys::pages::available_bytes() else { return Ok(()) };
    if (memory + buffers) as f64 > available as f64 * MEMORY {
        let says = format!(
            "a memory tier of {:.2} GB and the users' buffers of {:.2} GB do not fit into the {:.2} GB of memory that \
             are free: give less memory or fewer users",
            memory as f64 / 1e9,
            buffers as f64 / 1e9,
            available as f64 / 1e9,
        );
        return Err(Error::Machine(says, Some(libc::ENOMEM)));
    }
    Ok(())
}

fn report(parameters: &Parameters, all: &Told, (reads, writes): (&Ledger, &Ledger), elapsed_s: f64) -> Reading {
    let mut reading = Reading {
        parameters: parameters.as_json(),
        elapsed_s,
        cpu: all.cpu,
        faults: [reads.faults(), writes.faults()].concat(),
        ..Reading::default()
    };
    for (name, ledger, latency) in [("read", reads, &all.read), ("write", writes, &all.written)] {
        let (samples, mut stream) = ledger.samples(elapsed_s, name);
        stream.add_latency("total", latency);
        if name == "read" {
            // of whole turns: the storage's part and the time of their tokens
            stream.add_latency("request", &all.request);
        }
        reading.details.insert(format!("{name}_bytes_s"), json!(stream.bytes as f64 / elapsed_s));
        reading.samples.interval_s = samples.interval_s;
        reading.samples.operations.extend(samples.operations);
        reading.samples.bytes.extend(samples.bytes);
        reading.streams.push(stream);
    }
    reading
}

fn tell(reading: &mut Reading, parameters: &Parameters, all: &Told, shelf: &Shelf, tiers: &Tiers) {
    let counts = tiers.counts();
    let read_bytes = reading.streams.first().map_or(0, |stream| stream.bytes);
    let seen = reading.counters.get("process_read_bytes").and_then(Value::as_u64);
    let cached = seen.filter(|_| read_bytes > 0).map(|seen| (1.0 - seen as f64 / read_bytes as f64).max(0.0));
    let elapsed_s = reading.elapsed_s;
    let mut add = |name: &str, value: Value| reading.details.insert(name.into(), value);
    add("tokens_s", json!(all.tokens as f64 / elapsed_s));
    add("prefill_tokens_s", json!(all.prefilled as f64 / elapsed_s));
    add("requests", json!(all.requests));
    add("requests_s", json!(all.requests as f64 / elapsed_s));
    add("memory_hits", json!(all.memory_hits));
    add("storage_hits", json!(all.storage_hits));
    add("misses", json!(all.misses));
    add("memory_read_bytes", json!(all.memory_read));
    add("memory_written_bytes", json!(all.memory_written));
    add("turned_away", json!(all.turned_away));
    add("demoted_entries", json!(counts.demoted));
    add("evicted_entries", json!(counts.deleted));
    add("most_on_storage_bytes", json!(counts.most_on_storage));
    add("most_in_memory_bytes", json!(counts.most_in_memory));
    add("corrupt_blocks", json!(shelf.corrupt.load(Ordering::Relaxed)));
    add("cached_share_by_device", json!(cached));
    let capacity = parameters.integer("capacity");
    let notes = &mut reading.notes;
    if shelf.direct_refused.load(Ordering::Relaxed) {
        notes.push(Note {
            code: "direct_refused".into(),
            says: "the filesystem refuses O_DIRECT: entries went through the page cache".into(),
        });
    }
    if all.turned_away > 0 {
        notes.push(Note {
            code: "no_room".into(),
            says: format!(
                "{} entries found no room in {:.2} GB that all users together held at once: give more capacity",
                all.turned_away,
                capacity as f64 / 1e9
            ),
        });
    }
    if all.requests == 0 {
        notes.push(Note { code: "no_step".into(), says: "not one turn was answered".into() });
    }
}
