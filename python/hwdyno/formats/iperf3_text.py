"""Reads the text that iperf3 and iperf2 print into a Run: one point per test, from the summary at its end.

Transfers are in powers of 1024 and rates in powers of 1000 (esnet/iperf, ``units.c``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.point_details import Samples
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import loopback

NAME = "iperf3-text"
# "[  5]   0.00-10.00  sec  11.0 GBytes  9.42 Gbits/sec    0             sender"
_LINE = re.compile(
    r"^\s*(?P<id>\[\s*(?:\d{1,4}|SUM)\])(?:\[(?P<way>[TR]X-[CS])\])?\s+(?P<from>[\d.]+)-\s*(?P<to>[\d.]+)\s+sec\s+"
    r"(?P<moved>[\d.]+)\s*(?P<big>[KMGT]?)B{1,2}ytes\s+(?P<rate>[\d.]+)\s*(?P<prefix>[KMGT]?)"
    r"(?P<unit>bits|bites|bytes|Bytes)/sec(?P<rest>[^\n]*)$",
    re.M,
)
_DATAGRAMS = re.compile(r"(?<![\d.])([\d.]{1,30})\s*ms\s+(\d{1,15})/\s*\[?(\d{1,15})\s*\(([\d.e+-]+)%\)")
_CONNECTED = re.compile(r"local \S+ port \d+ connected (?:to|with) (\S+)")
_CONNECTING = re.compile(r"Connecting to host ([^\s,]+)|Client connecting to ([^\s,]+)")
_HOST = re.compile(r"\biperf3?\b[^\n]*\s-c\s+(\S+)")
_ACCEPTED = re.compile(r"Accepted connection from ([^\s,]+)")
_UDP = re.compile(r"\bUDP port\b|\biperf3?\b[^\n]*\s(?:-u|--udp)(?!\S)")
"""What the program prints of its protocol, or its command: prose around a test may name both protocols."""
LOSS_ERROR = 0.05
"""A share of losses is printed with two digits."""
MIN_INTERVALS, MAX_INTERVAL, SUM_ERROR = 4, 0.3, 0.1
"""Intervals of at most this share of a test must add up to its last line within this error."""
_START = re.compile(
    r"^(?:.*\biperf3?\s+-|Connecting to host|Server listening on|Accepted connection|-{10,}\s*$\n(?:Client|Server))",
    re.M,
)
_SERVERS = re.compile(r"^Server output:[^\S\n]*$.*?(?=^Connecting to host|^iperf Done|\Z)", re.M | re.S)
"""What ``--get-server-output`` adds: the same test again, as its other end saw it."""
_VERSION = re.compile(r"iperf (3\.[\d.]+)")
_DATAGRAM_BYTES = (512, 1024, 1400, 1448, 1460, 1470, 1472, 8192, 8948, 8972, 32768, 65507)
"""Common sizes: iperf2's and iperf3's defaults, those that fill an Ethernet frame, powers of two, and the greatest."""
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def recognizes(text: str) -> bool:
    """Whether this looks like iperf's text."""
    return _LINE.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    text = _SERVERS.sub("", text)
    lines = list(_LINE.finditer(text))
    tests = _split_tests(text, [line for line in lines if "(omitted)" not in line["rest"]])
    parts = zip(tests, _list_begins(text, tests), strict=True)
    points = [point for test, begin in parts for way in _ways(test) if (point := _point(way, text, begin)) is not None]
    version = _VERSION.search(text)
    table = printed.experiment("network.iperf3", "iperf3 results", NETWORK_THROUGHPUT, "streams", points)
    return printed.run(NAME, "iperf3", text, name, [table], version[1] if version else "")


