"""A quantity is read back as it was written, in every spelling of numbers and units that tools and people use."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from here import sample
from hwdyno.model.quantities import number_in
from hwdyno.model.unit_readings import counted_in, unit_readings

QUANTITIES = sample(10_000, 100_000)

SI = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
IEC = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
LONG_PREFIXES = {"kilo": 1e3, "mega": 1e6, "giga": 1e9, "kibi": 2.0**10, "mebi": 2.0**20, "gibi": 2.0**30}
A_SECOND = ("/s", "/sec", "/secs", "/second", " / s", " per second", " per sec")
NOUNS = (
    *("ops", "IOs", "requests", "req", "tok", "tokens", "t", "tx", "seq", "it", "iterations", "samples", "images"),
    *("Elem", "updates", "msgs", "packets", "frames", "steps", "queries", "lookups", "events", "cells", "rays"),
)
TIMES = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), 1.0),
    **dict.fromkeys(("ms", "msec", "msecs", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "usec", "usecs", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanoseconds"), 1e-9),
}
EACH = ("op", "iter", "it", "request", "step", "token", "call")


def any_unit(rng: random.Random) -> tuple[str, str, float]:
    """A unit as it is written, its kind, and its factor to the base unit."""
    kind = rng.choice(("bytes/s", "bits/s", "operations/s", "s", "s each", "FLOP/s", "transfers/s", "1"))
    if kind in {"bytes/s", "bits/s"}:
        word, size = ("B", 1.0) if kind == "bytes/s" else ("bit", 1 / 8)
        if rng.random() < 0.3:
            long = rng.choice(list(LONG_PREFIXES))
            name = rng.choice(("bytes", "byte")) if kind == "bytes/s" else rng.choice(("bits", "bit"))
            text = f"{rng.choice((long, long.title()))}{name}{rng.choice(A_SECOND)}"
            return text, "bytes/s", LONG_PREFIXES[long] * size
        prefix, factor = rng.choice([*SI.items(), *IEC.items()])
        prefix = rng.choice((prefix, "K")) if prefix == "k" else prefix
        if prefix and rng.random() < 0.2:
            return f"{prefix}{word}ps", "bytes/s", factor * size
        return f"{prefix}{word}{rng.choice(A_SECOND)}", "bytes/s", factor * size
    if kind == "operations/s":
        if rng.random() < 0.3:
            prefix = rng.choice(("", "k", "K", "M"))
            return f"{prefix}{rng.choice(('IOPS', 'iops'))}", kind, SI[prefix.replace("K", "k")]
        return f"{rng.choice(NOUNS)}{rng.choice(A_SECOND)}", kind, 1.0
    if kind in {"s", "s each"}:
        text, factor = rng.choice(list(TIMES.items()))
        return text + (f"/{rng.choice(EACH)}" if kind == "s each" else ""), "s", factor
    if kind == "FLOP/s":
        prefix = rng.choice(("M", "G", "T"))
        return f"{prefix}{rng.choice(('FLOPS', 'FLOP/s', 'Flop/s', 'FLOPs/s'))}", kind, SI[prefix]
    if kind == "transfers/s":
        prefix = rng.choice(("M", "G"))
        return f"{prefix}T/s", kind, SI[prefix]
    return "%", kind, 0.01


def plain(value: float) -> str:
    return f"{value:.10g}" if value < 1e10 else f"{value:.0f}"


def with_commas(value: float) -> str:
    return f"{value:,.2f}"


def with_apostrophes(value: float) -> str:
    return f"{value:,.0f}".replace(",", "'")


def with_decimal_comma(value: float) -> str:
    return f"{value:.1f}".replace(".", ",")


def german(value: float) -> str:
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def with_exponent(value: float) -> str:
    return f"{value:.6e}"


def about(value: float) -> str:
    return f"~{value:.3f}"


STYLES: tuple[Callable[[float], str], ...] = (
    *(plain, with_commas, with_apostrophes, with_decimal_comma, german, with_exponent, about),
)


@pytest.mark.parametrize("seed", range(4))
def test_a_written_quantity_is_read_back(seed: int) -> None:
    rng = random.Random(seed)
    wrong: list[str] = []
    for _ in range(QUANTITIES // 4):
        unit, kind, factor = any_unit(rng)
        style = rng.choice(STYLES)
        value = round(10 ** rng.uniform(0, 6), 3)
        written = style(value)
        if style is german and value < 1000:
            written = plain(value)
        cell = written + (" " if unit != "%" or rng.random() < 0.5 else "") + unit
        found = number_in(cell)
        read = None if found is None or found.unit is None else (found.unit.kind, found.value * found.unit.factor)
        if read is None or read[0] != kind or abs(read[1] / (value * factor) - 1) > allowed(style, value):
            wrong.append(f"{cell!r}: {read}, not {kind} {value * factor:g}")
    assert not wrong, f"{len(wrong)}: " + "; ".join(wrong[:12])


def allowed(style: Callable[[float], str], value: float) -> float:
    """The rounding of a style, and no more."""
    step = {with_commas: 0.01, german: 0.01, with_apostrophes: 1.0, with_decimal_comma: 0.1, about: 0.001}
    return 0.51 * step.get(style, 0.0) / value + 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_a_head_names_the_unit_of_its_column(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(QUANTITIES // 20):
        unit, kind, factor = any_unit(rng)
        for head in (unit, f"result ({unit})", f"result [{unit}]"):
            readings, _ = unit_readings(head.replace("µ", "u"))
            assert [(reading.kind, pytest.approx(reading.factor)) for reading in readings] == [(kind, factor)], head


@pytest.mark.parametrize(
    ("unit", "noun"), [("t/s", "token"), ("tok/s", "token"), ("requests per second", "request"), ("updates/s", "")]
)
def test_a_rate_counts_what_its_unit_names(unit: str, noun: str) -> None:
    (found,), _ = unit_readings(unit)
    assert (found.kind, counted_in(found.name)) == ("operations/s", noun)


@pytest.mark.parametrize("cell", ["1-2 ms", "< 5 ms", "12 to 14 GB/s", "n/a", "", "fast", "1..8 MB/s"])
def test_a_range_a_bound_and_words_are_no_number(cell: str) -> None:
    assert number_in(cell) is None
