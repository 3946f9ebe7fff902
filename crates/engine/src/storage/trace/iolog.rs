//! Traces of operations as fio's iolog, versions 2 and 3: recorded from a run, or replayed.
//!
//! Version 3 has a line `MICROSECONDS FILE read|write|trim OFFSET LENGTH`, or `MICROSECONDS FILE add|open|close`;
//! version 2 is the same without times, and has `FILE wait MICROSECONDS`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::contract::kernel::Error;
use crate::safe_files::output;

/// Operations recorded for each thread at most; the rest are only counted.
pub const MAX_RECORDED: usize = 1 << 20;
/// Steps of a trace that is replayed, at most: they stay in memory.
const MAX_STEPS: usize = 1 << 24;

/// One submitted operation.
#[derive(Debug, Clone, Copy)]
struct RecordedTransfer {
    at_ns: u64,
    offset: u64,
    length: u64,
    write: bool,
}

/// The operations of one thread.
#[derive(Debug)]
pub struct TraceRecorder {
    begun_ns: u64,
    lines: Vec<RecordedTransfer>,
    /// Operations for which there was no room.
    pub dropped: u64,
}

impl TraceRecorder {
    /// Empty; allocates all that it will ever need.
    #[must_use]
    pub fn new() -> Self {
        Self { begun_ns: 0, lines: Vec::with_capacity(MAX_RECORDED), dropped: 0 }
    }

    /// The timed region begins.
    pub fn restart(&mut self, now_ns: u64) {
        self.lines.clear();
        (self.begun_ns, self.dropped) = (now_ns, 0);
    }

    /// Records a submitted operation.
    #[inline]
    pub fn add(&mut self, now_ns: u64, offset: u64, write: bool, length: u64) {
        if self.lines.len() < MAX_RECORDED {
            self.lines.push(RecordedTransfer { at_ns: now_ns - self.begun_ns, offset, length, write });
        } else {
            self.dropped += 1;
        }
    }
}

impl Default for TraceRecorder {
    fn default() -> Self {
        Self::new()
    }
}

/// The traces of all threads in one file, in the order of time. `place` gives the name of the file that has an offset
/// of a thread's region, and the place in it; `other` is the direction beside writing.
///
/// # Errors
/// The system's refusal to write the file.
pub fn write_iolog(
    path: &Path,
    traces: &[TraceRecorder],
    other: &str,
    names: &[String],
    overwrite: bool,
    place: impl Fn(usize, u64) -> (usize, u64),
) -> Result<(), Error> {
    let mut text = String::from("fio version 3 iolog\n");
    let none = String::new();
    for name in names {
        let _ = writeln!(text, "0 {name} add"); // into memory: cannot fail
        let _ = writeln!(text, "0 {name} open");
    }
    let mut all: Vec<(usize, &RecordedTransfer)> = traces
        .iter()
        .enumerate()
        .flat_map(|(thread, trace)| trace.lines.iter().map(move |line| (thread, line)))
        .collect();
    all.sort_by_key(|(_, line)| line.at_ns);
    let mut last_us = 0;
    for (thread, line) in all {
        let (file, offset) = place(thread, line.offset);
        let (name, direction) = (names.get(file).unwrap_or(&none), if line.write { "write" } else { other });
        last_us = line.at_ns / 1000;
        let _ = writeln!(text, "{last_us} {name} {direction} {offset} {}", line.length);
    }
    for name in names {
        let _ = writeln!(text, "{last_us} {name} close");
    }
    output::write(path, text.as_bytes(), overwrite)
}

/// What one line of a trace requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A transfer: the number of its file, and where in it.
    Transfer {
        /// Which file.
        file: usize,
        /// Where in it, B.
        offset: u64,
        /// How much, B.
        length: u64,
        /// Whether it writes to the file.
        write: bool,
    },
    /// All that was written is made durable; `true` for what describes the file too.
    Sync(bool),
}

/// A trace that was read: each step with the moment that it is due, ns from the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Iolog(Vec<(u64, Step)>);

