//! Makes each system call of a short run of every kernel fail, at its every use, and judges what that leads to.
//!
//! `make test` runs a sample, the same each time. `cargo test -p hwdyno-engine --test faults -- --ignored` runs all, and
//! writes the table of counts in `docs/dev/faults.md`; `HWDYNO_FAULTS_CASE=WORD` chooses cases by a part of their names.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "helpers of tests, where a failure is what a panic is for")]

mod calls;
mod cases;
#[path = "../here/mod.rs"]
mod here;
mod judge;
mod tracer;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use calls::{Call, Target};
use cases::{by_defaults, Case, CASES};
use hwdyno_engine::{run, Stop};
use judge::{Left, Outcome};
use serde_json::{json, Value};
use tracer::{Effect, Plan, Trace};

/// Every use of a call is tried up to this one, from there on as many, evenly spread; `HWDYNO_FAULTS_USES` sets another.
const EVERY: u64 = 20;
/// The same for reads of `/proc` and `/sys`, where one file is read as another.
const EVERY_OF_THE_SYSTEM: u64 = 4;
/// The sample is one fault in this many.
const ONE_IN: usize = 480;
/// What left a file behind once, or was not repeated: the sample has all of it.
const ONCE_WRONG: &[(&str, &str, u64)] = &[
    ("storage_patterns write", "fstat", 1),
    ("storage_metadata create", "openat", 3),
    ("training_generate npz", "fstat", 2),
    ("inference_vector_index", "fstat", 2),
    ("inference_kv_cache", "openat", 3),
    ("training_checkpoint", "flock", 1),
    ("network_throughput udp", "sendto", 6),
];
/// The marks around the table of counts in its document.
const TABLE: [&str; 2] = ["<!-- counts -->\n", "<!-- end of counts -->\n"];

/// A case with its folder.
struct Bench<'a> {
    case: &'a Case,
    root: PathBuf,
    /// Files that stay after an undisturbed run.
    undisturbed_files: BTreeSet<String>,
    undisturbed: Value,
}

struct Disturbed {
    trace: Trace,
    output: String,
    errors: String,
}

impl<'a> Bench<'a> {
    /// Prepares the case, and runs it undisturbed: the bench, and the calls that were seen.
    fn new(case: &'a Case, root: PathBuf) -> (Self, Vec<(Call, Target)>) {
        let mut bench = Self { case, root, undisturbed_files: BTreeSet::new(), undisturbed: Value::Null };
        std::fs::create_dir_all(bench.scratch()).unwrap();
        for (kernel, parameters) in case.before {
            run(kernel, &parameters(&bench.scratch()), &Stop::new()).unwrap();
        }
        shell(&format!("cp -a '{}' '{}'", bench.scratch().display(), bench.template().display()));
        let done = bench.disturb(None);
        assert_eq!(done.trace.status, Some(0), "{}: {}", case.name, done.errors);
        bench.undisturbed = serde_json::from_str(&done.output).unwrap();
        assert_eq!(
            bench.undisturbed["faults"].as_array().map_or(0, Vec::len),
            0,
            "{}: {}",
            case.name,
            bench.undisturbed["faults"]
        );
        bench.undisturbed_files = judge::files_below(&bench.scratch());
        bench.undisturbed_files.extend(judge::files_below(&bench.template()));
        (bench, done.trace.calls)
    }

    fn scratch(&self) -> PathBuf {
        self.root.join("scratch")
    }

    fn template(&self) -> PathBuf {
        self.root.join("template")
    }

