//! Work on a GPU through CUDA or `OpenCL`: which device, passes timed by its events and checked against the host's clock, and
//! the arithmetic that proves results.

pub mod arithmetic;
pub mod source;
mod watch;

use crate::contract::declare::{text, Text};
use crate::contract::error::{Error, STOPPED};
use crate::contract::kernel::Stop;
use crate::contract::reading::{CpuTime, Reading, Samples, Stream};
use crate::loops::memory::allocation;
use crate::sys::cuda;
use crate::sys::device::{Device, Event};
use crate::sys::nvidia::Moment;
use crate::sys::opencl::{self, Fact};
use crate::timing::clock::now_ns;
use crate::timing::cpu_time;
use crate::timing::start;

/// Which device is measured.
pub const DEVICE: Text = text(
    "device to measure: gpu, gpu1 … (by CUDA where it is there, else by OpenCL), cuda, opencl, or cpu (the processor as \
     an OpenCL device)",
    "gpu",
);
/// A device's events may take this share longer than the host sees, before they are not believed.
const BELIEVED: f64 = 1.02;
/// One launch takes about this long, so that the host's part of it is small.
pub const LAUNCH_NS: u64 = 10_000_000;

/// A refusal by the driver, or that the run was stopped before it measured.
#[must_use]
pub fn refused(why: String) -> Error {
    if why == STOPPED {
        return Error::stopped();
    }
    Error::Machine(why, None)
}

/// Refuses `on_device` bytes of buffers, which a processor as a device has in the host's memory, with `on_host` bytes more
/// where they do not fit.
///
/// # Errors
/// Usage, with both figures.
pub fn fits(device: &Device, on_device: u64, on_host: u64) -> Result<(), Error> {
    let shared = if device.kind() == "cpu" { on_device } else { 0 };
    allocation::fits(on_host.saturating_add(shared), "use smaller buffers")
}

/// The device of that name.
///
/// # Errors
/// Usage: a name of another form, or a device that is not there, with those that are.
pub fn device(name: &str) -> Result<Device, Error> {
    let digits = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let kind = &name[..name.len() - digits.len()];
    let number = if digits.is_empty() { Some(0) } else { digits.parse::<usize>().ok() };
    let (true, Some(number)) = (matches!(kind, "gpu" | "cuda" | "opencl" | "cpu"), number) else {
        return Err(Error::usage(format!("on = {name}: write gpu, gpu1 …, cuda, opencl or cpu")));
    };
    let found = if kind == "cuda" || kind == "gpu" { by_cuda() } else { Ok(vec![]) };
    let found = match found {
        Ok(found) if !found.is_empty() => found,
        Err(why) if kind == "cuda" => return Err(Error::Machine(format!("no GPU by CUDA: {why}"), None)),
        without => by_opencl().map_err(|why| {
            let cuda = without.err().map_or(String::new(), |why| format!("; CUDA: {why}"));
            let says = format!("no OpenCL device: {why}{cuda}; install the GPU's driver");
            // A loader passes over drivers for which there is no memory.
            Error::Machine(says, None).with_memory_limit()
        })?,
    };
    let is_kind = |device: &&Device| (device.kind() == "cpu") == (kind == "cpu");
    found.iter().filter(is_kind).nth(number).cloned().ok_or_else(|| {
        let named = |kind: &str, is_cpu: bool| {
            let same = found.iter().filter(move |device| (device.kind() == "cpu") == is_cpu).enumerate();
            same.map(|(at, one)| format!("{kind}{at} ({})", one.text(Fact::Name).unwrap_or_default()))
                .collect::<Vec<_>>()
        };
        let here = [named("gpu", false), named("cpu", true)].concat().join(", ");
        let here = if here.is_empty() { "none".into() } else { here };
        Error::usage(format!("on = {name}: there is no such device here; available: {here}"))
    })
}

/// The GPUs that CUDA can work on: kernels are compiled here, so without a compiler there are none.
fn by_cuda() -> Result<Vec<Device>, String> {
    let found = cuda::devices()?;
    if !found.is_empty() {
        cuda::nvrtc::is_here()?;
    }
    Ok(found.into_iter().map(Device::Cuda).collect())
}

fn by_opencl() -> Result<Vec<Device>, String> {
    Ok(opencl::found()?.devices()?.into_iter().map(Device::OpenCl).collect())
}

/// Passes on a device until their time is over.
pub struct Passes {
    /// Time of all passes on the device, or on the host where its events cannot be believed, s.
    pub elapsed_s: f64,
    /// The sum of the events, s; none where the device keeps no time.
    pub device_s: Option<f64>,
    /// Time between the first pass's start and the last one's end by the host's clock, s.
    pub host_s: f64,
    /// How many passes.
    pub count: u64,
    /// The shortest on the device, ns.
    pub best_ns: u64,
    interrupted: bool,
    /// CPU time of all threads of the process: a driver has its own, which for a processor do all the work.
    pub cpu: CpuTime,
    samples: Samples,
    watched: Vec<Moment>,
}