impl Iolog {
    /// Reads a trace; files are numbered in the order in which they are added. `skip` are actions to leave out.
    ///
    /// # Errors
    /// What is wrong with it, and in which line.
    pub fn read(path: &Path, skip: &str) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|e| Error::machine(format!("read {}", path.display()), &e))?;
        Self::parse(&text, skip).map_err(|why| Error::usage(format!("{}: {why}", path.display())))
    }

    /// Checks it against the files, each of `length` bytes, and the buffers, each of `block` bytes.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, files: usize, length: u64, block: u64) -> Result<(), Error> {
        for (_, step) in &self.0 {
            let &Step::Transfer { file, offset, length: bytes, .. } = step else { continue };
            if file >= files && files > 1 {
                return Err(Error::usage(format!("the trace is of {} files or more, and there are {files}", file + 1)));
            }
            if bytes > block || offset.checked_add(bytes).is_none_or(|end| end > length) {
                return Err(Error::usage(format!(
                    "the trace has an operation of {bytes} B at {offset}; bs is {block} B, and the files have {length} B"
                )));
            }
        }
        Ok(())
    }

    fn parse(text: &str, skip: &str) -> Result<Self, String> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let timed = has_times(lines.next().map(|(_, line)| line))?;
        let mut names: HashMap<&str, usize> = HashMap::new();
        let mut steps: Vec<(u64, Step)> = Vec::new();
        let (mut first, mut waited_us) = (None, 0_u64);
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            let wrong = || format!("line {number}: '{line}' is no step of a trace");
            let mut words = line.split_ascii_whitespace();
            let mut at_us = waited_us;
            if timed {
                let recorded_us: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                at_us = recorded_us.saturating_sub(*first.get_or_insert(recorded_us));
            }
            let (name, action) = (words.next().ok_or_else(wrong)?, words.next().ok_or_else(wrong)?);
            if skip.split(',').any(|skipped| skipped.trim() == action) {
                continue;
            }
            let mut amount = || words.next().and_then(|word| word.parse::<u64>().ok());
            let step = match action {
                "add" => {
                    let next = names.len();
                    names.entry(name).or_insert(next);
                    continue;
                }
                "open" | "close" => continue,
                "wait" if !timed => {
                    waited_us = amount().ok_or_else(wrong)?;
                    continue;
                }
                "sync" => Step::Sync(true),
                "datasync" => Step::Sync(false),
                "read" | "write" => {
                    let file = names.get(name).copied();
                    let file = file.ok_or_else(|| format!("line {number}: {name} was never added"))?;
                    let (offset, length) = (amount().ok_or_else(wrong)?, amount().ok_or_else(wrong)?);
                    if length == 0 {
                        return Err(wrong());
                    }
                    Step::Transfer { file, offset, length, write: action == "write" }
                }
                "trim" => {
                    return Err(format!(
                        "line {number}: trims of a trace are not run; leave them out with replay_skip=trim"
                    ))
                }
                _ => return Err(wrong()),
            };
            if steps.len() == MAX_STEPS {
                return Err(format!("it has more than {MAX_STEPS} steps; split it"));
            }
            steps.push((at_us.saturating_mul(1000), step));
        }
        if steps.is_empty() {
            return Err("it has no step".into());
        }
        Ok(Self::in_order(steps))
    }

    /// The steps with times that never go back. In version 3 they may by little, where threads wrote at once.
    fn in_order(mut steps: Vec<(u64, Step)>) -> Self {
        let mut latest = 0;
        for (at, _) in &mut steps {
            latest = latest.max(*at);
            *at = latest;
        }
        Self(steps)
    }
}

/// Whether the steps below this first line have times.
fn has_times(first: Option<&str>) -> Result<bool, String> {
    match first {
        Some("fio version 2 iolog") => Ok(false),
        Some("fio version 3 iolog") => Ok(true),
        _ => Err("it does not begin with 'fio version 2 iolog' or 3".into()),
    }
}

/// Replays a trace.
#[derive(Debug)]
pub struct Replay {
    iolog: Arc<Iolog>,
    next: usize,
    begun_ns: u64,
    /// Factor on the times between the steps; 0 for no waiting.
    scale: f64,
    /// Distance between two files in the region, B; 0 where all are one.
    file_length: u64,
    offset: u64,
}

