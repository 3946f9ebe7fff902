"""What many hosts show of each other: slow pairs of a network, its bisection, and what a shared file costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from hwdyno.analysis.estimates import median
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_flag, contrast, percent
from hwdyno.model.axes import BETWEEN, SHARED_FILE
from hwdyno.model.units import plural
from hwdyno.model.words import ExperimentResult, Measurement, Scalar, Value

SLOW = 0.20
"""A pair that is slower than the median by this share is slow; the same share as of a host."""
MIN_PAIRS = 6
"""Three hosts both ways: with fewer pairs there is no typical rate."""
COSTS = 0.10
"""A shared file that costs less is not worth a file each."""


@dataclass(frozen=True, slots=True)
class HostPair:
    """One ordered pair of hosts, alone."""

    at: int
    sender: str
    receiver: str
    point: Measurement


def list_pairs(result: ExperimentResult, names: tuple[str, ...]) -> list[HostPair]:
    """The points of single pairs, by the names of the site's hosts in their order."""
    found = []
    for at, point in enumerate(result.points):
        first, dash, second = str(point.parameters.get(BETWEEN.name) or "").partition("-")
        if dash and first.isdecimal() and second.isdecimal() and point.validity != "invalid":
            sender, receiver = (names[int(rank)] if int(rank) < len(names) else rank for rank in (first, second))
            found.append(HostPair(at, sender, receiver, point))
    return found


def host_names(case: Case) -> tuple[str, ...]:
    """The site's hosts in their order."""
    return tuple(machine.hostname or str(at) for at, machine in enumerate(case.run.machines))


def _figure(point: Measurement) -> Value:
    """What a pair is judged by: a time, if it is one, as a rate, so that more is better."""
    return point.rate if point.rate is not None and not point.bytes else point.throughput


def slow_pair(case: Case) -> list[Verdict]:
    """Pairs of hosts far slower than the others; where all of them have one host in common, that host."""
    pairs = list_pairs(case.result, host_names(case))
    return [
        verdict
        for group in _alike(pairs).values()
        if len(group) >= MIN_PAIRS and (verdict := _find_slow(case, group)) is not None
    ]


def _alike(pairs: list[HostPair]) -> Mapping[tuple[tuple[str, Scalar], ...], list[HostPair]]:
    """Pairs that differ in nothing else."""
    found: dict[tuple[tuple[str, Scalar], ...], list[HostPair]] = {}
    for pair in pairs:
        others = tuple(sorted((k, v) for k, v in pair.point.parameters.items() if k != BETWEEN.name))
        found.setdefault(others, []).append(pair)
    return found


def _find_slow(case: Case, pairs: list[HostPair]) -> Verdict | None:
    typical = median([_figure(pair.point).value for pair in pairs])
    middle = min(pairs, key=lambda pair: abs(_figure(pair.point).value - typical))
    slow = [
        pair
        for pair in pairs
        if _figure(pair.point).value < (1 - SLOW) * typical and apart(_figure(pair.point), _figure(middle.point))
    ]
    if not slow:
        return None
    worst = min(slow, key=lambda pair: _figure(pair.point).value)
    value, unit = _figure(worst.point).value, _figure(worst.point).unit
    involved = Counter(name for pair in slow for name in (pair.sender, pair.receiver))
    host, count = involved.most_common(1)[0]
    shared = len(slow) > 1 and count == len(slow)
    title = (
        f"Slow host on the network: {host} is in all {len(slow)} slow pairs of {len(pairs)}"
        if shared
        else f"Slow {'pair' if len(slow) == 1 else 'pairs'}: {len(slow)} of {len(pairs)}"
    )
    compared = contrast(case.quantity(value, unit), case.quantity(typical, unit), "vs")
    return Verdict(
        "warning",
        f"{title}. Worst: {worst.sender} to {worst.receiver}, {percent(1 - value / typical)} slower than usual "
        f"({compared}).",
        {
            "host": host if shared else "",
            "pairs": {f"{pair.sender} > {pair.receiver}": _figure(pair.point).value for pair in slow},
            "usual": typical,
            "unit": unit,
        },
        f"Measure that pair again: {case.command(**worst.point.parameters)}",
        weight=1 - value / typical,
        points=tuple(pair.at for pair in slow),
    )


def shared_file(case: Case) -> list[Verdict]:
    """What one file for all hosts costs against a file each, at otherwise like points."""
    by_others: dict[tuple[tuple[str, Scalar], ...], dict[bool, int]] = {}
    for at, point in enumerate(case.result.points):
        if SHARED_FILE.name in point.parameters and point.validity != "invalid":
            others = tuple(sorted((k, v) for k, v in point.parameters.items() if k != SHARED_FILE.name))
            by_others.setdefault(others, {})[as_flag(point.parameters[SHARED_FILE.name])] = at
    found = (_compare_sharing(case, both[True], both[False]) for both in by_others.values() if len(both) == 2)
    return [verdict for verdict in found if verdict is not None]


def _compare_sharing(case: Case, shared: int, separate: int) -> Verdict | None:
    shared_rate, separate_rate = case.result.points[shared].throughput, case.result.points[separate].throughput
    if separate_rate.value <= 0:
        return None
    kept, hosts = shared_rate.value / separate_rate.value, plural(len(case.result.points[separate].hosts), "host")
    there = Case(case.run, case.result, shared)
    compared = contrast(
        case.quantity(shared_rate.value, shared_rate.unit), case.quantity(separate_rate.value, separate_rate.unit), "vs"
    )
    costs = kept < 1 - COSTS and apart(shared_rate, separate_rate)
    verdict = (
        f"One shared file costs {percent(1 - kept)}" if costs else "One shared file is as fast as a file for each host"
    )
    return Verdict(
        "info",
        f"{verdict} ({there.label}, {hosts}): {compared} with a file each.",
        {"shared_to_own": kept, "shared": shared_rate.value, "own": separate_rate.value, "unit": shared_rate.unit},
        f"Use a file for each host where the application allows it: {Case(case.run, case.result, separate).command()}"
        if costs
        else f"Nothing to do; with more hosts measure again: {there.command()}",
        weight=1 - kept,
        points=(shared, separate),
    )


RULES = (
    Rule("slow_pair", "experiment", slow_pair, Applies(resources=("network",), needs=("parameters.between",))),
    Rule("shared_file", "experiment", shared_file, Applies(resources=("storage",), needs=("parameters.shared_file",))),
)
"""The rules on what hosts are to each other."""
