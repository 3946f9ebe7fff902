"""Finds the times of requests that a text gives by statistic, over several lines: means, percentiles, extremes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwdyno.formats.cell import unit_in_column
from hwdyno.model.quantities import PrintedNumber, find_quantities, number_in
from hwdyno.model.unit_readings import Unit, unit_readings

_LATENCY = re.compile(
    r"(?i)\blatenc(?:y|ies)|\b(?:response|request)[ _]times?\b|\brequests served within\b|_duration\b"
)
_HEADING = re.compile(r"\s*(?:\W{0,8}\s)?(?P<words>[A-Za-z][^=|<>]{0,70}?)\s*:?\s*")
_UNIT = re.compile(r"[(\[](?:in )?(ns|us|µs|ms|s|[num]?secs?|seconds|milliseconds|microseconds)[)\]]", re.I)
_WORDS = {
    "avg": "mean", "average": "mean", "mean": "mean", "med": "p50", "median": "p50", "min": "min", "minimum": "min",
    "fastest": "min", "max": "max", "maximum": "max", "slowest": "max", "stdev": "stdev", "stddev": "stdev",
    "mdev": "stdev", "std dev": "stdev", "stdev.": "stdev", "+/- stdev": "within",
}  # fmt: skip
"""Statistics by their names; ``within`` is the share of values near the mean."""
_STATISTIC = (
    r"(?:\+/- stdev|avg\.?|average|mean|median|med|min(?:imum)?|max(?:imum)?|fastest|slowest|std ?dev|stdev|mdev|"
    r"p\d{2}(?:\.\d{1,3})?|\d{2}(?:\.\d{1,3})?(?:th|st|nd|rd)|\d{1,3}(?:\.\d{1,3})? ?%|\d{2}(?:\.\d)?)"
)
_NUMBER = r"\d[\d.,]{0,20}(?: ?(?:[num]?s|µs|[num]?secs?|milliseconds|microseconds|seconds|m\d[\d.]{0,12}s)\b)?"
_LINE = re.compile(
    rf"\W*(?P<name>{_STATISTIC})(?: percentile)?\s*(?:in|<=|[:=]|\.{{3,120}}:?)?\s*(?P<value>{_NUMBER})"
    r"\.?\s*(?:\([^)]{0,60}\)|\s+[\d.]{1,12}%?)?\s*",
    re.I,
)
"""``50% in 0.2795 secs``, ``99%  245.62ms``, ``99.9% <= 3.9 milliseconds (cumulative count 9)``."""
_IN_BRACKETS = re.compile(r"\s*(?P<subject>[A-Z][\w /-]{0,30}?)\s*\[(?P<names>[^\]]{3,60})\]\s+(?P<values>\d.{3,200})")
_BY_SLASHES = re.compile(
    rf"(?P<subject>[\w ,-]{{0,40}}?)\b(?P<names>{_STATISTIC}(?:/{_STATISTIC}){{2,6}})\s*[=:]\s*"
    r"(?P<values>\d.{3,120})",
    re.I,
)
_COLUMNS = re.compile(
    rf"\s*(?P<label>[A-Za-z ]{{0,20}}?)\s*(?P<names>{_STATISTIC}(?:\s+{_STATISTIC}){{2,12}})\s*", re.I
)
_ROW = re.compile(r"\s*(?P<label>[A-Za-z][\w /().-]{0,30}?)?:?\s+(?P<values>\d.{3,200})")
_CELL = re.compile(rf"[-\d.a-z]{{1,12}}%|\d[\d.]{{0,20}} ?[kKMG]?i?B\b|{_NUMBER}")
_BEHIND = re.compile(rf"({_NUMBER}) (?:(?P<name>{_STATISTIC})(?: latency)?|latency)(?=[,.;]|\s|$)", re.I)
_BEFORE = re.compile(rf"\blat(?:ency)?[:=]? ({_NUMBER})(?: stddev ({_NUMBER}))?", re.I)
"""``8.0 tps, lat 7055.3 ms stddev 9.5``."""
LONGEST_LINE = 300
MIN_NAMES = 2
"""Statistics that make a group of lines a distribution."""


@dataclass(slots=True)
class Times:
    """A distribution: what it is of, and its times by statistic."""

    subject: str
    numbers: dict[str, PrintedNumber] = field(default_factory=dict)

    @property
    def is_of_latency(self) -> bool:
        """Whether it has times, and no rate."""
        return all(name.startswith("lat") for name in self.numbers)


@dataclass(slots=True)
class RequestTimes:
    """Takes a text line by line, and keeps the distribution that is being read."""

    heading: str = ""
    unit: Unit | None = None
    columns: tuple[str, ...] = ()
    is_of_latency: bool = False
    is_by_thread: bool = False
    pending: Times | None = None
    done: list[Times] = field(default_factory=list)
    plain: dict[str, PrintedNumber] = field(default_factory=dict)
    """Times of ``Slowest``, ``Fastest`` and ``Average`` without a heading of latencies."""

    def take(self, line: str) -> bool:
        """Whether a line has times by statistic."""
        if not line.strip():
            self._end_group()
            return False
        if len(line) > LONGEST_LINE or "|" in line:
            return False
        if taken := _read_list(line):
            self._add(*taken)
            return True
        if (match := _COLUMNS.fullmatch(line.replace("[+/-sd]", " stdev"))) is not None:
            self.columns = tuple(map(find_statistic, re.findall(_STATISTIC, match["names"], re.I)))
            self.is_by_thread = "thread" in match["label"].lower()
            return False
        if self.columns and (row := _ROW.fullmatch(line)) is not None and self._take_row(row):
            return True
        if (match := _LINE.fullmatch(line)) is not None and self._take_line(match):
            return True
        self._take_heading(line)
        return False

    def finish(self, *, is_end: bool = True) -> list[Times]:
        """The distributions that end above the last line."""
        if is_end:
            self._end_group()
        else:
            self._end_pending()
        found, self.done = self.done, []
        return [times for times in found if len(times.numbers) >= MIN_NAMES or not times.is_of_latency]

    def _end_pending(self) -> None:
        self.done += [self.pending] if self.pending else []
        self.pending = None

    def _end_group(self) -> None:
        if self.pending is not None:
            self.heading, self.unit, self.columns, self.is_of_latency = "", None, (), False
        self._end_pending()
        if {"lat_min", "lat_max", "lat_mean"} <= {*self.plain}:
            self.done.append(Times("", self.plain))
        self.plain = {}

    def _take_row(self, row: re.Match[str]) -> bool:
        label, cells = row["label"] or "", [cell[0] for cell in _CELL.finditer(row["values"])]
        if _CELL.sub("", row["values"]).strip() or len(cells) != len(self.columns):
            return False
        named = dict(zip(self.columns, cells, strict=True))
        if not (_LATENCY.search(label) or self.is_of_latency):
            if self.is_by_thread or (rate := _read_rate(label, named.get("mean", ""))) is None:
                return self.is_by_thread
            self._end_pending()
            self.done.append(Times(label, rate))
            return True
        numbers = {
            name: _read_time(cell, _unit_in(label) or self.unit) for name, cell in named.items() if name != "within"
        }
        found = {f"lat_{name}": number for name, number in numbers.items() if number is not None}
        if any(number.value > 0 for number in found.values()):
            self._add(label or self.heading, found)
        return True

    def _take_line(self, match: re.Match[str]) -> bool:
        name, number = find_statistic(match["name"]), _read_time(match["value"], self.unit)
        if number is None or not name:
            return False
        if self.is_of_latency:
            self._add(self.heading, {f"lat_{name}": number})
        elif number.unit is not None and match["name"].lower() in {"slowest", "fastest", "average"}:
            self.plain[f"lat_{name}"] = number
        else:
            return False
        return True

    def _take_heading(self, line: str) -> None:
        if (match := _HEADING.fullmatch(line)) is None:
            return
        self.columns = ()
        self.is_of_latency = _LATENCY.search(line) is not None and next(find_quantities(line), None) is None
        self.heading = match["words"] if self.is_of_latency else ""
        self.unit = _unit_in(line) if self.is_of_latency else None

    def _add(self, subject: str, numbers: Mapping[str, PrintedNumber]) -> None:
        if self.pending is not None and {*numbers} & {*self.pending.numbers}:
            self._end_pending()
        if self.pending is None:
            self.pending = Times(" ".join(subject.split()))
        self.pending.numbers |= numbers


def _read_rate(label: str, cell: str) -> dict[str, PrintedNumber] | None:
    """The rate of a row that its label names, such as ``Req/Sec``: a mean, in bytes where its cell has a size."""
    readings = unit_readings(label)[0]
    number = number_in(cell)
    if len(readings) != 1 or number is None or number.value <= 0:
        return None
    name = {"bytes/s": "bw", "operations/s": "iops"}.get(readings[0].kind, "")
    in_cell = unit_in_column(number.unit, readings[0].kind) if number.unit is not None else None
    value = number.value * (in_cell or readings[0]).factor
    return {name: PrintedNumber(value, number.rounding, readings[0])} if name else None


def find_behind(line: str) -> dict[str, PrintedNumber]:
    """The times of a line that have their statistic behind them: ``331.20 ms avg latency, 856 ms 99th``."""
    if "lat" not in line:
        return {}
    found: dict[str, PrintedNumber | None] = {}
    if "latency" in line:
        for match in _BEHIND.finditer(line):
            name = find_statistic(match["name"]) if match["name"] else "mean"
            found.setdefault(f"lat_{name}", _read_time(match[1], None))
    if not found and (before := _BEFORE.search(line)):
        mean = _read_time(before[1], None)
        found = {"lat_mean": mean, "lat_stdev": _read_time(before[2], mean.unit) if before[2] and mean else None}
    return {name: number for name, number in found.items() if number is not None and number.value > 0}


def _read_list(line: str) -> tuple[str, dict[str, PrintedNumber]] | None:
    """The times of one line whose names are a list of their own, before them."""
    if (match := _IN_BRACKETS.fullmatch(line)) is not None and _LATENCY.search(match["subject"]):
        names, parts = match["names"].split(","), match["values"].split(",")
    elif (match := _BY_SLASHES.search(line)) is not None:
        names, parts = match["names"].split("/"), match["values"].split("/")
    else:
        return None
    last = _read_time(parts[-1].strip(), None)
    numbers = [_read_time(part.strip(), last.unit if last else None) for part in parts]
    known = [find_statistic(name) for name in names]
    if len(known) != len(numbers) or not all(known) or not all(numbers):
        return None
    pairs = zip(known, numbers, strict=True)
    return match["subject"].strip(), {f"lat_{name}": number for name, number in pairs if number is not None}


def find_statistic(name: str) -> str:
    """A statistic by its short name: ``p999`` of ``99.9%``, ``mean`` of ``Avg``; empty for other words."""
    word = " ".join(name.lower().split()).rstrip(".")
    if word in _WORDS:
        return _WORDS[word]
    share = re.sub(r"^p|th$|st$|nd$|rd$| ?%$", "", word)
    whole, _, part = share.partition(".")
    if not whole.isdecimal() or (part and not part.isdecimal()):
        return ""
    if whole in {"0", "100"}:
        return "min" if whole == "0" else "max"
    return f"p{whole:0>2}{part.rstrip('0')}"


def _read_time(cell: str, unit: Unit | None) -> PrintedNumber | None:
    """A cell's time in seconds, in its unit or in that of the heading; none for other cells."""
    found = next(find_quantities(cell), None)
    if found is not None:
        number = found.number
        return PrintedNumber(found.base, number.rounding, number.unit) if found.kind == "s" else None
    plain = number_in(cell)
    if plain is None or plain.unit is not None or unit is None:
        return None
    return PrintedNumber(plain.value * unit.factor, plain.rounding, unit)


def _unit_in(words: str) -> Unit | None:
    match = _UNIT.search(words.replace("µ", "u"))
    readings = unit_readings(match[1])[0] if match else ()
    return readings[0] if readings and readings[0].kind == "s" else None
