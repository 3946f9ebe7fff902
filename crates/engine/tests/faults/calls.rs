//! System calls by what they are for, and the errors that each is made to give.

use libc::{
    EACCES, EAGAIN, ECONNREFUSED, ECONNRESET, EINTR, EINVAL, EIO, EMFILE, ENOBUFS, ENOMEM, ENOSPC, ENOSYS, EPERM,
};

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// A system call by its number.
    System(i64),
    /// An entry of a ring's completion queue.
    RingCompletion,
    /// An event of libaio.
    AioEvent,
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A file of the test, or a transfer to one.
    Scratch,
    /// A socket.
    Socket,
    /// What the system says of itself: `/proc`, `/sys`, `/dev`, `/etc`.
    System,
    /// The input, the output or another descriptor.
    Other,
    /// No file at all: memory, threads, time.
    None,
}

impl Target {
    /// The target by the name of a file, as `/proc/PID/fd` shows it.
    pub fn of(name: &str, scratch: &str) -> Self {
        let system = ["/proc", "/sys", "/dev", "/etc", "/run", "/usr"];
        if name.starts_with(scratch) {
            Self::Scratch
        } else if name.starts_with("socket:") {
            Self::Socket
        } else if name.starts_with("/memfd:") {
            Self::None
        } else if system.iter().any(|prefix| name.starts_with(prefix)) {
            Self::System
        } else {
            Self::Other
        }
    }
}

/// Which argument names the file.
#[derive(Clone, Copy)]
pub enum Subject {
    Descriptor(usize),
    Path(usize),
    Neither,
}

/// A call's name, which argument is the file, and which the count of bytes that may be cut.
struct Row(i64, &'static str, Subject, Option<usize>, &'static [i32]);

const READ: &[i32] = &[EIO, EINTR];
const WRITE: &[i32] = &[EIO, ENOSPC, EINTR];
const OPEN: &[i32] = &[EIO, EMFILE, EINTR];
const NAME: &[i32] = &[EIO, EACCES];
const MEMORY: &[i32] = &[ENOMEM];
const WAIT: &[i32] = &[EINTR];
const SOCKET: &[i32] = &[EPERM, ENOBUFS];

use Subject::{Descriptor as Fd, Neither, Path};

