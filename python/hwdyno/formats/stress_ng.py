"""Reads the metrics that stress-ng prints (``--metrics`` or ``--metrics-brief``) into a Run."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.point_details import Claim
from hwdyno.model.words import Measurement, Run

NAME = "stress-ng-text"
_HEADS = re.compile(r"stressor\s+bogo ops\s+real time\s+usr time\s+sys time\s+bogo ops/s")
# "stress-ng: metrc: [1234] cpu    32154   10.00   39.98   0.01   3215.31   804.05"
_ROW = re.compile(
    r"^stress-ng: (?:info|metrc):\s+\[\d+\]\s+(?P<name>[a-z][\w-]{0,40})\s+(?P<ops>\d{1,15})"
    r"\s+(?P<real>\d{1,9}\.\d+)\s+(?P<usr>\d{1,9}\.\d+)\s+(?P<sys>\d{1,9}\.\d+)\s+(?P<rate>\d{1,15}\.\d+)",
    re.M,
)
_ERROR = 0.02
"""Its rate uses a time with more digits than it prints."""


def recognizes(text: str) -> bool:
    """Whether this looks like stress-ng's metrics."""
    return _HEADS.search(text) is not None and _ROW.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    from dataclasses import replace

    points: list[Measurement] = []
    for match in _ROW.finditer(text):
        operations, real, rate = number(match["ops"]), number(match["real"]), number(match["rate"])
        made = make_point({"operation": match["name"]}, figures(iops=rate))
        if made is None or operations is None or real is None or rate is None:
            continue
        if real.value > 0 and operations.value > 0:
            error = real.rounding + rate.rounding + _ERROR
            claim = Claim(
                "rate", rate.value, operations.value / real.value, "operations/s", "bogo ops / real time", error
            )
            made = replace(made, claims=(*made.claims, claim))
        points.append(made)
    table = printed.experiment("compute.stress-ng", "stress-ng results", "stress_ng", "operation", points)
    return printed.run(NAME, "stress-ng", text, name, [table])
