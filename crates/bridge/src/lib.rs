//! The engine's three verbs for Python, as JSON text in and out, its agent, and the watch over the process's signals.

mod document;

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use hwdyno_engine::Error;
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

create_exception!(_engine, UsageError, PyValueError, "What was asked for cannot be.");
create_exception!(_engine, MachineError, PyOSError, "What the machine refused.");

/// How often a waiting caller looks for a signal; a look costs about a microsecond.
const LOOK: Duration = Duration::from_millis(50);

fn to_python(error: &Error) -> PyErr {
    match error {
        Error::Usage(_) => UsageError::new_err(error.to_string()),
        Error::Machine(_, errno) => MachineError::new_err((errno.unwrap_or(0), error.to_string())),
    }
}

fn to_text(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Describes the machine below `root`, and the storage behind `path`, as JSON.
#[pyfunction]
#[pyo3(signature = (root, path=None))]
fn survey(py: Python<'_>, root: PathBuf, path: Option<PathBuf>) -> PyResult<String> {
    let machine = py.detach(|| hwdyno_engine::survey(&root, path.as_deref()));
    to_text(&machine)
}

/// Lists the kernels with their parameters, as JSON.
#[pyfunction]
fn kernels() -> PyResult<String> {
    to_text(&hwdyno_engine::kernels())
}

/// A request to end one run early, from any thread, and whether that run has ended.
#[pyclass(frozen, from_py_object)]
#[derive(Clone, Default)]
struct Stop {
    request: hwdyno_engine::Stop,
    running: Arc<(Mutex<bool>, Condvar)>,
}

impl Stop {
    fn mark_running(&self, is_running: bool) {
        *self.running.0.lock().unwrap_or_else(PoisonError::into_inner) = is_running;
        self.running.1.notify_all();
    }

    /// Waits until the run has ended; false where it has not by the timeout.
    fn ends_within(&self, timeout: Duration) -> bool {
        let running = self.running.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.running.1.wait_timeout_while(running, timeout, |is_running| *is_running);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

#[pymethods]
impl Stop {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Asks the run to end at its next look.
    fn set(&self) {
        self.request.set();
    }

    /// Waits until the run has ended and removed its files; false where it has not by the timeout.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(timeout_s).unwrap_or_default();
        py.detach(|| self.ends_within(timeout))
    }
}

/// Watches this process's signals, even while another library holds the interpreter; see the engine's `guard`.
#[pyclass(frozen)]
struct Guard(hwdyno_engine::guard::Guard);

#[pymethods]
impl Guard {
    /// Begins to watch; the process ends once it was given `limit_s` after a signal that asks it to leave, which comes by
    /// itself where what runs goes on for `halt_s` after a request.
    #[new]
    fn new(limit_s: f64, halt_s: f64) -> PyResult<Self> {
        let [limit, halt] = [limit_s, halt_s].map(|time_s| Duration::try_from_secs_f64(time_s).unwrap_or_default());
        Ok(Self(hwdyno_engine::guard::Guard::new(limit, halt)?))
    }

    /// Where signal handlers write the number of their signal as one byte.
    fn fileno(&self) -> i32 {
        self.0.descriptor()
    }

    /// Whether there is something to keep, so that the first signal is a request.
    fn keep(&self, is_keeping: bool) {
        self.0.keep(is_keeping);
    }

    /// Whether something runs that a request ends.
    fn run(&self, is_running: bool) {
        self.0.run(is_running);
    }

    /// Seconds that the machine gave to this process since the signal that asks it to leave; zero before.
    fn spent_s(&self) -> f64 {
        self.0.spent().as_secs_f64()
    }

    /// Gives no more signals, because the process ends by itself.
    fn end(&self) {
        self.0.end();
    }

    /// Waits for the next signal: its number, and whether the process ends now; none after the end.
    fn next(&self, py: Python<'_>) -> Option<(u8, bool)> {
        py.detach(|| self.0.next_signal()).map(|signal| (signal.number, signal.leaves))
    }
}

/// The chunks of an HTTP body; see the engine's `chunks`.
#[pyclass]
struct Chunks(hwdyno_engine::chunks::Chunks);

#[pymethods]
impl Chunks {
    /// Those of a body that begins at byte `at` of its answer.
    #[new]
    fn new(at: u64) -> Self {
        Self(hwdyno_engine::chunks::Chunks::new(at))
    }

    /// Takes the next bytes, from `at` on: whether the last chunk came; none where these are no chunks.
    fn take(&mut self, bytes: &[u8], at: usize) -> Option<bool> {
        use hwdyno_engine::chunks::Progress;
        match self.0.take(bytes.get(at..).unwrap_or_default()) {
            Progress::More => Some(false),
            Progress::Over => Some(true),
            Progress::Wrong => None,
        }
    }

    /// Ranges of the data, in bytes of the answer: first, and one behind the last.
    fn spans(&self) -> Vec<(u64, u64)> {
        self.0.spans().to_vec()
    }
}

/// What was received: bytes, sizes of its pieces, their moments, an error's number.
type Taken<'py> = (Bound<'py, PyBytes>, Vec<usize>, Vec<u64>, i32);

/// Receives the answers of a server's connections; see the engine's `receiver`.
#[pyclass]
struct Receiver(hwdyno_engine::receiver::Receiver);

#[pymethods]
impl Receiver {
    /// A receiver at the epoll of this descriptor.
    #[new]
    fn new(poll: i32) -> PyResult<Self> {
        Ok(Self(hwdyno_engine::receiver::Receiver::new(poll)?))
    }

    /// Keeps the pieces of a connection from now on, up to `room` bytes; the last one before came at `last_ns`.
    fn follow(&mut self, fd: i32, last_ns: u64, room: usize, goes_on: bool) {
        self.0.follow(fd, last_ns, room, goes_on);
    }

    /// The pieces of a followed connection: bytes, sizes, moments, and the error that ended it; it is followed no more.
    fn take<'py>(&mut self, py: Python<'py>, fd: i32) -> Taken<'py> {
        let found = self.0.take(fd).unwrap_or_default();
        (PyBytes::new(py, &found.bytes), found.sizes, found.times_ns, found.errno)
    }

    /// Waits, without the interpreter's lock, until `until_ns` or until there are connections to serve: theirs.
    fn wait(&mut self, py: Python<'_>, until_ns: u64, fine: bool) -> PyResult<Vec<i32>> {
        Ok(py.detach(|| self.0.wait(until_ns, fine))?)
    }
}

