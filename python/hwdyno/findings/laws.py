"""Laws that every table of results must keep: Little's law, bandwidth = rate x size, and the ceilings above it."""

from __future__ import annotations

from hwdyno.ceilings import Utilization, utilizations
from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict, as_number, mean_rate, operations_per_s, percent
from hwdyno.statistics import half_width
from hwdyno.units import format_bytes_s, format_ns, format_size
from hwdyno.words import CeilingClass

LITTLE = 0.03
"""Own figures keep Little's law within 3%; a published table, which rounds, within 5%."""
CEILING_ROUNDING = 0.01
FAR_ABOVE_RATED = 1.2


def little(case: Case) -> Verdict | None:
    """More in flight than was asked for cannot be: one of rate, latency and depth is wrong."""
    requested, effective, rate = case.requested, case.effective, mean_rate(case.point)
    tolerance = max(LITTLE, case.tolerance) + case.edges
    if case.point.concurrency is None:
        # Rate and mean latency of unlike repeats do not multiply to better than the repeats agree.
        tolerance += half_width(case.point.throughput) or 0.0
    if not requested or not effective or effective / requested - 1 <= tolerance:
        return None
    latency = case.point.latency_ns
    shown = "throughput x latency"
    if rate and latency:
        shown = f"{case.quantity(rate, 'operations/s')} x {format_ns(latency.mean)}"
    return Verdict(
        "warning",
        f"{case.label}: {shown} is {effective:.1f} in flight, but only {requested:.0f} were asked for, "
        f"so one of these numbers is wrong by {percent(effective / requested - 1)} (Little's law).",
        {"asked": requested, "effective": effective, "tolerance": tolerance},
        f"Measure the point again and compare rate and latency: {case.command()}",
        weight=effective / requested,
    )


def rate_times_size(case: Case) -> Verdict | None:
    """Bandwidth is rate x block size."""
    rate, size, point = operations_per_s(case.point), case.number("bs"), case.point
    if rate is None or not size or point.throughput.unit != "bytes/s" or not point.throughput.value:
        return None
    off = rate * size / point.throughput.value - 1
    # A run whose last transfers were short moved less than whole blocks, and says so.
    if abs(off) <= case.tolerance or point.faults:
        return None
    return Verdict(
        "warning",
        f"{case.label}: {case.quantity(rate, 'operations/s')} x {format_size(size)} is "
        f"{format_bytes_s(rate * size)}, but the bandwidth is given as {format_bytes_s(point.throughput.value)} "
        f"({percent(abs(off))} {'less' if off > 0 else 'more'}); one of the three is wrong.",
        {
            "operations_s": rate,
            "bs": size,
            "product_bytes_s": rate * size,
            "given_bytes_s": point.throughput.value,
            "tolerance": case.tolerance,
        },
        f"Check the units (kB or KiB, MB or MiB), then measure the point again: {case.command()}",
        weight=abs(off),
    )


def against_ceilings(case: Case, kind: CeilingClass) -> list[Utilization]:
    """The point against each ceiling of a class that bounds it."""
    if not case.carries_data:
        return []
    return utilizations(case.result.ceilings, case.point, case.parameters, kind, case.result.declaration.axes)


def physical_ceiling(case: Case) -> Verdict | None:
    """Nothing exceeds what the hardware can carry: above it the point is invalid."""
    over = _above(case, "physical")
    if over is None:
        return None
    ratio, bound, measured = over.share, over.bound, over.measured
    cause, test = _likely_cause(case)
    return Verdict(
        "invalid",
        f"{case.label}: {case.quantity(measured)} is {percent(ratio - 1)} above what "
        f"{bound.ceiling.label or 'the hardware'} can carry, {case.quantity(bound.value, bound.unit)} "
        f"({bound.formula}); {cause}.",
        _evidence(over),
        test,
        weight=ratio,
    )


def rated_exceeded(case: Case) -> Verdict | None:
    """Above a maker's figure is legal, and worth a word."""
    over = _above(case, "rated")
    if over is None:
        return None
    ratio, bound, measured = over.share, over.bound, over.measured
    return Verdict(
        "info",
        f"{case.label}: {case.quantity(measured)} is {ratio:.3g} times the maker's figure of "
        f"{case.quantity(bound.value, bound.unit)} ({bound.ceiling.source or bound.ceiling.label or bound.formula}).",
        _evidence(over),
        f"That far above, suspect a cache and go past it: {case.command(direct=True, size='64G')}"
        if ratio > FAR_ABOVE_RATED
        else "Makers round down; nothing to do.",
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
    """The ceiling that the point exceeds most, by more than rounding.

    Its interval has no say: what was counted over a time was carried in it, however noisy it was.
    """
    over = [one for one in against_ceilings(case, kind) if one.share > 1 + CEILING_ROUNDING]
    return max(over, key=lambda one: one.share, default=None)


def _likely_cause(case: Case) -> tuple[str, str]:
    """Why a point can lie above a physical ceiling, and the test that tells."""
    point, doubt = case.point, case.resource.above_ceiling
    unwritten = sum(as_number(point.details.get(name)) or 0 for name in ("extent_unwritten_bytes", "extent_hole_bytes"))
    if unwritten and case.read_share:
        return (
            "blocks that were never written are answered without the device",
            f"Lay the file out again, then: {case.command()}",
        )
    if not case.resource.page_cache or not point.bytes or "device_read_bytes" not in point.counters:
        return doubt.cause, f"{doubt.test}: {case.command(**doubt.changes)}"
    at_device = sum(point.counters.get(name, 0.0) for name in ("device_read_bytes", "device_write_bytes"))
    if at_device < 0.9 * point.bytes:
        return (
            f"the device moved only {percent(at_device / point.bytes)} of these bytes, so a cache gave the rest",
            f"Go past the cache: {case.command(direct=True)}",
        )
    return (
        "the device's counters agree, so a cache below this system (a hypervisor's, a controller's) or a wrong "
        "ceiling explains it",
        f"Use a file several times the host's memory and see whether it falls: {case.command(size='64G')}",
    )


RULES = (
    Rule("physical_ceiling", "point", physical_ceiling),
    Rule("rated_exceeded", "point", rated_exceeded),
    Rule("little", "point", little, degrades=True),
    Rule("rate_times_size", "point", rate_times_size, Applies(needs=("parameters.bs",)), degrades=True),
)
