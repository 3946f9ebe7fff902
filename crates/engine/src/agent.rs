//! One host of a site: reads a request a line, answers a JSON document a line, and runs one kernel at a time.
//!
//! A request is `{"id": 1, "do": VERB, …}`; its answer `{"id": 1, "answer": …}` or
//! `{"id": 1, "error": {"kind": "usage" | "machine", "says": …, "errno": …}}`. While a run goes on the other verbs
//! are answered too; `program` is a run of a reference tool. A run with `"hold": true` sends
//! `{"id": 1, "ready": true}` each time that a team of threads is complete, and waits for `start`, which has no separate
//! answer. No input can cause worse than an error document; at the end of the input a run is stopped and scratch
//! directories are removed.

mod channel;
pub(crate) mod counters;
pub mod measure;
mod minder;
mod program;
mod requests;
pub(crate) mod scratch;

use std::io::{self, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{json, Map, Value};

use crate::timing::clock::now_ns;
use crate::timing::start;
use crate::{Error, Stop};
use channel::Input;
pub use minder::{mind, VERB as MIND};

/// Raised when a request or an answer changes its meaning or gets a field.
pub const PROTOCOL: u32 = 4;
/// Longest request; longer ones are read to their end and refused.
pub const LONGEST_LINE: usize = 1 << 20;
/// How long a run may take to end once the input has.
const TIMEOUT: Duration = Duration::from_secs(5);

type Output = Arc<Mutex<Box<dyn Write + Send>>>;

/// Serves the standard input of this process until its end, or until its coordinator is stuck.
pub fn serve_process() {
    let (requests, answers) = channel::channel(io::stdin(), io::stdout());
    serve(requests, answers);
}

/// Serves `input` until its end; `output` gets a greeting first.
pub fn serve(mut input: impl Input, output: impl Write + Send + 'static) {
    let mut agent =
        Agent { output: Arc::new(Mutex::new(Box::new(output))), run: None, scratch: scratch::All::default() };
    agent.send(&json!({"agent": "hwdyno-engine", "protocol": PROTOCOL, "version": env!("CARGO_PKG_VERSION")}));
    loop {
        match read_line(&mut input) {
            Line::Text(bytes) => agent.request(&bytes),
            Line::TooLong => {
                agent.refuse(&Value::Null, &Error::usage(format!("a request is over {LONGEST_LINE} bytes")));
            }
            Line::End => break,
        }
    }
    agent.close();
}

enum Line {
    Text(Vec<u8>),
    TooLong,
    End,
}

/// The next line that is not empty.
fn read_line(input: &mut impl Input) -> Line {
    let (mut line, mut too_long) = (Vec::new(), false);
    loop {
        let piece = match input.fill_buf() {
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Line::End,
        };
        if piece.is_empty() {
            // A last line without its end is a request that was cut off.
            return Line::End;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(piece.len());
        too_long |= line.len() + taken > LONGEST_LINE;
        if !too_long {
            line.extend_from_slice(&piece[..taken]);
        }
        input.consume(taken + usize::from(end.is_some()));
        input.in_line(end.is_none());
        if end.is_some() {
            if too_long {
                return Line::TooLong;
            }
            if !line.trim_ascii().is_empty() {
                return Line::Text(line);
            }
            line.clear();
        }
    }
}

/// A kernel's result, and when it began and ended by the monotonic clock.
#[derive(Serialize)]
struct Ran {
    reading: crate::Reading,
    started_ns: u64,
    ended_ns: u64,
}

#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    id: &'a Value,
    answer: T,
}

/// A kernel or a program that runs on a separate thread.
struct Run {
    stop: Stop,
    done: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Agent {
    output: Output,
    run: Option<Run>,
    scratch: scratch::All,
}

impl Agent {
    fn send(&self, document: &impl Serialize) {
        send(&self.output, document);
    }

    fn refuse(&self, id: &Value, error: &Error) {
        self.send(&refusal(id, error));
    }

    fn request(&mut self, line: &[u8]) {
        let request: Map<String, Value> = match serde_json::from_slice(line) {
            Ok(Value::Object(request)) => request,
            Ok(_) => return self.refuse(&Value::Null, &Error::usage("a request is a JSON object")),
            Err(error) => return self.refuse(&Value::Null, &Error::usage(format!("a request is not JSON: {error}"))),
        };
        let id = requests::id(&request);
        if let Err(error) = requests::check(&request) {
            return self.refuse(&id, &error);
        }
        let answer = match request.get("do").and_then(Value::as_str).unwrap_or("") {
            "run" => self.run_kernel(&id, &request).map(|()| None),
            "program" => self.run_program(&id, &request).map(|()| None),
            "find" => program::find(&request).map(Some),
            "survey" => Ok(Some(crate::survey(Path::new("/"), read_path(&request).as_deref()))),
            "kernels" => Ok(Some(json!(crate::kernels()))),
            "snapshot" => Ok(Some(counters::read(Path::new("/")))),
            "clock" => Ok(Some(json!({"ns": now_ns()}))),
            // No answer: whoever reads it would take the processor from the threads that wait for this moment.
            "start" => requests::whole(&request, "at_ns").map(|at_ns| {
                start::release(at_ns);
                None
            }),
            "stop" => {
                self.stop();
                Ok(Some(json!({})))
            }
            "files" => self.files(&request).map(Some),
            verb => Err(Error::usage(format!("unknown verb '{verb}'"))),
        };
        match answer {
            Ok(Some(answer)) => self.send(&Answer { id: &id, answer }),
            Ok(None) => {}
            Err(error) => self.refuse(&id, &error),
        }
    }

    /// Starts a kernel.
    fn run_kernel(&mut self, id: &Value, request: &Map<String, Value>) -> Result<(), Error> {
        let kernel = request.get("kernel").and_then(Value::as_str).unwrap_or("").to_string();
        let parameters = request.get("parameters").cloned().unwrap_or_else(|| json!({}));
        self.begin(id, request, move |stop| {
            let called_ns = now_ns();
            let reading = crate::run(&kernel, &parameters, stop)?;
            let ended_ns = now_ns();
            let started_ns = start::take_opened_ns().unwrap_or(called_ns);
            Ok(Ran { reading, started_ns, ended_ns })
        })
    }

    /// Starts a reference tool.
    fn run_program(&mut self, id: &Value, request: &Map<String, Value>) -> Result<(), Error> {
        let program = program::Program::of(request)?;
        self.begin(id, request, move |stop| program.run(stop))
    }

    /// Starts `work` on a separate thread, which sends the answer.
    fn begin<T: Serialize>(
        &mut self,
        id: &Value,
        request: &Map<String, Value>,
        work: impl FnOnce(&Stop) -> Result<T, Error> + Send + 'static,
    ) -> Result<(), Error> {
        if let Some(run) = self.run.take_if(|run| run.done.load(Ordering::Acquire)) {
            let _ = run.thread.join();
        }
        if self.run.is_some() {
            return Err(Error::usage("a run is in progress; wait for its answer, or stop it"));
        }
        let (ready_id, ready_output) = (id.clone(), Arc::clone(&self.output));
        if request.get("hold").and_then(Value::as_bool) == Some(true) {
            start::arm(move || send(&ready_output, &json!({"id": ready_id, "ready": true})));
        } else if request.contains_key("start_at_ns") {
            start::arm_at(requests::whole(request, "start_at_ns")?);
        }
        let (stop, done) = (Stop::new(), Arc::new(AtomicBool::new(false)));
        let (id, output) = (id.clone(), Arc::clone(&self.output));
        let (for_thread, ended) = (stop.clone(), Arc::clone(&done));
        let body = move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&for_thread)))
                .unwrap_or_else(|_| Err(Error::Machine("the run panicked; please report it".into(), None)));
            start::disarm();
            let _ = start::take_opened_ns();
            ended.store(true, Ordering::Release);
            match outcome {
                Ok(answer) => send(&output, &Answer { id: &id, answer }),
                Err(error) => send(&output, &refusal(&id, &error)),
            }
        };
        let thread = std::thread::Builder::new().name("hwdyno-run".into()).spawn(body).map_err(|error| {
            start::disarm();
            Error::machine("start a thread for the run", &error)
        })?;
        self.run = Some(Run { stop, done, thread });
        Ok(())
    }

    fn stop(&self) {
        if let Some(run) = &self.run {
            run.stop.set();
            if !run.done.load(Ordering::Acquire) {
                start::disarm();
            }
        }
    }

    fn files(&mut self, request: &Map<String, Value>) -> Result<Value, Error> {
        let path = read_path(request).ok_or_else(|| Error::usage("files needs a path"))?;
        match request.get("action").and_then(Value::as_str).unwrap_or("") {
            "claim" => self.scratch.claim(&path),
            "size" => scratch::size(&path),
            "release" => Ok(json!({"released": self.scratch.release(&path)})),
            action => Err(Error::usage(format!("files has no action '{action}'; known: claim, size, release"))),
        }
    }

    /// Ends a run and leaves nothing behind; a run that does not end is left to the end of the process.
    fn close(mut self) {
        self.stop();
        let until = Instant::now() + TIMEOUT;
        if let Some(run) = self.run.take() {
            while !run.done.load(Ordering::Acquire) && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            if run.done.load(Ordering::Acquire) {
                let _ = run.thread.join();
            }
        }
        self.scratch.release_all();
    }
}

/// A reader that is gone is no fault: the input ends too, then.
fn send(output: &Output, document: &impl Serialize) {
    // In one piece: whoever waits for it wakes for each.
    let mut line = serde_json::to_string(document)
        .unwrap_or_else(|error| refusal(&Value::Null, &Error::usage(error.to_string())).to_string());
    line.push('\n');
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
}

fn refusal(id: &Value, error: &Error) -> Value {
    let (kind, errno) = match error {
        Error::Usage(_) => ("usage", None),
        Error::Machine(_, errno) => ("machine", *errno),
    };
    json!({"id": id, "error": {"kind": kind, "says": error.to_string(), "errno": errno}})
}

fn read_path(request: &Map<String, Value>) -> Option<PathBuf> {
    request.get("path").and_then(Value::as_str).map(PathBuf::from)
}
