//! Signals that ask a process to end, taken one at a time by a thread and not by a handler.

use std::io;
use std::mem::MaybeUninit;

/// Ctrl-C, a request to end, and a terminal that is gone.
const ENDING: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// The signals that end a process, kept from interrupting the calling thread and those that it starts.
pub struct Ending(libc::sigset_t);

impl Ending {
    /// Blocks them, from now on; one that is ignored, as by `nohup`, stays ignored.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn blocked() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset fills the set, which is initialised from then on; the other calls read or change that
        // set and a sigaction of this function's, and give the old mask to no one.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ENDING {
                let mut action: libc::sigaction = std::mem::zeroed();
                let known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
                if known && action.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(set.as_mut_ptr(), signal);
                }
            }
            match libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) {
                0 => Ok(Self(set.assume_init())),
                error => Err(io::Error::from_raw_os_error(error)),
            }
        }
    }

    /// Waits for the next one: its number. None where the system cannot wait.
    #[must_use]
    pub fn next(&self) -> Option<i32> {
        let mut signal = 0;
        // SAFETY: the set was filled by `blocked`, and the number is written into a variable of this function's.
        let refused = unsafe { libc::sigwait(&raw const self.0, &raw mut signal) };
        (refused == 0).then_some(signal)
    }
}
