//! How many bytes a second go from storage to a GPU: read into pinned buffers of the host, and copied from there.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TryRecvError};
use std::sync::Mutex;
use std::thread;

use crate::contract::declare::{choice, integer, required, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{CpuTime, Reading, Stream, Verdict};
use crate::gpu::source::{Access, Slot, Source, ALIGNED};
use crate::gpu::{device, fits, refused, Passes, DEVICE};
use crate::storage::results::counters::{Device as Disk, Snapshot};
use crate::sys::cufile;
use crate::sys::device::{Buffer, Device, Queue, Session, Write};
use crate::sys::opencl::Fact;
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::histogram::Histogram;
use crate::{parameters, words};

/// The kernel `gpu_load`.
pub struct GpuLoad;

words! {
    /// What is timed.
    pub enum Part {
        /// Reading and copying at once.
        Whole = "whole",
        /// Storage to the host's memory alone.
        Read = "read",
        /// The host's memory to the device alone.
        Copy = "copy",
    }
}

parameters! {
    /// What `gpu_load` takes.
    pub struct Parameters {
        path: PathBuf = required("the file"),
        size: u64 = integer("bytes of the file that are loaded", "B", (4096, i64::MAX), 1 << 30),
        part: Part = choice("what is timed: reading and copying at once, or one of them alone"),
        access: Access = choice("how the file is read: past the page cache (direct), once through it, cold (read, mmap), or \
            by GPUDirect Storage, without the host's buffers (gds)"),
        block: u64 = integer("bytes of one read and of one copy", "B", (4096, 1 << 32), 8 << 20).role(Role::Size),
        buffers: usize = integer("pinned buffers; with one, a block is read and copied in turn", "", (1, 64), 2),
        readers: usize = integer("threads that read, each a block", "", (1, 64), 1),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

/// Blocks on the device are kept until the end, as many as fit into this and at most this many, so that a buffer that was
/// filled again too early is seen.
const KEPT_BYTES: u64 = 64 << 20;
const KEPT: u64 = 16;

impl Kernel for GpuLoad {
    type Parameters = Parameters;
    const DECLARATION: Declaration = Declaration {
        stateful: true,
        ..Declaration::new("gpu_load", "loading a file from storage to a GPU's memory through pinned buffers", "block")
    };

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { size, part, block, buffers, .. } = *parameters;
        if block > size || block % ALIGNED != 0 {
            return Err(Error::usage(format!(
                "block = {block}: it must be a multiple of {ALIGNED} B and at most the {size} B of the file"
            )));
        }
        if parameters.access == Access::Gds && part != Part::Whole {
            return Err(Error::usage("access = gds reads straight to the device, in one part: use part = whole"));
        }
        let device = device(&parameters.on)?;
        let source = Source::open(&parameters.path, size, block, parameters.access)?;
        fits(&device, kept_blocks(block) * block, buffers as u64 * (block + ALIGNED))?;
        let session = device.open(stop).map_err(refused)?;
        let queue = session.queue().map_err(refused)?;
        let load = if source.access == Access::Gds { by_gds } else { through_host };
        load(&device, &session, &queue, &source, parameters, stop)
    }
}

/// How many blocks of this length are kept on the device.
fn kept_blocks(block: u64) -> u64 {
    (KEPT_BYTES / block).clamp(2, KEPT)
}

/// Places on the device for `count` blocks.
fn make_targets(session: &Session, count: u64, block: u64) -> Result<Vec<Target<'_>>, Error> {
    let targets = (0..count).map(|_| Ok(Target { buffer: session.buffer(block as usize)?, number: None }));
    targets.collect::<Result<_, String>>().map_err(refused)
}

/// Loads through pinned buffers of the host.
fn through_host(
    device: &Device,
    session: &Session,
    queue: &Queue<'_>,
    source: &Source,
    parameters: &Parameters,
    stop: &Stop,
) -> Result<Reading, Error> {
    let Parameters { part, block, buffers, readers, runtime, interval_s, .. } = *parameters;
    let room = (block + ALIGNED) as usize;
    let mut maps: Vec<_> = (0..buffers).map(|_| queue.pinned(room)).collect::<Result<_, _>>().map_err(refused)?;
    let mut slots: Vec<Slot<'_>> = maps.iter_mut().map(|map| Slot::of(map.bytes(), block as usize)).collect();
    let targets = make_targets(session, if part == Part::Read { 0 } else { kept_blocks(block) }, block)?;
    if part == Part::Copy {
        for (number, slot) in slots.iter_mut().enumerate() {
            source.read(number as u64, slot).map_err(|error| source.failed(&error))?;
        }
    }
    let cached = source.forget();
    let disk = source.file.metadata().ok().and_then(|about| Disk::of(&about, false));
    let before = Snapshot::take(disk.as_ref());
    let mut line = Line::new(queue, targets);
    let ends = Stop::new();
    let timed = (device, (runtime, interval_s), stop, &ends);
    let (passes, read) = match part {
        Part::Copy => (copied(timed, &mut line, slots), Read::default()),
        Part::Whole | Part::Read => loaded(timed, source, &mut line, (readers, part), slots)?,
    };
    let passes = passes?;
    let counters = Snapshot::take(disk.as_ref()).since(&before);
    let interrupted = stop.is_set() && passes.elapsed_s < runtime;
    let mut reading = describe(device, parameters, passes, &line, &read, cached);
    reading.counters = counters;
    reading.interrupted = interrupted;
    if source.refused {
        let says = "the filesystem refuses O_DIRECT: the file was read once through the page cache";
        reading.note("direct_refused", says);
    }
    let there = source.there().map_err(|error| source.failed(&error))?;
    let left = read.slots.iter().map(|slot| there.compared(slot.number, slot.bytes));
    let mut verdicts = left.collect::<Result<Vec<_>, _>>().map_err(|error| source.failed(&error))?;
    verdicts.extend(arrived(source, queue, line.targets)?);
    reading.verified(verdicts.into_iter());
    Ok(reading)
}

/// The reading of what went through the host; `cached` is the share of the file that the page cache had before.
fn describe(
    device: &Device,
    &Parameters { part, block, readers, .. }: &Parameters,
    mut passes: Passes,
    line: &Line<'_, '_>,
    read: &Read<'_>,
    cached: Option<f64>,
) -> Reading {
    passes.cpu.add_waits(read.cpu);
    let elapsed_s = passes.elapsed_s;
    let mut stream = Stream { bytes: passes.count * block, ..Stream::new("load", passes.count) };
    if part != Part::Copy {
        stream.add_latency("read", &read.histogram);
    }
    if part != Part::Read {
        stream.add_latency("copy", &line.histogram);
    }
    let mut reading = passes.reading(device, stream, 1);
    reading.concurrency_requested = 0.0;
    reading.notes.retain(|note| note.code != "device_clock");
    if part == Part::Whole {
        reading.detail("storage_wait_share", line.waited_ns as f64 / 1e9 / elapsed_s);
        reading.detail("buffer_wait_share", read.waited_ns as f64 / 1e9 / elapsed_s / readers as f64);
    }
    if part != Part::Copy {
        reading.detail("cached_share_before", cached);
    }
    if let Some(ns) = line.device_ns.filter(|&ns| ns > 0 && part != Part::Read) {
        reading.detail("copy_device_s", ns as f64 / 1e9);
    }
    reading.detail("shares_host_memory", device.number(Fact::Unified) != 0);
    reading
}

/// Loads by cuFile, which moves the bytes by itself.
fn by_gds(
    device: &Device,
    session: &Session,
    queue: &Queue<'_>,
    source: &Source,
    parameters: &Parameters,
    stop: &Stop,
) -> Result<Reading, Error> {
    let Parameters { block, runtime, interval_s, .. } = *parameters;
    let mut targets = make_targets(session, kept_blocks(block), block)?;
    let file = cufile::File::of(&source.file).map_err(refused)?;
    let mut rooms = vec![];
    for target in &targets {
        let address = target.buffer.address().map_err(refused)?.ok_or_else(|| refused(NEEDS_CUDA.into()))?;
        rooms.push(file.room(address).map_err(refused)?);
    }
    let disk = source.file.metadata().ok().and_then(|about| Disk::of(&about, false));
    let before = Snapshot::take(disk.as_ref());
    let (mut number, mut histogram, mut numbers) = (0_u64, Histogram::new(), vec![None; targets.len()]);
    let passes = Passes::run(device, (runtime, interval_s), stop, || {
        let at = (number % targets.len() as u64) as usize;
        let begun = now_ns();
        rooms[at].read(source.offset(number))?;
        histogram.record(now_ns() - begun);
        numbers[at] = Some(number);
        number += 1;
        Ok(None)
    })?;
    let counters = Snapshot::take(disk.as_ref()).since(&before);
    let mut stream = Stream { bytes: passes.count * block, ..Stream::new("load", passes.count) };
    stream.add_latency("total", &histogram);
    let mut reading = passes.reading(device, stream, 1);
    reading.counters = counters;
    reading.notes.retain(|note| note.code != "device_clock");
    reading.detail("nvidia_fs", cufile::has_module());
    if !cufile::has_module() {
        let says = "the kernel module nvidia-fs is not loaded: cuFile may go through the host's memory";
        reading.note("gds_through_host", says);
    }
    drop(rooms);
    targets.iter_mut().zip(numbers).for_each(|(target, number)| target.number = number);
    let arrived = arrived(source, queue, targets)?;
    reading.verified(arrived.into_iter());
    Ok(reading)
}

const NEEDS_CUDA: &str = "GPUDirect Storage needs an NVIDIA GPU by CUDA; use --access direct";

/// Compares the data on the device with the file.
fn arrived(source: &Source, queue: &Queue<'_>, targets: Vec<Target<'_>>) -> Result<Vec<Verdict>, Error> {
    let there = source.there().map_err(|error| source.failed(&error))?;
    let mut bytes = vec![0; source.block as usize];
    let mut verdicts = vec![];
    for target in targets.into_iter().filter(|one| one.number.is_some()) {
        queue.read(&target.buffer, &mut bytes).map_err(refused)?;
        verdicts.push(there.compared(target.number, &bytes).map_err(|error| source.failed(&error))?);
    }
    Ok(verdicts)
}

/// A block's place on the device.
struct Target<'a> {
    buffer: Buffer<'a>,
    number: Option<u64>,
}

