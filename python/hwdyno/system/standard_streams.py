"""Makes the standard streams of a program safe: none is closed, and one that fails costs no Run."""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any

OUTPUT = "standard output"
"""What an error of writing to it names as its file."""
_NAMES = {1: "stdout", 2: "stderr"}


def take_over() -> None:
    """Open what is closed of stdin, stdout and stderr, and give the latter two as streams that fail once at most.

    Where a descriptor is free, the next file that is opened would take its number, and what is printed would go there.
    """
    for descriptor in (0, *_NAMES):
        if not _is_open(descriptor):
            # Nothing can be written to what is open for reading: a closed stdout stays an error.
            os.set_inheritable(os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY), True)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # as long as the program
    for descriptor, name in _NAMES.items():
        before = getattr(sys, name)
        raw = io.BufferedWriter(_Stream(descriptor, "wb", closefd=False))
        encoding, errors = ("utf-8", "replace") if before is None else (before.encoding, before.errors)
        is_by_line = descriptor == 2 or os.isatty(descriptor)
        setattr(sys, name, io.TextIOWrapper(raw, encoding, errors, line_buffering=is_by_line))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


class _Stream(io.FileIO):
    """A stream of which the first error is raised, if anyone is to know of it; what is written later is lost.

    A terminal may be closed meanwhile, and stderr may have no reader any more: neither may cost a Run.
    """

    def write(self, data: Any) -> int:
        """Write to it while that can be done; an error names the stream as its file."""
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self.fileno())
            if self.fileno() == 2 or error.errno == errno.EIO:
                return len(data)
            raise OSError(error.errno, error.strerror, OUTPUT) from None
