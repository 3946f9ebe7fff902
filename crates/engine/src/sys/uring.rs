//! `io_uring` by its three system calls: probed set-up, registered ring, file and buffers.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::Region;

// Values from include/uapi/linux/io_uring.h, which are the same on every architecture.
const SETUP_IOPOLL: u32 = 1 << 0;
const SETUP_CLAMP: u32 = 1 << 4;
const SETUP_SUBMIT_ALL: u32 = 1 << 7;
const SETUP_COOP_TASKRUN: u32 = 1 << 8;
const SETUP_SINGLE_ISSUER: u32 = 1 << 12;
const SETUP_DEFER_TASKRUN: u32 = 1 << 13;
const SETUP_NO_SQARRAY: u32 = 1 << 16;
const FEATURE_SINGLE_MMAP: u32 = 1 << 0;
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_REGISTERED_RING: u32 = 1 << 4;
const REGISTER_BUFFERS: u32 = 0;
const REGISTER_FILES: u32 = 2;
const REGISTER_RING_FDS: u32 = 20;
const OFFSET_SQ_RING: i64 = 0;
const OFFSET_SQES: i64 = 0x1000_0000;
const OPERATION_READ_FIXED: u8 = 4;
const OPERATION_WRITE_FIXED: u8 = 5;
const OPERATION_READ: u8 = 22;
const OPERATION_WRITE: u8 = 23;
const SQE_FIXED_FILE: u8 = 1;
/// The kernel registers at most 1 GiB in one piece.
const LARGEST_REGISTERED: usize = 1 << 30;

/// Tried in this order until the kernel takes one: each is cheaper an operation than the next.
const SETUPS: [(u32, &str); 5] = [
    (
        SETUP_SUBMIT_ALL | SETUP_SINGLE_ISSUER | SETUP_COOP_TASKRUN | SETUP_DEFER_TASKRUN | SETUP_NO_SQARRAY,
        "SINGLE_ISSUER|COOP_TASKRUN|DEFER_TASKRUN|NO_SQARRAY",
    ),
    (
        SETUP_SUBMIT_ALL | SETUP_SINGLE_ISSUER | SETUP_COOP_TASKRUN | SETUP_DEFER_TASKRUN,
        "SINGLE_ISSUER|COOP_TASKRUN|DEFER_TASKRUN",
    ),
    (SETUP_SUBMIT_ALL | SETUP_SINGLE_ISSUER | SETUP_COOP_TASKRUN, "SINGLE_ISSUER|COOP_TASKRUN"),
    (SETUP_SUBMIT_ALL | SETUP_COOP_TASKRUN, "COOP_TASKRUN"),
    (0, "none"),
];

#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    cqes: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

#[repr(C)]
#[derive(Default)]
struct SetupParameters {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    sq_thread_cpu: u32,
    sq_thread_idle: u32,
    features: u32,
    wq_fd: u32,
    reserved: [u32; 3],
    sq: SubmissionOffsets,
    cq: CompletionOffsets,
}

#[repr(C)]
struct Submission {
    operation: u8,
    flags: u8,
    priority: u16,
    file: i32,
    offset: u64,
    address: u64,
    length: u32,
    operation_flags: u32,
    user_data: u64,
    buffer_index: u16,
    personality: u16,
    splice: i32,
    unused: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Completion {
    user_data: u64,
    result: i32,
    flags: u32,
}

#[repr(C)]
struct ResourceUpdate {
    offset: u32,
    reserved: u32,
    data: u64,
}

/// A mapping of the ring's memory that is given back when dropped.
struct Mapped {
    base: *mut u8,
    length: usize,
}

impl Mapped {
    fn new(ring: &OwnedFd, length: usize, offset: i64) -> io::Result<Self> {
        // SAFETY: a fresh shared mapping of the ring's own file touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                offset,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), length })
    }

    #[allow(clippy::cast_ptr_alignment, reason = "the kernel aligns its counters")]
    /// The shared counter at `offset`.
    fn counter(&self, offset: u32) -> *const AtomicU32 {
        // The kernel aligns and places every counter inside the ring that it sized.
        self.base.wrapping_add(offset as usize).cast::<AtomicU32>().cast_const()
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it outlives the Ring that holds it.
        unsafe { libc::munmap(self.base.cast(), self.length) };
    }
}

/// One ring for some files and one region of memory, used by the thread that made it.
pub struct Ring<'a> {
    fd: OwnedFd,
    enter_fd: i32,
    enter_flags: u32,
    region: &'a Region,
    files: &'a [File],
    fixed_file: bool,
    fixed_buffers: bool,
    setup: &'static str,
    sq_tail: *const AtomicU32,
    sq_mask: u32,
    submissions: *mut Submission,
    cq_head: *const AtomicU32,
    cq_tail: *const AtomicU32,
    cq_mask: u32,
    completions: *const Completion,
    /// Our own copies of the counters that only we move.
    tail: u32,
    head: u32,
    prepared: u32,
    in_flight: u32,
    batch: u32,
    polled: bool,
    calls: u64,
    _rings: Mapped,
    _entries: Mapped,
}

