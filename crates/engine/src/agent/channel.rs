//! An agent's input and output with a time limit for each line, so that a coordinator that stops in the middle of one, or reads no
//! answer, does not keep the agent for ever.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::{read, write, Errno};

use crate::sys::net::wait;

/// Limit for a line from its first byte to its last.
const LINE: Duration = Duration::from_secs(30);
/// Interval at which a waiting input looks whether the output is stuck.
const LOOK: Duration = Duration::from_millis(500);
/// Bytes that a pipe takes at once where it can be written (`PIPE_BUF`).
const PIECE: usize = 4096;

/// Where requests come from.
pub trait Input: BufRead {
    /// Called with whether a line has begun and is not whole.
    fn in_line(&self, _begun: bool) {}
}

/// A descriptor as an input: its end is also that of a line that is not whole in time, or of an output that is stuck.
pub struct Requests<D> {
    reader: BufReader<Timed<D>>,
    begun: Rc<Cell<Option<Instant>>>,
}

struct Timed<D> {
    descriptor: D,
    limit: Duration,
    begun: Rc<Cell<Option<Instant>>>,
    is_stuck: Arc<AtomicBool>,
}

/// A descriptor as an output; a line that is not taken in time is the last one.
pub struct Answers<D> {
    descriptor: D,
    limit: Duration,
    begun: Option<Instant>,
    is_stuck: Arc<AtomicBool>,
}

/// Both ends of the connection to a coordinator.
pub fn channel<I: AsFd, O: AsFd>(input: I, output: O) -> (Requests<I>, Answers<O>) {
    limited(input, output, LINE)
}

fn limited<I: AsFd, O: AsFd>(input: I, output: O, limit: Duration) -> (Requests<I>, Answers<O>) {
    let (begun, is_stuck) = (Rc::new(Cell::new(None)), Arc::new(AtomicBool::new(false)));
    let timed = Timed { descriptor: input, limit, begun: Rc::clone(&begun), is_stuck: Arc::clone(&is_stuck) };
    let answers = Answers { descriptor: output, limit, begun: None, is_stuck };
    (Requests { reader: BufReader::with_capacity(1 << 16, timed), begun }, answers)
}

impl<D: AsFd> Read for Timed<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.is_stuck.load(Ordering::Acquire) {
                return Ok(0);
            }
            let passed = self.begun.get().map_or(Duration::ZERO, |begun| begun.elapsed());
            if passed > self.limit {
                eprintln!("hwdyno-engine: a request was not whole within {} s", self.limit.as_secs_f64());
                return Ok(0);
            }
            if wait(&self.descriptor, false, LOOK.min(self.limit))? {
                match read(&self.descriptor, &mut *buffer) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    found => return found.map_err(io::Error::from),
                }
            }
        }
    }
}

impl<D: AsFd> Read for Requests<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl<D: AsFd> BufRead for Requests<D> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        // No answer would be read to what came before.
        if self.reader.get_ref().is_stuck.load(Ordering::Acquire) {
            return Ok(&[]);
        }
        self.reader.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.reader.consume(amount);
    }
}

impl<D: AsFd> Input for Requests<D> {
    fn in_line(&self, begun: bool) {
        self.begun.set(begun.then(|| self.begun.get().unwrap_or_else(Instant::now)));
    }
}

impl<R: Read> Input for BufReader<R> {}

impl<D: AsFd> Write for Answers<D> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        loop {
            let left = self.limit.saturating_sub(begun.elapsed());
            if left.is_zero() || self.is_stuck.load(Ordering::Acquire) {
                self.is_stuck.store(true, Ordering::Release);
                return Err(io::ErrorKind::TimedOut.into());
            }
            if wait(&self.descriptor, true, left)? {
                match write(&self.descriptor, &bytes[..bytes.len().min(PIECE)]) {
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    written => return written.map_err(io::Error::from),
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begun = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::pipe;

    use super::*;
    use crate::agent::serve;

    const SHORT: Duration = Duration::from_millis(200);

    fn ends(sent: &[u8], reads: bool) -> Duration {
        let ((input, to_agent), (from_agent, output)) = (pipe().unwrap(), pipe().unwrap());
        let began = Instant::now();
        let agent = std::thread::spawn(move || {
            let (requests, answers) = limited(input, output, SHORT);
            serve(requests, answers);
        });
        let reader = reads.then(|| {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while read(&from_agent, &mut buffer).is_ok_and(|length| length > 0) {}
            })
        });
        let mut from = 0;
        while from < sent.len() && !agent.is_finished() {
            if wait(&to_agent, true, LOOK).unwrap() {
                from += write(&to_agent, &sent[from..sent.len().min(from + PIECE)]).unwrap_or(sent.len());
            }
        }
        agent.join().unwrap();
        let took = began.elapsed();
        drop(to_agent);
        if let Some(reader) = reader {
            reader.join().unwrap();
        }
        took
    }

    #[test]
    fn a_request_that_is_not_whole_in_time_is_the_end() {
        let took = ends(b"{\"id\": 1, \"do\": \"clock\"}\n{\"id\": 2, ", true);
        assert!(took >= SHORT && took < 20 * SHORT, "{took:?}");
    }

    #[test]
    fn a_coordinator_that_reads_no_answer_is_the_end() {
        let took = ends(&b"{\"id\": 1, \"do\": \"kernels\"}\n".repeat(20_000), false);
        assert!(took >= SHORT && took < 50 * SHORT, "{took:?}");
    }
}
