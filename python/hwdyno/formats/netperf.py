"""Reads netperf's text into a Run: streams (10^6 bits/s unless it says otherwise) and request/response tests."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, number, point_of
from hwdyno.words import Measurement, Parameters, Run

NAME = "netperf-text"
_TEST = re.compile(
    r"^(?:MIGRATED )?(TCP|UDP|SCTP|OMNI)? ?(STREAM|MAERTS|SENDFILE|REQUEST/RESPONSE|Connect/Request/Response|RR|CRR)? ?"
    r"(?:Connect/Request/Response )?TEST from \S+[^\n]{0,200} to ([^\s(]+)",
    re.M,
)
_UNIT = re.compile(r"10\^(\d)bits/s|([KMG])Bytes/s|([KMG]i?B)/s")
_STREAM = re.compile(r"^\s*\d+\s+\d+\s+(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)*\s*$", re.M)
_UDP = re.compile(
    r"^\s*\d+\s+(\d+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s*\n\s*\d+\s+[\d.]+\s+(\d+)\s+([\d.]+)\s*$", re.M
)
_TRIPS = re.compile(r"^\s*\d+\s+\d+\s+(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)*\s*$", re.M)
_POWERS = {"K": 1, "M": 2, "G": 3}


def recognizes(text: str) -> bool:
    """Whether this looks like netperf's output."""
    return _TEST.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    streams: list[Measurement] = []
    trips: list[Measurement] = []
    starts = list(_TEST.finditer(text))
    for at, match in enumerate(starts):
        part = text[match.end() : starts[at + 1].start() if at + 1 < len(starts) else len(text)]
        title = text[match.start() : match.end()].upper()
        protocol = "udp" if "UDP" in title else "sctp" if "SCTP" in title else "tcp"
        parameters: Parameters = {"protocol": protocol}
        if match[3].startswith("127.") or match[3] == "localhost":
            parameters["path"] = "loopback"
        if "REQUEST" in title or "RR TEST" in title:
            if row := _TRIPS.search(part):
                given: Parameters = {
                    **parameters,
                    "message": int(row[1][:9]),
                    "connects": "CONNECT" in title or "CRR" in title,
                }
                made = point_of(given, figures(iops=number(row[4])))
                trips += [made] if made else []
        elif protocol == "udp":
            if row := _UDP.search(part):
                each = {**parameters, "block": int(row[1][:9])}
                lost = number(row[3])
                got = number(row[6])
                loss = max(0.0, 1 - got.value / lost.value) if lost and got and lost.value else 0.0
                made = point_of(each, figures(bw=number(row[7], _scale(part)), time=number(row[2])), loss_share=loss)
                streams += [made] if made else []
        elif row := _STREAM.search(part):
            each = {**parameters, "block": int(row[1][:9])}
            made = point_of(each, figures(bw=number(row[3], _scale(part)), time=number(row[2])))
            streams += [made] if made else []
    tables = [
        printed.experiment("network.netperf", "netperf streams", "network_throughput", "block", streams),
        printed.experiment(
            "network.netperf-rr", "netperf requests and responses", "network_round_trip", "message", trips
        ),
    ]
    return printed.run(NAME, "netperf", text, name, tables)


def _scale(part: str) -> float:
    """Bytes/s of the table's unit."""
    unit = _UNIT.search(part)
    if unit is None or unit[1]:
        return 10.0 ** int(unit[1] if unit else 6) / 8
    if unit[2]:
        return 1024.0 ** _POWERS[unit[2]]
    return (1024.0 if "i" in unit[3] else 1000.0) ** _POWERS[unit[3][0]]
