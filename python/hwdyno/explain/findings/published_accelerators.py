"""Laws of a published table of training: what its accelerators need, and which rows count by MLPerf Storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from statistics import median

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.published import mapping_advice, sum_rounding
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent, times
from hwdyno.model.units import format_bytes_s, number_at, plural
from hwdyno.model.words import Measurement

NEED = 0.05
"""AU x need and throughput agree within this: AU leaves out the first step of an epoch."""
OTHER = 0.15
"""Relative difference from which on a row's need is not that of its label."""
MIB = 1.048576
"""DLIO's MB/s are MiB/s, and tables copy them."""
CLOSE = 0.02
"""A unit is another where it makes rows agree within this, and as printed none agrees within ``NEED``."""
MIN_STEPS = 500
"""MLPerf Storage: a data set has at least this many steps of every accelerator."""
SAME_RATE, OTHER_DEMAND = 0.05, 1.5


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
        which = "The only row passes" if len(judged) == 1 else f"All {len(judged)} rows pass"
        return Verdict("info", f"{which} {wanted}.", evidence, "Nothing to do.")
    return Verdict(
        "info",
        f"{len(failed)} of {plural(len(judged), 'row')} {'fails' if len(failed) == 1 else 'fail'} {wanted}. "
        f"The lowest has {100 * least:.4g}% ({worst.label}): "
        f"its accelerator waits for data for {percent(1 - least)} of the time.",
        evidence,
        "Look for what limits the storage below: plain reads of the same files with as many threads.",
        points=tuple(at for *_, at in failed),
    )


def failed_au(case: Case) -> Verdict | None:
    """DLIO itself judged that the AU is below the limit of its workload."""
    point = case.point
    au = as_number(point.details.get("au_dlio"))
    # A folder of MLPerf Storage's results is judged by its edition's rules.
    if point.details.get("passes") is not False or not au or "mlperf" in point.details:
        return None
    return Verdict(
        "info",
        f"AU fails the limit of its workload, as DLIO says itself ({case.label}): {100 * au:.4g}%. "
        f"Its accelerators wait for data for {percent(1 - au)} of the time.",
        {"au": au},
        "Look for what limits the storage below: plain reads of the same files with as many threads.",
    )


def published_steps(case: Case) -> Verdict | None:
    """A data set of fewer steps than MLPerf Storage requires, by its samples, its files or the steps as stated."""
    found = [
        (steps, words, at)
        for at in range(len(case.result.points))
        for steps, words in _count_steps(case, at)
        if steps < MIN_STEPS
    ]
    if not found:
        return None
    least, words, at = min(found)
    worst = Case(case.run, case.result, at)
    return Verdict(
        "warning",
        f"{len(found)} of {plural(len(case.result.points), 'row')} {'has' if len(found) == 1 else 'have'} fewer steps "
        f"than MLPerf Storage requires, {MIN_STEPS}: {words} ({worst.label}). A small data set may stay in memory.",
        {"steps": least, "min_steps": MIN_STEPS, "rows": len(found)},
        "Generate a data set of at least 500 steps and five times the host's memory: hwdyno training --help",
        weight=MIN_STEPS / least,
        points=tuple(at for *_, at in found),
    )


def _count_steps(case: Case, at: int) -> list[tuple[float, str]]:
    """Steps of each accelerator in an epoch of a row, and what states them; empty where nothing does."""
    point = case.result.points[at]
    given = {**case.result.fixed, **point.parameters}
    stated = _first_number(given, ("steps_per_epoch", "steps"))
    if stated:
        return [(stated, plural(round(stated), "step"))]
    samples = _first_number(given, ("samples",))
    files = _first_number(given, ("files", "num_files", "num_files_train"))
    per_file = number_at(point.details, "samples_per_file")
    if not samples and files and per_file:
        samples = files * per_file
    batch = _of_label(point.details.get("batches") or {}, _label(case, at))
    if not samples or not batch:
        return []
    steps = samples / batch / (as_number(given.get("accelerators")) or 1)
    return [(steps, f"{samples:,.0f} samples are {plural(int(steps), 'step')}")]


def _first_number(given: Mapping[str, object], names: tuple[str, ...]) -> float | None:
    numbers = (as_number(given.get(name)) for name in names)
    return next((number for number in numbers if number and number > 0), None)


