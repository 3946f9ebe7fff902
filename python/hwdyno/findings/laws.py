"""Laws that every table of results must keep: Little's law, bandwidth = rate x size, and the ceilings above it."""

from __future__ import annotations

from hwdyno.findings.rule import Case, Verdict, as_number, operations_per_s, percent, quantity
from hwdyno.units import format_bytes_s, format_count, format_ns, format_size
from hwdyno.words import Ceiling

LITTLE = 0.03
"""Own figures keep Little's law within 3%; a published table, which rounds, within 5%."""
CEILING_ROUNDING = 0.01


def little(case: Case) -> Verdict | None:
    """More in flight than was asked for cannot be: one of rate, latency and depth is wrong."""
    asked, effective, rate = case.asked, case.effective, operations_per_s(case.point)
    if not asked or not effective or effective / asked - 1 <= max(LITTLE, case.tolerance):
        return None
    latency = case.point.latency_ns
    shown = f"{format_count(rate)} IOPS x {format_ns(latency.mean)}" if rate and latency else "throughput x latency"
    return Verdict(
        "warning",
        f"{case.label}: {shown} is {effective:.1f} in flight, but only {asked:.0f} were asked for, "
        f"so one of these numbers is wrong by {percent(effective / asked - 1)} (Little's law).",
        {"asked": asked, "effective": effective, "tolerance": max(LITTLE, case.tolerance)},
        f"Measure the point again and compare rate and latency: {case.command()}",
        weight=effective / asked,
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
        f"{case.label}: {format_count(rate)} IOPS x {format_size(size)} is {format_bytes_s(rate * size)}, but the "
        f"bandwidth is given as {format_bytes_s(point.throughput.value)} ({percent(abs(off))} "
        f"{'less' if off > 0 else 'more'}); one of the three is wrong.",
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


def measured_for(case: Case, ceiling: Ceiling) -> float | None:
    """What the point reached of the ceiling's metric (``read_bytes_s``, ``write_operations_s``, …); none if nothing.

    Directions are bounded apart: a link carries as much one way whatever it carries the other.
    """
    point, metric = case.point, ceiling.metric
    words = metric.split("_")
    direction = next((word for word in ("read", "write") if word in words), None)
    order = next((word for word in ("random", "rand", "sequential", "seq") if word in words), None)
    if order is not None and order.startswith("rand") != case.random:
        return None
    # A rated number of operations is of 4 KiB at random, where it does not say otherwise.
    if ceiling.kind == "rated" and "operations" in metric and order is None:
        size = case.number("bs")
        if not case.random or (size is not None and size < 4096):
            return None
    of_bytes = "bytes" in words or ceiling.unit == "bytes/s"
    of_operations = "operations" in words or "iops" in words or ceiling.unit == "operations/s"
    if not of_bytes and not of_operations:
        return point.throughput.value if ceiling.unit == point.throughput.unit and metric in _WHOLE else None
    if direction is not None and point.streams and point.elapsed_s > 0:
        own = [stream for stream in point.streams if stream.name == direction]
        return sum(s.bytes if of_bytes else s.operations for s in own) / point.elapsed_s if own else None
    share = 1.0 if direction is None else case.read_share
    if share is None:
        # An old table that does not tell its direction holds against the ceilings of both.
        share = 1.0
    elif direction == "write":
        share = 1 - share
    value = point.throughput.value if point.throughput.unit == ceiling.unit else None
    if value is None and of_operations:
        value = operations_per_s(point)
    return value * share if value and share else None


_WHOLE = {"throughput", "flops_s", "flop_s", "operations_s", "bytes_s"}


def physical_ceiling(case: Case) -> Verdict | None:
    """Nothing exceeds what the hardware can carry: above it the point is invalid."""
    over = [(value / c.value, c, value) for c, value in _above(case, "physical") if value > c.value]
    if not over:
        return None
    ratio, ceiling, value = max(over, key=lambda one: one[0])
    cause, test = _likely_cause(case)
    return Verdict(
        "invalid",
        f"{case.label}: {quantity(value, ceiling.unit)} is {percent(ratio - 1)} above what "
        f"{ceiling.label or 'the hardware'} can carry, {quantity(ceiling.value, ceiling.unit)} ({ceiling.formula}); "
        f"{cause}.",
        {
            "measured": value,
            "ceiling": ceiling.value,
            "unit": ceiling.unit,
            "metric": ceiling.metric,
            "formula": ceiling.formula,
            "ratio": ratio,
        },
        test,
        weight=ratio,
    )


def rated_exceeded(case: Case) -> Verdict | None:
    """Above a maker's figure is legal, and worth a word."""
    over = [(value / c.value, c, value) for c, value in _above(case, "rated")]
    if not over:
        return None
    ratio, ceiling, value = max(over, key=lambda one: one[0])
    return Verdict(
        "info",
        f"{case.label}: {quantity(value, ceiling.unit)} is {ratio:.2g} times the maker's "
        f"{quantity(ceiling.value, ceiling.unit)} ({ceiling.source or ceiling.label}).",
        {"measured": value, "rated": ceiling.value, "unit": ceiling.unit, "metric": ceiling.metric, "ratio": ratio},
        "Above 1.2 times, suspect a cache: see whether the device's own counters moved as far."
        if ratio > 1.2
        else "Makers round down; nothing to do.",
        weight=ratio,
    )


def _above(case: Case, kind: str) -> list[tuple[Ceiling, float]]:
    """The ceilings of a class that the point lies above by more than rounding, surely so where it has an interval."""
    value = case.point.throughput
    sure = value.low / value.value if value.low is not None and value.value > 0 else 1.0
    found = []
    for ceiling in case.result.ceilings:
        if ceiling.kind != kind or ceiling.value <= 0:
            continue
        reached = measured_for(case, ceiling)
        if reached is not None and reached * sure > ceiling.value * (1 + CEILING_ROUNDING):
            found.append((ceiling, reached))
    return found


def _likely_cause(case: Case) -> tuple[str, str]:
    """Why a point can lie above a physical ceiling, and the test that tells."""
    point = case.point
    unwritten = sum(as_number(point.details.get(name)) or 0 for name in ("extent_unwritten_bytes", "extent_hole_bytes"))
    if unwritten and case.read_share:
        return (
            "blocks that were never written are answered without the device",
            f"Lay the file out again, then: {case.command()}",
        )
    issued = point.bytes
    at_device = sum(point.counters.get(name, 0.0) for name in ("device_read_bytes", "device_write_bytes"))
    if issued and "device_read_bytes" in point.counters and at_device < 0.9 * issued:
        return (
            f"the device moved only {percent(at_device / issued)} of these bytes, so a cache gave the rest",
            f"Go past the cache: {case.command(direct=True)}",
        )
    if issued and "device_read_bytes" in point.counters:
        return (
            "the device's counters agree, so a cache below this system (a hypervisor's, a controller's) or a wrong "
            "ceiling explains it",
            f"Use a file several times the host's memory and see whether it falls: {case.command(size='64G')}",
        )
    return (
        "a cache answered in the device's place, a unit is wrong, or the ceiling is",
        f"Go past the page cache with a file larger than memory and see whether it falls: "
        f"{case.command(direct=True, size='64G')}",
    )
