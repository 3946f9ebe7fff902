//! A plan measured without Python: the steps of a file that `hwdyno … --plan-for` wrote, read one after the other.
//!
//! The readings are JSON documents, a line each: first the plan with the survey of this machine, then each step's
//! reading with the counters before and after it, then an end, whose absence shows that the measurement was killed.
//! A plan may come from someone else. So it names kernels and numbers only: no device, no file but a data file in a
//! directory of this run's own, which is removed at the end, and no address.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::{json, Map, Value};

use crate::agent::{counters, scratch};
use crate::contract::parameter::Kind;
use crate::{kernels, Error, Stop};

/// The plan's format; it changes with the meaning of a plan.
const PLAN: &str = "hwdyno.engine-plan/1";
/// The format of the readings.
const READINGS: &str = "hwdyno.engine-readings/1";
/// Bytes of the largest plan that is read.
pub const LARGEST_PLAN: u64 = 64 << 20;
/// Parameters of any text that name neither a file nor a device nor an address.
const WORDS: [&str; 5] = ["random_distribution", "bssplit", "bssplit_write", "file_service_type", "steadystate"];
const PATH: &str = "path";

#[derive(Deserialize)]
struct Plan {
    format: String,
    version: String,
    path: Option<PathBuf>,
    #[serde(default)]
    data_bytes: u64,
    #[serde(default)]
    seed: u64,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    kernel: String,
    parameters: Map<String, Value>,
    /// Whether it works on the data file.
    #[serde(default)]
    on_data_file: bool,
}

impl Plan {
    fn read(text: &[u8]) -> Result<Self, Error> {
        let head: Value = serde_json::from_slice(text).map_err(|why| Error::usage(format!("no JSON: {why}")))?;
        if head.get("format").and_then(Value::as_str) != Some(PLAN) {
            return Err(Error::usage(format!("no plan of format {PLAN}; hwdyno … --plan-for SURVEY.json writes one")));
        }
        let plan: Self = serde_json::from_value(head).map_err(|why| Error::usage(format!("no plan: {why}")))?;
        let ours = env!("CARGO_PKG_VERSION");
        if plan.version != ours {
            let made = format!("made by hwdyno {}, and this is hwdyno-engine {ours}", plan.version);
            return Err(Error::usage(format!("{made}; use the same version of both")));
        }
        debug_assert_eq!(plan.format, PLAN);
        plan.steps.iter().try_for_each(Step::check)?;
        if plan.path.is_none() && plan.steps.iter().any(|step| step.on_data_file) {
            return Err(Error::usage("a step needs a data file, and the plan has no path"));
        }
        Ok(plan)
    }
}

impl Step {
    /// Refuses what a plan may not name.
    fn check(&self) -> Result<(), Error> {
        let table = kernels::TABLE.iter().find(|kernel| kernel.name() == self.kernel);
        let info = table.ok_or_else(|| Error::usage(format!("no kernel is called '{}'", self.kernel)))?.info();
        for parameter in &info.parameters {
            let name = parameter.name;
            let given = self.parameters.get(name).filter(|value| !value.is_null() && **value != parameter.default);
            let is_words = !matches!(parameter.kind, Kind::Text) || WORDS.contains(&name);
            if given.is_some() && !is_words {
                return Err(Error::usage(format!("{} may have no {name} in a plan", self.kernel)));
            }
        }
        if !self.on_data_file && info.parameters.iter().any(|parameter| parameter.name == PATH) {
            return Err(Error::usage(format!("{} works on the data file alone in a plan", self.kernel)));
        }
        Ok(())
    }

    fn parameters(&self, data: Option<&Value>) -> Value {
        let mut parameters = self.parameters.clone();
        if let (true, Some(data)) = (self.on_data_file, data) {
            parameters.insert(PATH.into(), data.clone());
        }
        parameters.into()
    }
}

/// Measures the plan in `text` until its end, or until `stop` is set: then the last reading is short.
///
/// # Errors
/// [`Error::Usage`] for a plan that cannot be: nothing was measured. [`Error::Machine`] where the data file cannot be
/// made, or where the readings cannot be written to `output`; what a single step fails with is in its line.
pub fn measure(text: &[u8], output: &mut dyn Write, stop: &Stop) -> Result<(), Error> {
    let plan = Plan::read(text)?;
    let mut write = |document: &Value| {
        writeln!(output, "{document}")
            .and_then(|()| output.flush())
            .map_err(|error| Error::machine("write the readings", &error))
    };
    let root = Path::new("/");
    let survey = crate::survey(root, plan.path.as_deref());
    let whole: Value = serde_json::from_slice(text).map_err(|why| Error::usage(format!("no JSON: {why}")))?;
    write(&json!({"format": READINGS, "plan": whole, "survey": survey, "started_s": seconds()}))?;
    let mut made = scratch::All::default();
    let data = match &plan.path {
        Some(path) if plan.steps.iter().any(|step| step.on_data_file) => Some(lay_out(&plan, path, &mut made, stop)?),
        _ => None,
    };
    for (at, step) in plan.steps.iter().enumerate() {
        if stop.is_set() {
            break;
        }
        let before = counters::read(root);
        let line = match crate::run(&step.kernel, &step.parameters(data.as_ref()), stop) {
            Ok(reading) => {
                json!({"step": at, "before": before, "after": counters::read(root), "reading": reading})
            }
            Err(error) => json!({"step": at, "error": error.to_string()}),
        };
        write(&line)?;
    }
    made.release_all();
    write(&json!({"ended_s": seconds(), "interrupted": stop.is_set()}))
}

