"""The units that a head or a cell may mean, each in its base unit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from hwdyno.model.units import BINARY, DECIMAL, LONG_PREFIXES, SECONDS, parse_time_unit


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a column: what it measures, in which base unit, and its factor to it."""

    kind: str
    """``bytes/s``, ``operations/s``, ``FLOP/s``, ``s``, ``bytes``, ``1`` (a share), ``cycles`` …"""
    factor: float
    name: str


PERCENTILE = re.compile(
    r"(?<![\w.])(?:p ?(\d{2,5})(?:\.(\d{1,3}))?|(\d{2})(?:\.(\d{1,3}))? ?(?:th|st|nd|rd)"
    r"?[ -]?(?:percentile|pctl|pct|tile|%(?:ile)?)|(\d{2})(?:\.(\d{1,3}))?(?:th|st|nd|"
    r"rd))(?![\w.])"
)
_SECONDS = r"(?:s|secs?|seconds?)(?![A-Za-z])"
_PER_SECOND = rf"(?:\s?/\s?|\s?per\s|[ _]per[ _])(?i:{_SECONDS})"
_BYTES_OR_BITS = r"Bytes?|bytes?|BYTES?|Bits?|bits?|BITS?|B|b"
_RATE = re.compile(
    rf"(?<![A-Za-z0-9])(?:([kKMGTPmgtp]?)(i?)({_BYTES_OR_BITS})(?:{_PER_SECOND}|p(?i:{_SECONDS}))"
    rf"|(?i:(kilo|mega|giga|tera|peta|kibi|mebi|gibi|tebi)[ -]?(bytes?|bits?))(?:{_PER_SECOND}))"
)
_FLOP = re.compile(
    r"(?<![A-Za-z0-9])([kKMGTPmgtp]?)(?:I?OP|(?i:flop))(?i:s?)"
    r"(?:(?:/s(?:ec)?|ps)(?![A-Za-z])|(?![A-Za-z])(?! ?/ ?(?!(?i:gpu|device|chip|core|card)\b)[A-Za-z]))"
)
_OPS = re.compile(
    rf"(?<![A-Za-z0-9])([kKMmG]?)\s?(?:(?i:iops)(?! ?/ ?(?!(?i:s|sec|bw|bandwidth|latency|throughput)\b)[A-Za-z])|"
    rf"(?i:i/?os?|ops?|operations?|req(?:uests)?|transactions?|messages?|msgs?|packets?|datagrams?|events?|samples?|"
    rf"examples?|images?|imgs?|frames?|tok(?:ens?)?|steps?|iterations?|records?|rows?|objects?|files?|creates?|"
    rf"queries|accesses){_PER_SECOND}|(?i:tps|pps|qps)(?![A-Za-z]))"
)
_TRANSFERS = re.compile(r"(?<![A-Za-z0-9])([kMG])T/s(?![A-Za-z])")
"""A link's transfers, of which each moves as many bits as it has lanes: no rate of data."""
_COUNT_OF = re.compile(
    r"(?<![A-Za-z0-9])(?:([kKMG])(?=[A-Z]))?((?!per\b)[A-Za-z][A-Za-z-]{0,20})"
    rf"(?:{_PER_SECOND})"
)
"""``Elem/s``, ``it/s``, ``updates per second``: a count of the things that it names."""
_TIME = re.compile(
    r"(?<![A-Za-z0-9])(nanoseconds?|nsecs?|ns|microseconds?|u-?secs?|us|milliseconds?|"
    r"msecs?|ms|seconds?|secs?|s|minutes?|mins?)(?![A-Za-z/])",
    re.I,
)
_TIME_EACH = re.compile(
    r"(?<![A-Za-z0-9])(nanoseconds?|nsecs?|ns|microseconds?|usecs?|us|milliseconds?|msecs?|ms|seconds?|secs?|s)"
    r"(?:\s?/\s?|\s+per\s+)(?:[a-z]{0,10} )?(?:ops?|operations?|it|iters?|iterations?|i/?os?|requests?|req|steps?"
    r"|calls?|tok(?:ens?)?|images?|samples?|accesse?s?|messages?|queries|query|batch(?:es)?|epochs?|loops?|items?"
    r"|elem(?:ent)?s?|files?|objects?)(?![A-Za-z])",
    re.I,
)
"""``ns/op``, ``s/it``: the time of one, the inverse of a rate."""
_SIZE_UNIT = re.compile(
    r"(?<![A-Za-z0-9])([kKMGTmgt]?)(i?)(B|b|Bytes?|bytes?)(?![A-Za-z/])|(?<![A-Za-z0-9])([kKMG])(?![A-Za-z0-9/])"
)
_OF_TIMES = re.compile(
    r"times?|latenc(?:y|ies)|durations?|[num]?s|[num]?secs?|(?:nano|micro|milli)?seconds?|bytes?|bits?|[kmgt]i?b"
)
"""Ends what is no count: ``Latency/s`` is a latency in seconds."""
_BYTES_ONE_WAY = re.compile(r"[a-z]{1,2}[kMG]i?B")
"""``rkB/s``: bytes, whose letter before is their way."""
_SHARE = re.compile(r"%|(?<![a-z])(?:percent|pct)(?![a-z])", re.I)


