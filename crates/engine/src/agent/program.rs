//! A reference tool as a child of the agent: only those of a list, with options of a list, and never through a shell.
//!
//! A minder (`minder`) runs it, so that nothing of it outlives the agent. The host's owner may name each by `HWDYNO_<TOOL>` in the agent's environment; otherwise it is found on its `PATH`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{json, Map, Value};

use crate::agent::minder;
use crate::agent::scratch::working_folder;
use crate::safe_files::Folder;
use crate::sys::time::children_cpu_time;
use crate::timing::clock::now_ns;
use crate::timing::start;
use crate::{Error, Stop};

/// Most of what a program may print to either of its outputs.
pub const MAX_OUTPUT: usize = 8 << 20;
/// Interval at which a running program is checked.
const LOOK: Duration = Duration::from_millis(2);
/// How long the pipes of a killed program may stay open.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What a program gets of the agent's environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LANG"];
/// What a request may set besides.
const SETTABLE: [&str; 3] = ["LC_ALL", "OMP_NUM_THREADS", "OMP_PROC_BIND"];

struct Tool {
    name: &'static str,
    files: &'static [&'static str],
    /// Each a whole argument, or up to `=` one whose value is free.
    arguments: &'static [&'static str],
}

/// fio could run commands (`--exec_prerun`), load libraries (`--ioengine=external`) or serve others, sysbench run a
/// script: arguments that are not listed are refused.
const TOOLS: [Tool; 3] = [
    Tool {
        name: "fio",
        files: &["fio"],
        arguments: &[
            "--name=",
            "--filename=",
            "--allow_file_create=0",
            "--fallocate=none",
            "--rw=",
            "--rwmixread=",
            "--bs=",
            "--iodepth=",
            "--numjobs=",
            "--ioengine=io_uring",
            "--ioengine=libaio",
            "--ioengine=psync",
            "--ioengine=mmap",
            "--direct=",
            "--randrepeat=",
            "--invalidate=",
            "--offset_increment=",
            "--size=",
            "--offset=",
            "--runtime=",
            "--ramp_time=",
            "--startdelay=",
            "--randseed=",
            "--cpus_allowed=",
            "--cpus_allowed_policy=",
            "--end_fsync=",
            "--norandommap",
            "--group_reporting",
            "--thread",
            "--time_based",
            "--output-format=json",
            "--version",
        ],
    },
    // A program called just `stream` may be anything, so the host's owner has to name it.
    Tool { name: "stream", files: &["stream_c.exe", "stream_c"], arguments: &[] },
    Tool {
        name: "sysbench",
        files: &["sysbench"],
        arguments: &[
            "memory",
            "--memory-block-size=",
            "--memory-total-size=",
            "--memory-scope=",
            "--memory-oper=",
            "--memory-access-mode=",
            "--threads=",
            "--time=",
            "run",
            "--version",
        ],
    },
];

/// A request that was checked.
#[derive(Debug)]
pub struct Program {
    tool: &'static str,
    path: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    limit: Duration,
    /// Files that must be there, each with its least length.
    files: Vec<(PathBuf, u64)>,
}

/// Where this host has a tool; none if it is not installed.
///
/// # Errors
/// [`Error::Usage`] for one that is not on the list.
pub fn find(request: &Map<String, Value>) -> Result<Value, Error> {
    Ok(json!({"path": located(find_tool(request)?)}))
}