const ROWS: &[Row] = &[
    Row(libc::SYS_read, "read", Fd(0), Some(2), READ),
    Row(libc::SYS_pread64, "pread64", Fd(0), Some(2), READ),
    Row(libc::SYS_readv, "readv", Fd(0), None, READ),
    Row(libc::SYS_preadv, "preadv", Fd(0), None, READ),
    Row(libc::SYS_preadv2, "preadv2", Fd(0), None, READ),
    Row(libc::SYS_write, "write", Fd(0), Some(2), WRITE),
    Row(libc::SYS_pwrite64, "pwrite64", Fd(0), Some(2), WRITE),
    Row(libc::SYS_writev, "writev", Fd(0), None, WRITE),
    Row(libc::SYS_pwritev, "pwritev", Fd(0), None, WRITE),
    Row(libc::SYS_copy_file_range, "copy_file_range", Fd(0), Some(4), WRITE),
    Row(libc::SYS_sendfile, "sendfile", Fd(0), Some(3), &[ECONNRESET, EINTR]),
    Row(libc::SYS_splice, "splice", Fd(2), Some(4), &[ECONNRESET, EINTR]),
    Row(libc::SYS_fsync, "fsync", Fd(0), None, WRITE),
    Row(libc::SYS_fdatasync, "fdatasync", Fd(0), None, WRITE),
    Row(libc::SYS_syncfs, "syncfs", Fd(0), None, &[EIO]),
    Row(libc::SYS_sync_file_range, "sync_file_range", Fd(0), None, &[EIO, ENOSPC]),
    Row(libc::SYS_fallocate, "fallocate", Fd(0), None, WRITE),
    Row(libc::SYS_ftruncate, "ftruncate", Fd(0), None, WRITE),
    Row(libc::SYS_fadvise64, "fadvise64", Fd(0), None, &[EINVAL]),
    Row(libc::SYS_lseek, "lseek", Fd(0), None, &[EIO]),
    Row(libc::SYS_flock, "flock", Fd(0), None, &[EINTR, libc::ENOLCK]),
    Row(libc::SYS_ioctl, "ioctl", Fd(0), None, &[libc::ENOTTY, EIO]),
    Row(libc::SYS_fcntl, "fcntl", Fd(0), None, &[EMFILE]),
    Row(libc::SYS_close, "close", Fd(0), None, &[EIO, EINTR]),
    Row(libc::SYS_fstat, "fstat", Fd(0), None, &[EIO]),
    Row(libc::SYS_fstatfs, "fstatfs", Fd(0), None, &[EIO, EINTR]),
    Row(libc::SYS_getdents64, "getdents64", Fd(0), None, &[EIO]),
    Row(libc::SYS_fchmod, "fchmod", Fd(0), None, &[EPERM]),
    Row(libc::SYS_fsetxattr, "fsetxattr", Fd(0), None, &[libc::ENOTSUP, ENOSPC]),
    Row(libc::SYS_fgetxattr, "fgetxattr", Fd(0), None, &[libc::ENOTSUP, EIO]),
    Row(libc::SYS_openat, "openat", Path(1), None, OPEN),
    Row(libc::SYS_openat2, "openat2", Path(1), None, OPEN),
    Row(libc::SYS_statx, "statx", Path(1), None, &[EIO]),
    Row(libc::SYS_newfstatat, "newfstatat", Path(1), None, &[EIO]),
    Row(libc::SYS_faccessat, "faccessat", Path(1), None, NAME),
    Row(libc::SYS_mkdirat, "mkdirat", Path(1), None, WRITE_NAME),
    Row(libc::SYS_unlinkat, "unlinkat", Path(1), None, NAME),
    Row(libc::SYS_renameat2, "renameat2", Path(1), None, WRITE_NAME),
    Row(libc::SYS_renameat, "renameat", Path(1), None, WRITE_NAME),
    Row(libc::SYS_linkat, "linkat", Path(1), None, WRITE_NAME),
    Row(libc::SYS_readlinkat, "readlinkat", Path(1), None, &[EIO]),
    Row(libc::SYS_fchmodat, "fchmodat", Path(1), None, &[EPERM]),
    Row(libc::SYS_utimensat, "utimensat", Path(1), None, NAME),
    Row(libc::SYS_open, "open", Path(0), None, OPEN),
    Row(libc::SYS_stat, "stat", Path(0), None, &[EIO]),
    Row(libc::SYS_lstat, "lstat", Path(0), None, &[EIO]),
    Row(libc::SYS_access, "access", Path(0), None, NAME),
    Row(libc::SYS_mkdir, "mkdir", Path(0), None, WRITE_NAME),
    Row(libc::SYS_rmdir, "rmdir", Path(0), None, NAME),
    Row(libc::SYS_unlink, "unlink", Path(0), None, NAME),
    Row(libc::SYS_rename, "rename", Path(0), None, WRITE_NAME),
    Row(libc::SYS_link, "link", Path(0), None, WRITE_NAME),
    Row(libc::SYS_symlink, "symlink", Path(0), None, WRITE_NAME),
    Row(libc::SYS_chmod, "chmod", Path(0), None, &[EPERM]),
    Row(libc::SYS_readlink, "readlink", Path(0), None, &[EIO]),
    Row(libc::SYS_statfs, "statfs", Path(0), None, &[EIO, EINTR]),
    Row(libc::SYS_io_uring_setup, "io_uring_setup", Neither, None, &[ENOMEM, EPERM, ENOSYS, EMFILE]),
    Row(libc::SYS_io_uring_register, "io_uring_register", Neither, None, &[ENOMEM]),
    Row(libc::SYS_io_uring_enter, "io_uring_enter", Neither, None, &[EINTR, EAGAIN, ENOMEM, EIO]),
    Row(libc::SYS_io_setup, "io_setup", Neither, None, &[EAGAIN, ENOMEM, ENOSYS]),
    Row(libc::SYS_io_submit, "io_submit", Neither, None, &[EINTR, EAGAIN, EIO]),
    Row(libc::SYS_io_getevents, "io_getevents", Neither, None, &[EINTR, EIO]),
    Row(libc::SYS_io_destroy, "io_destroy", Neither, None, &[EINVAL]),
    Row(libc::SYS_socket, "socket", Neither, None, &[EMFILE, EACCES, ENOBUFS]),
    Row(libc::SYS_bind, "bind", Fd(0), None, &[libc::EADDRINUSE, EACCES]),
    Row(libc::SYS_listen, "listen", Fd(0), None, &[libc::EADDRINUSE]),
    Row(libc::SYS_accept4, "accept4", Fd(0), None, &[EMFILE, libc::ECONNABORTED, EINTR]),
    Row(libc::SYS_connect, "connect", Fd(0), None, &[ECONNREFUSED, libc::ETIMEDOUT, libc::ENETUNREACH, EINTR]),
    Row(libc::SYS_sendto, "sendto", Fd(0), Some(2), &[ECONNRESET, ENOBUFS, EINTR]),
    Row(libc::SYS_recvfrom, "recvfrom", Fd(0), Some(2), &[ECONNRESET, EINTR]),
    Row(libc::SYS_sendmsg, "sendmsg", Fd(0), None, &[ECONNRESET, ENOBUFS, EINTR]),
    Row(libc::SYS_recvmsg, "recvmsg", Fd(0), None, &[ECONNRESET, EINTR]),
    Row(libc::SYS_sendmmsg, "sendmmsg", Fd(0), None, &[ECONNREFUSED, ENOBUFS, EINTR]),
    Row(libc::SYS_recvmmsg, "recvmmsg", Fd(0), None, &[ENOMEM, EINTR]),
    Row(libc::SYS_setsockopt, "setsockopt", Fd(0), None, SOCKET),
    Row(libc::SYS_getsockopt, "getsockopt", Fd(0), None, SOCKET),
    Row(libc::SYS_getsockname, "getsockname", Fd(0), None, &[ENOBUFS]),
    Row(libc::SYS_getpeername, "getpeername", Fd(0), None, &[libc::ENOTCONN]),
    Row(libc::SYS_shutdown, "shutdown", Fd(0), None, &[libc::ENOTCONN]),
    Row(libc::SYS_poll, "poll", Neither, None, &[EINTR, ENOMEM]),
    Row(libc::SYS_ppoll, "ppoll", Neither, None, &[EINTR, ENOMEM]),
    Row(libc::SYS_epoll_create1, "epoll_create1", Neither, None, &[EMFILE]),
    Row(libc::SYS_epoll_ctl, "epoll_ctl", Neither, None, MEMORY),
    Row(libc::SYS_epoll_wait, "epoll_wait", Neither, None, WAIT),
    Row(libc::SYS_pipe2, "pipe2", Neither, None, &[EMFILE]),
    Row(libc::SYS_mmap, "mmap", Neither, None, MEMORY),
    Row(libc::SYS_brk, "brk", Neither, None, MEMORY),
    Row(libc::SYS_mremap, "mremap", Neither, None, MEMORY),
    Row(libc::SYS_mprotect, "mprotect", Neither, None, MEMORY),
    Row(libc::SYS_madvise, "madvise", Neither, None, &[EAGAIN, EINVAL]),
    Row(libc::SYS_mlock, "mlock", Neither, None, &[EPERM, ENOMEM]),
    Row(libc::SYS_mincore, "mincore", Neither, None, &[EAGAIN]),
    Row(libc::SYS_msync, "msync", Neither, None, &[EIO, ENOSPC]),
    Row(libc::SYS_mbind, "mbind", Neither, None, &[EPERM, ENOMEM]),
    Row(libc::SYS_clone3, "clone3", Neither, None, &[EAGAIN]),
    Row(libc::SYS_clone, "clone", Neither, None, &[EAGAIN]),
    Row(libc::SYS_futex, "futex", Neither, None, &[EAGAIN]),
    Row(libc::SYS_clock_nanosleep, "clock_nanosleep", Neither, None, WAIT),
    Row(libc::SYS_nanosleep, "nanosleep", Neither, None, WAIT),
    Row(libc::SYS_sched_setaffinity, "sched_setaffinity", Neither, None, &[EPERM, EINVAL]),
    Row(libc::SYS_sched_getaffinity, "sched_getaffinity", Neither, None, &[EINVAL]),
    Row(libc::SYS_getrandom, "getrandom", Neither, None, &[EINTR, ENOSYS]),
    // A process's own limits are only read here, which cannot fail with `EPERM`.
    Row(libc::SYS_prlimit64, "prlimit64", Neither, None, &[]),
    Row(libc::SYS_uname, "uname", Neither, None, &[EPERM]),
    Row(libc::SYS_prctl, "prctl", Neither, None, &[EINVAL]),
    Row(451, "cachestat", Fd(0), None, &[ENOSYS, EIO]),
];