@lru_cache(1024)
def unit_readings(text: str) -> tuple[tuple[Unit, ...], tuple[int, int]]:
    """The readings of the unit that a text names, and where it names it; none at (0, 0)."""
    for pattern, made in _BY_PATTERN:
        if (match := pattern.search(text)) and (units := made(match)):
            return units, match.span()
    inner = re.search(r"[(\[]([^()\[\]]*)[)\]]", text)
    tail = re.search(r"(?:[,/:]\s*|\bin\s+|[_ ])(?P<u>[A-Za-z-]{1,12}|%)$", text)
    places = [(inner[1], inner.start(1))] if inner else []
    places += [(tail["u"], tail.start("u"))] if tail and not tail["u"].lower().startswith("min") else []
    for part, start in (*places, (text if text.lower() != "min" else "", 0)):
        if (match := _TIME.search(part) if inner and part == inner[1] else _TIME.fullmatch(part)) is not None:
            return (_time(match[1]),), (start + match.start(), start + match.end())
        if (match := _SHARE.search(part)) is not None:
            return (Unit("1", 0.01, "%"),), (start + match.start(), start + match.end())
        if (match := _SIZE_UNIT.fullmatch(part.strip())) is not None:
            prefix, binary = (match[1] or match[4] or "").lower(), match[2] or ""
            factor = (BINARY if binary or prefix == "k" else DECIMAL)[prefix]
            return (Unit("bytes", factor, part.strip()),), (start, start + len(part))
        if re.fullmatch(r"(?i)(?:clock )?cycles|clocks|clk", part.strip()):
            return (Unit("cycles", 1.0, "cycles"),), (start, start + len(part))
    if (match := _SHARE.search(text)) and not PERCENTILE.search(text.lower()):
        return (Unit("1", 0.01, "%"),), match.span()
    return (), (0, 0)


def _rate(match: re.Match[str]) -> tuple[Unit, ...]:
    prefix, binary, unit = (match[1] or "").lower(), match[2] or "", match[3] or match[5]
    if match[4]:
        prefix, binary = LONG_PREFIXES[match[4].lower()]
    factor = (BINARY if binary else DECIMAL)[prefix]
    shown = prefix if prefix == "k" and not binary else prefix.upper()
    bytes_ = Unit("bytes/s", factor, f"{shown}{binary}B/s")
    bits = Unit("bytes/s", factor / 8, f"{shown}{binary}bit/s")
    if unit.lower().startswith("byte") or unit == "B":
        return (bytes_,)
    if unit.lower().startswith("bit"):
        return (bits,)
    # A small b is a bit by the standard, but many tables of storage mean bytes.
    snake = match[0] == match[0].lower() and "/" in match[0] and match[1] in "kmgt"
    return (bytes_,) if snake and not binary else (bits, bytes_)


def _flop(match: re.Match[str]) -> tuple[Unit, ...]:
    if not match[1] and "/" not in match[0] and not match[0].lower().startswith("flop"):
        return ()
    if match[0].lower() in {"ops", "op", "iops", "iop", "kops", "mops", "kiops", "miops"} or "IO" in match[0].upper():
        return ()
    if "flop" not in match[0].lower():
        return ()
    factor = DECIMAL[match[1].lower()]
    return (Unit("FLOP/s", factor, f"{match[1].upper()}FLOP/s"),)


def _operations(match: re.Match[str]) -> tuple[Unit, ...]:
    return (Unit("operations/s", DECIMAL[match[1].lower()], match[0].strip()),)


def _transfers(match: re.Match[str]) -> tuple[Unit, ...]:
    return (Unit("transfers/s", DECIMAL[match[1].lower()], match[0]),)


def _time_each(match: re.Match[str]) -> tuple[Unit, ...]:
    return (_time(match[1]),)


def _time(word: str) -> Unit:
    factor = parse_time_unit(word) or 0.0
    return Unit("s", factor, next(name for name, seconds in SECONDS.items() if seconds == factor))


def _count(match: re.Match[str]) -> tuple[Unit, ...]:
    if _OF_TIMES.fullmatch(match[2].lower()) or _BYTES_ONE_WAY.fullmatch(match[2]):
        return ()
    return (Unit("operations/s", DECIMAL[(match[1] or "").lower()], match[0].strip()),)


_BY_PATTERN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], tuple[Unit, ...]]], ...] = (
    (_FLOP, _flop),
    (_TRANSFERS, _transfers),
    (_RATE, _rate),
    (_OPS, _operations),
    (_TIME_EACH, _time_each),
    (_COUNT_OF, _count),
)


_COUNTED = re.compile(r"(?i)(?:[kmg]\s)?([a-z]+?)s?(?:\s?/\s?|\s?per\s?)s(?:ec(?:ond)?)?|([tpq])ps")
_NOUNS = {
    **dict.fromkeys(("tok", "token"), "token"),
    **dict.fromkeys(("req", "request"), "request"),
    **dict.fromkeys(("img", "image"), "image"),
    **dict.fromkeys(("msg", "message"), "message"),
    **dict.fromkeys(("packet", "p"), "packet"),
    **dict.fromkeys(("transaction", "t"), "transaction"),
    **dict.fromkeys(("querie", "query", "q"), "query"),
    **{
        word: word for word in ("sample", "example", "frame", "step", "iteration", "record", "row", "event", "datagram")
    },
}


def counted_in(unit: str) -> str:
    """What a rate in this unit counts, in the field's word: ``token`` of ``tok/s``; empty where it is any operation."""
    match = _COUNTED.fullmatch(unit.strip())
    if match is None:
        return ""
    word = (match[1] or "").lower()
    bare = word[1:] if word[:1] in {"k", "m", "g"} and word not in _NOUNS else word
    # llama.cpp's t/s are tokens; a database's tps are transactions.
    return "token" if bare == "t" else _NOUNS.get(bare or (match[2] or "").lower(), "")