impl Program {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Error::Usage`] for what an agent does not run, [`Error::Machine`] for a tool that is not installed.
    pub fn of(request: &Map<String, Value>) -> Result<Self, Error> {
        let tool = find_tool(request)?;
        let arguments: Vec<String> = field(request, "arguments")?;
        if let Some(refused) = arguments.iter().find(|one| !tool.allows(one)) {
            return Err(Error::usage(format!("an agent does not run {} with the argument '{refused}'", tool.name)));
        }
        let environment: std::collections::BTreeMap<String, String> = field(request, "environment")?;
        if let Some(refused) = environment.keys().find(|name| !SETTABLE.contains(&name.as_str())) {
            return Err(Error::usage(format!("an agent does not set the environment's {refused}")));
        }
        let timeout_s: f64 = field(request, "timeout_s")?;
        let limit = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| Error::usage(format!("timeout_s {timeout_s} is no length of time")))?;
        let files: std::collections::BTreeMap<PathBuf, u64> = field(request, "files")?;
        let path = located(tool).ok_or_else(|| {
            let hint = format!("install it, or name it by HWDYNO_{} for the agent", tool.name.to_ascii_uppercase());
            Error::Machine(format!("{} is not on this host: {hint}", tool.name), Some(libc::ENOENT))
        })?;
        Ok(Self {
            tool: tool.name,
            path,
            arguments,
            environment: environment.into_iter().collect(),
            limit,
            files: files.into_iter().collect(),
        })
    }

    /// Runs it once, from the common start on, until it ends, its time is over or `stop` is set.
    ///
    /// # Errors
    /// [`Error::Usage`] for a file that is missing or too short, [`Error::Machine`] for a program that cannot be
    /// started, does not end, or prints too much. Its own failure is no error: its status says so.
    pub fn run(&self, stop: &Stop) -> Result<Value, Error> {
        self.check_files()?;
        let private = working_folder()?;
        let before = children_cpu_time();
        start::hold();
        if stop.is_set() {
            return Err(Error::Machine(format!("{} was stopped", self.tool), Some(libc::ECANCELED)));
        }
        let started_ns = now_ns();
        let mut child = self.spawned(private.folder()).map_err(|error| {
            Error::Machine(format!("{} cannot be started: {error}", self.tool), error.raw_os_error())
        })?;
        let too_much = Arc::new(AtomicBool::new(false));
        let outputs = (reader(child.stdout.take(), &too_much), reader(child.stderr.take(), &too_much));
        let why = self.watched(&child, stop, &too_much);
        minder::kill_group(&child);
        let status = child.wait().map_err(|error| Error::machine(format!("wait for {}", self.tool), &error))?;
        let ended_ns = now_ns();
        let (stdout, stderr) = (printed(outputs.0), printed(outputs.1));
        // A last line may have come after the last look.
        let why = why.or_else(|| too_much.load(Ordering::Acquire).then(|| self.too_much()));
        if let Some(error) = why {
            return Err(error);
        }
        let spent = children_cpu_time().since(before);
        Ok(json!({
            "status": status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)),
            "stdout": stdout,
            "stderr": stderr,
            "cpu_s": spent.user_s + spent.system_s,
            "started_ns": started_ns,
            "ended_ns": ended_ns,
        }))
    }

    fn check_files(&self) -> Result<(), Error> {
        for (path, least) in &self.files {
            let (shown, found) = (path.display(), fs::metadata(path).ok().filter(fs::Metadata::is_file));
            let length = found
                .ok_or_else(|| Error::usage(format!("{shown} is no regular file; {} needs one", self.tool)))?
                .len();
            if length < *least {
                return Err(Error::usage(format!("{shown} has {length} bytes and the point needs {least}")));
            }
        }
        Ok(())
    }

    fn spawned(&self, folder: &Folder) -> io::Result<Child> {
        let inherited = INHERITED.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg(minder::VERB)
            .arg(&self.path)
            .args(&self.arguments)
            .env_clear()
            .envs(inherited)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        minder::spawn(&mut command)
    }

    /// Waits for the end of the program; the reason where it has to be killed.
    fn watched(&self, child: &Child, stop: &Stop, too_much: &AtomicBool) -> Option<Error> {
        let until = Instant::now() + self.limit;
        while !minder::has_ended(child) {
            if too_much.load(Ordering::Acquire) {
                return Some(self.too_much());
            }
            if stop.is_set() {
                return Some(Error::Machine(format!("{} was stopped", self.tool), Some(libc::ECANCELED)));
            }
            if Instant::now() >= until {
                let says = format!("{} was killed after {:.0} s", self.tool, self.limit.as_secs_f64());
                return Some(Error::Machine(says, Some(libc::ETIMEDOUT)));
            }
            thread::sleep(LOOK);
        }
        None
    }

    fn too_much(&self) -> Error {
        let says = format!("{} printed more than {} MiB, so it was killed", self.tool, MAX_OUTPUT >> 20);
        Error::Machine(says, Some(libc::EFBIG))
    }
}

impl Tool {
    fn allows(&self, argument: &str) -> bool {
        self.arguments.iter().any(|one| *one == argument || (one.ends_with('=') && argument.starts_with(one)))
    }
}

fn find_tool(request: &Map<String, Value>) -> Result<&'static Tool, Error> {
    let name: String = field(request, "tool")?;
    TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let known: Vec<_> = TOOLS.iter().map(|tool| tool.name).collect();
        Error::usage(format!("an agent runs no program '{name}'; it runs: {}", known.join(", ")))
    })
}

fn field<T: serde::de::DeserializeOwned>(request: &Map<String, Value>, name: &str) -> Result<T, Error> {
    let value = request.get(name).cloned().unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|error| Error::usage(format!("a program's {name}: {error}")))
}

fn located(tool: &Tool) -> Option<PathBuf> {
    let chosen = std::env::var_os(format!("HWDYNO_{}", tool.name.to_ascii_uppercase())).filter(|name| !name.is_empty());
    let names = chosen.map_or_else(|| tool.files.iter().map(OsString::from).collect(), |name| vec![name]);
    let folders: Vec<PathBuf> =
        std::env::var_os("PATH").map(|all| std::env::split_paths(&all).collect()).unwrap_or_default();
    names.iter().map(Path::new).find_map(|name| {
        if name.components().count() > 1 {
            return is_program(name).then(|| name.to_path_buf());
        }
        folders.iter().map(|folder| folder.join(name)).find(|path| is_program(path))
    })
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The thread that reads a pipe.
type Output = Option<thread::JoinHandle<Vec<u8>>>;

/// Reads a pipe on a separate thread, and sets the flag when it holds too much.
fn reader(pipe: Option<impl Read + Send + 'static>, too_much: &Arc<AtomicBool>) -> Output {
    let (mut pipe, too_much) = (pipe?, Arc::clone(too_much));
    let work = move || {
        let mut found = Vec::new();
        let limit = MAX_OUTPUT as u64 + 1;
        let _ = pipe.by_ref().take(limit).read_to_end(&mut found);
        if found.len() > MAX_OUTPUT {
            too_much.store(true, Ordering::Release);
        }
        found
    };
    // Without a thread, the program's output is missing, and its reader says so.
    thread::Builder::new().name("hwdyno-output".into()).spawn(work).ok()
}

/// What was printed, where whoever still has the pipe lets go of it in time.
fn printed(output: Output) -> String {
    let Some(reading) = output else { return String::new() };
    let until = Instant::now() + TIMEOUT;
    while !reading.is_finished() {
        if Instant::now() >= until {
            return String::new();
        }
        thread::sleep(LOOK);
    }
    String::from_utf8_lossy(&reading.join().unwrap_or_default()).into_owned()
}
