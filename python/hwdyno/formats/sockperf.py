"""Reads sockperf's text into a Run. Its latency is half a round trip, its MBps are of 2^20 bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import loopback

NAME = "sockperf-text"
_VERSION = re.compile(r"sockperf:?\s.{0,12}== version #([\w.-]+)")
_LATENCY = re.compile(r"(?:Summary: )?(Latency|Round trip) is ([\d.]+) usec")
_COUNTS = re.compile(
    r"Valid Duration\] RunTime=([\d.]+) sec; SentMessages=(\d{1,18}); ReceivedMessages=(\d{1,18})\b", re.ASCII
)
_ENDS = {
    "lat_max": re.compile(r"(?<!\w)<?MAX>? observation\s*=\s*([\d.]+)"),
    "lat_min": re.compile(r"(?<!\w)<?MIN>? observation\s*=\s*([\d.]+)"),
}
_PERCENTILE = re.compile(r"percentile (\d\d)\.(\d{3})\s*=\s*([\d.]+)")
_OBSERVATIONS = re.compile(r"Total (\d{1,15}) observations")
_RATE = re.compile(r"Summary: Message Rate is (\d+) \[msg/sec\]")
_BANDWIDTH = re.compile(r"Summary: BandWidth is ([\d.]+) MBps")
_PEER = re.compile(r"IP = (\S+)\s+PORT =\s+\d+ # (TCP|UDP)")
_SIZE = re.compile(r"msg-size=(\d{1,8})")
_TEST = re.compile(r"sockperf.{0,20}== version")


@dataclass(frozen=True, slots=True)
class PingPongTimes:
    """What ``sockperf ping-pong`` says of its messages."""

    times: dict[str, PrintedNumber]
    """``lat_mean``, ``lat_p99`` … in seconds: of round trips, or of half ones."""
    is_half: bool
    sent: int | None
    received: int | None
    took_s: float | None
    observations: int | None


def exchange(text: str) -> PingPongTimes | None:
    """The figures of one test; none where it is none of latency. Raises ``UserError``."""
    match, counts = _LATENCY.search(text), _COUNTS.search(text)
    if match is None:
        return None
    found = {name: number(line[1], 1e-6) for name, pattern in _ENDS.items() if (line := pattern.search(text))}
    for whole, fraction, value in _PERCENTILE.findall(text):
        if int(whole) >= 50:
            found[f"lat_p{whole}{fraction.rstrip('0')}"] = number(value, 1e-6)
    took = number(counts[1]) if counts else None
    return PingPongTimes(
        figures(lat_mean=number(match[2], 1e-6), **found), match[1] == "Latency",
        int(counts[2]) if counts else None, int(counts[3]) if counts else None, took.value if took else None,
        int(of[1]) if (of := _OBSERVATIONS.search(text)) else None,
    )  # fmt: skip


def recognizes(text: str) -> bool:
    """Whether this looks like sockperf's output."""
    return "sockperf" in text and (_LATENCY.search(text) is not None or _RATE.search(text) is not None)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    trips: list[Measurement] = []
    streams: list[Measurement] = []
    starts = [match.start() for match in _TEST.finditer(text)] or [0]
    for at, begin in enumerate(starts):
        part = text[begin : starts[at + 1] if at + 1 < len(starts) else len(text)]
        peer, size = _PEER.search(part), _SIZE.search(part)
        parameters: Parameters = {"protocol": peer[2].lower()} if peer else {}
        if size is not None:
            parameters["message"] = int(size[1])
        if peer is not None and loopback.is_one(peer[1]):
            parameters["path"] = "loopback"
        if (tried := exchange(part)) is not None:
            known = {"observations": tried.observations} if tried.observations else {}
            made = make_point({**parameters, "half_round_trip": tried.is_half}, tried.times, **known)
            trips += [made] if made else []
        elif match := _RATE.search(part):
            bandwidth = _BANDWIDTH.search(part)
            made = make_point(
                parameters, figures(iops=number(match[1]), bw=number(bandwidth[1], 2.0**20) if bandwidth else None)
            )
            streams += [made] if made else []
    version = _VERSION.search(text)
    tables = [
        printed.experiment(
            "network.sockperf", "sockperf latency (half a round trip)", "network_round_trip", "message", trips
        ),
        printed.experiment("network.sockperf-rate", "sockperf throughput", NETWORK_THROUGHPUT, "message", streams),
    ]
    return printed.run(NAME, "sockperf", text, name, tables, version[1] if version else "")
