//! The engine's three verbs for Python, as JSON text in and out, and nothing else.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use hwdyno_engine::{Error, Stop};
use pyo3::create_exception;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(_engine, UsageError, PyValueError, "What was asked for cannot be.");
create_exception!(_engine, MachineError, PyOSError, "What the machine refused.");

/// How often a waiting caller looks for a signal; a look costs about a microsecond.
const LOOK: Duration = Duration::from_millis(50);

fn to_python(error: &Error) -> PyErr {
    match error {
        Error::Usage(says) => UsageError::new_err(says.clone()),
        Error::Machine(says, errno) => MachineError::new_err((errno.unwrap_or(0), says.clone())),
    }
}

fn to_text(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Describes the machine below `root`, and the storage behind `path`, as JSON.
#[pyfunction]
#[pyo3(signature = (root, path=None))]
fn survey(py: Python<'_>, root: PathBuf, path: Option<PathBuf>) -> PyResult<String> {
    let machine = py.allow_threads(|| hwdyno_engine::survey(&root, path.as_deref()));
    to_text(&machine)
}

/// Lists the kernels with their parameters, as JSON.
#[pyfunction]
fn kernels() -> PyResult<String> {
    to_text(&hwdyno_engine::kernels())
}

/// Runs a kernel without the interpreter's lock and gives its reading, as JSON.
///
/// The first interrupt ends the run early with a reading marked `interrupted`; a second one while
/// the run is ending raises `KeyboardInterrupt` at once.
#[pyfunction]
fn run(py: Python<'_>, kernel: String, parameters: &str) -> PyResult<String> {
    let parameters: serde_json::Value = serde_json::from_str(parameters)
        .map_err(|error| UsageError::new_err(format!("the parameters are not JSON: {error}")))?;
    let stop = Stop::new();
    let (sender, receiver) = mpsc::channel();
    let for_thread = stop.clone();
    thread::Builder::new()
        .name("hwdyno-run".into())
        .spawn(move || {
            // The receiver is gone only after a second interrupt: then nobody wants the reading.
            let _ = sender.send(hwdyno_engine::run(&kernel, &parameters, &for_thread));
        })
        .map_err(|error| MachineError::new_err((error.raw_os_error().unwrap_or(0), error.to_string())))?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let answer = py.allow_threads(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(LOOK),
            Err(_) => Err(mpsc::RecvTimeoutError::Disconnected),
        });
        match answer {
            Ok(Ok(reading)) => return to_text(&reading),
            Ok(Err(error)) => return Err(to_python(&error)),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(MachineError::new_err((0, "the measuring thread panicked; please report it")));
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    if stop.is_set() || !raised.is_instance_of::<PyKeyboardInterrupt>(py) {
                        stop.set();
                        return Err(raised);
                    }
                    stop.set();
                }
            }
        }
    }
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("UsageError", module.py().get_type::<UsageError>())?;
    module.add("MachineError", module.py().get_type::<MachineError>())?;
    module.add_function(wrap_pyfunction!(survey, module)?)?;
    module.add_function(wrap_pyfunction!(kernels, module)?)?;
    module.add_function(wrap_pyfunction!(run, module)?)
}
