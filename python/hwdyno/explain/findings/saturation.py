"""Findings on curves: knee, ceiling, best operating point, still rising, saturated, and best combinations."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial

from hwdyno.analysis.curves import BEST_SHARE, LOADED_MODEL, LOSS
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.commands import format_option
from hwdyno.explain.findings.point_labels import format_label, load_words
from hwdyno.explain.findings.rule import Case, Verdict, as_number, at_place, percent, times
from hwdyno.explain.findings.snia import PREFIX
from hwdyno.model.axes import series_key
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.units import format_load, format_ns, format_size
from hwdyno.model.words import Axis, Curve, Measurement, OperatingPoint, Scalar

NEIGHBOURS = 6
"""Load below which the neighbouring whole numbers are the closest loads to measure."""
LARGEST_BLOCK_BYTES = 16 << 20
"""Larger blocks are not worth measuring."""


def _ends(case: Case, curve: Curve, best: OperatingPoint) -> dict[str, float]:
    """The best operating point as a ratio to both ends of the curve."""
    found = {}
    for name, at in (("first", curve.points[0]), ("last", curve.points[-1])):
        point = case.result.points[at]
        value = point.rate if case.result.metric == "rate" and point.rate else point.throughput
        if value.value > 0:
            found[f"throughput_to_{name}"] = best.throughput / value.value
        if best.latency_ns and point.latency_ns and point.latency_ns.mean:
            found[f"latency_to_{name}"] = best.latency_ns / point.latency_ns.mean
        found[f"{name}_load"] = as_number(point.parameters.get(curve.load)) or 0.0
    return found


def _against_ends(ends: dict[str, float], load: float, axis: Axis) -> str:
    """Those ratios in words, a sentence for each end of the curve."""
    words = []
    if ends.get("first_load", load) < load and "throughput_to_first" in ends:
        text = f" Compared with {load_words(axis, ends['first_load'])}: {times(ends['throughput_to_first'])} times "
        text += "the throughput"
        if "latency_to_first" in ends:
            text += f", {times(ends['latency_to_first'])} times the latency"
        words.append(f"{text}.")
    if ends.get("last_load", load) > load and "latency_to_last" in ends:
        words.append(
            f" Compared with {load_words(axis, ends['last_load'])}: {percent(ends['throughput_to_last'])} of the "
            f"throughput, {percent(ends['latency_to_last'])} of the latency."
        )
    return "".join(words)


def _evidence(case: Case, curve: Curve) -> dict[str, object]:
    ceiling = curve.ceiling
    return {
        "state": curve.state,
        "unit": curve.unit,
        **({"ceiling": ceiling.value, "low": ceiling.low, "high": ceiling.high} if ceiling else {}),
        **{name: value.value for name, value in curve.parameters.items()},
        "load_90": curve.load_90,
        "load_95": curve.load_95,
        **(_ends(case, curve, curve.best) if curve.best else {}),
        **({"best_load": curve.best.load, "best_measured": curve.best.measured} if curve.best else {}),
    }


def knee(case: Case) -> Verdict | None:
    """The knee of a queue's curve: its floor, its ceiling, and the least load that reaches 90% of it."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None or curve.model == LOADED_MODEL:
        return None
    if curve.ceiling is None or curve.best is None:
        return None
    best = curve.best
    bends = _knee_words(curve, axis)
    ends = _ends(case, curve, best)
    compared = _against_ends(ends, best.load, axis)
    modelled = "" if best.measured else ", by the model"
    floor = f"; latency floor: {format_ns(curve.floor.latency_ns)}" if curve.floor and curve.floor.latency_ns else ""
    return Verdict(
        "info",
        f"Best operating point: {load_words(axis, best.load)} ({case.label}{modelled}), "
        f"{at_place(case, best, curve.unit)}. "
        f"{bends}; ceiling: {case.quantity(curve.ceiling)}{floor}.{compared}",
        _evidence(case, curve),
        f"Run the workload at {load_words(axis, best.load)}.{_look_closer(case, curve, curve.load_90 or best.load)}",
    )


def _knee_words(curve: Curve, axis: Axis) -> str:
    """Where the knee is, as in the table: never past the least load that has 90% of the ceiling."""
    crossing, most = curve.parameters.get("N*"), curve.load_90 or math.inf
    if crossing is None:
        return "Knee: not located"
    words = f"Knee: {load_words(axis, min(crossing.value, most))}"
    if crossing.low is None or crossing.high is None:
        return words
    least, greatest = min(crossing.low, most), min(crossing.high, most)
    if greatest > WIDE * least:
        return f"Knee: between {load_words(axis, least)} and {format_load(greatest)}"
    low, high = format_load(least), format_load(greatest)
    return words + (f" ({low} to {high})" if low != high else "")


