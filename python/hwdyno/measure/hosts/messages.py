"""What an agent or a rank may send: the length of each message, its fields with their types, and bounds of values.

A field that is missing, unknown, of another type or out of its bounds makes the message wrong, and with it the host: a
new field raises the protocol version.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from hwdyno.measure import engine
from hwdyno.model.histogram import Histogram
from hwdyno.model.units import is_number
from hwdyno.model.words import AxisKind, Role, Trait, UserError
from hwdyno.system import foreign

MAX_COUNT = foreign.MAX_COUNT
MAX_FIGURE = foreign.LARGEST_FIGURE
MAX_SECONDS = 1e9
MAX_VALUES = 1 << 22
"""Values in one message: far more than any kernel sends, and less than would fill a memory."""
MAX_STREAMS = 1 << 17
MAX_PROCESSORS = 1 << 16
MAX_ERROR_TEXT = 500
"""Characters of an error that are kept."""
_MAX_NAME, _MAX_TEXT = 255, 1 << 16
_MAX_DOUBTFUL = 4 << 20
"""Bytes of a message that Python reads where the engine leaves it: a figure past 2^63, or an error to name."""
_MAX_OUTPUT = 8 << 20
"""What an agent keeps of either output of a program (``agent/program.rs``)."""


class MessageError(ValueError):
    """What is wrong with a message, in one line."""


Form = Callable[[Any, str], None]
"""Checks a value, whose place in the message is given; raises ``MessageError``."""


def _wrong(value: object, place: str, wanted: str) -> MessageError:
    if isinstance(value, dict | list):
        shown = f"a {'table' if isinstance(value, dict) else 'list'} of {len(value)}"
    elif isinstance(value, int) and abs(value) > MAX_COUNT:
        shown = f"a whole number of {value.bit_length()} bits"
    else:
        shown = ascii(value)[:40]
    return MessageError(f"{place} is {shown}, and must be {wanted}")


# --- forms


def text(most: int = _MAX_TEXT, least: int = 0) -> Form:
    """A text of limited length."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str) or not least <= len(value) <= most:
            raise _wrong(value, place, f"a text of {f'{least} to ' if least else 'at most '}{most} characters")

    return check


def whole(least: int = 0, most: int = MAX_COUNT) -> Form:
    """A whole number within bounds."""

    def check(value: Any, place: str) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _wrong(value, place, f"a whole number from {least} to {most}")

    return check


def number(least: float = 0.0, most: float = MAX_FIGURE) -> Form:
    """A finite number within bounds."""

    def check(value: Any, place: str) -> None:
        if not is_number(value) or not math.isfinite(value) or not least <= value <= most:
            raise _wrong(value, place, f"a number from {least:g} to {most:g}")

    return check


