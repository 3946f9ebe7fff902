"""Reads the tables of perftest (``ib_write_bw``, ``ib_read_lat`` …) into a Run: RDMA bandwidth and latency by size."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run

NAME = "perftest-text"
_BANDWIDTH = re.compile(
    r"^\s*#bytes\s+#iterations\s+BW peak\[(M|G)(B|b)/sec\]\s+BW average\[[MG][Bb]/sec\]\s+MsgRate\[Mpps\]", re.M
)
_LATENCY = re.compile(r"^\s*#bytes\s+#iterations\s+t_min\[usec\]\s+t_max\[usec\]\s+t_typical\[usec\]", re.M)
_ROW = re.compile(r"^[ \t]*(\d{1,12})[ \t]+(\d{1,12})((?:[ \t]+\d{1,12}(?:\.\d{1,9})?){3,8})[ \t]*$", re.M)
_TEST = re.compile(
    r"^\s*(?:RDMA_)?(Write|Read|Send|Atomic)\w*(?: Bidirectional)? (BW|Latency)(?: Post)? Test\s*$", re.M
)
_QUEUES = re.compile(r"Number of qps\s*:\s*(\d{1,6})")
_BOTH_WAYS = re.compile(r"Bidirectional")
_UNITS = {"MB": 2.0**20, "Gb": 1.25e8}
"""Bytes of what the heads call MB, which are of 2^20 bytes, and Gb (perftest, ``perftest_parameters.c``)."""
_STATISTICS = ("min", "max", "p50", "mean", "stdev", "p99", "p999")


def recognizes(text: str) -> bool:
    """Whether this looks like the output of perftest."""
    return _BANDWIDTH.search(text) is not None or _LATENCY.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line.

    Latencies of writes and sends are half a round trip, those of reads and atomic operations a whole one.
    """
    rates: list[Measurement] = []
    trips: list[Measurement] = []
    heads = sorted([*_BANDWIDTH.finditer(text), *_LATENCY.finditer(text)], key=lambda match: match.start())
    for at, head in enumerate(heads):
        before = text[heads[at - 1].end() if at else 0 : head.start()]
        rows = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)]
        given = _read_settings(before)
        for row in _ROW.finditer(rows):
            cells = row[3].split()
            if head.re is _BANDWIDTH:
                factor = _UNITS.get(head[1] + head[2], 1e9)
                found = figures(
                    bw=number(cells[1], factor), bw_max=number(cells[0], factor), iops=number(cells[2], 1e6)
                )
                if not found.get("bw_max") or not found["bw_max"].value:
                    found.pop("bw_max", None)  # With --report-both or a duration there is no peak.
                made, points = make_point({"bs": int(row[1]), **given}, found), rates
            else:
                times = {f"lat_{word}": number(cell, 1e-6) for word, cell in zip(_STATISTICS, cells, strict=False)}
                half = given.get("operation") not in {"read", "atomic"}
                parameters: Parameters = {"message": int(row[1]), "half_round_trip": half, **given}
                made, points = make_point(parameters, figures(**times)), trips
            points += [made] if made else []
    tables: list[ExperimentResult] = [
        printed.experiment("network.perftest", "RDMA bandwidth by perftest", NETWORK_THROUGHPUT, "bs", rates),
        printed.experiment("network.perftest-lat", "RDMA latency by perftest", "network_round_trip", "message", trips),
    ]
    return printed.run(NAME, "perftest", text, name, tables)


def _read_settings(text: str) -> Parameters:
    """What the lines above a table state of its test."""
    tests, queues = list(_TEST.finditer(text)), list(_QUEUES.finditer(text))
    found: Parameters = {"protocol": "rdma"}
    if tests:
        found["operation"] = tests[-1][1].lower()
        found["direction"] = "both" if _BOTH_WAYS.search(tests[-1][0]) else "up"
    if queues:
        found["streams"] = int(queues[-1][1])
    return found
