//! Runs a program under ptrace and makes one of its system calls fail, from outside: the product has no hook for it.
//!
//! Every system call is seen, those of `io_uring` and of libaio included; the results in their completion queues are
//! rewritten in the program's memory. Register access is of `x86_64` alone.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::Duration;

use crate::calls::{self, Call, Target};

/// A child that has not ended by then hangs.
pub const LIMIT: Duration = Duration::from_secs(20);

const ORIG_RAX: u64 = 15 * 8;
const RAX: u64 = 10 * 8;
/// Offsets of the first six arguments in `struct user_regs_struct`: rdi, rsi, rdx, r10, r8, r9.
const ARGUMENTS: [u64; 6] = [14 * 8, 13 * 8, 12 * 8, 7 * 8, 9 * 8, 8 * 8];

/// What a call is made to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It is not executed and answers this errno.
    Errno(i32),
    /// It moves half of what it could.
    Short,
    /// Every write to the test's files fails with `ENOSPC` from this call on.
    DiskFull,
    /// Every access to the test's files fails with `EIO` from this call on.
    DeviceGone,
}

/// The `nth` use (from 1 on) of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub call: Call,
    pub nth: u64,
    /// Which use on this kind of target that is, from 1 on.
    pub ordinal: u64,
    pub effect: Effect,
}

/// What a run did.
#[derive(Debug, Default)]
pub struct Trace {
    /// The exit status by `waitpid`; none if it was killed for hanging.
    pub status: Option<i32>,
    /// Each call from `main` on, and what it was for; of an unchanged run alone.
    pub calls: Vec<(Call, Target)>,
    /// What was made to fail.
    pub injected: Option<(Call, Target)>,
}

#[repr(C)]
#[derive(Default)]
struct SyscallInfo {
    operation: u8,
    padding: [u8; 3],
    architecture: u32,
    instruction: u64,
    stack: u64,
    words: [u64; 8],
}

const ENTRY: u8 = 1;
const EXIT: u8 = 2;

#[derive(Default)]
struct Thread {
    /// Whether the C library and Rust's runtime have started it; a failure before that ends the process.
    started: bool,
    number: i64,
    arguments: [u64; 6],
    answer: Option<i32>,
    restore: Option<(u64, u64)>,
}

/// A completion queue in the program's memory: where its head, tail and entries are.
#[derive(Default)]
struct Queue {
    tail: u64,
    mask: u64,
    entries: u64,
    base: u64,
    seen: u32,
}

struct Tracer {
    main: i32,
    plan: Option<Plan>,
    counts: HashMap<Call, u64>,
    trace: Trace,
    threads: HashMap<i32, Thread>,
    queues: HashMap<u64, Queue>,
    memory: File,
    armed: bool,
    scratch: String,
}

fn check(answer: i64) -> io::Result<i64> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}

fn ptrace(request: u32, pid: i32, address: u64, data: u64) -> io::Result<i64> {
    // SAFETY: the requests here write to no memory of ours but the buffer that `system_call_of` passes.
    check(unsafe { libc::ptrace(request, pid, address, data) })
}

/// Runs the command to its end, with `plan` carried out; files below `scratch` are the test's.
///
/// # Errors
/// What keeps this process from tracing.
pub fn run(mut command: Command, scratch: &Path, plan: Option<Plan>) -> io::Result<Trace> {
    command.process_group(0);
    // SAFETY: between fork and exec, a plain system call.
    unsafe {
        command.pre_exec(|| ptrace(libc::PTRACE_TRACEME, 0, 0, 0).map(drop));
    }
    let mut child = command.spawn()?;
    let main = child.id() as i32;
    let mut status = 0;
    // SAFETY: `status` is where the call puts it.
    check(i64::from(unsafe { libc::waitpid(main, &raw mut status, libc::__WALL) }))?;
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_EXITKILL;
    ptrace(libc::PTRACE_SETOPTIONS, main, 0, options as u64)?;
    let mut tracer = Tracer {
        main,
        plan,
        counts: HashMap::new(),
        trace: Trace::default(),
        threads: HashMap::from([(main, Thread::default())]),
        queues: HashMap::new(),
        memory: File::options().read(true).write(true).open(format!("/proc/{main}/mem"))?,
        armed: false,
        scratch: scratch.display().to_string(),
    };
    let hung = Arc::new(AtomicBool::new(false));
    let (over, watched) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn({
        let hung = Arc::clone(&hung);
        move || {
            if watched.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                hung.store(true, Ordering::SeqCst);
                // SAFETY: kills the group that the child made.
                unsafe { libc::kill(-main, libc::SIGKILL) };
            }
        }
    });
    ptrace(libc::PTRACE_SYSCALL, main, 0, 0)?;
    let followed = tracer.follow();
    drop(over);
    let _ = watchdog.join();
    let _ = child.wait();
    followed?;
    if hung.load(Ordering::SeqCst) {
        tracer.trace.status = None;
    }
    assert!(tracer.armed || tracer.trace.status.is_none(), "the program was never seen to reach main");
    Ok(tracer.trace)
}