impl Passes {
    /// Makes passes for `runtime_s`: `pass` gives its time on the device, ns, if the device keeps it.
    ///
    /// # Errors
    /// What the driver refused.
    pub fn run(
        device: &Device,
        (runtime_s, interval_s): (f64, f64),
        stop: &Stop,
        pass: impl FnMut() -> Result<Option<u64>, String>,
    ) -> Result<Self, Error> {
        let (passes, watched) = watch::during(device, || Self::timed((runtime_s, interval_s), stop, pass));
        passes.map(|passes| Self { watched, ..passes })
    }

    fn timed(
        (runtime_s, interval_s): (f64, f64),
        stop: &Stop,
        mut pass: impl FnMut() -> Result<Option<u64>, String>,
    ) -> Result<Self, Error> {
        start::hold_once();
        let cpu = cpu_time::of_this_process();
        let begun = now_ns();
        let (mut spent_ns, mut count, mut best_ns, mut rows) = (Some(0), 0_u64, u64::MAX, Vec::<u64>::new());
        let mut now = begun;
        while count == 0 || (((now - begun) as f64) < runtime_s * 1e9 && !stop.is_set()) {
            let ns = pass().map_err(refused)?;
            let then = now_ns();
            let row = (((then - begun) as f64 / 1e9) / interval_s) as usize;
            if row >= rows.len() {
                rows.resize(row + 1, 0);
            }
            rows[row] += 1;
            spent_ns = spent_ns.zip(ns).map(|(sum, ns)| sum + ns);
            best_ns = best_ns.min(ns.filter(|&ns| ns > 0).unwrap_or(then - now));
            count += 1;
            now = then;
        }
        // The last interval is not whole.
        rows.pop();
        let host_s = (now - begun) as f64 / 1e9;
        let device_s = spent_ns.filter(|&ns| ns > 0).map(|ns| ns as f64 / 1e9);
        Ok(Self {
            elapsed_s: device_s.filter(|&device_s| device_s <= host_s * BELIEVED).unwrap_or(host_s).max(1e-9),
            device_s,
            host_s,
            count,
            best_ns,
            interrupted: stop.is_set() && host_s < runtime_s,
            cpu: cpu_time::of_this_process().since(cpu),
            samples: Samples { interval_s, operations: vec![rows], bytes: vec![] },
            watched: vec![],
        })
    }

    /// The same by the host's clock: what a program waits for, the driver's part included. Where a pass has a latency,
    /// its rate follows from that, with one in flight.
    #[must_use]
    pub fn by_host(self) -> Self {
        Self { elapsed_s: self.host_s.max(1e-9), ..self }
    }

    /// The reading of the passes: `stream` is what all of them did, `each` the operations of one.
    #[must_use]
    pub fn reading(self, device: &Device, stream: Stream, each: u64) -> Reading {
        let mut reading = Reading {
            elapsed_s: self.elapsed_s,
            cpu: self.cpu,
            concurrency_requested: 1.0,
            interrupted: self.interrupted,
            ..Reading::default()
        };
        let rows = self.samples.operations.first().cloned().unwrap_or_default();
        let bytes = stream.bytes / self.count.max(1);
        reading.samples = Samples {
            bytes: vec![rows.iter().map(|count| count * bytes).collect()],
            operations: vec![rows.iter().map(|count| count * each).collect()],
            ..self.samples
        };
        reading.streams.push(stream);
        reading.detail("device_name", device.text(Fact::Name).unwrap_or_default());
        reading.detail("device_kind", device.kind());
        reading.detail("interface", device.interface());
        reading.detail("driver", device.text(Fact::Driver).unwrap_or_default());
        reading.detail("host_s", self.host_s);
        reading.detail("launches", self.count);
        watch::describe(&self.watched, &mut reading);
        if let Some(device_s) = self.device_s {
            reading.detail("device_s", device_s);
            if device_s > self.host_s * BELIEVED {
                let says = format!(
                    "the device's events say {device_s:.3} s of {:.3} s by the host's clock; the host's is used",
                    self.host_s
                );
                reading.note("device_clock", says);
            }
        } else {
            reading.note("device_clock", "the device keeps no time of its own; the host's clock is used");
        }
        reading
    }
}

/// The time of a command that was waited for.
///
/// # Errors
/// What the driver answered.
pub fn waited(event: &Event<'_>) -> Result<Option<u64>, String> {
    event.wait()?;
    Ok(event.ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both together: of 2 ms without a tick of the clock, how much was the user's is not known.
    fn whole_s(time: CpuTime) -> f64 {
        time.user_s + time.system_s
    }

    #[test]
    fn what_a_drivers_threads_spend_is_counted() {
        let mut spent_s = 0.0;
        let passes = Passes::timed((0.05, 0.01), &Stop::new(), || {
            let busy = std::thread::spawn(|| {
                let begun = cpu_time::of_this_thread();
                let until = now_ns() + 2_000_000;
                while now_ns() < until {}
                whole_s(cpu_time::of_this_thread().since(begun))
            });
            spent_s += busy.join().unwrap();
            Ok(None)
        })
        .unwrap();
        let counted_s = whole_s(passes.cpu);
        assert!(spent_s > 0.0 && counted_s >= 0.9 * spent_s, "{counted_s} of {spent_s} s");
    }
}
