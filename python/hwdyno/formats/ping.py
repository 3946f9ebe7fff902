"""Reads ping's text into a Run: round trips of each host, with loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import loopback

NAME = "ping-text"
_SUMMARY = re.compile(
    r"^(?:rtt|round-trip) min/avg/max(?:/(?:mdev|stddev))? = ([\d.]+)/([\d.]+)/([\d.]+)(?:/([\d.]+))? ms", re.M
)
_COUNTS = re.compile(
    r"\b(\d{1,12}) packets transmitted, (\d{1,12}) (?:packets )?received,[^\n]*?([\d.]+)% packet loss"
    r"(?:, time (\d{1,15}) ?ms)?",
    re.ASCII,
)
_HOST = re.compile(r"^--- (\S+) ping statistics ---", re.M)
_SIZE = re.compile(r"^(\d{1,6}) bytes from ([^\s:]+)", re.M)
_REPLY = re.compile(r"^\d{1,6} bytes from [^\n]*?\bicmp_seq=(\d{1,9})\b[^\n]*?\btime=([\d.]{1,12}) ms", re.M)
MIN_REPLIES = 5
HEADER = 8
"""Bytes of ICMP's own header, which ping counts in an answer."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """What ping says of one host at its end, with the text above it; times in seconds."""

    above: str
    least: PrintedNumber | None
    mean: PrintedNumber | None
    most: PrintedNumber | None
    deviation: PrintedNumber | None
    sent: int | None
    received: int | None
    loss: PrintedNumber | None
    took_s: float | None


def echoes(text: str) -> Iterator[Echoes]:
    """Each host's summary. Raises ``UserError``."""
    begin = 0
    for match in _SUMMARY.finditer(text):
        above, begin = text[begin : match.start()], match.end()
        counts = _last(_COUNTS, above)
        least, mean, most, deviation = (number(group, 1e-3) for group in match.groups())
        sent, received = (int(counts[at]) if counts else None for at in (1, 2))
        loss = number(counts[3], 0.01) if counts else None
        took_s = int(counts[4]) / 1e3 if counts and counts[4] else None
        yield Echoes(above, least, mean, most, deviation, sent, received, loss, took_s)


def recognizes(text: str) -> bool:
    """Whether this looks like ping's output."""
    return _SUMMARY.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    for summary in echoes(text):
        size, host = _last(_SIZE, summary.above), _last(_HOST, summary.above)
        parameters: Parameters = {"protocol": "icmp"}
        if size is not None:
            parameters["message"] = max(0, int(size[1]) - HEADER)
        if host is not None:
            parameters["path"] = "loopback" if loopback.is_one(host[1]) else host[1]
        found = figures(lat_min=summary.least, lat_mean=summary.mean, lat_max=summary.most, loss=summary.loss)
        if (made := make_point(parameters, found, **_first_reply(summary))) is not None:
            points.append(made)
    table = printed.experiment("network.ping", "Round trips by ping", "network_round_trip", "message", points)
    return printed.run(NAME, "ping", text, name, [table])


def _first_reply(summary: Echoes) -> dict[str, object]:
    """The first reply's time and the mean and maximum of the others, s, where the text has every reply."""
    replies = [(int(match[1]), number(match[2], 1e-3)) for match in _REPLY.finditer(summary.above)]
    times = [time.value for _, time in replies if time is not None]
    if len(times) < MIN_REPLIES or len(times) != summary.received or replies[0][0] not in {0, 1}:
        return {}
    first, *others = times
    return {"first_reply": {"first": first, "mean": sum(others) / len(others), "max": max(others), "count": len(times)}}


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return found[-1] if found else None
