"""Keeps the signals that come before the command line is imported; it imports next to nothing itself.

Python would raise ``KeyboardInterrupt`` in the middle of an import, and let SIGTERM and SIGHUP end it as they find it.
"""

import os
import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STATUS_OF_SIGNAL = 128
"""A shell's status of a program that a signal ended is this plus the signal's number (as bash and dash report it)."""

received: list[int] = []
"""Signals in their order, for ``signals.take_over``, which follows within a fraction of a second."""


def keep() -> None:
    """Keep each signal from now on, unless it is ignored (``nohup``, a shell's background job)."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _keep_signal)


def _keep_signal(number: int, frame: FrameType | None) -> None:
    if received:  # A second one does not wait: what hangs is an import.
        os._exit(STATUS_OF_SIGNAL + received[0])
    received.append(number)
