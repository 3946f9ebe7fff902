//! How many bytes a second go between host and GPU, from and to pinned or pageable memory, each way and both at once.

use std::thread;

use crate::timing::rng::Rng;

use crate::contract::declare::{choice, integer, INTERVAL_S, RUNTIME};
use crate::contract::kernel::{Declaration, Error, Kernel, Stop};
use crate::contract::parameter::Role;
use crate::contract::reading::{Reading, Stream, Verdict};
use crate::gpu::{device, fits, refused, Passes, DEVICE};
use crate::sys::device::{Buffer, Device, Queue, Session};
use crate::sys::opencl::Fact;
use crate::timing::histogram::Histogram;
use crate::{parameters, words};

/// The kernel `gpu_transfer`.
pub struct GpuTransfer;

words! {
    /// Where bytes go.
    pub enum Operation {
        /// Host to device.
        ToDevice = "host-to-device",
        /// Device to host.
        ToHost = "device-to-host",
        /// Both at once, on two queues.
        Both = "both-ways",
        /// One buffer of the device to another; each byte counts once, though it is read and written.
        Within = "device-to-device",
    }
}

words! {
    /// The host's memory.
    pub enum HostMemory {
        /// Memory that the driver allocated, and that the device reaches by itself.
        Pinned = "pinned",
        /// A program's ordinary memory.
        Pageable = "pageable",
    }
}

parameters! {
    /// What `gpu_transfer` takes.
    pub struct Parameters {
        operation: Operation = choice("direction of the copies; both-ways counts the bytes of both"),
        memory: HostMemory = choice("the host's memory"),
        block: u64 = integer("bytes of one copy", "B", (64, 1 << 36), 64 << 20).role(Role::Size),
        on: String = DEVICE,
        runtime: f64 = RUNTIME.default(0.3),
        interval_s: f64 = INTERVAL_S,
    }
}

impl Kernel for GpuTransfer {
    type Parameters = Parameters;
    const DECLARATION: Declaration =
        Declaration::new("gpu_transfer", "copies between host memory and a GPU's memory", "copy");

    fn run(&self, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
        let Parameters { operation, memory, block, runtime, interval_s, .. } = *parameters;
        let device = device(&parameters.on)?;
        let most = device.number(Fact::AllocationBytes).min(device.number(Fact::GlobalBytes) / 5);
        if block > most {
            return Err(Error::usage(format!("block = {block}: the device takes at most {most} B in one buffer here")));
        }
        fits(&device, 2 * block, 4 * block)?;
        let session = device.open(stop).map_err(refused)?;
        if operation == Operation::Within {
            return within(&device, &session, parameters, stop);
        }
        let queues = [session.queue().map_err(refused)?, session.queue().map_err(refused)?];
        let ways: &[bool] = match operation {
            Operation::ToDevice => &[true],
            Operation::ToHost => &[false],
            Operation::Both | Operation::Within => &[true, false],
        };
        let mut maps: Vec<_> = queues
            .iter()
            .take(ways.len())
            .map(|queue| if memory == HostMemory::Pinned { queue.pinned(block as usize).map(Some) } else { Ok(None) })
            .collect::<Result<_, _>>()
            .map_err(refused)?;
        let mut sides = vec![];
        for ((&to_device, queue), mapped) in ways.iter().zip(&queues).zip(&mut maps) {
            let buffer = session.buffer(block as usize).map_err(refused)?;
            let host = match mapped {
                Some(mapped) => Host::Pinned(mapped.bytes()),
                None => Host::Pageable(vec![0; block as usize]),
            };
            let mut side = Side { to_device, queue, buffer, host, all: content(3 + u64::from(to_device), block) };
            side.fill().map_err(refused)?;
            sides.push(side);
        }
        let mut histogram = Histogram::new();
        let passes = Passes::run(&device, (runtime, interval_s), stop, || {
            let begun = crate::timing::clock::now_ns();
            let ns = copy_once(&mut sides)?;
            histogram.record(crate::timing::clock::now_ns() - begun);
            Ok(ns)
        })?;
        let ways = ways.len() as u64;
        let count = passes.count * ways;
        let mut stream = Stream { bytes: count * block, ..Stream::new(operation.word(), count) };
        stream.add_latency("total", &histogram);
        let best = (ways * block) as f64 * 1e9 / passes.best_ns.max(1) as f64;
        let mut reading = passes.by_host().reading(&device, stream, ways);
        reading.notes.retain(|note| note.code != "device_clock" || ways == 1);
        reading.detail("bytes_s_best_copy", best);
        reading.detail("shares_host_memory", device.number(Fact::Unified) != 0);
        let verdicts = sides.into_iter().map(Side::proved).collect::<Result<Vec<_>, _>>().map_err(refused)?;
        reading.verified(verdicts.into_iter());
        Ok(reading)
    }
}

