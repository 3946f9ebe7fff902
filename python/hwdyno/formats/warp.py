"""Reads warp's text into a Run: each operation's objects/s, MiB/s, and times until the first and the last byte."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hwdyno.formats import object_results, printed
from hwdyno.formats.object_results import Requests, latency, read_time
from hwdyno.formats.row import figures, number
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Run

NAME = "warp-text"
_COLOUR = re.compile(r"\x1b\[[\d;]{0,20}m")
# "Report: GET. Concurrency: 20. Ran: 57s" since version 1; "Operation: GET (386413). Ran 1m0s. …" before.
_HEAD = re.compile(r"^ ?(?:Report|Operation): ([A-Za-z_]{2,20})(?=[ .,(]|$)")
_CLUSTER = re.compile(r"^Cluster Total: ")
# The first versions of 2020 print MiB as MB, by the mean size that they print beside.
_RATE = re.compile(
    r"^(?:\s{0,4}\* (?:(?:Average|Throughput): {1,2})?|Cluster Total: )"
    r"(?:(\d{1,12}(?:\.\d{1,6})?) Mi?B/s, )?(\d{1,12}(?:\.\d{1,6})?) (obj|ops)/s(?:, (\d{1,15}) errors)?"
)
_SPAN = re.compile(r"(?:\bRan:? |Duration: |over |\()((?:\d{1,4}[hm]){0,2}\d{0,9}(?:\.\d{1,9})?s?)(?=[\s.,;)]|$)")
_FACTS = {
    "concurrency": re.compile(r"Concurrency: (\d{1,7})"),
    "size": re.compile(r"Size: (\d{1,15}) bytes"),
    "per_request": re.compile(r"Objects per (?:request|operation): (\d{1,9})"),
}
_ERRORS = re.compile(r"^\s{0,4}(?:\* )?Errors: (\d{1,15})\s*$")
_TIMES = re.compile(r"^\s{0,4}\* (?:(Reqs|TTFB|First Byte): {1,2})?(?:Avg|Average): (.{1,400})$")
_NAMES = {
    **{"50%": "p50", "90%": "p90", "99%": "p99", "fastest": "min", "slowest": "max"},
    **{"median": "p50", "90th": "p90", "99th": "p99", "best": "min", "worst": "max"},
}
_TIME = re.compile(r"([\w%]{3,8}): ([\d.hmsuµμn]{1,24})(?=[,\s]|$)")
# " * 50% Median: 438.7MiB/s, 438.65 obj/s (1s, starting …)"
_SEGMENT = re.compile(
    r"^\s{0,4}\* (Fastest|50% Median|Slowest): (?:(\d{1,12}(?:\.\d{1,6})?) ?([KMGT]?i?)B/s(?:, |$))?"
    r"(?:(\d{1,12}(?:\.\d{1,6})?) (?:obj|ops)/s)?"
)
_STATISTICS = {"Fastest": "max", "50% Median": "p50", "Slowest": "min"}
_BYTES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_MIB = 2.0**20
_IN_PARTS = {"delete", "list", "snowball", "fanout", "post"}
"""Operations whose requests name many objects each, unless the text says how many."""
_BATCH_COMMANDS = re.compile(r"\bwarp[^\n]{0,40} (?:snowball|fanout)\b")


@dataclass(slots=True)
class _OperationText:
    """What one operation's part of the text states."""

    operation: str
    facts: dict[str, int] = field(default_factory=dict)
    span: PrintedNumber | None = None
    bandwidth: PrintedNumber | None = None
    rate: PrintedNumber | None = None
    errors: int = 0
    shared: int = 0
    """Requests in flight of all operations of a mix together."""
    times: dict[str, PrintedNumber] = field(default_factory=dict)
    first_byte: dict[str, PrintedNumber] = field(default_factory=dict)
    segments: dict[str, PrintedNumber] = field(default_factory=dict)


def recognizes(text: str) -> bool:
    """Whether this looks like warp's report."""
    return any(section.rate for section in _list_sections(text))


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    many = _BATCH_COMMANDS.search(text) is not None
    sections = list(_list_sections(text))
    if "Mixed operations." in text or _share_load(sections):
        for section in sections:
            section.shared = section.facts.pop("concurrency", 0)
    made = [object_results.to_point(_to_requests(section, many=many)) for section in sections]
    points: list[Measurement] = [point for point in made if point is not None]
    return printed.run(NAME, "warp", text, name, [object_results.experiment("warp", points)])


