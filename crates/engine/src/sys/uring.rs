//! One `io_uring` for some files and one region of memory: probed set-up, registered ring, files and buffers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use io_uring::{opcode, Builder, CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter};

use super::memory::Region;

/// The kernel registers at most 1 GiB in one piece.
const LARGEST_REGISTERED: usize = 1 << 30;
/// The same of buffers in small pages. A registered one goes to the device page by page, and a queue takes 126 to 256
/// segments a request: above that each transfer would be split in two. Of one that is not registered, the kernel joins
/// the pages that are neighbours in memory.
const LARGEST_IN_PIECES: usize = 256 << 10;

/// What a set-up asks of the kernel.
type SetFlags = fn(&mut Builder);

/// Tried in this order until the kernel takes one: each is cheaper an operation than the next.
const SETUPS: [(SetFlags, &str); 5] = [
    (
        |builder| {
            builder.setup_submit_all().setup_single_issuer().setup_coop_taskrun();
            builder.setup_defer_taskrun().setup_no_sqarray();
        },
        "SINGLE_ISSUER|COOP_TASKRUN|DEFER_TASKRUN|NO_SQARRAY",
    ),
    (
        |builder| {
            builder.setup_submit_all().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun();
        },
        "SINGLE_ISSUER|COOP_TASKRUN|DEFER_TASKRUN",
    ),
    (
        |builder| {
            builder.setup_submit_all().setup_single_issuer().setup_coop_taskrun();
        },
        "SINGLE_ISSUER|COOP_TASKRUN",
    ),
    (
        |builder| {
            builder.setup_submit_all().setup_coop_taskrun();
        },
        "COOP_TASKRUN",
    ),
    (|_| {}, "none"),
];

/// The queues of a ring, before anything is registered with it.
pub struct Queues {
    ring: IoUring,
    setup: &'static str,
    polled: bool,
}

impl Queues {
    /// Queues for `depth` transfers at once, with the cheapest set-up that this kernel knows. If `polled`, completions
    /// are looked for at the device, whose queue must allow that (`queue/io_poll`).
    ///
    /// # Errors
    /// Those of `io_uring_setup`: `ENOSYS` or `EPERM` where there is none or it is forbidden.
    pub fn new(depth: u32, polled: bool) -> io::Result<Self> {
        let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
        for (set_flags, setup) in SETUPS {
            let mut builder = IoUring::builder();
            set_flags(builder.setup_clamp());
            if polled {
                builder.setup_iopoll();
            }
            match builder.build(depth) {
                Ok(ring) => return Ok(Self { ring, setup, polled }),
                Err(error) => refusal = error,
            }
            if refusal.raw_os_error() != Some(libc::EINVAL) {
                break; // EINVAL alone means a flag that this kernel does not know
            }
        }
        Err(refusal)
    }
}

/// A ring in use by the thread that set it up.
pub struct Ring<'a> {
    submitter: Submitter<'a>,
    submissions: SubmissionQueue<'a>,
    completions: CompletionQueue<'a>,
    region: &'a Region,
    files: &'a [File],
    fixed_file: bool,
    fixed_buffers: bool,
    setup: &'static str,
    polled: bool,
    prepared: u32,
    in_flight: u32,
    batch: u32,
    calls: u64,
}

impl<'a> Ring<'a> {
    /// A ring for up to `depth` transfers at once between `files` and `region`; transfer `slot` uses the
    /// `slot_length` bytes from `slot * slot_length` on. A call submits at most `batch` transfers.
    pub fn new(
        queues: &'a mut Queues,
        depth: usize,
        files: &'a [File],
        region: &'a Region,
        slot_length: usize,
        batch: u32,
    ) -> Self {
        let (setup, polled) = (queues.setup, queues.polled);
        let (mut submitter, submissions, completions) = queues.ring.split();
        // Each registration that is refused only costs time an operation.
        let _ = submitter.register_ring_fd();
        let descriptors: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        let fixed_file = submitter.register_files(&descriptors).is_ok();
        let buffers: Vec<libc::iovec> = (0..depth)
            .map(|slot| libc::iovec {
                iov_base: region.address(slot * slot_length, slot_length).cast(),
                iov_len: slot_length,
            })
            .collect();
        let pieces = if region.is_huge() { LARGEST_REGISTERED } else { LARGEST_IN_PIECES };
        let fixed_buffers = slot_length <= pieces
            // SAFETY: the region outlives the ring, which is empty when it is dropped.
            && unsafe { submitter.register_buffers(&buffers) }.is_ok();
        Self {
            submitter,
            submissions,
            completions,
            region,
            files,
            fixed_file,
            fixed_buffers,
            setup,
            polled,
            prepared: 0,
            in_flight: 0,
            batch: batch.max(1),
            calls: 0,
        }
    }