/// The buckets of a packed histogram: their indices and their counts, each as the bytes of `i64`, and the sum of the counts.
#[pyfunction]
fn unpack_histogram<'py>(py: Python<'py>, packed: &str) -> Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64)> {
    let (indices, counts, count) = hwdyno_engine::unpacked(packed)?;
    Some((PyBytes::new(py, &indices), PyBytes::new(py, &counts), count))
}

/// Marks a run as ended also where its thread panics.
struct Running(Stop);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.mark_running(false);
    }
}

/// Runs a kernel without the interpreter's lock and gives its reading, as JSON.
///
/// A `stop` that is set ends the run early with a reading marked `interrupted`. So does a signal whose
/// handler raises `KeyboardInterrupt`; a second one while the run is ending is raised at once.
#[pyfunction]
#[pyo3(signature = (kernel, parameters, stop=None))]
fn run(py: Python<'_>, kernel: String, parameters: &str, stop: Option<Stop>) -> PyResult<String> {
    let parameters: serde_json::Value = serde_json::from_str(parameters)
        .map_err(|error| UsageError::new_err(format!("the parameters are not JSON: {error}")))?;
    let stop = stop.unwrap_or_default();
    stop.mark_running(true);
    let (running, request) = (Running(stop.clone()), stop.request.clone());
    let run = thread::Builder::new()
        .name("hwdyno-run".into())
        .spawn(move || {
            let _running = running;
            hwdyno_engine::run(&kernel, &parameters, &request)
        })
        .map_err(|error| to_python(&Error::threads(1, &error)))?;
    while !py.detach(|| stop.ends_within(LOOK)) {
        if let Err(raised) = py.check_signals() {
            // After a second interrupt no one wants the reading.
            if stop.request.is_set() || !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                stop.request.set();
                return Err(raised);
            }
            stop.request.set();
        }
    }
    match py.detach(|| run.join()) {
        Ok(Ok(reading)) => to_text(&reading),
        Ok(Err(error)) => Err(to_python(&error)),
        Err(_) => Err(MachineError::new_err((0, "the measuring thread panicked; please report it"))),
    }
}

/// The number of the processor that the caller is on now.
#[pyfunction]
fn processor() -> usize {
    hwdyno_engine::processor()
}

/// Serves the process's standard input as one host of a site until its end; see the engine's `agent`.
#[pyfunction]
fn serve(py: Python<'_>) {
    py.detach(hwdyno_engine::agent::serve_process);
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    hwdyno_engine::watch();
    module.add("UsageError", module.py().get_type::<UsageError>())?;
    module.add("MachineError", module.py().get_type::<MachineError>())?;
    module.add_class::<Chunks>()?;
    module.add_class::<Guard>()?;
    module.add_class::<Receiver>()?;
    module.add_class::<Stop>()?;
    module.add_function(wrap_pyfunction!(survey, module)?)?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(processor, module)?)?;
    module.add_function(wrap_pyfunction!(document::document, module)?)?;
    module.add_function(wrap_pyfunction!(unpack_histogram, module)?)?;
    module.add_function(wrap_pyfunction!(serve, module)?)
}
