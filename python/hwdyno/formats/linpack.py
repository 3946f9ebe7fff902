"""Reads LINPACK's output into a Run: HPL (also hpcc's) and Intel's linpack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from hwdyno.analysis import estimates
from hwdyno.formats import printed
from hwdyno.model.point_details import Claim
from hwdyno.model.units import printed_error
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "linpack-text"
# "WR11C2R4   10000   192     1     2     12.34     5.401e+01": variant, N, NB, P, Q, seconds, Gflops.
_HPL = re.compile(
    r"^(W[RC]\d\w+)\s+([1-9]\d{,8})\s+([1-9]\d{,5})\s+([1-9]\d{,5})\s+([1-9]\d{,5})\s+([\d.eE+-]+)\s+([\d.eE+-]+)\s*$",
    re.M | re.ASCII,
)
# "1000   1000   4      0.009      72.2156  1.0e-12   3.5e-02   pass": size, LDA, alignment, s, Gflops, residuals.
_INTEL = re.compile(
    r"^([1-9]\d{,8})\s+\d{1,9}\s+\d{1,9}\s+([\d.eE+-]+)\s+([\d.eE+-]+)\s+[\d.eE+-]+\s+([\d.eE+-]+)\s+(pass|fail)\s*$",
    re.M | re.ASCII,
)
# "1000   1000   4       57.4654  71.7285", under the heads "Average" and "Maximal".
_SUMMARY = re.compile(r"^([1-9]\d{,8})\s+\d{1,9}\s+\d{1,9}\s+([\d.eE+]+)\s+([\d.eE+]+)\s*$", re.M | re.ASCII)
_HEADS = re.compile(r"Size\s+LDA\s+Align\.\s+Average\s+Maximal", re.I)
_THREADS = re.compile(r"Number of threads:\s*([1-9]\d{,5})\s*$", re.M | re.ASCII)
_VERSION = re.compile(r"HPLinpack ([\d.]+)")
_CHECK = re.compile(r"=\s*([\d.eE+-]+)\s*\.+\s*(PASSED|FAILED)")


def recognizes(text: str) -> bool:
    """Whether this looks like HPL's or Intel's output."""
    if _HPL.search(text) is not None:
        return True
    return "GFlops" in text and (_INTEL.search(text) is not None or _HEADS.search(text) is not None)


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
            residual = printed.figure(check[1]) if check else None
            shared = {"residual": residual} if residual else {}
            made = printed.point(parameters, rate * 1e9, "FLOP/s", None, verification=verdict, **shared)
            points.append(replace(made, claims=_claims(int(match[2]), [(match[6], match[7])])))
    points += _intel(text)
    version = _VERSION.search(text)
    table = printed.experiment("compute.linpack", "LINPACK results", "linpack", "n", points)
    return printed.run(NAME, "LINPACK", text, name, [table], version[1] if version else "")


def _claims(n: int, rows: Iterable[tuple[str, str]]) -> tuple[Claim, ...]:
    """What each line of seconds and Gflops states twice.

    HPL counts 2/3 n^3 + 3/2 n^2 operations (its page on performance), and LINPACK 2/3 n^3 + 2 n^2.
    """
    flops = 2 / 3 * n**3 + 2 * n**2
    found = []
    for took, rate in rows:
        seconds, stated = printed.figure(took), printed.figure(rate)
        if seconds and stated:
            error = printed_error(took) + printed_error(rate) + 0.5 * n**2 / flops
            formula = "(2/3 n^3 + 2 n^2) / time"
            found.append(Claim("rate", stated * 1e9, flops / seconds, "FLOP/s", formula, error))
    return tuple(found)


def _intel(text: str) -> list[Measurement]:
    """One point per size, from its trials or, if the trials are missing, from the summary's average and maximum."""
    threads = _THREADS.search(text)
    shared: Parameters = {"operation": "lu", **({"threads": int(threads[1])} if threads else {})}
    trials: dict[int, list[tuple[float, bool]]] = {}
    printed_rows: dict[int, list[tuple[str, str]]] = {}
    for match in _INTEL.finditer(text):
        if rate := printed.figure(match[3]):
            trials.setdefault(int(match[1]), []).append((rate * 1e9, match[5] == "pass"))
            printed_rows.setdefault(int(match[1]), []).append((match[2], match[3]))
    points = []
    for n, found in trials.items():
        rates = [rate for rate, _ in found]
        verdict = "passed" if all(passed for _, passed in found) else "failed"
        point = printed.point(
            {**shared, "n": n}, rates[0], "FLOP/s", verification=verdict, flops_s_best=max(rates)
        )  # fmt: skip
        value, _ = estimates.interval_of_repeats(rates, "FLOP/s")
        claims = _claims(n, printed_rows[n])
        points.append(replace(point, throughput=value, repeats=len(rates), repeat_values=tuple(rates), claims=claims))
    heads = _HEADS.search(text)
    for match in _SUMMARY.finditer(text, heads.end()) if heads else ():
        rate, best = printed.figure(match[2]), printed.figure(match[3])
        if rate and best and int(match[1]) not in trials:
            points.append(
                printed.point({**shared, "n": int(match[1])}, rate * 1e9, "FLOP/s", flops_s_best=best * 1e9)
            )  # fmt: skip
    return points
