"""Laws that every result must obey: Little's law, bandwidth = rate x block size, and the ceilings of the hardware."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.analysis.ceilings import Utilization, utilizations
from hwdyno.analysis.estimates import half_width
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, as_number, mean_rate, operations_per_s, percent
from hwdyno.model.axes import read_share
from hwdyno.model.units import format_bytes_s, format_ns, format_size, slip
from hwdyno.model.words import CeilingClass

LITTLE = 0.03
"""Figures obey Little's law within 3%, and a printed table within what its rounding adds."""
WRONG = 0.10
"""Share above which a reading of ours that breaks it is no measurement."""
BLOCKS = 0.001
"""Bandwidth is rate x size within this; the last blocks of a file may be shorter."""
MEANS = 0.05
"""Up to here a table's bandwidth and rate may be means of different samples; from here on one of them is wrong."""
CEILING_ROUNDING = 0.01
MAX_EXCUSED = 0.05
"""How far above a ceiling an interval that reaches below it may excuse."""
FAR_ABOVE_RATED = 1.2


def little(case: Case) -> Verdict | None:
    """More operations in flight than requested are impossible: rate, latency or queue depth is wrong."""
    requested, effective, rate = case.requested_depth, case.effective, mean_rate(case.point)
    latency = case.point.latency_ns
    tolerance = case.tolerance(LITTLE, rate, latency.mean if latency else None) + case.edges
    if case.point.concurrency is None:
        # The product of rate and mean latency is no more precise than the repeats agree.
        tolerance += half_width(case.point.throughput) or 0.0
    if not requested or not effective or effective / requested - 1 <= tolerance:
        return None
    shown = "Throughput x latency"
    if rate and latency:
        shown = f"{case.quantity(rate, 'operations/s')} x {format_ns(latency.mean)}"
    # Of our own reading, whose kernel tells how many were in flight, rate or latency is wrong: neither may be quoted.
    is_ours = not case.is_imported and case.point.concurrency is not None
    is_wrong = is_ours and effective / requested - 1 > max(WRONG, tolerance)
    return Verdict(
        "invalid" if is_wrong else "warning",
        f"Rate, latency and queue depth disagree by {percent(effective / requested - 1)} ({case.label}). "
        f"{shown} is {effective:.1f} in flight, but only {requested:.0f} were requested (Little's law)."
        + _slip(effective / requested, tolerance),
        {"asked": requested, "effective": effective, "tolerance": tolerance},
        f"Repeat the point and compare rate and latency: {case.command()}",
        weight=effective / requested,
    )


def rate_times_size(case: Case) -> Verdict | None:
    """Bandwidth must equal rate x block size."""
    rate, size, point = operations_per_s(case.point), case.number("bs"), case.point
    if rate is None or not size or point.throughput.unit != "bytes/s" or not point.throughput.value:
        return None
    off = rate * size / point.throughput.value - 1
    error = case.tolerance(BLOCKS, rate, point.throughput.value)
    tolerance = error + (1 / point.operations if case.is_imported and point.operations else 0.0)
    # Short transfers move less than whole blocks; they are reported as faults.
    if abs(off) <= tolerance or point.faults:
        return None
    slipped = _slip(1 + off, error)
    return Verdict(
        "warning" if slipped or abs(off) > MEANS or not case.is_imported else "info",
        f"Bandwidth, rate and block size disagree by {percent(abs(off))} ({case.label}). "
        f"{case.quantity(rate, 'operations/s')} x {format_size(size)} is {format_bytes_s(rate * size)}, "
        f"but the stated bandwidth is {format_bytes_s(point.throughput.value)}. One of the three is wrong.{slipped}",
        {
            "operations_s": rate,
            "bs": size,
            "product_bytes_s": rate * size,
            "given_bytes_s": point.throughput.value,
            "tolerance": tolerance,
        },
        f"Check the units (kB or KiB, MB or MiB), then repeat the point: {case.command()}",
        weight=abs(off),
    )


def _slip(ratio: float, error: float) -> str:
    """A sentence on the slip with a unit that this ratio shows; empty for none."""
    words = slip(ratio, error)
    return f" The factor {words}." if words else ""


def against_ceilings(case: Case, kind: CeilingClass) -> list[Utilization]:
    """The point's share of each ceiling of a class that bounds it."""
    if not case.carries_data:
        return []
    ceilings = case.result.ceilings
    if (part := case.part_of_site) < 1:
        ceilings = tuple(replace(ceiling, value=ceiling.value * part) for ceiling in ceilings)
    return utilizations(ceilings, case.point, case.parameters, kind, case.result.declaration.axes)


def physical_ceiling(case: Case) -> Verdict | None:
    """No result can exceed a physical ceiling; a point above it is invalid."""
    over = _above(case, "physical")
    if over is None:
        return _above_one_way(case)
    ratio, bound, measured = over.share, over.bound, over.measured
    cause, test = _likely_cause(case)
    return Verdict(
        "invalid",
        f"{percent(ratio - 1)} above what {bound.ceiling.label or 'the hardware'} can carry ({case.label}). "
        f"Measured: {case.quantity(measured)}; ceiling: {case.quantity(bound.value, bound.unit)} "
        f"({bound.formula.partition(' = ')[0]}). {cause}",
        _evidence(over),
        test,
        weight=ratio,
    )


