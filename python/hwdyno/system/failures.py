"""Keeps a bug in one part of an answer from taking the rest with it: the part is left out and named."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from hwdyno.system import memory_limits

T = TypeVar("T")
D = TypeVar("D")

TRACEBACK = "HWDYNO_TRACEBACK"
"""If this variable of the environment is set, a bug shows its traceback and nothing goes on without its part."""

_failed: ContextVar[list[str] | None] = ContextVar("failed", default=None)


def is_bug(error: BaseException) -> bool:
    """Whether an error is a fault of hwdyno's own, not one of the user or the machine."""
    from hwdyno.model.words import UserError

    return not isinstance(error, (UserError, OSError)) and type(error).__name__ not in {"UsageError", "StoreError"}


def describe_bug(error: BaseException) -> str:
    """A bug of hwdyno in one line, with what to report."""
    says = " ".join(str(error).split())[:300]
    kind = type(error).__name__
    return f"internal error: {kind}{f': {says}' if says else ''}; please report it with the output of {TRACEBACK}=1"


@contextlib.contextmanager
def collecting() -> Iterator[list[str]]:
    """Collect a sentence for each part that fails inside, also for the collector around this one."""
    sentences: list[str] = []
    outer = _failed.get()
    before = _failed.set(sentences)
    try:
        yield sentences
    finally:
        _failed.reset(before)
        if outer is not None:
            outer += [sentence for sentence in sentences if sentence not in outer]


def attempt(part: str, make: Callable[[], T], without: D) -> T | D:
    """What ``make`` gives; where it fails, ``without``, and a sentence that says so is collected.

    The error passes where nothing collects sentences, so that no bug is silent, and where tracebacks are wanted.
    """
    sentences = _failed.get()
    if sentences is None or os.environ.get(TRACEBACK):
        return make()
    try:
        return make()
    except Exception as error:  # Any bug: what it may be is not known before.
        if not is_bug(error):
            raise
        why = memory_limits.explain_refusal(error) or describe_bug(error)
        if (sentence := f"{part} is missing: {why}") not in sentences:
            sentences.append(sentence)
        return without