impl<'a> Ring<'a> {
    /// A ring for up to `depth` transfers at once between `files` and `region`; transfer `slot` uses the
    /// `slot_length` bytes from `slot * slot_length` on. A call hands over at most `batch` transfers.
    /// If `polled`, completions are looked for at the device, whose queue must allow that (`queue/io_poll`).
    ///
    /// # Errors
    /// Those of `io_uring_setup`: `ENOSYS` or `EPERM` where there is none or it is forbidden.
    #[allow(clippy::cast_ptr_alignment, reason = "mappings are aligned to pages, and the kernel aligns what is inside")]
    pub fn new(
        depth: u32,
        files: &'a [File],
        region: &'a Region,
        slot_length: usize,
        batch: u32,
        polled: bool,
    ) -> io::Result<Self> {
        let (fd, parameters, setup) = Self::set_up(depth, if polled { SETUP_IOPOLL } else { 0 })?;
        if parameters.features & FEATURE_SINGLE_MMAP == 0 {
            return Err(io::Error::from_raw_os_error(libc::ENOSYS)); // before Linux 5.4
        }
        let submission_end = parameters.sq.array as usize + parameters.sq_entries as usize * size_of::<u32>();
        let completion_end = parameters.cq.cqes as usize + parameters.cq_entries as usize * size_of::<Completion>();
        let rings = Mapped::new(&fd, submission_end.max(completion_end), OFFSET_SQ_RING)?;
        let entries = Mapped::new(&fd, parameters.sq_entries as usize * size_of::<Submission>(), OFFSET_SQES)?;
        if parameters.flags & SETUP_NO_SQARRAY == 0 {
            // Entry i of the queue is submission i, for ever.
            let array = rings.base.wrapping_add(parameters.sq.array as usize).cast::<u32>();
            for index in 0..parameters.sq_entries {
                // SAFETY: the array has sq_entries places inside the mapping.
                unsafe { array.add(index as usize).write(index) };
            }
        }
        // SAFETY: the masks lie inside the mapping and are constant.
        let masks = unsafe {
            (
                (*rings.counter(parameters.sq.ring_mask)).load(Ordering::Relaxed),
                (*rings.counter(parameters.cq.ring_mask)).load(Ordering::Relaxed),
            )
        };
        let mut ring = Self {
            enter_fd: fd.as_raw_fd(),
            enter_flags: 0,
            region,
            files,
            fixed_file: false,
            fixed_buffers: false,
            setup,
            sq_tail: rings.counter(parameters.sq.tail),
            sq_mask: masks.0,
            submissions: entries.base.cast(),
            cq_head: rings.counter(parameters.cq.head),
            cq_tail: rings.counter(parameters.cq.tail),
            cq_mask: masks.1,
            completions: rings.base.wrapping_add(parameters.cq.cqes as usize).cast::<Completion>().cast_const(),
            tail: 0,
            head: 0,
            prepared: 0,
            in_flight: 0,
            batch: batch.max(1),
            polled,
            calls: 0,
            fd,
            _rings: rings,
            _entries: entries,
        };
        ring.register(depth as usize, slot_length);
        Ok(ring)
    }

