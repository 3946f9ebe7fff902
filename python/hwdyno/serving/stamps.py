"""The moment at which the kernel received a piece, by its stamp (``SO_TIMESTAMPNS``), on the monotonic clock.

See socket(7) and the kernel's Documentation/networking/timestamping.rst.
"""

from __future__ import annotations

import contextlib
import socket
import time

OPTION = 35
"""Linux's ``SO_TIMESTAMPNS``; elsewhere the option is another or none, and the client's own moments stand."""
STEP_NS = 100_000
"""A change of the system's clock against the monotonic one that is a step: slewing moves it by 25 µs in 50 ms."""


class Stamps:
    """Follows the system's clock."""

    def __init__(self) -> None:
        self._offset, self._since = _offset(), 0
        """From the monotonic clock to the system's, and since when it is this."""

    def on(self, sock: socket.socket) -> None:
        """Ask the kernel to stamp what a socket receives, if it can."""
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, OPTION, 1)

    def look(self) -> tuple[int, int]:
        """From the monotonic clock to the system's, ns, and the moment before which stamps are of another time."""
        offset = _offset()
        if abs(offset - self._offset) > STEP_NS:
            self._since = time.perf_counter_ns()
        self._offset = offset
        return offset, self._since


def _offset() -> int:
    """From the monotonic clock to the system's, ns: of three looks the one that took least."""
    best = (1 << 62, 0)
    for _ in range(3):
        before = time.perf_counter_ns()
        system = time.time_ns()
        after = time.perf_counter_ns()
        best = min(best, (after - before, system - (before + after) // 2))
    return best[1]
