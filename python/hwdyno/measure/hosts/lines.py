"""Reads and writes lines between hosts: each has a greatest length and a time by which it is whole."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable

from hwdyno.measure.hosts.messages import MessageError

LINE_S = 30.0
"""Limit for a line from its first byte to its last, however the bytes come."""
PIECE = 1 << 16
"""Bytes read at once: the kernel allocates room for more anew each time."""
_MAX_TAIL, _MAX_PRINTED = 4096, 64 << 20
_LOOK_S = 0.5


class EndOfLinesError(Exception):
    """The other end has closed the connection."""


class LineReader:
    """The lines of a connection."""

    def __init__(self, descriptor: Callable[[], int]) -> None:
        self._descriptor = descriptor
        self._partial = bytearray()
        self._searched = 0
        """Bytes of it that have no end of a line."""
        self._began_s = 0.0
        """When the first byte of the current line came."""

    def next(self, timeout_s: float, max_bytes: int) -> bytes | None:
        """The next line; none if it is not whole in time, and its bytes are kept.

        Raises ``MessageError`` for a line that is too long or takes too long, and ``EndOfLinesError``.
        """
        end_s = time.monotonic() + timeout_s
        while (at := self._partial.find(b"\n", self._searched)) < 0:
            self._searched = len(self._partial)
            if self._searched > max_bytes:
                raise MessageError(f"a message has more than {max_bytes} bytes")
            now_s = time.monotonic()
            if self._partial and now_s - self._began_s > LINE_S:
                raise MessageError(f"a message of {self._searched} bytes so far is not whole after {LINE_S:g} s")
            if not wait_for(self._descriptor(), select.POLLIN, end_s - now_s):
                return None
            try:
                piece = os.read(self._descriptor(), PIECE)
            except BlockingIOError:  # A segment that was discarded after all (select(2)).
                return None
            except OSError:  # A connection that was reset.
                raise EndOfLinesError from None
            if not piece:
                raise EndOfLinesError
            if not self._partial:
                self._began_s = time.monotonic()
            self._partial += piece
            if b"\n" not in piece and time.monotonic() > end_s:
                return None
        if at > max_bytes:
            raise MessageError(f"a message has more than {max_bytes} bytes")
        line = bytes(self._partial[:at])
        del self._partial[: at + 1]
        self._searched, self._began_s = 0, time.monotonic()
        return line


def wait_for(descriptor: int, event: int, timeout_s: float) -> bool:
    """Whether a descriptor can be read or written in time."""
    waiting = select.poll()
    waiting.register(descriptor, event)
    return bool(waiting.poll(max(0.0, timeout_s) * 1000))


def write_line(descriptor: int, line: bytes, timeout_s: float) -> None:
    """Write a line to a pipe that does not block; raises ``OSError``, and ``MessageError`` at the timeout."""
    end_s = time.monotonic() + timeout_s
    view = memoryview(line)
    while view:
        # A pipe that can be written has room for a page (pipe(7)).
        if not wait_for(descriptor, select.POLLOUT, end_s - time.monotonic()):
            raise MessageError(f"it has not read a request within {timeout_s:g} s")
        view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]


def receive_line(connection: socket.socket, max_bytes: int, timeout_s: float) -> bytes:
    """The next line of a connection, and no byte of what follows it.

    Raises ``MessageError`` for one that is too long or not whole in time, ``EndOfLinesError`` and ``OSError``.
    """
    end_s = time.monotonic() + timeout_s
    line = bytearray()
    while True:
        connection.settimeout(max(1e-3, end_s - time.monotonic()))
        try:
            there = connection.recv(PIECE, socket.MSG_PEEK)
            if not there:
                raise EndOfLinesError
            line += connection.recv(there.find(b"\n") + 1 or len(there))
        except TimeoutError:
            raise MessageError(f"a message of {len(line)} bytes so far is not whole after {timeout_s:g} s") from None
        if len(line) > max_bytes:
            raise MessageError(f"a message has more than {max_bytes} bytes")
        if line.endswith(b"\n"):
            return bytes(line)
        if time.monotonic() > end_s:
            raise MessageError(f"a message of {len(line)} bytes so far is not whole after {timeout_s:g} s")


class LastWords:
    """The end of what a process prints to its standard error, which is read as it comes and not kept."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._tail = b""
        self._is_over = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        """Read to the end; a process that prints without end gets an error."""
        total = 0
        with contextlib.suppress(OSError):
            while not self._is_over and total <= _MAX_PRINTED:
                if not wait_for(self._descriptor, select.POLLIN, _LOOK_S):
                    continue
                piece = os.read(self._descriptor, PIECE)
                if not piece:
                    break
                total += len(piece)
                self._tail = (self._tail + piece)[-_MAX_TAIL:]
        os.close(self._descriptor)

    def last_line(self) -> str:
        """The last line so far, or all of it once the process has ended."""
        self._thread.join(_LOOK_S)
        return " ".join(self._tail.decode(errors="replace").strip().rpartition("\n")[2].split())[-500:]

    def close(self) -> None:
        """Read no more."""
        self._is_over = True