/// The copies, in their order.
struct Line<'a, 'b> {
    queue: &'a Queue<'a>,
    targets: Vec<Target<'a>>,
    next: usize,
    /// Copies under way, each with its start time and its block's number.
    begun: VecDeque<(Write<'a, 'b>, u64, Option<u64>)>,
    histogram: Histogram,
    /// The sum of the copies by the device's clock; none where it keeps no time.
    device_ns: Option<u64>,
    /// How long nothing was copied, since no block was there.
    waited_ns: u64,
}

impl<'a, 'b> Line<'a, 'b> {
    fn new(queue: &'a Queue<'a>, targets: Vec<Target<'a>>) -> Self {
        let (begun, histogram) = (VecDeque::new(), Histogram::new());
        Self { queue, targets, next: 0, begun, histogram, device_ns: Some(0), waited_ns: 0 }
    }

    fn begin(&mut self, slot: Slot<'b>) -> Result<(), String> {
        let count = self.targets.len();
        let target = &mut self.targets[self.next % count];
        self.next += 1;
        target.number = slot.number;
        let now = now_ns();
        self.begun.push_back((self.queue.begin_write(&target.buffer, slot.bytes)?, now, slot.number));
        Ok(())
    }

    /// Waits for the oldest copy; gives its buffer back.
    fn end(&mut self) -> Result<Option<Slot<'b>>, String> {
        let Some((write, begun, number)) = self.begun.pop_front() else { return Ok(None) };
        let (bytes, ns) = write.ended()?;
        self.histogram.record(now_ns() - begun);
        self.device_ns = self.device_ns.zip(ns).map(|(sum, ns)| sum + ns);
        Ok(Some(Slot { bytes, number }))
    }
}