def published_storage_bound(case: Case) -> Verdict | None:
    """Two rows of one storage with one rate, though their accelerators ask for different ones."""
    rows = [(at, demand) for at in range(len(case.result.points)) if (demand := _demand(case, at)) is not None]
    for (first, less), (second, more) in combinations(sorted(rows, key=lambda row: row[1]), 2):
        points = [case.result.points[at] for at in (first, second)]
        rates = [point.throughput.value for point in points]
        rounding = sum(sum_rounding(point, "bw") for point in points)
        if (
            _others(points[0]) != _others(points[1])
            or more / less < OTHER_DEMAND
            or abs(rates[1] / rates[0] - 1) > SAME_RATE + rounding
        ):
            continue
        shown = " and ".join(map(format_bytes_s, rates))
        return Verdict(
            "info",
            f"Limited by storage: two rows get {shown}, though the second needs {times(more / less)} times as much "
            f"({Case(case.run, case.result, first).label}; {Case(case.run, case.result, second).label}). "
            "Their AU differ by what they need, and say nothing of the accelerators.",
            {"rates": rates, "demands": [less, more]},
            "Look for what limits the storage: plain reads of the same files with as many threads.",
            points=(first, second),
        )
    return None


def _demand(case: Case, at: int) -> float | None:
    """What a row's accelerators need by definition, bytes/s; none where they are fed or not known."""
    point = case.result.points[at]
    need, limit = _known_need(case, at, _label(case, at)), number_at(point.details, "au_pass")
    if need is None or point.throughput.unit != "bytes/s" or not 0 < _au(point) < limit:
        return None
    return need * (as_number(point.parameters.get("accelerators")) or 1)


def _others(point: Measurement) -> dict[str, object]:
    return {name: value for name, value in point.parameters.items() if name not in {"accelerator", "accelerators"}}


def published_unit(case: Case) -> Verdict | None:
    """A column of MB/s that fits what its accelerators need only as MiB/s."""
    found = []
    for at in range(len(case.result.points)):
        need, known = _accelerator_need(case, at), _known_need(case, at, _label(case, at))
        printed = (case.result.points[at].details.get("printed_in") or {}).get("bw") or ""
        if need is not None and known is not None and str(printed).lower() in {"mb/s", "gb/s"}:
            found.append((at, need / known, sum_rounding(case.result.points[at], "au", "bw")))
    fits = [(at, ratio) for at, ratio, rounding in found if abs(ratio * MIB - 1) <= CLOSE + rounding]
    if len(fits) < 2 or any(abs(ratio - 1) <= NEED - CLOSE / 2 for _, ratio, _ in found):
        return None
    at, ratio = fits[0]
    point = case.result.points[at]
    need = _accelerator_need(case, at) or 0.0
    return Verdict(
        "warning",
        f"The bandwidths are MiB/s, not MB/s ({plural(len(fits), 'row')}): {format_bytes_s(point.throughput.value)} / "
        f"{percent(_au(point))} is {format_bytes_s(need)}, where {_article(_label(case, at).upper())} needs "
        f"{format_bytes_s(need / ratio)}. Read as MiB/s, it is {format_bytes_s(need * MIB)}.",
        {"factor": MIB, "rows": len(fits)},
        mapping_advice(case, point, MIB),
        points=tuple(at for at, _ in fits),
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
    return _of_label(case.result.points[at].details.get("needs_bytes_s") or {}, label)


def _of_label(known: Mapping[str, float], label: str) -> float | None:
    """What is known of the accelerator that a label names."""
    return next((value for name, value in known.items() if re.search(rf"(?<![a-z0-9]){name}(?![0-9])", label)), None)


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
    Rule("failed_au", "point", failed_au, Applies(imported=True, needs=("details.au_dlio",))),
    Rule(
        "published_steps",
        "experiment",
        published_steps,
        Applies(imported=True, needs=("details.batches",)),
    ),
    Rule(
        "published_storage_bound",
        "experiment",
        published_storage_bound,
        Applies(imported=True, needs=("details.printed", "details.au_pass", "details.needs_bytes_s")),
    ),
    Rule(
        "published_unit",
        "experiment",
        published_unit,
        Applies(imported=True, needs=("details.printed_in", "details.needs_bytes_s")),
    ),
)