/// Copies one block each way, both ways at once; gives the time on the device of a single copy, ns.
#[inline] // it is timed with the copy
fn copy_once(sides: &mut [Side<'_>]) -> Result<Option<u64>, String> {
    if let [side] = sides {
        return side.copy();
    }
    // Two threads, since a copy of pageable memory may be done by the one that asks for it.
    let done: Vec<_> = thread::scope(|scope| {
        let both: Vec<_> = sides.iter_mut().map(|side| scope.spawn(|| side.copy())).collect();
        both.into_iter().map(|one| one.join().unwrap_or(Err("a copy panicked".into()))).collect()
    });
    done.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(None)
}

/// Copies between two buffers of the device.
fn within(device: &Device, session: &Session, parameters: &Parameters, stop: &Stop) -> Result<Reading, Error> {
    let Parameters { operation, block, runtime, interval_s, .. } = *parameters;
    let queue = session.queue().map_err(refused)?;
    let [from, to] = [session.buffer(block as usize), session.buffer(block as usize)];
    let (from, to) = (from.map_err(refused)?, to.map_err(refused)?);
    let content = content(3, block);
    queue.write(&from, &content).map_err(refused)?;
    queue.write(&to, &vec![0; content.len()]).map_err(refused)?;
    let mut histogram = Histogram::new();
    let passes = Passes::run(device, (runtime, interval_s), stop, || {
        let begun = crate::timing::clock::now_ns();
        let ns = queue.copy(&to, &from)?;
        histogram.record(crate::timing::clock::now_ns() - begun);
        Ok(ns)
    })?;
    let mut stream = Stream { bytes: passes.count * block, ..Stream::new(operation.word(), passes.count) };
    stream.add_latency("total", &histogram);
    let best = block as f64 * 1e9 / passes.best_ns.max(1) as f64;
    let mut reading = passes.by_host().reading(device, stream, 1);
    reading.detail("bytes_s_best_copy", best);
    let mut arrived = vec![0; content.len()];
    queue.read(&to, &mut arrived).map_err(refused)?;
    reading.verified(std::iter::once(compared(&arrived, &content)));
    Ok(reading)
}

/// Random bytes that repeat at no power of two.
fn content(seed: u64, bytes: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let pattern: Vec<u8> = (0..1021).map(|_| rng.bits() as u8).collect();
    pattern.iter().copied().cycle().take(bytes as usize).collect()
}

fn compared(arrived: &[u8], sent: &[u8]) -> Verdict {
    let wrong = arrived.iter().zip(sent).filter(|(one, other)| one != other).count();
    Verdict { checked: sent.len() as u64, wrong: wrong as u64 }
}

/// The host's end.
enum Host<'a> {
    Pinned(&'a mut [u8]),
    Pageable(Vec<u8>),
}

impl Host<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Pinned(bytes) => bytes,
            Self::Pageable(bytes) => bytes,
        }
    }
}

/// One direction.
struct Side<'a> {
    to_device: bool,
    queue: &'a Queue<'a>,
    buffer: Buffer<'a>,
    host: Host<'a>,
    /// What goes over.
    all: Vec<u8>,
}

impl Side<'_> {
    /// Puts random bytes where the copies begin.
    fn fill(&mut self) -> Result<(), String> {
        if self.to_device {
            self.host.bytes().copy_from_slice(&self.all);
            self.queue.write(&self.buffer, &vec![0; self.all.len()])?;
        } else {
            self.queue.write(&self.buffer, &self.all)?;
        }
        Ok(())
    }

    fn copy(&mut self) -> Result<Option<u64>, String> {
        if self.to_device {
            self.queue.write(&self.buffer, self.host.bytes())
        } else {
            self.queue.read(&self.buffer, self.host.bytes())
        }
    }

    /// Compares what arrived with what was sent.
    fn proved(mut self) -> Result<Verdict, String> {
        let arrived = if self.to_device {
            let mut arrived = vec![0; self.all.len()];
            self.queue.read(&self.buffer, &mut arrived)?;
            arrived
        } else {
            self.host.bytes().to_vec()
        };
        Ok(compared(&arrived, &self.all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::declare::Words;
    use crate::here::opencl_cpu;

    #[test]
    fn every_way_arrives_from_either_memory() {
        let Some(_turn) = opencl_cpu() else { return };
        for (operation, word, _) in Operation::ALL {
            for (_, memory, _) in HostMemory::ALL {
                let given =
                    json!({"on": "cpu", "operation": word, "memory": memory, "block": 70_001, "runtime": 0.003});
                let reading = crate::run("gpu_transfer", &given, &Stop::new()).unwrap();
                let ways = if *operation == Operation::Both { 2 } else { 1 };
                assert_eq!(reading.details["verification"], "passed", "{word} {memory}");
                assert_eq!(reading.details["verified_words"], 70_001 * ways);
                assert_eq!(reading.streams[0].bytes, reading.streams[0].operations * 70_001);
                assert_eq!(reading.streams[0].operations % ways, 0);
            }
        }
    }
}
