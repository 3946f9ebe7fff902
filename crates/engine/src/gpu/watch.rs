//! What a GPU does while it is timed: clock, power, link and why it is slowed, as NVML states them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::contract::reading::Reading;
use crate::sys::device::Device;
use crate::sys::nvidia::{Moment, Sensor};

/// Interval between two looks. A look takes under a millisecond of another thread's time.
const EVERY: Duration = Duration::from_millis(20);

/// Does `work`, and looks at the device meanwhile; nothing is seen of a device that NVML does not know.
pub fn during<T>(device: &Device, work: impl FnOnce() -> T) -> (T, Vec<Moment>) {
    let Some(sensor) = device.bus().and_then(|bus| Sensor::of(&bus)) else { return (work(), vec![]) };
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = || {
            let mut seen = vec![];
            // The first look comes late, so that the clock has risen; a short run is seen at its end.
            while !ends.load(Ordering::Relaxed) {
                thread::park_timeout(EVERY);
                seen.push(sensor.now());
            }
            seen
        };
        let Ok(watcher) = thread::Builder::new().name("gpu-watch".into()).spawn_scoped(scope, watch) else {
            return (work(), vec![]);
        };
        // Also where the work panics, so that no one waits for the watcher for ever.
        let end = Ends(&ends, watcher.thread().clone());
        let done = work();
        drop(end);
        (done, watcher.join().unwrap_or_default())
    })
}

struct Ends<'a>(&'a AtomicBool, thread::Thread);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.unpark();
    }
}

/// Puts what was seen into the reading: the mean and the lowest clock, the highest power, the link, and every reason.
pub fn describe(seen: &[Moment], reading: &mut Reading) {
    let clocks: Vec<u64> = seen.iter().filter_map(|moment| moment.clock_hz).collect();
    if let Some(&least) = clocks.iter().min() {
        reading.detail("clock_hz", clocks.iter().sum::<u64>() as f64 / clocks.len() as f64);
        reading.detail("clock_min_hz", least);
    }
    if let Some(power) = seen.iter().filter_map(|moment| moment.power_mw).max() {
        reading.detail("power_w", power as f64 / 1000.0);
    }
    if let Some(generation) = seen.iter().filter_map(|moment| moment.link_generation).max() {
        reading.detail("link_generation", generation);
    }
    if let Some(lanes) = seen.iter().filter_map(|moment| moment.link_lanes).max() {
        reading.detail("link_lanes", lanes);
    }
    let mut slowed: BTreeSet<&str> = BTreeSet::new();
    slowed.extend(seen.iter().flat_map(|moment| moment.slowed_by.iter().copied()));
    if !slowed.is_empty() {
        reading.detail("slowed_by", slowed.into_iter().collect::<Vec<_>>().join(", "));
    }
}