def _look_closer(case: Case, curve: Curve, knee: float) -> str:
    """The command for more loads around 90% of the ceiling; empty where every whole load there was measured."""
    measured = [as_number(case.result.points[at].parameters.get(curve.load)) or 0 for at in curve.points]
    loads = around(knee, max(measured))
    if set(loads) <= set(measured):
        return ""
    return f" Measure more loads around 90% of the ceiling: {case.command(**{curve.load: ','.join(map(str, loads))})}"


def around(knee: float, most: float) -> list[int]:
    """Whole loads on both sides of a knee, none above ``most``: at least three, where that many exist."""
    knee = min(knee, most)
    middle = max(1, round(knee))
    near = {min(most, round(knee * share)) for share in (0.7, 0.85, 1, 1.2, 1.4)}
    if middle < NEIGHBOURS:
        near |= {middle - 1, middle, middle + 1}
        near |= {middle + 2} if middle == 1 else {middle - 2} if middle + 1 > most else set()
    return sorted(int(load) for load in near if 1 <= load <= most)


def still_rising(case: Case) -> Verdict | None:
    """The last doubling of the load still gained more than 5%: the ceiling was not reached."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None:
        return None
    last = case.result.points[curve.points[-1]]
    reached = last.rate if case.result.metric == "rate" and last.rate else last.throughput
    load = as_number(last.parameters.get(curve.load)) or 0
    heading = f" The curve tends to {case.quantity(curve.ceiling)}." if curve.ceiling else ""
    what_now = ", but all CPUs are in use" if _is_all_of_the_cpus(case, axis, load) else "; try more"
    return Verdict(
        "info",
        f"Still rising at {load_words(axis, load)}{what_now} ({case.label}: "
        f"{case.quantity(reached.value, reached.unit)}).{heading}",
        _evidence(case, curve),
        _go_on(case, axis, load),
    )


def _is_all_of_the_cpus(case: Case, axis: Axis, load: float) -> bool:
    """Whether a number of threads keeps every processor of the machine busy."""
    return axis.name == "threads" and case.threads is not None and load >= case.threads


def _go_on(case: Case, axis: Axis, load: float) -> str:
    """The command that raises the load further, as far as the axis allows."""
    most = axis.most or load * 8
    if axis.role == "size":
        most = min(most, LARGEST_BLOCK_BYTES)
    if _is_all_of_the_cpus(case, axis, load):
        return "Nothing to do."
    if load < most:
        ends = [format_option(axis, end) for end in (load, min(most, load * 8))]
        return f"Try more: {case.command(**{axis.name: '..'.join(ends)})}"
    workers = next((candidate for candidate in case.result.declaration.axes if candidate.workers), axis)
    if not axis.workers and workers.workers and 4 * case.jobs <= (workers.most or 0):
        return f"Add jobs: {case.command(**{workers.name: 4 * case.jobs})}"
    return "Run a second process at the same time: this is the highest load of one process."


def check_saturation(case: Case) -> Verdict | None:
    """The first load already reaches the ceiling; more load only adds latency, or takes throughput as well."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None or curve.best is None:
        return None
    first = curve.best
    last = case.result.points[curve.points[-1]]
    load = as_number(last.parameters.get(curve.load)) or 0
    grown = ""
    if first.latency_ns and last.latency_ns:
        grown = f": {times(last.latency_ns.mean / first.latency_ns)} times at {load_words(axis, load)}"
    more = "only adds latency"
    if LOSS in curve.parameters:
        more = f"loses {percent(curve.parameters[LOSS].value)} of the throughput and adds latency"
    ceiling = case.quantity(curve.ceiling) if curve.ceiling else case.quantity(first.throughput, curve.unit)
    return Verdict(
        "info",
        f"Saturated at {load_words(axis, first.load)} ({case.label}; ceiling {ceiling}). More load {more}{grown}.",
        _evidence(case, curve),
        f"Stay at {load_words(axis, first.load)}: {case.command(**{curve.load: format_load(first.load)})}",
    )


def load_without_effect(case: Case) -> Verdict | None:
    """Neither throughput nor latency changes with the load: it never arrives at the device."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None:
        return None
    first, last = (
        as_number(case.result.points[at].parameters.get(curve.load)) or 0 for at in (curve.points[0], curve.points[-1])
    )
    ceiling = f" ({case.quantity(curve.ceiling)})" if curve.ceiling else ""
    return Verdict(
        "info",
        f"The load never arrives at the device ({case.label}): from {load_words(axis, first)} to {format_load(last)}, "
        f"neither throughput{ceiling} nor latency changes. Operations are serialized before the device.",
        _evidence(case, curve),
        f"Compare with more {case.result.axis(workers).words} instead of a greater depth: "
        + case.command(**dict[str, Scalar]({curve.load: 1, workers: "1..16"}))
        if (workers := case.resource.workers)
        else f"Find what serializes the operations, then: {case.command()}",
    )


def best_block_size(case: Case) -> Verdict | None:
    """The smallest block size that reaches 90% of the bandwidth, and the one that reaches half."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None or curve.ceiling is None or curve.best is None:
        return None
    best, half = curve.best, curve.parameters.get("n1/2")
    least = 9 if curve.load == "bs" else 3
    halfway = f"; half speed at {format_size(round(half.value))}" if half else ""
    compared = _against_ends(_ends(case, curve, best), best.load, axis)
    return Verdict(
        "info",
        f"Best block size: {format_size(best.load)} ({case.label}{'' if best.measured else ', by the model'}), "
        f"{at_place(case, best, curve.unit)}. "
        f"Smallest block size within {percent(1 - BEST_SHARE)} of the maximum of {case.quantity(curve.ceiling)}"
        f"{halfway}.{compared}",
        _evidence(case, curve),
        f"Use blocks of {format_size(best.load)} or more: {case.command(**{curve.load: best.load})}"
        if best.measured
        else f"Measure there: {case.command(**{curve.load: 1 << max(least, round(best.load).bit_length())})}",
    )


