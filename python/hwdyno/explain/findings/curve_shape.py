"""What the shape of a curve shows beside its knee: a fall past a load, and a load off the curve of the others."""

from __future__ import annotations

from functools import partial

from hwdyno.analysis.curves import LOSS, ODD_LOAD, ODD_RATIO
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.explain.findings.snia import PREFIX
from hwdyno.model.units import format_load

MIN_LOSS = 0.05
"""A smaller fall is not worth a load's change."""


def rolls_over(case: Case) -> Verdict | None:
    """Throughput falls again past a load: a thrashing cache, a saturated lock, a queue that the device reorders."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None or LOSS not in curve.parameters or curve.ceiling is None:
        return None
    loss = curve.parameters[LOSS].value
    values = {
        as_number(point.parameters.get(curve.load)) or 0.0: (point.rate if case.result.metric == "rate" else None)
        or point.throughput
        for point in (case.result.points[at] for at in curve.points)
        if point.validity != "invalid"
    }
    off = curve.parameters.get(ODD_LOAD)
    values = {load: value for load, value in values.items() if off is None or load != off.value}
    if not values:
        return None
    most, last = max(values, key=lambda load: values[load].value), max(values)
    if loss < MIN_LOSS or most == last or values[last].value > (1 - MIN_LOSS / 2) * values[most].value:
        return None
    # Past the greatest load that still has nearly the most.
    fall_load = max(load for load, value in values.items() if value.value >= (1 - loss / 4) * values[most].value)
    return Verdict(
        "warning",
        f"Throughput loses {percent(loss)} past {load_words(axis, fall_load)} ({case.label}). "
        f"It is {case.quantity(values[fall_load])} at {format_load(fall_load)} and {case.quantity(values[last])} at "
        f"{format_load(last)}.",
        {"loss": loss, "bend": fall_load, "most": values[most].value, "last": values[last].value, "unit": curve.unit},
        f"Stay at {load_words(axis, fall_load)} or below: {case.command(**{curve.load: format_load(fall_load)})}",
        weight=loss,
    )


def off_the_curve(case: Case) -> Verdict | None:
    """One load is off the curve of all others, beyond their noise: something happened while it ran."""
    curve, axis = case.curve, case.result.load_axis
    if curve is None or ODD_LOAD not in curve.parameters or ODD_RATIO not in curve.parameters:
        return None
    load, ratio = curve.parameters[ODD_LOAD].value, curve.parameters[ODD_RATIO].value
    at = next((at for at in curve.points if as_number(case.result.points[at].parameters.get(curve.load)) == load), None)
    if at is None:
        return None
    point = case.result.points[at]
    value = (point.rate if case.result.metric == "rate" else None) or point.throughput
    return Verdict(
        "warning",
        f"One load lies {percent(abs(1 - ratio))} {'below' if ratio < 1 else 'above'} the curve of the others "
        f"({case.label}, {load_words(axis, load)}: {case.quantity(value)}). The fit leaves it out.",
        {"load": load, "ratio": ratio, "value": value.value, "unit": curve.unit},
        f"Measure it again: {case.command(**{curve.load: format_load(load)})}",
        weight=abs(1 - ratio),
        points=(at,),
    )


_CURVES = partial(Applies, not_named=PREFIX, roles=("concurrency", "size"))
RULES = (
    Rule("rolls_over", "curve", rolls_over, _CURVES()),
    # A server that answers up to its slots at once and queues the rest bends more sharply than any queue of the fit.
    Rule("off_the_curve", "curve", off_the_curve, _CURVES(not_kernels=("inference_serving", "inference_in_process"))),
)
