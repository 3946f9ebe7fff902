"""Plays an older kernel: a seccomp filter refuses the system calls that it lacks, and then a program is started.

``python old_kernel.py 5.4 PROGRAM ARGUMENT…``; the filter stays with all that the program starts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from collections.abc import Sequence

SINCE = {
    "5.6": {"io_uring_register (from probes on)": 427, "openat2": 437, "pidfd_getfd": 438},
    "5.8": {"faccessat2": 439},
    "5.9": {"close_range": 436},
    "5.10": {"process_madvise": 440},
    "5.11": {"epoll_pwait2": 441},
    "5.16": {"futex_waitv": 449},
    "6.5": {"cachestat": 451},
}
"""The system calls that came with a kernel (their numbers are the same on x86_64 and aarch64 from 424 on)."""
BEFORE_5_1 = {"io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "clone3": 435, "pidfd_open": 434}
IN_3_10 = (316, 318, 319, 322, 323, 324, 325, 326, 327, 328, 332)
"""x86_64 from renameat2 to statx: what came after the kernel of RHEL 7."""

LOAD, JUMP_EQUAL, JUMP_LESS, RETURN = 0x20, 0x15, 0x35, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
PROBE = 8
"""IORING_REGISTER_PROBE, the first operation of io_uring_register that kernel 5.6 added."""
FIRST_ARGUMENT = 24
"""Offset in ``struct seccomp_data``: the low half of the second argument."""
NO_NEW_PRIVILEGES, SET_SECCOMP, FILTER = 38, 22, 2

KERNELS = ("5.4", "3.10", "container")


def instructions(kernel: str) -> list[tuple[int, int, int, int]]:
    """The filter as classic BPF: code, jump if true, jump if false, constant (seccomp(2))."""
    refuse = REFUSE | errno.ENOSYS
    program = [(LOAD, 0, 0, 0)]
    if kernel == "container":  # Docker's default profile
        return [*program, *_refused((425, 426, 427), REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    newer = [number for calls in SINCE.values() for number in calls.values() if number != 427]
    if kernel == "3.10":
        old = IN_3_10 if platform.machine() == "x86_64" else ()
        return [*program, *_refused([*newer, *BEFORE_5_1.values(), *old], refuse), (RETURN, 0, 0, ALLOW)]
    program += _refused(newer, refuse)
    program += [
        (JUMP_EQUAL, 0, 3, 427),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_LESS, 0, 1, PROBE),
        (RETURN, 0, 0, REFUSE | errno.EINVAL),
    ]
    return [*program, (RETURN, 0, 0, ALLOW)]


def _refused(numbers: Sequence[int], action: int) -> list[tuple[int, int, int, int]]:
    return [line for number in numbers for line in ((JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, action))]


def install(kernel: str) -> None:
    """Refuse to this process and its children what the kernel lacks; raises ``OSError``."""
    lines = b"".join(struct.pack("HBBI", *line) for line in instructions(kernel))
    code = ctypes.create_string_buffer(lines, len(lines))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    program = Program(len(lines) // 8, ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    for call in ((NO_NEW_PRIVILEGES, 1, 0, 0, 0), (SET_SECCOMP, FILTER, ctypes.byref(program), 0, 0)):
        if library.prctl(*call):
            raise OSError(ctypes.get_errno(), "a seccomp filter is refused here")


if __name__ == "__main__":
    install(sys.argv[1])
    os.execv(sys.argv[2], sys.argv[2:])
