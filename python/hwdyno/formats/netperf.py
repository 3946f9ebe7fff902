"""Reads netperf's text into a Run: streams (10^6 bits/s unless it says otherwise) and request/response tests."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.words import Measurement, Parameters, Run
from hwdyno.system import loopback

NAME = "netperf-text"
_TEST = re.compile(
    r"^(?:MIGRATED )?(TCP|UDP|SCTP|OMNI)? ?(STREAM|MAERTS|SENDFILE|REQUEST/RESPONSE|Connect/Request/Response|RR|CRR|"
    r"Send|Receive)? ?"
    r"(?:Connect/Request/Response )?TEST from \S+[^\n]{0,200} to\s([^\s(]+)",
    re.M,
)
_UNIT = re.compile(r"10\^(\d)bits/s|([KMG])Bytes/s|([KMG]i?B)/s")
_STREAM = re.compile(r"^\s*\d+\s+\d+\s+(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)*\s*$", re.M)
_UDP = re.compile(
    r"^\s*\d+\s+(\d+)\s+([\d.]+)\s+(\d+)\s+(\d+)\s+([\d.]+)\s*\n\s*\d+\s+[\d.]+\s+(\d+)\s+([\d.]+)\s*$", re.M
)
_TRIPS = re.compile(r"^\s*\d+\s+\d+\s+(\d+)\s+(\d+)\s+([\d.]+)\s+([\d.]+)(?:\s+[\d.]+)*\s*$", re.M)
_OMNI = re.compile(r"^\s*\d+\s+\d+\s+(\d+)\s+([\d.]+)\s+([\d.]+)\s+10\^(\d)bits/s\s*$", re.M)
_SELECTED = re.compile(r"^([A-Z][A-Z0-9_]{2,60})=([^\n]{0,200})$", re.M)
_COMMAS = re.compile(r"^(Throughput,Throughput Units[^\0]{0,2000}?)\n(\d[\d.]*,[^\n]{1,2000})$", re.M)
_POWERS = {"K": 1, "M": 2, "G": 3}
TRANSACTIONS = "Trans/s"
LATENCIES = {
    "MEAN_LATENCY": "mean",
    "MIN_LATENCY": "min",
    "P50_LATENCY": "p50",
    "P90_LATENCY": "p90",
    "P99_LATENCY": "p99",
    "MAX_LATENCY": "max",
    "STDDEV_LATENCY": "stddev",
}
"""netperf's output selectors of the latency, in microseconds, by our names."""
_TITLES = {
    "Mean": "MEAN", "Minimum": "MIN", "50th Percentile": "P50", "90th Percentile": "P90", "99th Percentile": "P99",
    "Maximum": "MAX", "Stddev": "STDDEV",
}  # fmt: skip


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
        if loopback.is_one(match[3]):
            parameters["path"] = "loopback"
        if selected := selectors(part):
            made = _read_selectors(parameters, selected)
            (trips if selected.get("THROUGHPUT_UNITS") == TRANSACTIONS else streams).extend([made] if made else [])
        elif "REQUEST" in title or "RR TEST" in title:
            if row := _TRIPS.search(part):
                given: Parameters = {
                    **parameters,
                    "message": int(row[1][:9]),
                    "connects": "CONNECT" in title or "CRR" in title,
                }
                made = make_point(given, figures(iops=number(row[4])))
                trips += [made] if made else []
        elif protocol == "udp":
            if row := _UDP.search(part):
                given = {**parameters, "block": int(row[1][:9])}
                lost = number(row[3])
                got = number(row[6])
                loss = max(0.0, 1 - got.value / lost.value) if lost and got and lost.value else 0.0
                made = make_point(given, figures(bw=number(row[7], _scale(part)), time=number(row[2])), loss_share=loss)
                streams += [made] if made else []
        elif row := _OMNI.search(part):
            given = {**parameters, "block": int(row[1][:9])}
            made = make_point(given, figures(bw=number(row[3], 10.0 ** int(row[4]) / 8), time=number(row[2])))
            streams += [made] if made else []
        elif row := _STREAM.search(part):
            given = {**parameters, "block": int(row[1][:9])}
            made = make_point(given, figures(bw=number(row[3], _scale(part)), time=number(row[2])))
            streams += [made] if made else []
    tables = [
        printed.experiment("network.netperf", "netperf streams", NETWORK_THROUGHPUT, "block", streams),
        printed.experiment(
            "network.netperf-rr", "netperf requests and responses", "network_round_trip", "message", trips
        ),
    ]
    return printed.run(NAME, "netperf", text, name, tables)


def selectors(text: str) -> dict[str, str]:
    """What ``netperf … -- -k NAMES`` prints: its output selectors with their values."""
    found = {name: value.strip() for name, value in _SELECTED.findall(text)}
    return found or _by_commas(text)


def _by_commas(text: str) -> dict[str, str]:
    """The same of ``-- -o NAMES``, which prints a line of titles and a line of values."""
    rows = _COMMAS.search(text)
    if rows is None:
        return {}
    titles, values = (" ".join(row.split()).split(",") for row in rows.groups())
    found = {}
    for title, value in zip(titles, values, strict=False):
        latency = _TITLES.get(title.removesuffix(" Latency Microseconds"))
        name = re.sub(r" \(sec\)| Bytes", "", title).upper().replace(" ", "_")
        found[f"{latency}_LATENCY" if latency else name] = value
    return found


def _read_selectors(parameters: Parameters, found: Mapping[str, str]) -> Measurement | None:
    """A point of the output selectors; none without a throughput."""
    rate, unit, elapsed = (found.get(name, "") for name in ("THROUGHPUT", "THROUGHPUT_UNITS", "ELAPSED_TIME"))
    if protocol := found.get("PROTOCOL", "").lower():
        parameters = {**parameters, "protocol": protocol}
    if unit == TRANSACTIONS:
        size = number(found.get("REQUEST_SIZE"))
        given: Parameters = {**parameters, "connects": False, **({"message": int(size.value)} if size else {})}
        times = {
            f"lat_{name}": number(found.get(selector), 1e-6) for selector, name in LATENCIES.items() if name != "stddev"
        }
        return make_point(given, figures(iops=number(rate), time=number(elapsed), **times))
    size = number(found.get("LOCAL_SEND_SIZE"))
    given = {**parameters, **({"block": int(size.value)} if size else {})}
    return make_point(given, figures(bw=number(rate, _scale(unit)), time=number(elapsed)))


def _scale(part: str) -> float:
    """Bytes/s of the table's unit."""
    unit = _UNIT.search(part)
    if unit is None or unit[1]:
        return 10.0 ** int(unit[1] if unit else 6) / 8
    if unit[2]:
        return 1024.0 ** _POWERS[unit[2]]
    return (1024.0 if "i" in unit[3] else 1000.0) ** _POWERS[unit[3][0]]