type Timed<'a> = (&'a Device, (f64, f64), &'a Stop, &'a Stop);

/// Copies the same blocks again and again.
fn copied<'b>(
    (device, times, stop, ends): Timed<'_>,
    line: &mut Line<'_, 'b>,
    mut slots: Vec<Slot<'b>>,
) -> Result<Passes, Error> {
    Passes::run(device, times, ends, || {
        while let Some(slot) = slots.pop() {
            line.begin(slot)?;
        }
        slots.extend(line.end()?);
        if stop.is_set() {
            ends.set();
        }
        Ok(None)
    })
}

/// What the readers did, one of them or all together.
#[derive(Default)]
struct Read<'b> {
    cpu: CpuTime,
    histogram: Histogram,
    /// How long they waited for a free buffer, together.
    waited_ns: u64,
    /// The buffers as they were left.
    slots: Vec<Slot<'b>>,
}

impl Read<'_> {
    fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.waited_ns += other.waited_ns;
        self.histogram.merge(&other.histogram);
        self.slots.extend(other.slots);
    }
}

/// What the readers share.
struct Work<'a, 'b> {
    source: &'a Source,
    free: Mutex<Receiver<Slot<'b>>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

impl<'b> Work<'_, 'b> {
    /// Reads block after block into what is free.
    fn read(&self, filled: &SyncSender<io::Result<Slot<'b>>>) -> Read<'b> {
        let before = cpu_time::of_this_thread();
        let mut read = Read::default();
        while !self.is_over.load(Ordering::Relaxed) {
            let begun = now_ns();
            let Ok(mut slot) = self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv() else {
                break;
            };
            let now = now_ns();
            read.waited_ns += now - begun;
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let is_last = self.source.is_read_once() && number >= self.source.blocks;
            if is_last || self.is_over.load(Ordering::Relaxed) {
                read.slots.push(slot);
                break;
            }
            let answer = self.source.read(number, &mut slot).map(|()| slot);
            read.histogram.record(now_ns() - now);
            if filled.send(answer).is_err() {
                break;
            }
        }
        read.cpu = cpu_time::of_this_thread().since(before);
        read
    }
}

fn ended_early() -> String {
    "a reading thread ended early".into()
}

/// Begins to copy each block that arrives, until a buffer is free: the oldest copy's, or that of a block which is only
/// read.
#[inline] // it is timed with the copies
fn free_slot<'b>(
    source: &Source,
    line: &mut Line<'_, 'b>,
    filled: &Receiver<io::Result<Slot<'b>>>,
    part: Part,
) -> Result<Option<Slot<'b>>, String> {
    loop {
        let begun = now_ns();
        let slot = match filled.try_recv() {
            Ok(slot) => slot,
            Err(_) if !line.begun.is_empty() => return line.end(),
            Err(TryRecvError::Disconnected) => return Err(ended_early()),
            Err(TryRecvError::Empty) => {
                let slot = filled.recv().map_err(|_| ended_early())?;
                line.waited_ns += now_ns() - begun;
                slot
            }
        };
        let slot = slot.map_err(|error| source.failed(&error).to_string())?;
        if part == Part::Read {
            return Ok(Some(slot));
        }
        line.begin(slot)?;
    }
}