    fn disturb(&self, plan: Option<Plan>) -> Disturbed {
        let (scratch, template) = (self.scratch(), self.template());
        shell(&format!("rm -rf '{0}' && cp -a '{1}' '{0}'", scratch.display(), template.display()));
        let mut parameters = (self.case.parameters)(&scratch);
        let client = (self.case.kernel() == "network_server").then(|| {
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            parameters["port"] = json!(port);
            std::thread::spawn(move || visit(port))
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_hwdyno-engine"));
        if self.case.kernel() == "survey" {
            command.arg("survey").arg(&scratch);
        } else {
            command.args(["run", self.case.kernel(), &parameters.to_string()]);
        }
        let file = |name: &str| self.root.join(name);
        // What a GPU's library writes is not the survey's.
        command.env("OCL_ICD_VENDORS", &scratch).env("TMPDIR", &scratch).stdin(Stdio::null());
        command.stdout(File::create(file("output")).unwrap()).stderr(File::create(file("errors")).unwrap());
        let trace = tracer::run(command, &scratch, plan).unwrap();
        if let Some(client) = client {
            client.join().unwrap();
        }
        let text = |name: &str| String::from_utf8_lossy(&std::fs::read(file(name)).unwrap()).into_owned();
        Disturbed { trace, output: text("output"), errors: text("errors") }
    }

    fn judged(&self, plan: Plan) -> (Outcome, Disturbed) {
        let done = self.disturb(Some(plan));
        let files = judge::files_below(&self.scratch()).difference(&self.undisturbed_files).cloned().collect();
        let left = Left { trace: &done.trace, output: &done.output, errors: &done.errors, files: &files };
        (judge::judge(self.case, &plan, &left, &self.undisturbed), done)
    }
}

/// A client of the server that is disturbed: as soon as it listens, one short test.
fn visit(port: u16) {
    let parameters = json!({"server": "127.0.0.1", "port": port, "bytes": 1 << 18});
    for _ in 0..40 {
        match run("network_throughput", &parameters, &Stop::new()) {
            Err(error) if error.to_string().contains("refused") => {
                std::thread::sleep(std::time::Duration::from_millis(25));
            }
            _ => return,
        }
    }
}

fn shell(line: &str) {
    assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
}

/// Every fault that is to be planted in a run that made these calls.
fn plans(seen: &[(Call, Target)]) -> Vec<Plan> {
    let mut uses: BTreeMap<Call, Vec<Target>> = BTreeMap::new();
    for (call, target) in seen {
        uses.entry(*call).or_default().push(*target);
    }
    let uses_each = std::env::var("HWDYNO_FAULTS_USES").ok().and_then(|text| text.parse().ok()).unwrap_or(EVERY);
    let mut plans = Vec::new();
    for (call, targets) in uses {
        let mut tried: BTreeMap<Target, u64> = BTreeMap::new();
        for nth in 1..=targets.len() as u64 {
            let target = targets[nth as usize - 1];
            let all = targets.iter().filter(|one| **one == target).count() as u64;
            let number = tried.entry(target).or_default();
            *number += 1;
            let every = if target == Target::System { EVERY_OF_THE_SYSTEM } else { uses_each };
            if *number > every && (*number - every) % (all / every) != 0 {
                continue;
            }
            if !calls::can_fail_on(call, target) {
                continue;
            }
            let mut effects: Vec<Effect> = calls::errors(call).iter().map(|&errno| Effect::Errno(errno)).collect();
            if calls::may_be_short(call) {
                effects.push(Effect::Short);
            }
            if target == Target::Scratch && calls::reaches_files(call) {
                effects.push(Effect::DeviceGone);
                if calls::errors(call).contains(&libc::ENOSPC) {
                    effects.push(Effect::DiskFull);
                }
            }
            let ordinal = *number;
            plans.extend(effects.into_iter().map(|effect| Plan { call, nth, ordinal, effect }));
        }
    }
    plans
}

/// Counts of a case.
#[derive(Default)]
struct Row {
    calls: usize,
    uses: usize,
    runs: usize,
    survived: usize,
    counted: usize,
    refused: usize,
    missed: usize,
    wrong: Vec<String>,
}

impl Row {
    /// A line of the table.
    fn line(&self, name: &str) -> String {
        let Self { calls, uses, runs, survived, counted, refused, missed, ref wrong } = *self;
        let wrong = wrong.len();
        format!("| {name} | {calls} | {uses} | {runs} | {survived} | {counted} | {refused} | {missed} | {wrong} |\n")
    }
}

fn explore(case: &Case, root: &Path, keep: impl Fn(usize, &Plan) -> bool) -> Row {
    let (bench, seen) = Bench::new(case, root.to_path_buf());
    let names: BTreeSet<Call> = seen.iter().map(|(call, _)| *call).collect();
    let mut row = Row { calls: names.len(), uses: seen.len(), ..Row::default() };
    for (at, plan) in plans(&seen).into_iter().enumerate().filter(|(at, plan)| keep(*at, plan)) {
        let (outcome, done) = bench.judged(plan);
        row.runs += 1;
        match outcome {
            Outcome::Survived => row.survived += 1,
            Outcome::Counted => row.counted += 1,
            Outcome::Refused => row.refused += 1,
            Outcome::Missed => row.missed += 1,
            Outcome::Wrong(why) => {
                let target = done.trace.injected.map(|(_, target)| target);
                let said = done.errors.lines().next().unwrap_or_default();
                row.wrong.push(format!(
                    "{}: {} no. {} {:?} on {target:?} (plan {at}): {why} [{said}]",
                    case.name,
                    calls::name(plan.call),
                    plan.nth,
                    plan.effect,
                ));
            }
        }
    }
    let _ = std::fs::remove_dir_all(root);
    row
}

/// All cases on as many threads as there are processors.
fn explore_all(keep: impl Fn(usize, usize, &Plan) -> bool + Sync) -> Vec<(&'static str, Row)> {
    let chosen = std::env::var("HWDYNO_FAULTS_CASE").unwrap_or_default();
    let root = std::env::temp_dir().join(format!("hwdyno-faults-{}", std::process::id()));
    let next = AtomicUsize::new(0);
    let rows: Mutex<BTreeMap<usize, (&str, Row)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| loop {
                let number = next.fetch_add(1, Ordering::SeqCst);
                let Some(case) = CASES.get(number) else { return };
                if !case.name.contains(&chosen) {
                    continue;
                }
                let row = explore(case, &root.join(number.to_string()), |at, plan| keep(number, at, plan));
                eprint!("{}", row.line(case.name));
                for wrong in &row.wrong {
                    eprintln!("  {wrong}");
                }
                rows.lock().unwrap().insert(number, (case.name, row));
            });
        }
    });
    let _ = std::fs::remove_dir_all(root);
    rows.into_inner().unwrap().into_values().collect()
}

