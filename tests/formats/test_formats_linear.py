"""Text made to be slow ends each reader in time: every expression over foreign text is linear in its length."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from here import sample, shortly
from hwdyno.formats import collapse_blanks, list_formats, read_every
from hwdyno.formats.by_shape import read_by_shape
from hwdyno.model.words import UserError

WHOLE = 1_000_000
BYTES = sample(250_000, WHOLE)
CPU_S, TURNS_S = 2e-6, 0.05
"""The limit for a byte, where a million turns of a loop take so long: a reader takes half of it, and a shared core may
take twice that.

A square of the length takes minutes of 1 MB, and a sixteenth of that for a quarter of the length, where the limit is
half a second.
"""
UNITS = (" ", "\n", "\t \n", "1", ".", "a", "-", "|", "#\n", "1\n", "1.5 ", "1 MB/s ", "[", "a: ")
DATA = Path(__file__).parents[1] / "data"


@cache
def sample_outputs() -> dict[str, str]:
    """A tool's own output for each format of text."""
    found: dict[str, str] = {}
    for path in sorted(DATA.rglob("*")):
        if path.is_file() and path.stat().st_size < 40_000:
            text = path.read_text(errors="replace")
            for name, form in list_formats().items():
                if name not in found and name != "published" and form.recognizes(text):
                    found[name] = text if text.lstrip()[:1] not in "{[" else ""
    return found


def slowness() -> float:
    """The time of a loop now, over that on the machine for which the limit is; at least 1."""
    before, total = time.process_time(), 0
    for turn in range(200_000):
        total += turn * turn
    return max(1.0, (time.process_time() - before) * 5 / TURNS_S)


@contextlib.contextmanager
def limited(cpu_s: float) -> Iterator[None]:
    """End with an error what takes more CPU time than this; other processes hardly change that time."""

    def end(*_: object) -> None:
        raise AssertionError(f"over {cpu_s} s of CPU time")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def hostile(unit: str, length: int = BYTES) -> str:
    return unit * (length // len(unit))


@pytest.mark.parametrize("unit", shortly(10, *UNITS), ids=repr)
def test_each_reader_ends_in_time(unit: str) -> None:
    limit_s = CPU_S * BYTES * slowness()
    for name, form in list_formats().items():
        # What is imported and compiled once is no matter of the length.
        with contextlib.suppress(UserError):
            form.read(unit * 20, name)
        known = sample_outputs().get(name, "").rstrip("\n")
        # What follows a tool's own output reaches further into its reader than what is alone.
        for before in [known, ""][: sample(1, 2 if known else 1)]:
            text = collapse_blanks(before + "\n" * bool(before) + hostile(unit))
            with limited(limit_s), contextlib.suppress(UserError):
                if form.recognizes(text) or not before:
                    form.read(text, name)


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_all_of_them_together_end_in_time(unit: str) -> None:
    with contextlib.suppress(UserError):
        read_every(unit * 20, "short")
    with limited(4 * CPU_S * BYTES * slowness()), contextlib.suppress(UserError):
        read_every(hostile(unit), "hostile")


def test_blanks_are_collapsed_wherever_they_begin() -> None:
    for count in (255, 256, 257, 258, 4000):
        for before in range(70):
            text = "a" * before + " \t" * (count // 2) + " " * (count % 2) + "b"
            kept = text if count <= 256 else "a" * before + " " * 256 + "b"
            assert collapse_blanks(text) == kept
    for lines, kept in ((3, "\n\t\n\t\n"), (4, "\n\n\n"), (9, "\n\n\n")):
        assert collapse_blanks("a" + "\n\t" * lines + "b") == f"a{kept}\tb"


SHAPES = ("a: 1 MB/s\n", "a|1 MB/s|2 MB/s\n", "a:\n", "### a\n", "1 ms\n", "a: 1\n", "$ dd bs=1\n", "1 MB 1 MB/s ")
"""What a reader by shape takes lines for."""


@pytest.mark.parametrize("unit", SHAPES, ids=repr)
def test_a_reader_by_shape_ends_in_time(unit: str) -> None:
    # It reads to its limit of results, however long the text, so that a shorter one would take as long.
    with limited(CPU_S * WHOLE * slowness()), contextlib.suppress(UserError):
        read_by_shape(hostile(unit, WHOLE), "hostile")
