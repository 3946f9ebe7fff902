"""What Ctrl-C, a polite kill and a lost terminal do to a run."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any


@contextlib.contextmanager
def terminations_interrupt() -> Iterator[None]:
    """Makes a polite kill and a lost terminal end a run as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps what was measured from being lost by one more Ctrl-C while it is stored."""
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(signals: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    before = {}
    with contextlib.suppress(ValueError):  # Not in the main thread: there, signals are somebody else's.
        for number in signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
