//! Questions that are answered in a child process, because what answers them may crash, hang or stay in memory.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rustix::pipe::{pipe_with, PipeFlags};

/// An answer is never longer.
const LONGEST_BYTES: usize = 1 << 20;

/// What `answer` gives in a child of this process, which ends right after it.
///
/// # Errors
/// Why there is no answer: the child crashed, it had none in time, or the system has no process for it.
pub fn run_apart(limit: Duration, answer: impl FnOnce() -> String) -> Result<String, String> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("pipe: {error}"))?;
    // SAFETY: the child calls only `answer` and ends by `_exit`; where a lock of another thread holds it up, the
    // parent ends it after the limit.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(format!("fork: {}", std::io::Error::last_os_error()));
    }
    if child == 0 {
        drop(reader);
        alone();
        let text = answer();
        let _ = std::fs::File::from(writer).write_all(text.as_bytes());
        // SAFETY: ends the child without the handlers of the parent.
        unsafe { libc::_exit(0) };
    }
    drop(writer);
    let (text, is_late) = received(std::fs::File::from(reader), limit);
    if is_late {
        // SAFETY: the child is this process's own and has not been waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: waits for that child alone; an interruption by a signal is repeated.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 {
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            break;
        }
    }
    if is_late {
        return Err(format!("no answer within {} s", limit.as_secs_f64()));
    }
    if libc::WIFSIGNALED(status) {
        return Err(format!("it crashed with signal {}", libc::WTERMSIG(status)));
    }
    Ok(text)
}

/// Lets the child go on without this process's signal handlers and output, and end with it.
fn alone() {
    for signal in 1..32 {
        // SAFETY: sets the default; those that cannot be set are refused.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: plain system calls on this process; the null device replaces where a driver may print.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null >= 0 {
            for descriptor in 0..3 {
                libc::dup2(null, descriptor);
            }
        }
    }
}

/// All that comes before the limit, and whether the limit came first.
fn received(mut reader: std::fs::File, limit: Duration) -> (String, bool) {
    let end = Instant::now() + limit;
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut waits = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor that is open.
        let ready = unsafe { libc::poll(&raw mut waits, 1, left.as_millis().min(60_000) as i32) };
        if ready == 0 && left.is_zero() {
            return (String::new(), true);
        }
        if ready > 0 {
            match reader.read(&mut part) {
                Ok(0) | Err(_) => break,
                Ok(count) if bytes.len() + count > LONGEST_BYTES => break,
                Ok(count) => bytes.extend_from_slice(&part[..count]),
            }
        }
    }
    (String::from_utf8_lossy(&bytes).into_owned(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_comes_back_and_a_crash_or_a_hang_is_named() {
        let limit = Duration::from_secs(20);
        assert_eq!(run_apart(limit, || "x".repeat(100_000)).unwrap().len(), 100_000);
        // SAFETY: ends the child alone.
        let crash = run_apart(limit, || unsafe { libc::abort() });
        assert_eq!(crash.unwrap_err(), "it crashed with signal 6");
        let hang = run_apart(Duration::from_millis(100), || {
            std::thread::sleep(Duration::from_secs(60));
            String::new()
        });
        assert_eq!(hang.unwrap_err(), "no answer within 0.1 s");
    }
}