WIDE = 3
"""A knee whose interval spans more than this factor is printed as a range."""


def best_combination(case: Case) -> list[Verdict]:
    """The smallest combination of load and block size in a grid that reaches 90% of the highest result."""
    points = case.result.points
    known = [axis for axis in case.result.declaration.axes if axis.role in {"concurrency", "size"}]
    axes = [
        axis
        for axis in sorted(known, key=lambda axis: (axis.role == "size", not axis.workers))
        if len({as_number(point.parameters.get(axis.name)) for point in points} - {None}) > 1
    ]
    if len(axes) < 2:
        return []
    names = {axis.name for axis in axes}
    groups: dict[tuple[tuple[str, Scalar], ...], list[int]] = defaultdict(list)
    for at, point in enumerate(points):
        if point.validity != "invalid" and point.throughput.value > 0:
            groups[series_key(case.result.declaration, point.parameters, names)].append(at)
    return [
        verdict
        for others, group in groups.items()
        if len(group) >= 4 and (verdict := _combination(case, dict(others), axes, group)) is not None
    ]


def _combination(case: Case, others: dict[str, Scalar], axes: list[Axis], group: list[int]) -> Verdict | None:
    points = case.result.points
    top = max(group, key=lambda at: points[at].throughput.value)
    enough = [at for at in group if points[at].throughput.value >= BEST_SHARE * points[top].throughput.value]

    def cost(at: int) -> tuple[float, float, float]:
        in_flight, size = 1.0, 1.0
        for axis in axes:
            value = as_number(points[at].parameters.get(axis.name)) or 1.0
            if axis.role == "concurrency":
                in_flight *= value
            else:
                size = value
        # Bytes in flight first: they cost memory and latency.
        return in_flight * size, in_flight, size

    best = min(enough, key=cost)

    def words(at: int) -> str:
        return " x ".join(load_words(axis, as_number(points[at].parameters.get(axis.name)) or 0) for axis in axes)

    chosen: Measurement = points[best]
    latency = f" at {format_ns(chosen.latency_ns.mean)}" if chosen.latency_ns else ""
    share = chosen.throughput.value / points[top].throughput.value
    against = (
        "It is the highest result."
        if best == top
        else f"That is {percent(share)} of the highest result, with {words(top)}."
    )
    name = format_label(others, case.result.declaration, case.one_valued - {"rw", "bs"}) if others else case.result.name
    changes: dict[str, Scalar] = {axis.name: points[best].parameters.get(axis.name) for axis in axes}
    return Verdict(
        "info",
        f"Best combination: {words(best)} ({name}), {case.quantity(chosen.throughput)}{latency}. {against}",
        {
            "best": changes,
            "throughput": chosen.throughput.value,
            "unit": chosen.throughput.unit,
            "share": share,
            "most": {axis.name: points[top].parameters.get(axis.name) for axis in axes},
        },
        f"Use it: {Case(case.run, case.result, best).command()}",
        points=(best,),
    )


# SNIA's matrices have separate tables instead.
_CURVES = partial(Applies, not_named=PREFIX)
_BENT = ("knee", "saturated at the first point")
RULES = (
    Rule("knee", "curve", knee, _CURVES(roles=("concurrency", "delay"), states=("knee",))),
    Rule("still_rising", "curve", still_rising, _CURVES(roles=("concurrency", "size"), states=("still rising",))),
    Rule("saturated", "curve", check_saturation, _CURVES(states=("saturated at the first point",))),
    Rule("load_without_effect", "curve", load_without_effect, _CURVES(roles=("concurrency",), states=("flat",))),
    # A request to an object store has another law: object_request_cost.
    Rule(
        "best_block_size",
        "curve",
        best_block_size,
        _CURVES(roles=("size",), states=_BENT, not_kernels=(OBJECT_REQUESTS,)),
    ),
    Rule("best_combination", "experiment", best_combination),
)
