"""Whether the hosts of a site measured together: all of them, with one start, and equally fast."""

from __future__ import annotations

import math

from hwdyno.analysis.estimates import median
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, contrast, percent
from hwdyno.model.units import format_ns, plural
from hwdyno.model.words import HostShare

SLOW = 0.20
"""A host this much slower than the others is a straggler."""
LONGER = 1.05
"""A host whose readings take this many times the others' has fixed work, not fixed time: the site waits for it."""
SMALL_OFFSET = 0.005
"""The longer reading that the advice gives makes the offset between starts this share of it."""
MIN_RUNTIME_S = 60
WAITING = ("depth_not_reached",)
"""Findings that follow while some hosts wait for another one."""


def host_missing(case: Case) -> Verdict | None:
    """A host gave no reading, or not all; the cause is among the reasons why the Run is degraded."""
    point = case.point
    failed = [share for share in point.hosts if share.failure]
    if not failed:
        return None
    worst = min(failed, key=lambda share: share.repeats)
    lacking = [share for share in failed if share.repeats < point.repeats]
    if lacking:
        had = f"Readings missing: {worst.host} gave {worst.repeats or 'none'} of {plural(point.repeats, 'reading')}"
        effect = f" The result does not cover all {len(point.hosts)} hosts."
    else:
        had, effect = f"Host stopped: {worst.host} did not end with the others", ""
    more = f", and so did {plural(len(failed) - 1, 'other host')}" if len(failed) > 1 else ""
    return Verdict(
        "warning",
        f"{had}{more} ({case.label}).{effect}",
        {"hosts": {share.host: {"readings": share.repeats, "failure": share.failure} for share in failed}},
        f"Check {', '.join(share.host for share in failed)}, then repeat: {case.command()}",
        weight=float(len(failed)) + 1 - worst.repeats / max(1, point.repeats),
    )


def hosts_apart(case: Case) -> Verdict | None:
    """The hosts started further apart than the measurement allows."""
    point = case.point
    if "hosts_apart" not in point.why:
        return None
    latest = max(point.hosts, key=lambda share: share.start_offset_s)
    offset_s, reading_s = latest.start_offset_s, point.elapsed_s / max(1, point.repeats)
    runtime_s = max(MIN_RUNTIME_S, math.ceil(offset_s / SMALL_OFFSET))
    return Verdict(
        "warning",
        f"The hosts did not load the system together ({case.label}): {latest.host} started "
        f"{format_ns(offset_s * 1e9)} after the first host, {percent(offset_s / reading_s)} of a reading.",
        {"host": latest.host, "offset_s": offset_s, "reading_s": reading_s},
        f"Measure longer to make the offset negligible: {case.command(runtime=runtime_s)}",
        weight=offset_s / reading_s,
        explains=WAITING,
    )


def straggler(case: Case) -> Verdict | None:
    """One host is much slower than the others, beyond the scatter of its repeats."""
    shares = [share for share in case.point.hosts if share.repeats and share.operations]
    if len(shares) < 2:
        return None
    slowest = min(shares, key=lambda share: share.throughput.value)
    others = [share for share in shares if share is not slowest]
    typical = median([share.throughput.value for share in others])
    slower = 1 - slowest.throughput.value / typical
    if slower < SLOW or not all(apart(slowest.throughput, share.throughput) for share in others):
        return None
    waits = _reading_s(slowest) > LONGER * median([_reading_s(share) for share in others])
    unit, noun = slowest.throughput.unit, "host" if len(others) == 1 else f"{len(others)} hosts"
    return Verdict(
        "warning",
        f"Straggler ({case.label}): {slowest.host} is {percent(slower)} slower than the other {noun} "
        f"({contrast(case.quantity(slowest.throughput.value, unit), case.quantity(typical, unit), 'vs')}). "
        + ("The site waits for it." if waits else "The site's result includes it."),
        {"host": slowest.host, "slower": slower, "value": slowest.throughput.value, "usual": typical, "unit": unit},
        f"Measure alone on {slowest.host}: {case.command_alone()}",
        weight=slower,
        explains=(*(WAITING if waits else ()), "unfair"),
    )


def _reading_s(share: HostShare) -> float:
    return share.elapsed_s / share.repeats


_SITE = Applies(needs=("hosts",))
RULES = (
    Rule("host_missing", "point", host_missing, _SITE, degrades=True),
    Rule("hosts_apart", "point", hosts_apart, _SITE, degrades=True, explains=True),
    Rule("straggler", "point", straggler, _SITE, explains=True),
)
