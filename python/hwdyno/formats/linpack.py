"""Reads what LINPACK prints into a Run: HPL (hpcc's too) and the table of Intel's linpack."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.words import Measurement, Parameters, Run

NAME = "linpack-text"
# "WR11C2R4   10000   192     1     2     12.34     5.401e+01": variant, N, NB, P, Q, seconds, Gflops.
_HPL = re.compile(
    r"^(W[RC]\d\w+)\s+(\d{1,9})\s+(\d{1,6})\s+(\d{1,6})\s+(\d{1,6})\s+([\d.eE+-]+)\s+([\d.eE+-]+)\s*$", re.M
)
# "1000   1000   4      0.009      72.2156  1.0e-12   3.5e-02   pass": size, LDA, alignment, s, Gflops, residuals.
_INTEL = re.compile(
    r"^(\d{1,9})\s+\d{1,9}\s+\d{1,9}\s+([\d.eE+-]+)\s+([\d.eE+-]+)\s+[\d.eE+-]+\s+([\d.eE+-]+)\s+(pass|fail)\s*$", re.M
)
_VERSION = re.compile(r"HPLinpack ([\d.]+)")
_CHECK = re.compile(r"=\s*([\d.eE+-]+)\s*\.+\s*(PASSED|FAILED)")


def recognizes(text: str) -> bool:
    """Whether this looks like HPL's or Intel's output."""
    return _HPL.search(text) is not None or ("GFlops" in text and _INTEL.search(text) is not None)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    rows = list(_HPL.finditer(text))
    for at, match in enumerate(rows):
        end = rows[at + 1].start() if at + 1 < len(rows) else len(text)
        rate = printed.figure(match[7])
        check = _CHECK.search(text, match.end(), end)
        if rate:
            verdict = "unknown" if check is None else check[2].lower()
            ranks = int(match[4]) * int(match[5])
            parameters: Parameters = {"operation": "lu", "n": int(match[2]), "nb": int(match[3]), "threads": ranks}
            told = {"residual": float(check[1])} if check and printed.figure(check[1]) else {}
            points.append(printed.point(parameters, rate * 1e9, "FLOP/s", None, verification=verdict, **told))
    for match in _INTEL.finditer(text):
        rate = printed.figure(match[3])
        if rate:
            verdict = "passed" if match[5] == "pass" else "failed"
            points.append(
                printed.point({"operation": "lu", "n": int(match[1])}, rate * 1e9, "FLOP/s", verification=verdict)
            )
    version = _VERSION.search(text)
    table = printed.experiment("compute.linpack", "What did LINPACK measure?", "linpack", "n", points)
    return printed.run(NAME, "LINPACK", text, name, [table], version[1] if version else "")