/// Makes the data file below `path`: its path.
fn lay_out(plan: &Plan, path: &Path, made: &mut scratch::All, stop: &Stop) -> Result<Value, Error> {
    let claimed = made.claim(path)?;
    let free = claimed["free_bytes"].as_u64().unwrap_or(0);
    if free < plan.data_bytes {
        let short = format!("{} has room for {free} of the {} bytes of the data file", path.display(), plan.data_bytes);
        return Err(Error::Machine(format!("{short}; plan with a smaller --size"), Some(libc::ENOSPC)));
    }
    let data = claimed["data"].clone();
    if plan.data_bytes > 0 {
        let layout = json!({"path": data, "size": plan.data_bytes, "seed": plan.seed});
        crate::run("storage_layout", &layout, stop)?;
    }
    Ok(data)
}

/// The time since 1970, s.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(steps: &Value) -> Vec<u8> {
        let head = json!({"format": PLAN, "version": env!("CARGO_PKG_VERSION"), "path": "/tmp", "steps": steps});
        head.to_string().into_bytes()
    }

    fn refusal(text: &[u8]) -> String {
        let mut output = Vec::new();
        let error = measure(text, &mut output, &Stop::new()).expect_err("refused");
        assert!(output.is_empty() && matches!(error, Error::Usage(_)));
        error.to_string()
    }

    #[test]
    fn a_plan_names_no_file_no_device_and_no_address() {
        for (kernel, parameter, value) in [
            ("storage_blocks", "path", "/dev/sda"),
            ("storage_blocks", "destroy", "/dev/sda"),
            ("storage_blocks", "write_iolog", "/etc/passwd"),
            ("storage_blocks", "journal", "/etc/passwd"),
            ("network_throughput", "server", "192.0.2.7"),
            ("network_server", "bind", "0.0.0.0"),
            ("network_server", "log", "/etc/passwd"),
            ("storage_group", "jobs", "[]"),
        ] {
            let step = json!({"kernel": kernel, "parameters": {parameter: value}, "on_data_file": true});
            let says = refusal(&plan(&json!([step])));
            assert_eq!(says, format!("{kernel} may have no {parameter} in a plan"));
        }
        let says = refusal(&plan(&json!([{"kernel": "training_generate", "parameters": {}}])));
        assert_eq!(says, "training_generate works on the data file alone in a plan");
    }

    #[test]
    fn what_is_no_plan_of_this_version_is_refused_in_one_line() {
        assert!(refusal(b"{").starts_with("no JSON: "));
        assert!(refusal(b"[]").starts_with("no plan of format "));
        assert!(refusal(&plan(&json!(7))).starts_with("no plan: "));
        assert_eq!(refusal(&plan(&json!([{"kernel": "x", "parameters": {}}]))), "no kernel is called 'x'");
        let other = String::from_utf8(plan(&json!([]))).unwrap_or_default();
        let other = other.replace(env!("CARGO_PKG_VERSION"), "0.0.9");
        assert!(refusal(other.as_bytes()).contains("made by hwdyno 0.0.9"));
    }

    #[test]
    fn each_step_is_a_line_between_the_plan_and_the_end_and_the_data_file_goes() {
        let folder = crate::storage::scratch::Scratch::new("measure");
        let steps = json!([
            {"kernel": "idle", "parameters": {"runtime": 0.01}},
            {"kernel": "storage_blocks", "on_data_file": true,
             "parameters": {"rw": "randread", "bs": 4096, "size": 1 << 20, "runtime": 0.02}},
            {"kernel": "idle", "parameters": {"runtime": -1.0}},
        ]);
        let version = env!("CARGO_PKG_VERSION");
        let text = json!({"format": PLAN, "version": version, "path": folder.path(""), "data_bytes": 1 << 20, "seed": 3,
                          "steps": steps, "words": ["storage"]});
        let mut output = Vec::new();
        measure(text.to_string().as_bytes(), &mut output, &Stop::new()).expect("measured");
        let text_lines = String::from_utf8(output).expect("text");
        let lines: Vec<Value> = text_lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0]["plan"], text);
        assert!(lines[0]["survey"]["cpu"].is_object());
        assert!(lines[1]["before"]["proc/stat"].is_string() && lines[1]["after"].is_object());
        assert!(lines[2]["reading"]["streams"][0]["operations"].as_u64().is_some_and(|count| count > 0));
        assert!(lines[3]["error"].as_str().is_some_and(|says| says.contains("runtime")));
        assert_eq!(lines[4]["interrupted"], false);
        assert_eq!(std::fs::read_dir(folder.path("")).expect("listed").count(), 0);
    }

    #[test]
    fn after_a_stop_only_the_end_is_written() {
        let stop = Stop::new();
        stop.set();
        let mut output = Vec::new();
        let text = plan(&json!([{"kernel": "idle", "parameters": {}}]));
        measure(&text, &mut output, &stop).expect("measured");
        let last = String::from_utf8(output).expect("text");
        assert!(last.trim_end().lines().count() == 2 && last.trim_end().ends_with("\"interrupted\":true}"));
    }
}