def _split_tests(text: str, lines: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The lines of each test: one begins where the program starts, or where a line from 0 s on comes again."""
    tests: list[list[re.Match[str]]] = []
    ended, last_end_s = False, dict[str, float]()
    begun: set[tuple[str, str]] = set()
    for at, line in enumerate(lines):
        between = text[lines[at - 1].end() : line.start()] if at else ""
        from_s, to_s = parse_float(line["from"]), parse_float(line["to"])
        side = _side(line)
        stream = line["id"] + (line["way"] or "")
        # After the intervals of a stream comes one line more from 0 s on: their sum.
        is_sum = abs(last_end_s.get(stream, 0.0) - to_s) <= 0.02 * to_s and (stream, "sum") not in begun
        # Below the intervals are the lines of both ends, which may have lost the words for them.
        is_other_end = bool(tests) and _is_other_end(tests[-1], line) and stream in last_end_s
        again = from_s == 0 and (stream, side) in begun and not is_sum and not is_other_end
        is_start = _START.search(between) is not None
        fresh = from_s == 0 and ((is_start and (ended or to_s <= 1.5)) or (ended and "[ ID]" in between))
        if not tests or again or fresh:
            tests.append([])
            ended, last_end_s, begun = False, {}, set()
        tests[-1].append(line)
        ended = ended or bool(side)
        if from_s == 0:
            begun |= {(stream, "sum")} if (stream, side) in begun else {(stream, side)}
        else:
            last_end_s[stream] = to_s
    return tests


def _is_other_end(test: list[re.Match[str]], line: re.Match[str]) -> bool:
    """Whether a line is the second of two sums of one test: the lines of its two ends."""
    spans = [(other["id"], other["from"], other["to"]) for other in test]
    span = (line["id"], line["from"], line["to"])
    return spans[-1] == span and spans.count(span) == 1


def _list_begins(text: str, tests: list[list[re.Match[str]]]) -> Iterator[int]:
    """Where what belongs to each test begins: behind the one before, or with it where the program did not start."""
    begin, ended = 0, 0
    for test in tests:
        if _START.search(text[ended : test[0].start()]):
            begin = ended
        yield begin
        ended = test[-1].end()


def _side(line: re.Match[str]) -> str:
    """The end whose figures a line has, ``sender`` or ``receiver``; empty where it does not say."""
    if "Server Report:" in line.string[max(0, line.start() - 40) : line.start()]:
        return "receiver"  # of iperf2
    match = re.search(r"\b(?:sender|receiver)\b", line["rest"])
    return match[0] if match else ""


def parse_float(text: str) -> float:
    """A number of seconds; 0 for other text."""
    found = number(text)
    return found.value if found is not None else 0.0


def _is_of_sender(line: re.Match[str], datagrams: re.Match[str], text: str) -> bool:
    """Whether the rate beside lost datagrams is the sender's.

    iperf3 before 3.2 prints one line at the end of a test: bytes and rate of the sender, loss of the receiver. The
    datagrams' size shows it where all or those that arrived have a common one; else the client's line below it does.
    """
    if _side(line):
        return _side(line) == "sender"
    lost, total = (int(count) for count in datagrams.group(2, 3))
    moved = number(line["moved"], 1024.0 ** _POWERS[line["big"]])
    if not 0 < lost < total or moved is None:
        return False
    fits = [
        any(abs(moved.value / count / size - 1) <= 2 * moved.rounding + 0.001 for size in _DATAGRAM_BYTES)
        for count in (total, total - lost)
    ]
    if fits[0] != fits[1]:
        return fits[0]
    return re.match(r"\s*\[[^\]\n]*\]\s+Sent \d+ datagrams", text[line.end() : line.end() + 80]) is not None


def _keep_arrived(found: dict[str, PrintedNumber], datagrams: re.Match[str]) -> dict[str, PrintedNumber]:
    """The sender's figures with bytes and rate of what arrived."""
    lost, total = (int(count) for count in datagrams.group(2, 3))
    share = 1 - lost / total if total and lost < total else 0.0
    return {
        name: replace(figure, value=figure.value * share) if name in {"bw", "data"} else figure
        for name, figure in found.items()
    }


def _rate(line: re.Match[str]) -> float:
    unit_bytes = 1 / 8 if line["unit"].startswith("bit") else 1.0
    return parse_float(line["rate"]) * 1000.0 ** _POWERS[line["prefix"]] * unit_bytes


def _ways(lines: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The lines of each direction of a test: two for ``--bidir``, which marks every line with the client's role."""
    found: dict[str, list[re.Match[str]]] = {}
    for line in lines:
        found.setdefault((line["way"] or "")[:2], []).append(line)
    return [of for way, of in found.items() if way] or [lines]


def _point(lines: list[re.Match[str]], text: str, begin: int) -> Measurement | None:
    """The longest interval's line: the receiver's where both ends are given, of all streams together.

    ``begin`` is where the text of this test begins.
    """
    longest = max(parse_float(line["to"]) - parse_float(line["from"]) for line in lines)
    whole = [
        line
        for line in lines
        if parse_float(line["to"]) - parse_float(line["from"]) >= 0.9 * longest and _rate(line) > 0
    ]
    if not whole:
        return _sum_intervals(lines, text[begin : lines[0].start()])
    if (cut := _mean_of_intervals(lines, text[begin : lines[0].start()])) is not None:
        return cut
    sums = [line for line in whole if "SUM" in line["id"]] or whole
    ends = [line for line in sums if _side(line) == "receiver"] or sums
    line = ends[-1]
    before = text[begin : line.start()]
    datagrams = _DATAGRAMS.search(line["rest"])
    parameters: Parameters = {"protocol": "udp" if datagrams or _UDP.search(before) else "tcp"}
    ids = {interval["id"] for interval in lines if "SUM" not in interval["id"]}
    if ids or "SUM" not in line["id"]:
        parameters["streams"] = max(1, len(ids))
    if line["way"]:
        # The client's role; at the server the same bytes are named the other way round.
        parameters["direction"] = "up" if line["way"] in {"TX-C", "RX-S"} else "down"
    parameters |= _path(before)
    unit_bytes = 1 / 8 if line["unit"].startswith("bit") else 1.0
    scale = 1000.0 ** _POWERS[line["prefix"]] * unit_bytes
    found = figures(
        bw=number(line["rate"], scale, f"{line['prefix']}bit/s"),
        data=number(line["moved"], 1024.0 ** _POWERS[line["big"]], "GiB"),
        time=number(str(parse_float(line["to"]) - parse_float(line["from"]))),
    )
    is_received = _side(line) == "receiver"
    sent = [_rate(other) for other in sums if _side(other) != "receiver"] if is_received else []
    details = {"sent_bytes_s": sent[-1]} if sent else {}
    if datagrams is not None:
        found |= figures(loss=number(datagrams[4], 0.01), jitter=number(datagrams[1], 1e-3))
        if _is_of_sender(line, datagrams, text):
            details["sent_bytes_s"] = _rate(line)
            found = _keep_arrived(found, datagrams)
    made = make_point(parameters, found, **details)
    values = [
        _rate(interval)
        for interval in lines
        if 0 < parse_float(interval["to"]) - parse_float(interval["from"]) <= 0.5 * longest
        and interval["id"] == line["id"]
    ]
    if made is not None and len(values) > 2:
        span = Samples(min(values), sum(values) / len(values), max(values), 1.0, values=tuple(values[:600]))
        idle = (sum(value == 0 for value in values), len(values))
        made = replace(made, samples=span, details={**made.details, "idle_intervals": idle})
    return _with_wrong_sum(_with_wrong_losses(made, lines), lines, whole)


def _path(before: str) -> Parameters:
    """The path by the last host that the text of a test names before its figures; empty unless it is loopback."""
    named = [match for pattern in (_CONNECTED, _CONNECTING, _HOST, _ACCEPTED) for match in pattern.finditer(before)]
    last = max(named, key=lambda match: match.start(), default=None)
    host = next(filter(None, last.groups()), "") if last is not None else ""
    return {"path": "loopback"} if host and loopback.is_one(host) else {}


def _sum_intervals(lines: list[re.Match[str]], before: str) -> Measurement | None:
    """What arrived in a server's intervals of UDP, where the line of their sum has no bytes; none for other tests."""
    intervals = [line for line in lines if _rate(line) > 0 and _DATAGRAMS.search(line["rest"])]
    whole = [line for line in lines if line not in intervals]
    datagrams = _DATAGRAMS.search(whole[-1]["rest"]) if whole else None
    moved = [number(line["moved"], 1024.0 ** _POWERS[line["big"]], "GiB") for line in intervals]
    known = [figure for figure in moved if figure is not None]
    if datagrams is None or not known or len({line["id"] for line in intervals}) > 1:
        return None
    seconds = sum(parse_float(line["to"]) - parse_float(line["from"]) for line in intervals)
    bytes_, rounding = sum(figure.value for figure in known), max(figure.rounding for figure in known)
    found = figures(
        bw=PrintedNumber(bytes_ / seconds, rounding) if seconds > 0 else None,
        loss=number(datagrams[4], 0.01),
        jitter=number(datagrams[1], 1e-3),
    )
    made = make_point({"protocol": "udp", "streams": 1, **_path(before)}, found)
    return _with_wrong_losses(made, lines)


def _mean_of_intervals(lines: list[re.Match[str]], before: str) -> Measurement | None:
    """What intervals of TCP moved together, those without bytes too, where no line sums them up; none for other tests.

    Of several streams the lines of their sum count.
    """
    sums = [line for line in lines if "SUM" in line["id"]]
    parts, ids = sums or lines, {line["id"] for line in lines if "SUM" not in line["id"]}
    follow = all(line["to"] == following["from"] for line, following in pairwise(parts))
    if len(parts) < 2 or not follow or (len(ids) > 1 and not sums) or any(map(_side, lines)):
        return None
    if any(_DATAGRAMS.search(line["rest"]) for line in lines) or _UDP.search(before):
        return None
    seconds, values = sum(map(_length, parts)), [_rate(line) for line in parts]
    moved = sum(rate * _length(line) for rate, line in zip(values, parts, strict=True))
    rounding = max(figure.rounding for line in parts if (figure := number(line["rate"])) is not None)
    found = figures(bw=PrintedNumber(moved / seconds, rounding) if seconds > 0 else None)
    idle = (sum(value == 0 for value in values), len(values))
    made = make_point({"protocol": "tcp", "streams": max(1, len(ids)), **_path(before)}, found, idle_intervals=idle)
    if made is None or len(values) < 3:
        return made
    span = Samples(min(values), sum(values) / len(values), max(values), 1.0, values=tuple(values[:600]))
    return replace(made, samples=span)


def _with_wrong_losses(made: Measurement | None, lines: list[re.Match[str]]) -> Measurement | None:
    """The point with the lines whose share of lost datagrams is not that of their counts: share, lost and sent."""
    wrong: list[list[float]] = []
    for line in lines:
        match = _DATAGRAMS.search(line["rest"])
        if match is None or "[" in match[0] or not 0 < int(match[2]) <= int(match[3]):
            continue
        share, counted = number(match[4], 0.01), int(match[2]) / int(match[3])
        if share is not None and abs(share.value / counted - 1) > share.rounding + LOSS_ERROR:
            wrong.append([share.value, int(match[2]), int(match[3])])
    return made and replace(made, details={**made.details, **({"wrong_losses": wrong} if wrong else {})})


def _with_wrong_sum(
    made: Measurement | None, lines: list[re.Match[str]], whole: list[re.Match[str]]
) -> Measurement | None:
    """The point of TCP with the bytes that its intervals moved together, where neither end's last line has as many.

    What a receiver counts of datagrams is less than what a sender's intervals have.
    """
    if made is None or made.parameters["protocol"] != "tcp":
        return made
    ids, length = {line["id"] for line in whole}, max(map(_length, whole))
    parts = [line for line in lines if line["id"] in ids and 0 < _length(line) <= MAX_INTERVAL * length]
    totals, moved = ([figure for line in of if (figure := _count_bytes(line))] for of in (whole, parts))
    is_whole = abs(sum(map(_length, parts)) / length - 1) <= SUM_ERROR / 2 if length > 0 else False
    if len(ids) != 1 or len(parts) < MIN_INTERVALS or len(moved) < len(parts) or not is_whole:
        return made
    together = sum(figure.value for figure in moved)
    error = SUM_ERROR + sum(figure.rounding * figure.value for figure in moved) / (together or 1.0)
    if not totals or any(abs(together / total.value - 1) <= error + total.rounding for total in totals if total.value):
        return made
    sums = {"intervals": len(parts), "together": together, "whole": totals[-1].value}
    return replace(made, details={**made.details, "wrong_sum": sums})


def _count_bytes(line: re.Match[str]) -> PrintedNumber | None:
    return number(line["moved"], 1024.0 ** _POWERS[line["big"]])


def _length(line: re.Match[str]) -> float:
    return parse_float(line["to"]) - parse_float(line["from"])