impl Tracer {
    fn follow(&mut self) -> io::Result<()> {
        loop {
            let mut status = 0;
            // SAFETY: `status` is where the call puts it. The group is this child's alone.
            let thread = unsafe { libc::waitpid(-self.main, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
            if thread < 0 {
                let error = io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::ECHILD) => return Ok(()),
                    _ => return Err(error),
                }
            }
            if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
                self.threads.remove(&thread);
                if thread == self.main {
                    self.trace.status = Some(status);
                }
                continue;
            }
            let fresh = !self.threads.contains_key(&thread);
            self.threads.entry(thread).or_default();
            let signal = match (libc::WSTOPSIG(status), status >> 16) {
                (stop, 0) if stop == libc::SIGTRAP | 0x80 => {
                    self.at_system_call(thread);
                    0
                }
                (_, event) if event != 0 => 0,
                (libc::SIGSTOP, _) if fresh => 0,
                (signal, _) => signal,
            };
            let _ = ptrace(libc::PTRACE_SYSCALL, thread, 0, signal as u64); // one that was killed meanwhile is reaped
        }
    }

    fn at_system_call(&mut self, thread: i32) {
        let mut info = SyscallInfo::default();
        let size = std::mem::size_of::<SyscallInfo>() as u64;
        // SAFETY: `info` has the size that is passed.
        if ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size, &raw mut info as u64).is_err() {
            return;
        }
        match info.operation {
            ENTRY => {
                let arguments = std::array::from_fn(|at| info.words[at + 1]);
                self.enters(thread, info.words[0] as i64, arguments);
            }
            EXIT => self.leaves(thread, info.words[0] as i64),
            _ => {}
        }
    }

    fn enters(&mut self, thread: i32, number: i64, arguments: [u64; 6]) {
        let place = self.threads.entry(thread).or_default();
        *place = Thread { started: place.started, number, arguments, ..Thread::default() };
        if !place.started {
            // The last that Rust's runtime does before main, and in a thread before its work.
            let before_main = number == libc::SYS_rt_sigaction && arguments[0] == libc::SIGBUS as u64;
            let before_work = number == libc::SYS_sigaltstack && arguments[0] != 0;
            place.started = if thread == self.main { before_main && arguments[1] != 0 } else { before_work };
            self.armed |= place.started;
            return;
        }
        if !calls::can_fail(number, &arguments) {
            return;
        }
        let Some(effect) = self.effect_on(Call::System(number), &arguments) else { return };
        let place = self.threads.entry(thread).or_default();
        match effect {
            Effect::Short => {
                if let Some(at) = calls::count_argument(number) {
                    let register = ARGUMENTS[at];
                    let _ = ptrace(libc::PTRACE_POKEUSER, thread, register, calls::half(arguments[at]));
                    place.restore = Some((register, arguments[at]));
                }
            }
            Effect::Errno(_) if number == libc::SYS_brk => {
                // It has no errno: one that fails answers the end as it is, as for address 0.
                let _ = ptrace(libc::PTRACE_POKEUSER, thread, ARGUMENTS[0], 0);
                place.restore = Some((ARGUMENTS[0], arguments[0]));
            }
            other => {
                let _ = ptrace(libc::PTRACE_POKEUSER, thread, ORIG_RAX, u64::MAX);
                place.answer = Some(effect_errno(other));
            }
        }
    }

    /// What this use of a call is made to do.
    fn effect_on(&mut self, call: Call, arguments: &[u64; 6]) -> Option<Effect> {
        let uses = self.counts.entry(call).or_default();
        *uses += 1;
        let uses = *uses;
        let Some(plan) = self.plan else {
            let target = self.target(call, arguments);
            self.trace.calls.push((call, target));
            return None;
        };
        if self.trace.injected.is_none() {
            if plan.call != call || plan.nth != uses {
                return None;
            }
            let target = self.target(call, arguments);
            // Threads may come in another order than when it was planned.
            let interrupts = plan.effect == Effect::Errno(libc::EINTR);
            if !calls::can_fail_on(call, target) || interrupts && calls::opens_directory(call, arguments) {
                return None;
            }
            self.trace.injected = Some((call, target));
            return Some(plan.effect);
        }
        let lasts = match plan.effect {
            Effect::DiskFull => calls::takes_space(call, arguments),
            Effect::DeviceGone => calls::reaches_files(call),
            _ => false,
        };
        (lasts && self.target(call, arguments) == Target::Scratch).then_some(plan.effect)
    }

    fn leaves(&mut self, thread: i32, answer: i64) {
        let Some(place) = self.threads.get_mut(&thread) else { return };
        if let Some(errno) = place.answer.take() {
            let _ = ptrace(libc::PTRACE_POKEUSER, thread, RAX, -i64::from(errno) as u64);
            return;
        }
        if let Some((register, value)) = place.restore.take() {
            let _ = ptrace(libc::PTRACE_POKEUSER, thread, register, value);
        }
        let (number, arguments) = (place.number, place.arguments);
        if !self.armed || answer < 0 {
            return;
        }
        match number {
            libc::SYS_io_uring_setup => self.queue_made(answer as u64, arguments[1]),
            libc::SYS_mmap => self.queue_mapped(&arguments, answer as u64),
            libc::SYS_io_uring_enter => self.ring_completions(),
            libc::SYS_io_getevents => {
                for event in 0..answer as u64 {
                    self.completion(Call::AioEvent, arguments[3] + event * 32 + 16, 8);
                }
            }
            _ => {}
        }
    }

    fn word(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        let _ = self.memory.read_at(&mut bytes, at);
        u32::from_ne_bytes(bytes)
    }

    /// Reads `struct io_uring_params`: the offsets of the completion queue begin at byte 80.
    fn queue_made(&mut self, descriptor: u64, parameters: u64) {
        const OFFSETS: u64 = 80;
        let queue = Queue {
            tail: u64::from(self.word(parameters + OFFSETS + 4)),
            mask: u64::from(self.word(parameters + OFFSETS + 8)),
            entries: u64::from(self.word(parameters + OFFSETS + 20)),
            ..Queue::default()
        };
        self.queues.insert(descriptor, queue);
    }

    fn queue_mapped(&mut self, arguments: &[u64; 6], at: u64) {
        const SUBMISSION_ENTRIES: u64 = 0x1000_0000;
        if arguments[5] != SUBMISSION_ENTRIES {
            if let Some(queue) = self.queues.get_mut(&arguments[4]) {
                queue.base = at;
            }
        }
    }

    /// Looks at each ring's new entries: with deferred work they arrive in `io_uring_enter` alone.
    fn ring_completions(&mut self) {
        let mut found = Vec::new();
        let mapped: Vec<u64> = self.queues.iter().filter(|(_, queue)| queue.base != 0).map(|(key, _)| *key).collect();
        for key in mapped {
            let queue = &self.queues[&key];
            let (tail, mask) = (self.word(queue.base + queue.tail), self.word(queue.base + queue.mask));
            let mut seen = queue.seen;
            while seen != tail {
                found.push(queue.base + queue.entries + u64::from(seen & mask) * 16 + 8);
                seen = seen.wrapping_add(1);
            }
            if let Some(queue) = self.queues.get_mut(&key) {
                queue.seen = tail;
            }
        }
        for at in found {
            self.completion(Call::RingCompletion, at, 4);
        }
    }

    /// One completion, whose result of `width` bytes is at `at`.
    fn completion(&mut self, call: Call, at: u64, width: usize) {
        let result = i64::from(self.word(at) as i32);
        let Some(effect) = self.effect_on(call, &[0; 6]) else { return };
        let instead = match effect {
            Effect::Short => calls::half(result.max(0) as u64) as i64,
            other => -i64::from(effect_errno(other)),
        };
        let _ = self.memory.write_at(&instead.to_ne_bytes()[..width], at);
    }

    fn target(&self, call: Call, arguments: &[u64; 6]) -> Target {
        let Call::System(number) = call else { return Target::Scratch };
        let name = match calls::subject(number) {
            calls::Subject::Descriptor(at) => {
                let descriptor = format!("/proc/{}/fd/{}", self.main, arguments[at] as i32);
                if number == libc::SYS_close && Path::new(&descriptor).is_dir() {
                    return Target::Other;
                }
                let link = std::fs::read_link(descriptor);
                link.map(|link| link.display().to_string()).unwrap_or_default()
            }
            calls::Subject::Path(at) => {
                let mut bytes = [0; 256];
                let length = self.memory.read_at(&mut bytes, arguments[at]).unwrap_or(0);
                let end = bytes[..length].iter().position(|&byte| byte == 0).unwrap_or(length);
                let path = String::from_utf8_lossy(&bytes[..end]).into_owned();
                if calls::opens_directory(call, arguments) {
                    return Target::Other; // to list or to remove, where what is left tells
                }
                if path.starts_with('/') || at == 0 {
                    path
                } else {
                    let link = std::fs::read_link(format!("/proc/{}/fd/{}", self.main, arguments[at - 1] as i32));
                    link.map(|link| link.join(path).display().to_string()).unwrap_or_default()
                }
            }
            calls::Subject::Neither => return Target::None,
        };
        Target::of(&name, &self.scratch)
    }
}

fn effect_errno(effect: Effect) -> i32 {
    match effect {
        Effect::Errno(errno) => errno,
        Effect::DiskFull => libc::ENOSPC,
        Effect::DeviceGone | Effect::Short => libc::EIO,
    }
}
