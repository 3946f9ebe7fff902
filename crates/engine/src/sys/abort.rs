//! What a library's abort or crash becomes: the process ends as after a signal that asks it to leave.
//!
//! Where memory ends, a driver's compiler and Rust's own allocator abort, and others follow a null pointer. The thread that
//! does so is kept still, and the guard ends the process; memory that was put aside is given back first, for its clean-up.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::address_space;
use super::exit;

/// The status of an error (`cli/statuses.py`).
pub const ERROR: i32 = 2;
/// Address space for the clean-up; its pages are never touched.
const RESERVE_BYTES: usize = 8 << 20;
const AGAIN: &[u8] = b"hwdyno: a library aborted this process, and then its guard\n";
/// The signals of an abort and of a crash.
const ENDS: [i32; 2] = [libc::SIGABRT, libc::SIGSEGV];

static PIPE: AtomicI32 = AtomicI32::new(-1);
static GUARD: AtomicI32 = AtomicI32::new(-1);
static RESERVE: AtomicPtr<libc::c_void> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn on_abort(signal: libc::c_int) {
    let number = signal as u8;
    // SAFETY: gettid, write, _exit and pause are safe in a handler, and the byte lives as long as the call.
    unsafe {
        let is_guard = libc::gettid() == GUARD.load(Ordering::SeqCst);
        if is_guard || libc::write(PIPE.load(Ordering::SeqCst), (&raw const number).cast(), 1) != 1 {
            libc::write(2, AGAIN.as_ptr().cast(), AGAIN.len());
            libc::_exit(ERROR);
        }
        loop {
            libc::pause();
        }
    }
}

/// Writes the number of the signal into the pipe instead, unless someone else handles it, or `HWDYNO_TRACEBACK` asks for
/// the crash itself.
pub fn hand_over(pipe: RawFd) {
    if std::env::var_os("HWDYNO_TRACEBACK").is_some() {
        return;
    }
    PIPE.store(pipe, Ordering::SeqCst);
    let (none, flags) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a fresh mapping without access touches no memory that exists.
    let reserve = unsafe { libc::mmap(none, RESERVE_BYTES, libc::PROT_NONE, flags, -1, 0) };
    if reserve != libc::MAP_FAILED {
        RESERVE.store(reserve, Ordering::SeqCst);
    }
    for signal in ENDS {
        // SAFETY: sigaction is plain data for which all zeroes is a valid value, and the handler has the type of one
        // without SA_SIGINFO.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut before) == 0;
            if known && before.sa_sigaction == libc::SIG_DFL {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_abort as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// Whether this is the number of such a signal.
#[must_use]
pub fn is_one(number: u8) -> bool {
    ENDS.contains(&i32::from(number))
}

/// Says that the calling thread is the guard, for whose abort nothing can be done.
pub fn this_is_the_guard() {
    // SAFETY: gettid takes nothing and always works.
    GUARD.store(unsafe { libc::gettid() }, Ordering::SeqCst);
}

/// Gives back the memory that was put aside, and says in a line that the process ends, and by which limit.
pub fn announce(number: u8) {
    let reserve = RESERVE.swap(std::ptr::null_mut(), Ordering::SeqCst);
    if !reserve.is_null() {
        // SAFETY: the mapping is ours, and no one else took it out of its place.
        unsafe { libc::munmap(reserve, RESERVE_BYTES) };
    }
    let end = if i32::from(number) == libc::SIGABRT { "aborted this process" } else { "crashed (SIGSEGV)" };
    let cause = match address_space::description() {
        Some(limit) => format!("memory may have ended: {limit}"),
        None => "please report it with what it printed above".into(),
    };
    let line = format!("hwdyno: a library {end}; {cause}\n");
    // SAFETY: writes from memory of ours.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// The status of a process that ends by this signal.
#[must_use]
pub fn status(number: u8) -> i32 {
    if is_one(number) {
        ERROR
    } else {
        exit::STATUS_OF_SIGNAL + i32::from(number)
    }
}
