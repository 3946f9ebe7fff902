"""Reads ping's text into a Run: round trips of each host, with loss."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, number, point_of
from hwdyno.words import Measurement, Parameters, Run

NAME = "ping-text"
_SUMMARY = re.compile(
    r"^(?:rtt|round-trip) min/avg/max(?:/(?:mdev|stddev))? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms", re.M
)
_COUNTS = re.compile(r"(\d{1,12}) packets transmitted, (\d{1,12}) (?:packets )?received,[^\n]*?([\d.]+)% packet loss")
_HOST = re.compile(r"^--- (\S+) ping statistics ---", re.M)
_SIZE = re.compile(r"^(\d{1,6}) bytes from ([^\s:]+)", re.M)
HEADER = 8
"""Bytes of ICMP's own header, which ping counts in an answer."""


def recognizes(text: str) -> bool:
    """Whether this looks like ping's output."""
    return _SUMMARY.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    begin = 0
    for match in _SUMMARY.finditer(text):
        part = text[begin : match.start()]
        begin = match.end()
        size, host, counts = _last(_SIZE, part), _last(_HOST, part), _last(_COUNTS, part)
        parameters: Parameters = {"protocol": "icmp"}
        if size is not None:
            parameters["message"] = max(0, int(size[1]) - HEADER)
        if host is not None:
            local = host[1].startswith("127.") or host[1] in {"localhost", "::1"}
            parameters["path"] = "loopback" if local else host[1]
        found = figures(
            lat_min=number(match[1], 1e-3), lat_mean=number(match[2], 1e-3), lat_max=number(match[3], 1e-3),
            loss=number(counts[3], 0.01) if counts else None,
        )  # fmt: skip
        if (made := point_of(parameters, found)) is not None:
            points.append(made)
    table = printed.experiment("network.ping", "Round trips by ping", "network_round_trip", "message", points)
    return printed.run(NAME, "ping", text, name, [table])


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None
