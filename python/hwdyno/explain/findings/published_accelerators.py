"""Laws of a published table of training: what its accelerators need, and how many rows count by MLPerf Storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.published import sum_rounding
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.model.units import format_bytes_s, number_at, plural
from hwdyno.model.words import Measurement

NEED = 0.05
"""AU x need and throughput agree within this: AU leaves out the first step of an epoch."""
OTHER = 0.15
"""Relative difference from which on a row's need is not that of its label."""
MIB = 1.048576
"""DLIO's MB/s are MiB/s, and tables copy them."""


def mislabelled_accelerator(case: Case) -> list[Verdict]:
    """AU x need = throughput: a row that obeys it with another accelerator's need has the wrong label."""
    rows = [(at, need) for at in range(len(case.result.points)) if (need := _accelerator_need(case, at)) is not None]
    scale, found = _scale(case, rows), []
    for at, need in rows:
        point, label = case.result.points[at], _label(case, at)
        expected = _expected_need(case, rows, at, label, scale)
        if expected is None or abs(need / expected - 1) <= NEED + sum_rounding(point, "au", "bw"):
            continue
        others = {
            name: other
            for name in _labels(case, at)
            if name != label
            and (other := _expected_need(case, rows, at, name, scale))
            and abs(need / other - 1) <= OTHER / 2
        }
        if abs(need / expected - 1) <= OTHER and not others:
            continue
        au = _au(point)
        law = f"{format_bytes_s(point.throughput.value)} / {percent(au)} is {format_bytes_s(need)}"
        fits = min(others, key=lambda name: abs(need / others[name] - 1)) if others else ""
        cause = f"It fits {_article(fits.upper())}." if fits else "Accelerator, AU or throughput is wrong."
        found.append(
            Verdict(
                "warning",
                f"The row labelled {label.upper()} is not one: {law} per accelerator, "
                f"where {_article(label.upper())} needs {format_bytes_s(expected)}. {cause}",
                {
                    "need_bytes_s": need,
                    "expected_bytes_s": expected,
                    "labelled": label,
                    "fits": fits,
                    "off": need / expected - 1,
                },
                "Check the row's accelerator, AU and throughput in the tool's own summary.json.",
                weight=abs(need / expected - 1),
                points=(at,),
            )
        )
    return found


def published_au(case: Case) -> Verdict | None:
    """How many rows reach the AU from which on MLPerf Storage counts a workload's accelerators as fed."""
    judged = [
        (au, number_at(point.details, "au_pass"), at)
        for at, point in enumerate(case.result.points)
        if point.details.get("au_pass") and 0 < (au := _au(point)) <= 1
    ]
    if not judged:
        return None
    failed = [row for row in judged if row[0] < row[1]]
    least, limit, at = min(judged)
    worst = Case(case.run, case.result, at)
    wanted = f"MLPerf Storage's limit for {worst.point.details.get('workload')}, an AU of {percent(limit)}"
    evidence = {"rows": len(judged), "failed": len(failed), "au_pass": limit, "least": least}
    if not failed:
        return Verdict("info", f"All {plural(len(judged), 'row')} pass {wanted}.", evidence, "Nothing to do.")
    return Verdict(
        "info",
        f"{len(failed)} of {plural(len(judged), 'row')} {'fails' if len(failed) == 1 else 'fail'} {wanted}. "
        f"The lowest has {100 * least:.4g}% ({worst.label}): "
        f"its accelerator waits for data for {percent(1 - least)} of the time.",
        evidence,
        "Look for what limits the storage below: plain reads of the same files with as many threads.",
        points=tuple(at for *_, at in failed),
    )


def _article(name: str) -> str:
    return f"an {name}" if name[:1] in "AEFHILMNORSX8" else f"a {name}"


def _au(point: Measurement) -> float:
    printed = point.details.get("printed") or {}
    return float(number_at(printed, "au") or number_at(printed, "au_mean"))


def _label(case: Case, at: int) -> str:
    return str(case.result.points[at].parameters.get("accelerator") or "").strip().lower()


def _labels(case: Case, at: int) -> list[str]:
    known = case.result.points[at].details.get("needs_bytes_s") or {}
    return sorted({*known, *(_label(case, other) for other in range(len(case.result.points)))} - {""})


def _accelerator_need(case: Case, at: int) -> float | None:
    """What one accelerator of a row would take at full speed: throughput / AU."""
    point = case.result.points[at]
    au, number = _au(point), as_number(point.parameters.get("accelerators")) or 1
    if not 0 < au <= 1 or point.throughput.unit != "bytes/s" or point.throughput.value <= 0 or not _label(case, at):
        return None
    return point.throughput.value / au / number


def _scale(case: Case, rows: list[tuple[int, float]]) -> float:
    """Whether the table's MB/s are MiB/s, by which of both fits more rows."""

    def fitting(factor: float) -> int:
        needs = [(need * factor, _known_need(case, at, _label(case, at))) for at, need in rows]
        return sum(known is not None and abs(need / known - 1) <= NEED for need, known in needs)

    return MIB if fitting(MIB) > fitting(1.0) else 1.0


def _known_need(case: Case, at: int, label: str) -> float | None:
    needs: Mapping[str, float] = case.result.points[at].details.get("needs_bytes_s") or {}
    return next((need for name, need in needs.items() if re.search(rf"(?<![a-z0-9]){name}(?![0-9])", label)), None)


def _expected_need(case: Case, rows: list[tuple[int, float]], at: int, label: str, scale: float) -> float | None:
    """The need of an accelerator in the table's unit: by definition, or what other rows with its label agree on."""
    known = _known_need(case, at, label)
    if known is not None:
        return known / scale
    needs = [need for other, need in rows if other != at and _label(case, other) == label]
    if len(needs) < 2 or max(needs) / min(needs) - 1 > 2 * NEED:
        return None
    return median(needs)


RULES = (
    Rule(
        "mislabelled_accelerator",
        "experiment",
        mislabelled_accelerator,
        Applies(imported=True, needs=("details.printed", "parameters.accelerator")),
    ),
    Rule(
        "published_au",
        "experiment",
        published_au,
        Applies(imported=True, needs=("details.printed", "details.au_pass")),
    ),
)
