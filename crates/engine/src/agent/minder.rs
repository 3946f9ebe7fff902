//! A process between the agent and a program: it kills the program and its children when the agent is gone.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;

use rustix::process::{kill_current_process_group, kill_process_group, Pid, Signal};
use rustix::process::{waitid, WaitId, WaitIdOptions};

/// The verb of the bare engine that is this process.
pub const VERB: &str = "mind";
/// Added to a signal's number in the exit status, as shells do.
const SIGNALLED: u8 = 128;

/// Runs a program until it ends, or until the standard input does: then the whole process group is killed.
#[must_use]
pub fn mind(program: &str, arguments: &[&str]) -> ExitCode {
    let guard = || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = kill_current_process_group(Signal::KILL);
    };
    if thread::Builder::new().name("hwdyno-minder".into()).spawn(guard).is_err() {
        return ExitCode::FAILURE;
    }
    match Command::new(program).args(arguments).stdin(Stdio::null()).status() {
        Ok(status) => {
            let signalled = || SIGNALLED + u8::try_from(status.signal().unwrap_or(0)).unwrap_or(0);
            ExitCode::from(status.code().map_or_else(signalled, |code| u8::try_from(code).unwrap_or(u8::MAX)))
        }
        Err(error) => {
            eprintln!("{program} cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts `command`, which is to run [`mind`], as the leader of a process group; its input is the agent's life.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.stdin(Stdio::piped()).process_group(0).spawn()
}

/// Whether it has ended. It stays a zombie, so that its number is not given to another process.
#[must_use]
pub fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    child_pid(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Kills all that is left of its process group; call it before the child is waited for.
pub fn kill_group(child: &Child) {
    if let Some(pid) = child_pid(child) {
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

fn child_pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}
