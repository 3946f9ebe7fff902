//! The bare engine: the three verbs on a command line, a plan of many readings, or an agent on its input and output.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = match words.as_slice() {
        ["survey"] => Ok(hwdyno_engine::survey(Path::new("/"), None)),
        ["survey", path] => Ok(hwdyno_engine::survey(Path::new("/"), Some(Path::new(path)))),
        ["kernels"] => serde_json::to_value(hwdyno_engine::kernels()).map_err(|e| e.to_string()),
        ["serve"] => {
            hwdyno_engine::agent::serve_process();
            return ExitCode::SUCCESS;
        }
        ["measure", plan] => return measure(Path::new(plan)),
        ["--version" | "version"] => {
            println!("hwdyno-engine {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        // The agent's own, for each program that it runs.
        [hwdyno_engine::agent::MIND, program, arguments @ ..] => return hwdyno_engine::agent::mind(program, arguments),
        ["run", kernel] => run(kernel, "{}"),
        ["run", kernel, parameters] => run(kernel, parameters),
        _ => Err("usage: hwdyno-engine survey [PATH] | kernels | run KERNEL ['{\"parameter\": value}'] | \
                  measure PLAN.json > READINGS.jsonl | serve | version"
            .into()),
    };
    match answer {
        Ok(value) => {
            let mut output = std::io::stdout().lock();
            match writeln!(output, "{value}").and_then(|()| output.flush()) {
                // A reader that has seen enough and closed the pipe is no fault.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    eprintln!("hwdyno-engine: the output was not written: {error}");
                    ExitCode::from(2)
                }
                _ => ExitCode::SUCCESS,
            }
        }
        Err(says) => {
            eprintln!("hwdyno-engine: {says}");
            ExitCode::from(2)
        }
    }
}

fn run(kernel: &str, parameters: &str) -> Result<serde_json::Value, String> {
    let parameters = serde_json::from_str(parameters).map_err(|e| format!("the parameters are not JSON: {e}"))?;
    let reading = hwdyno_engine::run(kernel, &parameters, &hwdyno_engine::Stop::new()).map_err(|e| e.to_string())?;
    serde_json::to_value(reading).map_err(|e| e.to_string())
}

/// Measures a plan; Ctrl-C ends it early, with the readings so far and status 130.
fn measure(plan: &Path) -> ExitCode {
    const INTERRUPTED: u8 = 130;
    let stop = hwdyno_engine::Stop::new();
    let outcome = hwdyno_engine::stop_on_signals(&stop)
        .map_err(|error| format!("signals cannot be watched: {error}"))
        .and_then(|()| read(plan))
        .and_then(|text| {
            let mut output = std::io::stdout().lock();
            hwdyno_engine::measure::measure(&text, &mut output, &stop).map_err(|error| error.to_string())
        });
    match outcome {
        Ok(()) if stop.is_set() => ExitCode::from(INTERRUPTED),
        Ok(()) => ExitCode::SUCCESS,
        Err(says) => {
            eprintln!("hwdyno-engine: {}: {says}", plan.display());
            ExitCode::from(2)
        }
    }
}

fn read(plan: &Path) -> Result<Vec<u8>, String> {
    let most = hwdyno_engine::measure::LARGEST_PLAN;
    let mut text = Vec::new();
    let file = std::fs::File::open(plan).map_err(|error| error.to_string())?;
    file.take(most + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > most {
        return Err(format!("a plan has at most {most} bytes"));
    }
    Ok(text)
}
