"""Reads the text that iperf3 and iperf2 print into a Run: one point per test, from the summary at its end.

Transfers are in powers of 1024 and rates in powers of 1000 (esnet/iperf, ``units.c``).
"""

from __future__ import annotations

import re
from dataclasses import replace

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.point_details import Samples
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
_START = re.compile(
    r"^(?:.*\biperf3?\s+-|Connecting to host|Server listening on|Accepted connection|-{10,}\s*$\n(?:Client|Server))",
    re.M,
)
_SERVERS = re.compile(r"^Server output:[^\S\n]*$.*?(?=^Connecting to host|^iperf Done|\Z)", re.M | re.S)
"""What ``--get-server-output`` adds: the same test again, as its other end saw it."""
_VERSION = re.compile(r"iperf (3\.[\d.]+)")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def recognizes(text: str) -> bool:
    """Whether this looks like iperf's text."""
    return _LINE.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    text = _SERVERS.sub("", text)
    lines = list(_LINE.finditer(text))
    tests: list[list[re.Match[str]]] = []
    for at, line in enumerate(lines):
        between = text[lines[at - 1].end() : line.start()] if at else ""
        ended = bool(tests) and any(re.search(r"\b(?:sender|receiver)\b", row["rest"]) for row in tests[-1])
        first = parse_float(line["from"]) == 0 and (ended or parse_float(line["to"]) <= 1.5)
        fresh = first and _START.search(between)
        if not tests or fresh:
            tests.append([])
        tests[-1].append(line)
    points = [point for test in tests for way in _ways(test) if (point := _point(way, text)) is not None]
    version = _VERSION.search(text)
    table = printed.experiment("network.iperf3", "iperf3 results", NETWORK_THROUGHPUT, "streams", points)
    return printed.run(NAME, "iperf3", text, name, [table], version[1] if version else "")


def parse_float(text: str) -> float:
    """A number of seconds; 0 for other text."""
    found = number(text)
    return found.value if found is not None else 0.0


def _rate(line: re.Match[str]) -> float:
    unit_bytes = 1 / 8 if line["unit"].startswith("bit") else 1.0
    return parse_float(line["rate"]) * 1000.0 ** _POWERS[line["prefix"]] * unit_bytes


def _ways(lines: list[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The lines of each direction of a test: two for ``--bidir``, which marks every line with the client's role."""
    found: dict[str, list[re.Match[str]]] = {}
    for line in lines:
        found.setdefault((line["way"] or "")[:2], []).append(line)
    return [of for way, of in found.items() if way] or [lines]


def _point(lines: list[re.Match[str]], text: str) -> Measurement | None:
    """The longest interval's line: the receiver's where both ends are given, of all streams together."""
    longest = max(parse_float(line["to"]) - parse_float(line["from"]) for line in lines)
    whole = [
        line
        for line in lines
        if parse_float(line["to"]) - parse_float(line["from"]) >= 0.9 * longest and _rate(line) > 0
    ]
    if not whole:
        return None
    sums = [line for line in whole if "SUM" in line["id"]] or whole
    ends = [line for line in sums if "receiver" in line["rest"]] or sums
    line = ends[-1]
    before = text[: line.start()]
    datagrams = _DATAGRAMS.search(line["rest"])
    parameters: Parameters = {"protocol": "udp" if datagrams or re.search(r"\bUDP\b", before[-4000:]) else "tcp"}
    ids = {interval["id"] for interval in lines if "SUM" not in interval["id"]}
    parameters["streams"] = max(1, len(ids))
    if line["way"]:
        # The client's role; at the server the same bytes are named the other way round.
        parameters["direction"] = "up" if line["way"] in {"TX-C", "RX-S"} else "down"
    hosts = [match[1] for match in _CONNECTED.finditer(before)]
    hosts += [match[1] or match[2] for match in _CONNECTING.finditer(before)]
    hosts += [match[1] for match in _HOST.finditer(before)]
    if hosts and loopback.is_one(hosts[-1]):
        parameters["path"] = "loopback"
    unit_bytes = 1 / 8 if line["unit"].startswith("bit") else 1.0
    scale = 1000.0 ** _POWERS[line["prefix"]] * unit_bytes
    found = figures(
        bw=number(line["rate"], scale, f"{line['prefix']}bit/s"),
        data=number(line["moved"], 1024.0 ** _POWERS[line["big"]], "GiB"),
        time=number(str(parse_float(line["to"]) - parse_float(line["from"]))),
    )
    if datagrams is not None:
        found |= figures(loss=number(datagrams[4], 0.01), jitter=number(datagrams[1], 1e-3))
    made = make_point(parameters, found)
    values = [
        _rate(interval)
        for interval in lines
        if 0 < parse_float(interval["to"]) - parse_float(interval["from"]) <= 0.5 * longest
        and interval["id"] == line["id"]
    ]
    if made is not None and len(values) > 2:
        span = Samples(min(values), sum(values) / len(values), max(values), 1.0, values=tuple(values[:600]))
        made = replace(made, samples=span)
    return made