    /// Which set-up flags the kernel took.
    #[must_use]
    pub fn setup(&self) -> &'static str {
        self.setup
    }

    /// Whether completions are polled for.
    #[must_use]
    pub fn polled(&self) -> bool {
        self.polled
    }

    /// Whether the file and the buffers are registered.
    #[must_use]
    pub fn registered(&self) -> (bool, bool) {
        (self.fixed_file, self.fixed_buffers)
    }

    /// System calls made so far to submit and to wait.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Puts a transfer of `length` bytes between `offset` in the `file`-th file and `at` in the region into the
    /// batch. At most as many as the ring is deep may be in the batch and in flight together.
    #[inline]
    pub fn prepare(&mut self, slot: u32, file: usize, write: bool, offset: u64, at: usize, length: u32) {
        let (file, flags) = if self.fixed_file {
            (Fd(file as i32), Flags::FIXED_FILE)
        } else {
            (Fd(self.files[file].as_raw_fd()), Flags::empty())
        };
        let address = self.region.address(at, length as usize);
        let buffer = slot as u16;
        let entry: Entry = match (self.fixed_buffers, write) {
            (true, false) => opcode::ReadFixed::new(file, address, length, buffer).offset(offset).build(),
            (true, true) => opcode::WriteFixed::new(file, address, length, buffer).offset(offset).build(),
            (false, false) => opcode::Read::new(file, address, length).offset(offset).build(),
            (false, true) => opcode::Write::new(file, address, length).offset(offset).build(),
        };
        // SAFETY: the file and the bytes stay until the transfer is complete: the ring is emptied before they go.
        let pushed = unsafe { self.submissions.push(&entry.flags(flags).user_data(u64::from(slot))) };
        debug_assert!(pushed.is_ok(), "no more transfers than the ring is deep");
        self.prepared += 1;
    }

    /// Submits the batch.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        self.submissions.sync();
        while self.prepared > 0 {
            let taken = match self.enter(self.prepared.min(self.batch), 0, EnterFlags::empty()) {
                Ok(taken) => taken,
                // The kernel is short of something that completions will free: reap first.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY)) && self.in_flight > 0 =>
                {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            self.prepared -= taken;
            self.in_flight += taken;
            self.submissions.sync();
        }
        Ok(())
    }

    /// Waits until `at_least` transfers, or all in flight, are complete.
    #[inline]
    pub fn wait(&mut self, at_least: u32) -> io::Result<()> {
        if self.prepared > 0 {
            self.submit()?;
        }
        if at_least == 0 && self.in_flight > 0 && self.ready() == 0 {
            // With deferred task work, completions arrive only when they are requested.
            self.enter(0, 0, EnterFlags::GETEVENTS)?;
        }
        while self.ready() < at_least.min(self.in_flight) {
            self.enter(0, at_least.min(self.in_flight), EnterFlags::GETEVENTS)?;
        }
        Ok(())
    }

    #[inline]
    fn ready(&mut self) -> u32 {
        self.completions.sync();
        self.completions.len() as u32
    }

    /// Takes every complete transfer: its slot, and the bytes moved or minus the errno.
    #[inline]
    pub fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        self.completions.sync();
        self.in_flight -= self.completions.len() as u32;
        for completion in &mut self.completions {
            done(completion.user_data() as usize, i64::from(completion.result()));
        }
        self.completions.sync();
    }

    #[inline]
    fn enter(&mut self, submit: u32, least: u32, flags: EnterFlags) -> io::Result<u32> {
        loop {
            self.calls += 1;
            // SAFETY: no argument structure is passed, and every entry that was pushed is valid.
            match unsafe { self.submitter.enter::<libc::sigset_t>(submit, least, flags.bits(), None) } {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer.map(|taken| taken as u32),
            }
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        // The kernel must be done with the buffers before the region can go.
        while self.in_flight > 0 && self.wait(1).is_ok() {
            self.completions(|_, _| ());
        }
    }
}