def _list_sections(text: str) -> Iterator[_OperationText]:
    section: _OperationText | None = None
    for raw in text.splitlines() if "obj/s" in text or "ops/s" in text else ():
        if ":" not in raw and "/" not in raw:
            continue  # It states nothing.
        line = _COLOUR.sub("", raw[:2000])
        head = _HEAD.match(line)
        if head or _CLUSTER.match(line):
            if section is not None:
                yield section
            section = _OperationText(head[1] if head else "total")
        if section is not None:
            _add_line(section, line, is_head=head is not None)
    if section is not None:
        yield section


def _share_load(sections: Sequence[_OperationText]) -> bool:
    """Whether operations ran at once: by Little's law all of them together have no more in flight than is stated."""
    stated = {section.facts.get("concurrency", 0) for section in sections}
    products = [
        section.rate.value * section.times["mean"].value
        for section in sections
        if section.rate is not None and "mean" in section.times
    ]
    return len(products) > 1 and len(stated) == 1 and 0 < sum(products) <= 1.1 * max(stated)


def _add_line(section: _OperationText, line: str, *, is_head: bool) -> None:
    """Adds what a line of a section states; the first of each kind is of all hosts and clients together."""
    for fact, pattern in _FACTS.items():
        if found := pattern.search(line):
            section.facts.setdefault(fact, int(found[1]))
    if (errors := _ERRORS.match(line)) and not section.errors:
        section.errors = int(errors[1])
    if section.rate is None and (rate := _RATE.match(line)):
        section.bandwidth, section.rate = number(rate[1], _MIB, "MiB/s"), number(rate[2])
        section.errors = section.errors or int(rate[4] or 0)
        is_head = True
    if is_head and section.span is None and (span := _SPAN.search(line)):
        section.span = read_time(span[1])
    if times := _TIMES.match(line):
        into = section.first_byte if times[1] in {"TTFB", "First Byte"} else section.times
        if not into:
            into.update(_read_times("mean: " + times[2]))
    if segment := _SEGMENT.match(line):
        statistic = _STATISTICS[segment[1]]
        speed = number(segment[2], _BYTES.get(segment[3] or "", 1.0))
        figure = speed or number(segment[4])
        if figure is not None and figure.value > 0:
            section.segments.setdefault(f"{'bw' if speed else 'iops'}_{statistic}", figure)


def _read_times(line: str) -> dict[str, PrintedNumber]:
    found = dict[str, PrintedNumber]()
    for word, time in _TIME.findall(line):
        name = "mean" if word == "mean" else _NAMES.get(word.lower(), "")
        seconds = read_time(time)
        if name and seconds is not None and seconds.value > 0:
            found.setdefault(name, seconds)
    return found


def _to_requests(section: _OperationText, *, many: bool) -> Requests:
    """The rate is of requests where the text says how many objects each has, or where each has one."""
    facts, operation = section.facts, section.operation
    rate, per_request = section.rate, facts.get("per_request", 0)
    is_one_each = per_request == 1 or not (per_request or many or operation.lower() in _IN_PARTS)
    if rate is not None and per_request > 1:
        rate = PrintedNumber(rate.value / per_request, rate.rounding, None)
    found = figures(bw=section.bandwidth, iops=rate)
    found |= {f"lat_{name}": time for name, time in section.times.items()}
    if not per_request or per_request == 1:
        found |= section.segments
    size, span_s = facts.get("size", 0) if is_one_each else 0, section.span.value if section.span else 0.0
    details = {"objects_per_request": per_request, "concurrency_of_all": section.shared}
    return Requests(
        operation,
        found,
        concurrency=facts.get("concurrency", 0),
        object_size=size,
        first_byte=latency(section.first_byte),
        completed=round(rate.value * span_s) if rate is not None else 0,
        elapsed_s=span_s,
        failed={"a request that warp counts as an error": section.errors},
        counts_objects=not is_one_each and per_request <= 1,
        details={key: value for key, value in details.items() if value},
    )