const WRITE_NAME: &[i32] = &[EIO, ENOSPC, EACCES];

/// Calls that cannot fail as they are used, or that belong to the C library's and Rust's start of a thread.
const LEFT_ALONE: &[i64] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_sched_yield,
    libc::SYS_munmap,
    libc::SYS_getrusage,
    libc::SYS_clock_gettime,
    libc::SYS_umask,
    libc::SYS_membarrier,
];

fn row(number: i64) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.0 == number)
}

/// Its name, for the table of counts.
pub fn name(call: Call) -> String {
    match call {
        Call::System(number) => row(number).map_or_else(|| format!("call {number}"), |row| row.1.into()),
        Call::RingCompletion => "io_uring completion".into(),
        Call::AioEvent => "libaio completion".into(),
    }
}

/// Which argument names the file that a call is for.
pub fn subject(number: i64) -> Subject {
    row(number).map_or(Subject::Neither, |row| row.2)
}

/// Which argument counts the bytes.
pub fn count_argument(number: i64) -> Option<usize> {
    row(number).and_then(|row| row.3)
}

/// The errors that a call is made to give.
pub fn errors(call: Call) -> &'static [i32] {
    match call {
        Call::System(number) if LEFT_ALONE.contains(&number) => &[],
        Call::System(number) => row(number).map_or(&[EIO], |row| row.4),
        Call::RingCompletion | Call::AioEvent => &[EIO, ENOSPC],
    }
}

