"""Handles Ctrl-C, SIGTERM and a closed terminal during a run."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any


@contextlib.contextmanager
def terminations_interrupt() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end a run as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled((signal.SIGTERM, signal.SIGHUP), interrupt):
        yield


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Blocks a further Ctrl-C while the results are stored."""
    with _handled((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handled(signals: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    before = {}
    with contextlib.suppress(ValueError):  # Outside the main thread, handlers cannot be set.
        for number in signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