/// Reads, and copies what was read unless it is the reading alone that is timed.
fn loaded<'b>(
    (device, times, stop, ends): Timed<'_>,
    source: &Source,
    line: &mut Line<'_, 'b>,
    (readers, part): (usize, Part),
    slots: Vec<Slot<'b>>,
) -> Result<(Result<Passes, Error>, Read<'b>), Error> {
    let (give, free) = sync_channel(slots.len());
    let (fill, filled) = sync_channel(slots.len());
    let work = Work { source, free: Mutex::new(free), next: AtomicU64::new(0), is_over: AtomicBool::new(false) };
    let (mut slots, mut arrived) = (slots, 0);
    thread::scope(|scope| {
        let work = &work;
        let mut started = vec![];
        for _ in 0..readers {
            let fill = fill.clone();
            let builder = thread::Builder::new().name("gpu-load".into());
            let one = builder.spawn_scoped(scope, move || work.read(&fill));
            started.push(one.map_err(|error| Error::machine("start a reading thread; use fewer", &error))?);
        }
        drop(fill);
        let passes = Passes::run(device, times, ends, || {
            for slot in slots.drain(..) {
                give.send(slot).map_err(|_| ended_early())?;
            }
            if let Some(slot) = free_slot(source, line, &filled, part)? {
                let _ = give.send(slot);
            }
            arrived += 1;
            if stop.is_set() || (source.is_read_once() && arrived == source.blocks) {
                ends.set();
            }
            Ok(None)
        });
        work.is_over.store(true, Ordering::Relaxed);
        drop(give);
        let mut all = Read::default();
        for one in started {
            all.add(one.join().map_err(|_| Error::Machine(ended_early(), None))?);
        }
        all.slots.extend(filled.try_iter().flatten());
        all.slots.extend(work.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner).try_iter());
        Ok((passes, all))
    })
}

#[cfg(test)]
mod tests;
