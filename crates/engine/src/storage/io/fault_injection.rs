//! An access engine with a fault injected at its n-th operation, to test what a fault leads to.
//!
//! The engine below executes the operation; its result is replaced. `HWDYNO_FAIL=7:5` makes
//! every job's 7th transfer fail with errno 5, `7:0` cuts it short; `submit:7:5`, `wait:7:5` and `sync:7:5`
//! make the 7th call of that kind fail. It is for tests, and no option of any command.

use std::io;

use serde_json::{Map, Value};

use super::access::{Access, Transfer};

/// Which call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// One transfer.
    Transfer,
    /// Handing over a batch.
    Submit,
    /// Waiting for completions.
    Wait,
    /// Making durable.
    Sync,
}

/// The fault: the `nth` call (from 1 on) of a kind answers `errno`; 0 cuts a transfer short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFault {
    /// The kind of call.
    pub call: Call,
    /// Which one.
    pub nth: u64,
    /// The error of its result.
    pub errno: i32,
}

impl PlannedFault {
    /// Reads `7:5`, `submit:7:5` and so on; none for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (call, rest) = match text.split_once(':')? {
            ("submit", rest) => (Call::Submit, rest),
            ("wait", rest) => (Call::Wait, rest),
            ("sync", rest) => (Call::Sync, rest),
            _ => (Call::Transfer, text),
        };
        let (nth, errno) = rest.split_once(':')?;
        Some(Self { call, nth: nth.parse().ok()?, errno: errno.parse().ok()? })
    }

    /// The fault that the environment requests.
    #[must_use]
    pub fn from_environment() -> Option<Self> {
        std::env::var("HWDYNO_FAIL").ok().as_deref().and_then(Self::parse)
    }
}

/// An access engine with a fault injected.
pub struct FaultInjector<A> {
    inner: A,
    fault: PlannedFault,
    seen: u64,
    victim: Option<(usize, usize)>,
}

impl<A> FaultInjector<A> {
    /// The engine below, and the fault.
    pub fn new(inner: A, fault: PlannedFault) -> Self {
        Self { inner, fault, seen: 0, victim: None }
    }

    fn call(&mut self, call: Call) -> io::Result<()> {
        if self.fault.call == call {
            self.seen += 1;
            if self.seen == self.fault.nth {
                return Err(io::Error::from_raw_os_error(self.fault.errno));
            }
        }
        Ok(())
    }
}

impl<A: Access> Access for FaultInjector<A> {
    const SYNCHRONOUS: bool = A::SYNCHRONOUS;

    fn prepare(&mut self, slot: usize, transfer: &Transfer) {
        if self.fault.call == Call::Transfer {
            self.seen += 1;
            if self.seen == self.fault.nth {
                self.victim = Some((slot, transfer.length));
            }
        }
        self.inner.prepare(slot, transfer);
    }

    fn submit(&mut self) -> io::Result<()> {
        self.inner.submit()?;
        self.call(Call::Submit)
    }

    fn wait(&mut self, at_least: usize) -> io::Result<()> {
        self.inner.wait(at_least)?;
        self.call(Call::Wait)
    }

    fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        let (victim, errno) = (&mut self.victim, i64::from(self.fault.errno));
        self.inner.completions(|slot, moved| match *victim {
            Some((chosen, length)) if chosen == slot => {
                *victim = None;
                // A piece cut short ends on a sector, as a device's would.
                let short = (length / 2) as i64 & !511;
                done(slot, if errno == 0 { short } else { -errno });
            }
            _ => done(slot, moved),
        });
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()?;
        self.call(Call::Sync)
    }

    fn sync_whole(&mut self) -> io::Result<()> {
        self.inner.sync_whole()?;
        self.call(Call::Sync)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }

    fn calls(&self) -> u64 {
        self.inner.calls()
    }

    fn facts(&self, details: &mut Map<String, Value>) {
        self.inner.facts(details);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::storage::data::layout::lay_out;
    use crate::storage::job::spec::{Engine, Job};
    use crate::storage::scratch::Scratch;
    use crate::{Error, Reading, Stop};

    const BLOCKS: u64 = 12;
    const ENGINES: [Engine; 5] = [Engine::Uring, Engine::Aio, Engine::Psync, Engine::Mmap, Engine::Stdio];

    /// One pass of 12 blocks with the fault; none where this system lacks the engine.
    fn one_pass(
        path: &Path,
        engine: Engine,
        read_percent: u64,
        fault: PlannedFault,
        end_fsync: bool,
    ) -> Option<Reading> {
        let deep = matches!(engine, Engine::Uring | Engine::Aio);
        let job = Job {
            path: path.into(),
            engine,
            read_percent,
            depth: if deep { 4 } else { 1 },
            direct: deep,
            size: BLOCKS * 4096,
            end_fsync,
            fault: Some(fault),
            ..Job::default()
        };
        match job.run(&Stop::new()) {
            Ok(reading) => Some(reading),
            Err(Error::Machine(says, Some(libc::ENOSYS | libc::EPERM))) if says.contains("use ioengine") => {
                crate::here::absent(&format!("{engine:?}"));
                None
            }
            Err(error) => panic!("{engine:?}: {error}"),
        }
    }

    #[test]
    fn whichever_transfer_fails_on_whichever_engine_it_is_counted_and_named() {
        let scratch = Scratch::new("failing");
        let path = scratch.path("data");
        lay_out(&path, BLOCKS * 4096, 1, &Stop::new()).unwrap();
        for engine in ENGINES {
            for (read_percent, name, errno) in [(100, "read", libc::EIO), (0, "write", libc::ENOSPC)] {
                for nth in 1..=BLOCKS {
                    let fault = PlannedFault { call: Call::Transfer, nth, errno };
                    let Some(reading) = one_pass(&path, engine, read_percent, fault, false) else { continue };
                    let found: Vec<_> =
                        reading.faults.iter().map(|f| (f.operation.as_str(), f.errno, f.count)).collect();
                    assert_eq!(found, [(name, errno, 1)], "{engine:?}: the {nth}th {name}");
                    assert_eq!(reading.streams[0].operations, BLOCKS - 1, "{engine:?}: the {nth}th {name}");
                }
            }
            for nth in 1..=BLOCKS {
                let Some(reading) =
                    one_pass(&path, engine, 100, PlannedFault { call: Call::Transfer, nth, errno: 0 }, false)
                else {
                    continue;
                };
                assert_eq!(
                    (reading.faults[0].errno, reading.faults[0].count),
                    (0, 1),
                    "{engine:?}: the {nth}th was cut"
                );
                assert_eq!(reading.streams[0].operations, BLOCKS, "{engine:?}: the {nth}th was finished");
            }
        }
    }

    #[test]
    fn a_call_that_fails_ends_the_run_with_its_fault_and_no_hang() {
        let scratch = Scratch::new("failing-calls");
        let path = scratch.path("data");
        lay_out(&path, BLOCKS * 4096, 1, &Stop::new()).unwrap();
        for engine in ENGINES {
            for call in [Call::Submit, Call::Wait] {
                for nth in 1..=3 {
                    let fault = PlannedFault { call, nth, errno: libc::ENOMEM };
                    let Some(reading) = one_pass(&path, engine, 100, fault, false) else { continue };
                    assert_eq!((reading.faults.len(), reading.faults[0].count), (1, 1), "{engine:?} {call:?} {nth}");
                    assert!(reading.notes.iter().any(|note| note.code == "faults_ended_run"), "{engine:?} {call:?}");
                    assert!(reading.streams[0].operations < BLOCKS, "{engine:?} {call:?} {nth}");
                }
            }
            let fault = PlannedFault { call: Call::Sync, nth: 1, errno: libc::EIO };
            let Some(reading) = one_pass(&path, engine, 0, fault, true) else { continue };
            assert_eq!((reading.faults[0].errno, reading.streams[0].operations), (libc::EIO, BLOCKS), "{engine:?}");
        }
    }

    #[test]
    fn a_fault_is_read_as_it_is_written() {
        assert_eq!(PlannedFault::parse("7:5"), Some(PlannedFault { call: Call::Transfer, nth: 7, errno: 5 }));
        assert_eq!(PlannedFault::parse("sync:1:28"), Some(PlannedFault { call: Call::Sync, nth: 1, errno: 28 }));
        assert_eq!([PlannedFault::parse(""), PlannedFault::parse("x:1"), PlannedFault::parse("wait:1")], [None; 3]);
    }
}