impl Replay {
    /// A replay in a region that begins at `offset`, with files of `file_length` bytes; 0 for one file.
    #[must_use]
    pub fn new(iolog: Arc<Iolog>, scale: f64, offset: u64, file_length: u64) -> Self {
        Self { iolog, next: 0, begun_ns: 0, scale, file_length, offset }
    }

    /// Begins anew.
    pub fn restart(&mut self, now_ns: u64) {
        (self.next, self.begun_ns) = (0, now_ns);
    }

    /// Whether no step is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next >= self.iolog.0.len()
    }

    /// When the next step is due.
    #[must_use]
    pub fn due_ns(&self) -> u64 {
        match self.iolog.0.get(self.next) {
            Some(&(at, _)) => self.begun_ns.saturating_add((at as f64 * self.scale) as u64),
            None => u64::MAX,
        }
    }

    /// Whether each step starts at its recorded time.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.scale > 0.0
    }

    /// The next step, as a place in the region.
    pub fn step(&mut self) -> Option<Step> {
        let &(_, step) = self.iolog.0.get(self.next)?;
        self.next += 1;
        Some(match step {
            Step::Transfer { file, offset, length, write } => {
                let place = if self.file_length > 0 { file as u64 * self.file_length } else { 0 };
                Step::Transfer { file, offset: self.offset + place + offset, length, write }
            }
            sync @ Step::Sync(_) => sync,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_down_is_read_again() {
        let mut trace = TraceRecorder::new();
        trace.restart(1000);
        trace.add(6000, 0, false, 4096);
        trace.add(9500, 8192, true, 512);
        let scratch = crate::storage::scratch::Scratch::new("trace");
        let path = scratch.path("log");
        write_iolog(&path, &[trace], "read", &["a b".replace(' ', "_")], false, |_, offset| (0, offset)).unwrap();
        let iolog = Iolog::read(&path, "").unwrap();
        let transfer = |offset, length, write| Step::Transfer { file: 0, offset, length, write };
        assert_eq!(iolog.0, [(5000, transfer(0, 4096, false)), (8000, transfer(8192, 512, true))]);
        let mut replay = Replay::new(Arc::new(iolog), 0.5, 100, 0);
        replay.restart(7);
        assert_eq!((replay.due_ns(), replay.step()), (2507, Some(transfer(100, 4096, false))));
        assert_eq!((replay.due_ns(), replay.step()), (4007, Some(transfer(8292, 512, true))));
        assert!(replay.is_over() && replay.step().is_none() && replay.due_ns() == u64::MAX);
    }

    #[test]
    fn the_second_version_waits_and_syncs() {
        let text = "fio version 2 iolog\nx add\nx open\nx wait 250\nx write 0 4096\nx sync 0 0\ny add\ny datasync\ny read 4096 10\nx close\n";
        let read = Iolog::parse(text, "").unwrap().0;
        let at: Vec<u64> = read.iter().map(|step| step.0).collect();
        assert_eq!(at, [250_000; 4]);
        assert_eq!((read[1].1, read[2].1), (Step::Sync(true), Step::Sync(false)));
        assert_eq!(Iolog::parse(text, "sync, read").unwrap().0.len(), 2);
        assert_eq!(read[3].1, Step::Transfer { file: 1, offset: 4096, length: 10, write: false });
    }

    #[test]
    fn what_is_no_trace_is_named_by_its_line() {
        for (text, says) in [
            ("", "does not begin"),
            ("fio version 3 iolog\n", "no step"),
            ("fio version 3 iolog\n1 x add\n2 x read 0\n", "line 3"),
            ("fio version 3 iolog\n1 x read 0 4096\n", "never added"),
            ("fio version 2 iolog\nx add\nx trim 0 4096\n", "replay_skip"),
            ("fio version 2 iolog\nx add\nx read 0 0\n", "line 3"),
        ] {
            assert!(Iolog::parse(text, "").unwrap_err().contains(says), "{text}");
        }
    }
}
