//! What a fault may lead to, and what it must not.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::calls::{self, Target};
use crate::cases::{Case, WITHOUT_WEIGHT};
use crate::tracer::{Effect, Plan, Trace};

/// What a fault led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The planned call was never reached: the run took another way.
    Missed,
    /// The reading is whole: the call was repeated, or its result is of no weight.
    Survived,
    /// The reading counts it, or has a note about it.
    Counted,
    /// No reading, but one line with the cause.
    Refused,
    /// What must not be, and why.
    Wrong(String),
}

/// What a run left behind.
pub struct Left<'a> {
    pub trace: &'a Trace,
    pub output: &'a str,
    pub errors: &'a str,
    /// Files that neither were there before nor stay after an undisturbed run.
    pub files: &'a BTreeSet<String>,
}

/// Notes by which a reading says that it is not whole.
fn codes(reading: &Value) -> BTreeSet<String> {
    let jobs = reading["details"]["jobs"].as_array().into_iter().flatten();
    let notes = jobs.chain([reading]).flat_map(|one| one["notes"].as_array().into_iter().flatten());
    notes.filter_map(|note| note["code"].as_str().map(str::to_owned)).collect()
}

fn errno(effect: Effect) -> i32 {
    match effect {
        Effect::Errno(errno) => errno,
        Effect::DiskFull => libc::ENOSPC,
        Effect::DeviceGone => libc::EIO,
        Effect::Short => 0,
    }
}

/// The errors that a reading counts, those of the jobs of a group included.
fn counted(reading: &Value) -> Vec<i64> {
    let jobs = reading["details"]["jobs"].as_array().into_iter().flatten();
    let faults = jobs.chain([reading]).flat_map(|one| one["faults"].as_array().into_iter().flatten());
    faults.filter_map(|fault| fault["errno"].as_i64()).collect()
}

/// Whether a reading says that something failed.
fn says_so(reading: &Value, undisturbed: &Value) -> bool {
    let served = !reading["details"]["last_failure"].is_null();
    !counted(reading).is_empty() || served || !codes(reading).is_subset(&codes(undisturbed))
}

/// Judges a run by what it left; `undisturbed` is the reading of a run without faults.
pub fn judge(run: &Case, plan: &Plan, left: &Left, undisturbed: &Value) -> Outcome {
    let wrong = |why: &str| Outcome::Wrong(why.to_owned());
    let Some(status) = left.trace.status else { return wrong("hangs") };
    if left.errors.contains("panicked") || left.output.contains("please report it") {
        return wrong("panics");
    }
    if libc::WIFSIGNALED(status) {
        return Outcome::Wrong(format!("ends by signal {}", libc::WTERMSIG(status)));
    }
    let Some((call, target)) = left.trace.injected else { return Outcome::Missed };
    if !left.files.is_empty() && !names_what_stays(plan, left) {
        return Outcome::Wrong(format!("leaves {}", left.files.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    // What failed may be the other end, in this process: then this one counts what came of it.
    let has_far_end = run.name.starts_with("network_") || run.name.starts_with("object_");
    let retried = plan.effect == Effect::Short || plan.effect == Effect::Errno(libc::EINTR);
    let again = retried || plan.effect == Effect::Errno(libc::EAGAIN);
    match libc::WEXITSTATUS(status) {
        0 => {
            let Ok(reading) = serde_json::from_str::<Value>(left.output) else { return wrong("no whole reading") };
            match says_so(&reading, undisturbed) {
                true if retried && plan.effect != Effect::Short => {
                    let says = (&reading["faults"], &reading["details"]["last_failure"], codes(&reading));
                    Outcome::Wrong(format!("counts a call that is to be repeated: {says:?}"))
                }
                true if !has_far_end && is_misnamed(&counted(&reading), plan) => wrong("counts another error"),
                true => Outcome::Counted,
                false if target == Target::Socket && is_whole(&reading) => Outcome::Survived,
                false if again || !calls::matters(call, target) || weighs_nothing(run, plan) => Outcome::Survived,
                false => wrong("says nothing"),
            }
        }
        2 => {
            let line = left.errors.trim_end();
            let named = |errno: i32| line.contains(&format!("(os error {errno})"));
            // The C library answers EAGAIN where a new thread gets no memory.
            let names_it = named(errno(plan.effect)) || line.contains(" threads; ask for fewer") && named(libc::EAGAIN);
            if line.lines().count() != 1 || !line.starts_with("hwdyno-engine: ") {
                wrong("more than one line")
            } else if retried {
                Outcome::Wrong(format!("gives up a call that is to be repeated: {line}"))
            } else if calls::matters(call, target) && !names_it && !has_far_end {
                Outcome::Wrong(format!("does not name the cause: {line}"))
            } else {
                Outcome::Refused
            }
        }
        other => Outcome::Wrong(format!("status {other}")),
    }
}

/// Whether errors are counted, and none is the one that was planted.
fn is_misnamed(errors: &[i64], plan: &Plan) -> bool {
    !errors.is_empty() && !errors.contains(&i64::from(errno(plan.effect)))
}

/// Whether both ends of a test have reported what they counted, and this one moved what was requested: the sender's
/// bytes count up, the receiver's down, as they end the test. A slow receiver has the last of them when no one counts
/// any more.
fn is_whole(reading: &Value) -> bool {
    let details = &reading["details"];
    let moved = |stream: &Value| {
        let end = if stream["up"] == true { "sent_bytes" } else { "received_bytes" };
        stream[end].as_u64().unwrap_or(0)
    };
    let streams = details["per_stream"].as_array().into_iter().flatten();
    let all = streams.map(moved).sum::<u64>() >= reading["parameters"]["bytes"].as_u64().unwrap_or(0);
    details["server"] == "hwdyno" && all || details["tests"] == 1
}

fn weighs_nothing(case: &Case, plan: &Plan) -> bool {
    let name = calls::name(plan.call);
    WITHOUT_WEIGHT
        .iter()
        .any(|(prefix, call, uses, _)| case.name.starts_with(prefix) && *call == name && uses.contains(&plan.ordinal))
}

/// Whether the device is gone, so that nothing can be removed, and what stays is named.
fn names_what_stays(plan: &Plan, left: &Left) -> bool {
    let says = "could not be removed";
    plan.effect == Effect::DeviceGone && (left.errors.contains(says) || left.output.contains(says))
}

/// Names of all files below a folder.
pub fn files_below(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).into_iter().flatten().flatten() {
            let path = entry.path();
            found.insert(path.strip_prefix(folder).unwrap_or(&path).display().to_string());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            }
        }
    }
    found
}