def _above_one_way(case: Case) -> Verdict | None:
    """A published figure that names no direction, above what a link carries in one: reads and writes at once may."""
    measured = case.point.throughput
    if not case.is_imported or not case.carries_data or measured.unit != "bytes/s":
        return None
    if read_share(case.result.declaration.axes, case.parameters) is not None:
        return None
    ways = {
        ceiling.metric: ceiling
        for ceiling in case.result.ceilings
        if ceiling.kind == "physical" and ceiling.metric in {"read_bytes_s", "write_bytes_s"}
    }
    if len(ways) < 2:
        return None
    widest, both = (
        max(ways.values(), key=lambda ceiling: ceiling.value),
        sum(ceiling.value for ceiling in ways.values()),
    )
    ratio = measured.value / widest.value
    if ratio <= 1 + CEILING_ROUNDING:
        return None
    cause, test = _likely_cause(case)
    above = (
        f"{percent(ratio - 1)} above what {widest.label or 'the hardware'} can carry in one direction ({case.label}). "
    )
    figures = f"Measured: {case.quantity(measured)}; ceiling: {case.quantity(widest.value, widest.unit)} each way. "
    sure = measured.value > both * (1 + CEILING_ROUNDING)
    why = (
        f"Both directions together cannot carry it. {cause}"
        if sure
        else ("Only reads and writes at the same time could reach it, and the row names no direction.")
    )
    evidence = {"measured": measured.value, "ceiling": widest.value, "unit": "bytes/s", "metric": widest.metric,
                "formula": widest.formula, "ratio": ratio}  # fmt: skip
    return Verdict("invalid" if sure else "warning", above + figures + why, evidence, test, weight=ratio)


def rated_exceeded(case: Case) -> Verdict | None:
    """A result may exceed the maker's figure; the finding reports it."""
    over = _above(case, "rated")
    if over is None:
        return None
    ratio, bound, measured = over.share, over.bound, over.measured
    return Verdict(
        "info",
        f"Faster than the maker's figure ({case.label}): {case.quantity(measured)} is {ratio:.3g} times the rated "
        f"{case.quantity(bound.value, bound.unit)}. "
        f"Source: {bound.ceiling.source or bound.ceiling.label or bound.formula}.",
        _evidence(over),
        f"Suspect a cache; measure beyond it: {case.command(direct=True, size='64G')}"
        if ratio > FAR_ABOVE_RATED
        else "Nothing to do: makers round down.",
        weight=ratio,
    )


def _evidence(over: Utilization) -> dict[str, object]:
    ratio, bound, measured = over.share, over.bound, over.measured
    return {
        "measured": measured.value,
        "ceiling": bound.value,
        "unit": bound.unit,
        "metric": bound.ceiling.metric,
        "formula": bound.formula,
        "ratio": ratio,
    }


def _above(case: Case, kind: CeilingClass) -> Utilization | None:
    """The ceiling that the point exceeds most, by more than rounding and than its interval, up to a limit.

    What was counted over a time was carried in it, so noise excuses a little, but not a multiple of a ceiling.
    """
    over = [
        utilization
        for utilization in against_ceilings(case, kind)
        if _share_at_least(utilization) > 1 + CEILING_ROUNDING
    ]
    return max(over, key=lambda utilization: utilization.share, default=None)


def _share_at_least(utilization: Utilization) -> float:
    """The lower end of the share of a ceiling that was measured, at most ``MAX_EXCUSED`` below it."""
    low, value = utilization.measured.low, utilization.measured.value
    return utilization.share * (max(low / value, 1 - MAX_EXCUSED) if low is not None and value > 0 else 1.0)


def _likely_cause(case: Case) -> tuple[str, str]:
    """A sentence on why a point can be above a physical ceiling, and the test that would show it."""
    point, doubt = case.point, case.resource.above_ceiling
    unwritten = sum(as_number(point.details.get(name)) or 0 for name in ("extent_unwritten_bytes", "extent_hole_bytes"))
    if unwritten and case.read_share:
        return (
            "The filesystem answers reads of blocks that were never written, without the device.",
            f"Lay the file out again, then: {case.command()}",
        )
    if not case.resource.page_cache or not point.bytes or "device_read_bytes" not in point.counters:
        return f"Possible causes: {doubt.cause}.", f"{doubt.test}: {case.command(**doubt.changes)}"
    at_device = sum(point.counters.get(name, 0.0) for name in ("device_read_bytes", "device_write_bytes"))
    if at_device < 0.9 * point.bytes:
        return (
            f"The device moved only {percent(at_device / point.bytes)} of the bytes; a cache supplied the rest.",
            f"Bypass the cache: {case.command(direct=True)}",
        )
    return (
        "The device's counters agree. Possible causes: a cache below this system (hypervisor, controller), or a wrong "
        "ceiling.",
        f"Use a file several times the host's memory and see whether the result falls: {case.command(size='64G')}",
    )


RULES = (
    Rule("physical_ceiling", "point", physical_ceiling),
    Rule("rated_exceeded", "point", rated_exceeded),
    Rule("little", "point", little, degrades=True),
    Rule("rate_times_size", "point", rate_times_size, Applies(needs=("parameters.bs",)), degrades=True),
)
