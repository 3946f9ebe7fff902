"""The kind of device: the cost of mixing reads and writes, spinning or solid state."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.hidden_caches import VIRTUAL_KINDS
from hwdyno.explain.findings.rule import Case, Verdict, percent
from hwdyno.model.axes import list_traits, read_share, series_key, splits
from hwdyno.model.units import format_ns, format_ratio
from hwdyno.model.words import Measurement, Parameters

MIN_PENALTY = 0.05
SPINNING_NS = 3e6
"""A random read at queue depth 1 waits half a turn on average (2.0 ms at 15000 rpm), and a seek takes 1 ms or more."""
SOLID_NS = 1e6


def _error(point: Measurement) -> float:
    """The standard error of throughput, as a share; 2% where it is unknown."""
    value = point.throughput
    if value.low is None or value.high is None or value.value <= 0:
        return 0.02
    return (value.high - value.low) / 2 / 1.96 / value.value


def mix_penalty(case: Case) -> list[Verdict]:
    """A mix of reads and writes is slower than taking turns: the harmonic mean of both, weighted by their shares."""
    groups: dict[tuple[object, ...], dict[float, int]] = defaultdict(dict)
    axes = case.result.declaration.axes
    shares = {name for axis in splits(axes) for name in (axis.name, axis.split)}
    for at, point in enumerate(case.result.points):
        parameters: Parameters = {**case.result.fixed, **point.parameters}
        share, traits = read_share(axes, parameters), list_traits(axes, parameters)
        if share is None or point.validity == "invalid" or point.throughput.value <= 0:
            continue
        others = series_key(case.result.declaration, point.parameters, shares)
        groups["random" in traits, others][share] = at
    found = []
    for by_share in groups.values():
        found += list(_penalties(case, by_share))
    if not found:
        return []
    # One finding per experiment and access pattern: the worst mix, and the number of others.
    worst = max(found, key=lambda verdict: verdict.weight)
    more = f" {len(found)} mixes of this sweep are slower than taking turns." if len(found) > 1 else ""
    return [
        Verdict(
            worst.severity,
            worst.says + more,
            {**worst.evidence, "all": [verdict.evidence for verdict in found]},
            worst.advice,
            worst.weight,
            tuple(at for verdict in found for at in verdict.points),
        )
    ]


def _penalties(case: Case, by_share: dict[float, int]) -> Iterator[Verdict]:
    if not {0.0, 1.0} <= set(by_share):
        return
    points = case.result.points
    reads, writes = points[by_share[1.0]], points[by_share[0.0]]
    for share, at in by_share.items():
        mixed = points[at]
        expected = 1 / (share / reads.throughput.value + (1 - share) / writes.throughput.value)
        penalty = 1 - mixed.throughput.value / expected
        half = 1.96 * math.sqrt(_error(mixed) ** 2 + _error(reads) ** 2 + _error(writes) ** 2) * (1 - penalty)
        if penalty <= MIN_PENALTY or penalty - half <= 0:
            continue
        here, top = Case(case.run, case.result, at), min(1.0, penalty + half)
        yield Verdict(
            "info",
            f"Mixing reads and writes costs {percent(penalty)} ({here.label}; {percent(max(0.0, penalty - half))} to "
            f"{percent(top)}). The mix reaches {percent(mixed.throughput.value / reads.throughput.value)} of pure "
            f"reads and {percent(mixed.throughput.value / writes.throughput.value)} of pure writes. "
            f"Taking turns would reach {percent(expected / reads.throughput.value)} of pure reads.",
            {
                "penalty": penalty,
                "low": penalty - half,
                "high": top,
                "read_share": share,
                "parameters": dict(mixed.parameters),
            },
            "Separate writes in time, move them to another drive, or use larger blocks: "
            + here.command(bs="4k,16k,64k,128k"),
            weight=penalty,
            points=(at,),
        )


def spinning_or_solid(case: Case) -> Verdict | None:
    """Whether a disk spins, by the latency of a random read at depth 1, beside what the kernel reports."""
    alone: tuple[float, str, int, Case] | None = None
    sequential = 0.0
    for result in case.run.experiments:
        for at in range(len(result.points)):
            here = Case(case.run, result, at)
            size, pattern = here.number("bs"), here.traits & {"reads", "writes", "random", "trims"}
            if here.point.validity == "invalid" or not here.direct or not size:
                continue
            if pattern == {"reads"}:
                sequential = max(sequential, here.point.throughput.value)
            depth = (here.number("iodepth") or 1) * here.jobs
            latency = here.point.latency_ns if pattern == {"reads", "random"} and depth == 1 and size <= 8192 else None
            if latency is None:
                continue
            typical_ns = latency.mean if latency.p50 is None else latency.p50
            if not (alone and alone[0] <= typical_ns):
                alone = (typical_ns, here.label, at, here)
    if alone is None:
        return None
    median_ns, label, at, here = alone
    ratio = sequential / here.point.throughput.value if sequential and here.point.throughput.value else None
    claims = case.run.machine.storage.disk.rotational
    kind = "spinning" if median_ns >= SPINNING_NS else "solid state" if median_ns <= SOLID_NS else "undecided"
    if kind == "undecided":
        return None
    compared = f" Sequential reads are {format_ratio(ratio)} times as fast." if ratio else ""
    agrees = ""
    if isinstance(claims, bool):
        word = "spinning" if claims else "solid state"
        agrees = " The kernel agrees." if word == kind else f" The kernel reports {word}."
    takes = f"one random read takes {format_ns(median_ns)} ({label})"
    says = f"The storage is {kind}: {takes}.{compared}{agrees}"
    if any(disk.kind in VIRTUAL_KINDS for disk in case.run.machine.storage.disks):
        # The guest sees the host's caches, and nothing behind them.
        like = "a spinning disk" if kind == "spinning" else "solid state"
        says = f"{takes[0].upper()}{takes[1:]}, as on {like}.{compared} The host's disk cannot be seen from this guest."
    return Verdict(
        "info",
        says,
        {"median_ns": median_ns, "sequential_ratio": ratio, "rotational": claims, "verdict": kind},
        "Nothing to do."
        if not isinstance(claims, bool) or claims == (kind == "spinning")
        else "Check the I/O scheduler; virtual and cached disks often report the wrong kind: "
        "cat /sys/block/*/queue/rotational",
        points=(at,),
    )


RULES = (
    Rule("mix_penalty", "experiment", mix_penalty, Applies(resources=("storage",))),
    Rule("spinning_or_solid", "run", spinning_or_solid, Applies(resources=("storage",)), about="storage"),
)