fn none_wrong(rows: &[(&str, Row)]) {
    let wrong: Vec<_> = rows.iter().flat_map(|(_, row)| row.wrong.iter().cloned()).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_sample_of_all_faults_is_survived_counted_or_named() {
    if !may_trace() {
        return here::absent("the right to trace a process");
    }
    // A multiplicative hash picks the same faults each time, spread over all cases.
    let hash = |case: usize, at: usize| (case * 7919 + at + 1).wrapping_mul(2_654_435_761) >> 16;
    // A thread that cannot be made once hung a team: there are few such faults, and all are tried.
    let always = |case: usize, plan: &Plan| {
        let is_it = |(name, call, nth): &(&str, &str, u64)| {
            CASES[case].name == *name && calls::name(plan.call) == *call && plan.nth == *nth
        };
        plan.call == Call::System(libc::SYS_clone3) || ONCE_WRONG.iter().any(is_it)
    };
    let rows = explore_all(|case, at, plan| hash(case, at) % ONE_IN == 0 || always(case, plan));
    none_wrong(&rows);
}

#[test]
#[ignore = "some ten thousand runs: the whole table of docs/dev/faults.md"]
fn every_fault_is_survived_counted_or_named() {
    let rows = explore_all(|_, _, _| true);
    let mut table =
        String::from("| run | calls | uses | faults | survived | counted | refused | not reached | wrong |\n");
    table += "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n";
    for (name, row) in &rows {
        table += &row.line(name);
    }
    let total = |of: fn(&Row) -> usize| rows.iter().map(|(_, row)| of(row)).sum::<usize>();
    let _ = writeln!(
        table,
        "| all |  | {} | {} | {} | {} | {} | {} | {} |",
        total(|row| row.uses),
        total(|row| row.runs),
        total(|row| row.survived),
        total(|row| row.counted),
        total(|row| row.refused),
        total(|row| row.missed),
        total(|row| row.wrong.len())
    );
    if rows.len() == CASES.len() {
        publish(&table);
    }
    println!("{table}");
    none_wrong(&rows);
}

/// Puts the table where its document has it.
fn publish(table: &str) {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dev/faults.md");
    let text = std::fs::read_to_string(&document).unwrap();
    let (before, rest) = text.split_once(TABLE[0]).unwrap();
    let (_, after) = rest.split_once(TABLE[1]).unwrap();
    std::fs::write(document, format!("{before}{}{table}{}{after}", TABLE[0], TABLE[1])).unwrap();
}

/// Whether this process may trace its children: some containers forbid it.
fn may_trace() -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hwdyno-engine"));
    command.arg("kernels").stdin(Stdio::null()).stdout(Stdio::null());
    tracer::run(command, Path::new("/nowhere"), None).is_ok()
}

#[test]
fn every_kernel_has_a_case() {
    for kernel in by_defaults() {
        let needs_row = kernel.parameters.iter().any(|parameter| parameter.default.is_null());
        let is_timed = kernel.parameters.iter().any(|parameter| parameter.name == "runtime");
        assert!(is_timed && !needs_row, "{} needs a row in cases.rs", kernel.declaration.name);
    }
}