def flag(value: Any, place: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise _wrong(value, place, "true or false")


def word(*known: object) -> Form:
    """One of some values."""

    def check(value: Any, place: str) -> None:
        if not any(type(value) is type(choice) and value == choice for choice in known):
            raise _wrong(value, place, f"one of: {', '.join(map(str, known))}")

    return check


def maybe(form: Form) -> Form:
    """A value, or null."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            form(value, place)

    return check


def plain(value: Any, place: str) -> None:
    """Any value: the reader of the line has checked its numbers and its levels."""


def scalar(value: Any, place: str) -> None:
    """A text, a number, a flag or null."""
    if isinstance(value, dict | list):
        raise _wrong(value, place, "a text, a number, true, false or null")


def rows(form: Form, most: int = MAX_VALUES, least: int = 0) -> Form:
    """A list of limited length."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise _wrong(value, place, f"a list of {f'{least} to ' if least else 'at most '}{most}")
        for number_of, item in enumerate(value):
            form(item, f"{place}.{number_of}")

    return check


def counts(value: Any, place: str) -> None:
    """A list of counts, checked without a look at each of them."""
    if not isinstance(value, list):
        raise _wrong(value, place, "a list of counts")
    if value and ({*map(type, value)} != {int} or min(value) < 0 or max(value) > MAX_COUNT):
        raise MessageError(f"{place} has a value that is no count")


def mapping(form: Form, most: int = 10_000) -> Form:
    """A table whose values have one form."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict) or len(value) > most:
            raise _wrong(value, place, f"a table of at most {most}")
        for key, item in value.items():
            if len(key) > _MAX_NAME:
                raise MessageError(f"{place} has a key of {len(key)} characters")
            form(item, f"{place}.{key}" if key.isidentifier() else f"{place}.{ascii(key)[:40]}")

    return check


def table(needed: Mapping[str, Form], others: Mapping[str, Form] | None = None) -> Form:
    """A table of known fields, of which those that are ``needed`` must be there."""
    known = {**needed, **(others or {})}

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, place, "a table")
        for key in needed:
            if key not in value:
                raise MessageError(f"{place} has no {key}")
        for key, item in value.items():
            if key not in known:
                raise MessageError(f"{place} has the unknown field {ascii(key)[:40]}")
            known[key](item, f"{place}.{key}")

    return check


# --- an agent's answers

GREETING = table({"agent": word("hwdyno-engine"), "protocol": whole(0, 1 << 31), "version": text(100)})
ERROR = table(
    {"kind": word("usage", "machine"), "says": text(_MAX_TEXT), "errno": maybe(whole(-(1 << 31), (1 << 31) - 1))}
)
_HISTOGRAM = table(
    {
        **{name: whole() for name in ("sub_bits", "count", "sum", "min", "max")},
        "packed": text(16 * (Histogram.index(MAX_COUNT) + 1)),
    }
)


def _histogram(value: Any, place: str) -> None:
    _HISTOGRAM(value, place)
    count, total, least, most = (value[name] for name in ("count", "sum", "min", "max"))
    if value["sub_bits"] != Histogram.SUB_BITS:
        raise MessageError(f"{place} has sub_bits {value['sub_bits']}, and this version reads {Histogram.SUB_BITS}")
    if not least <= most or not count * least <= total <= count * most:
        raise MessageError(f"{place} has the sum {total}, the least {least} and the most {most} of {count} values")


_STREAM = table(
    {
        "name": text(_MAX_NAME),
        **{name: whole() for name in ("operations", "bytes", "flops")},
        "latency_ns": mapping(_histogram, 100),
    }
)
_SAMPLES = table(
    {
        "interval_s": number(0, MAX_SECONDS),
        "operations": rows(counts, MAX_STREAMS),
        "bytes": rows(counts, MAX_STREAMS),
    }
)
READING = table(
    {
        "kernel": text(_MAX_NAME),
        "parameters": mapping(plain),
        "elapsed_s": number(0, MAX_SECONDS),
        "streams": rows(_STREAM, MAX_STREAMS),
        "samples": _SAMPLES,
        "cpu": mapping(maybe(number()), 100),
        "concurrency_requested": number(0, MAX_COUNT),
        "counters": mapping(number()),
        "faults": rows(
            table({"operation": text(_MAX_NAME), "errno": whole(-(1 << 31)), "says": text(), "count": whole()}), 10_000
        ),
        "notes": rows(table({"code": text(_MAX_NAME), "says": text()}), 10_000),
        "details": mapping(plain),
        "interrupted": flag,
    }
)
_RAN = table({"reading": READING, "started_ns": whole(), "ended_ns": whole()})
_OUTCOME = table(
    {
        "status": whole(-(1 << 31), 1 << 31),
        "stdout": text(_MAX_OUTPUT),
        "stderr": text(_MAX_OUTPUT),
        "cpu_s": number(0, MAX_SECONDS),
        "started_ns": whole(),
        "ended_ns": whole(),
    }
)
_PATH = text(4096, least=1)
_SCRATCH = table({"data": _PATH, "directory": _PATH, "size_bytes": whole(), "free_bytes": whole()})
_AXIS = table(
    {
        "name": text(_MAX_NAME, least=1),
        "means": text(),
        "unit": text(_MAX_NAME),
        "type": word(*get_args(AxisKind)),
        "role": word(*get_args(Role)),
        "default": plain,
        "workers": flag,
    },
    {
        "min": number(-MAX_FIGURE),
        "max": number(-MAX_FIGURE),
        "choices": rows(text(_MAX_NAME), 10_000),
        "traits": mapping(rows(word(*get_args(Trait)), 100)),
        "per_element": mapping(table({name: whole() for name in ("reads", "writes", "allocates", "flops")})),
        "split": text(_MAX_NAME),
    },
)
_WRITES = ("nothing", "file", "folder", "device")
_KERNEL = table(
    {
        "name": text(_MAX_NAME, least=1),
        "measures": text(),
        "operation": text(_MAX_NAME),
        "pass": rows(rows(text(_MAX_NAME), 2, 2), 100),
        "writes": word(*_WRITES),
        "consent": rows(text(_MAX_NAME), 100),
        "stateful": flag,
        "grows": flag,
        "parameters": rows(_AXIS, 10_000),
    },
    {"possible": rows(mapping(scalar, 100), 100_000)},
)
_SURVEYED = mapping(plain)
_NEGATIVE = ("_c", "node", "offset", "errno")
"""How the names of a survey's figures end that may be below 0: temperatures, and the node of what has none."""


def _survey(value: Any, place: str) -> None:
    """A survey's table: of any version, with texts of limited length and figures that can be."""
    _SURVEYED(value, place)
    level = [(place, value)]
    while level:
        at, item = level.pop()
        if isinstance(item, dict):
            level += [(f"{at}.{key}" if len(key) <= _MAX_NAME else f"{at}.?", inner) for key, inner in item.items()]
        elif isinstance(item, list):
            level += [(at, inner) for inner in item]
        elif isinstance(item, str):
            text()(item, at)
        elif is_number(item) and not at.endswith(_NEGATIVE):
            number(0, MAX_COUNT)(item, at)


ANSWERS: Mapping[str, Form] = {
    "survey": _survey,
    "kernels": rows(_KERNEL, 10_000),
    "snapshot": mapping(text(4 << 20), 1 << 17),
    "clock": table({"ns": whole()}),
    "run": _RAN,
    "program": _OUTCOME,
    "find": table({"path": maybe(_PATH)}),
    "stop": table({}),
    "claim": _SCRATCH,
    "size": table({"bytes": whole()}),
    "release": table({"released": flag}),
}
"""The form of the answer to each request, by its verb; ``files`` by its action."""
_SHORT = 128 << 10
LENGTHS: Mapping[str, int] = {
    **dict.fromkeys(ANSWERS, _SHORT),
    **{"survey": 16 << 20, "kernels": 16 << 20, "snapshot": 16 << 20, "run": 64 << 20, "program": 40 << 20},
    **{"greeting": 4096, "start": _SHORT},
}
"""The longest message, bytes, by what it answers."""

# --- the start of ranks

_RANDOM = text(64, least=16)
_PROCESSORS = rows(whole(0, MAX_PROCESSORS - 1), MAX_PROCESSORS, 1)
RANKS_GREETING = table({"hwdyno": word("ranks"), "nonce": _RANDOM})
RANKS_WELCOME = table({"proof": text(64, least=64), "processors": _PROCESSORS})
_SERVER_PARTS = rows(plain, 2, 2)


def _server(value: Any, place: str) -> None:
    _SERVER_PARTS(value, place)
    text(_MAX_NAME, least=1)(value[0], f"{place}.0")
    whole(1, 65535)(value[1], f"{place}.1")


def _version(value: Any, place: str) -> None:
    rows(scalar, 2, 2)(value, place)
    text(100)(value[0], f"{place}.0")
    whole(0, 1 << 31)(value[1], f"{place}.1")


RANKS_HELLO = table(
    {
        "rank": whole(0, 1 << 20),
        "name": text(_MAX_NAME),
        "boot": text(_MAX_NAME),
        "processors": _PROCESSORS,
        "version": _version,
        "nonce": _RANDOM,
        "server": maybe(_server),
        "proof": text(64, least=64),
    }
)
MAX_HELLO = 1 << 19
"""Longest line of the start, bytes: as many processors as there may be."""
HELLO_LEVELS = 4


def parse_message(line: bytes, levels: int = foreign.DEEPEST) -> dict[str, Any]:
    """The table in a line; raises ``MessageError``."""
    found = engine.document(line, levels, MAX_VALUES)
    if found is None:
        try:
            if len(line) > _MAX_DOUBTFUL:
                raise MessageError(f"a message of {len(line)} bytes is no JSON, or has values out of range")
            found = foreign.parse_json(line, "a message", is_ours=True)
        except UserError as error:
            raise MessageError(f"{' '.join(str(error).split())}: {line[:60]!r}") from None
    if not isinstance(found, dict):
        raise _wrong(found, "a message", "a table")
    return found