/// Whether less than all can be moved.
pub fn may_be_short(call: Call) -> bool {
    match call {
        Call::System(number) => count_argument(number).is_some(),
        Call::RingCompletion | Call::AioEvent => true,
    }
}

/// Whether what a call is used for can fail.
pub fn can_fail(number: i64, arguments: &[u64; 6]) -> bool {
    let second = arguments[1] as i32;
    match number {
        // To wait may end for no reason, and to wake never fails.
        libc::SYS_futex => {
            let operation = second & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
            matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
        }
        libc::SYS_fcntl => matches!(second, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC | libc::F_SETPIPE_SZ),
        _ => true,
    }
}

/// Whether it can on such a file: directories, and what was not written to, are closed without a fault.
pub fn can_fail_on(call: Call, target: Target) -> bool {
    call != Call::System(libc::SYS_close) || target == Target::Scratch
}

/// Whether a directory is opened, for which no one waits, so that no signal cuts it.
pub fn opens_directory(call: Call, arguments: &[u64; 6]) -> bool {
    call == Call::System(libc::SYS_openat) && arguments[2] & libc::O_DIRECTORY as u64 != 0
}

/// Half of a transfer: whole sectors, as a device's would be, where there are some.
pub fn half(length: u64) -> u64 {
    if length >= 1024 {
        length / 2 / 512 * 512
    } else {
        (length / 2).max(1)
    }
}

/// Whether a call fails on a full disk.
pub fn takes_space(call: Call, arguments: &[u64; 6]) -> bool {
    let Call::System(number) = call else { return true };
    match number {
        libc::SYS_openat => arguments[2] & libc::O_CREAT as u64 != 0,
        libc::SYS_open => arguments[1] & libc::O_CREAT as u64 != 0,
        _ => row(number).is_some_and(|row| row.4.contains(&ENOSPC)),
    }
}

/// Whether a call fails when the device is gone.
pub fn reaches_files(call: Call) -> bool {
    let Call::System(number) = call else { return true };
    !matches!(number, libc::SYS_close | libc::SYS_fcntl | libc::SYS_fadvise64)
        && row(number).is_some_and(|row| row.4.contains(&EIO))
}

/// Whether an error of this call has to show: the call moves data, makes it durable, or makes what it goes to.
pub fn matters(call: Call, target: Target) -> bool {
    let Call::System(number) = call else { return true };
    let word = name(call);
    match target {
        Target::Scratch => !matches!(
            number,
            libc::SYS_close
                | libc::SYS_fcntl
                | libc::SYS_fadvise64
                | libc::SYS_ioctl
                | libc::SYS_fstatfs
                | libc::SYS_statfs
                | libc::SYS_statx
                | libc::SYS_readlink
                | libc::SYS_unlinkat
                | libc::SYS_rmdir
                | libc::SYS_newfstatat
                | libc::SYS_fstat
                | 451
        ),
        // A connection that is not accepted waits until the next try.
        Target::Socket => ["send", "recv", "read", "write", "connect", "bind", "listen", "splice"]
            .iter()
            .any(|one| word.contains(one)),
        Target::System => false,
        Target::Other => word == "write",
        Target::None => matches!(
            number,
            libc::SYS_io_uring_enter
                | libc::SYS_io_submit
                | libc::SYS_io_getevents
                | libc::SYS_msync
                | libc::SYS_clone3
        ),
    }
}