    fn set_up(depth: u32, more: u32) -> io::Result<(OwnedFd, SetupParameters, &'static str)> {
        let mut refusal = io::Error::from_raw_os_error(libc::EINVAL);
        for (flags, name) in SETUPS {
            let mut parameters = SetupParameters { flags: flags | more | SETUP_CLAMP, ..SetupParameters::default() };
            // SAFETY: `parameters` is a valid io_uring_params that the call reads and fills.
            let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, depth, &raw mut parameters) };
            if answer >= 0 {
                // SAFETY: the call handed us a new descriptor that nobody else owns.
                return Ok((unsafe { OwnedFd::from_raw_fd(answer as i32) }, parameters, name));
            }
            refusal = io::Error::last_os_error();
            if refusal.raw_os_error() != Some(libc::EINVAL) {
                break; // EINVAL alone means a flag that this kernel does not know
            }
        }
        Err(refusal)
    }

    /// Registers what can be: each registration that is refused only costs time an operation.
    fn register(&mut self, depth: usize, slot_length: usize) {
        let call = |operation: u32, argument: *const u8, count: usize| {
            // SAFETY: each caller below hands over as many valid structures as it counts.
            unsafe {
                libc::syscall(libc::SYS_io_uring_register, self.fd.as_raw_fd(), operation, argument, count as u32)
            }
        };
        let mut update = ResourceUpdate { offset: u32::MAX, reserved: 0, data: self.fd.as_raw_fd() as u64 };
        if call(REGISTER_RING_FDS, (&raw mut update).cast_const().cast(), 1) == 1 {
            self.enter_fd = update.offset as i32;
            self.enter_flags = ENTER_REGISTERED_RING;
        }
        let files: Vec<i32> = self.files.iter().map(AsRawFd::as_raw_fd).collect();
        self.fixed_file = call(REGISTER_FILES, files.as_ptr().cast(), files.len()) == 0;
        if slot_length <= LARGEST_REGISTERED {
            let buffers: Vec<libc::iovec> = (0..depth)
                .map(|slot| libc::iovec {
                    iov_base: self.region.address(slot * slot_length, slot_length).cast(),
                    iov_len: slot_length,
                })
                .collect();
            self.fixed_buffers = call(REGISTER_BUFFERS, buffers.as_ptr().cast(), depth) == 0;
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
        let operation = match (self.fixed_buffers, write) {
            (true, false) => OPERATION_READ_FIXED,
            (true, true) => OPERATION_WRITE_FIXED,
            (false, false) => OPERATION_READ,
            (false, true) => OPERATION_WRITE,
        };
        let (file, flags) =
            if self.fixed_file { (file as i32, SQE_FIXED_FILE) } else { (self.files[file].as_raw_fd(), 0) };
        let submission = Submission {
            operation,
            flags,
            priority: 0,
            file,
            offset,
            address: self.region.address(at, length as usize) as u64,
            length,
            operation_flags: 0,
            user_data: u64::from(slot),
            buffer_index: slot as u16,
            personality: 0,
            splice: 0,
            unused: [0; 2],
        };
        // SAFETY: the mask keeps the index below sq_entries; the kernel has consumed what was there, since
        // `submit` hands over everything before more than the ring holds can be prepared.
        unsafe { self.submissions.add((self.tail & self.sq_mask) as usize).write(submission) };
        self.tail = self.tail.wrapping_add(1);
        self.prepared += 1;
    }

    /// Hands the batch to the kernel.
    #[inline]
    pub fn submit(&mut self) -> io::Result<()> {
        // SAFETY: the counter lies in the mapping that this ring holds; Release orders the entries before it.
        unsafe { (*self.sq_tail).store(self.tail, Ordering::Release) };
        while self.prepared > 0 {
            let taken = match self.enter(self.prepared.min(self.batch), 0, 0) {
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
            // With deferred task work, completions arrive only when they are asked for.
            self.enter(0, 0, ENTER_GETEVENTS)?;
        }
        while self.ready() < at_least.min(self.in_flight) {
            self.enter(0, at_least.min(self.in_flight), ENTER_GETEVENTS)?;
        }
        Ok(())
    }

    #[inline]
    fn ready(&self) -> u32 {
        // SAFETY: as in `submit`; Acquire orders the completions' reads after it.
        unsafe { (*self.cq_tail).load(Ordering::Acquire) }.wrapping_sub(self.head)
    }

    /// Takes every complete transfer: its slot, and the bytes moved or minus the errno.
    #[inline]
    pub fn completions(&mut self, mut done: impl FnMut(usize, i64)) {
        let ready = self.ready();
        for step in 0..ready {
            let index = self.head.wrapping_add(step) & self.cq_mask;
            // SAFETY: the mask keeps the index inside the mapping; `ready` says that the kernel filled it.
            let completion = unsafe { self.completions.add(index as usize).read() };
            done(completion.user_data as usize, i64::from(completion.result));
        }
        self.head = self.head.wrapping_add(ready);
        self.in_flight -= ready;
        // SAFETY: as in `submit`; Release hands the places back after they were read.
        unsafe { (*self.cq_head).store(self.head, Ordering::Release) };
    }

    #[inline]
    fn enter(&mut self, submit: u32, least: u32, flags: u32) -> io::Result<u32> {
        loop {
            self.calls += 1;
            // SAFETY: the ring's descriptor (or its registered number) is valid; no argument structure is passed.
            let answer = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_enter,
                    self.enter_fd,
                    submit,
                    least,
                    flags | self.enter_flags,
                    std::ptr::null::<u8>(),
                    0_usize,
                )
            };
            if answer >= 0 {
                return Ok(answer as u32);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
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
