"""Makes one finding from all points of a rule: the worst case, the number of points, and the experiments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hwdyno.explain.findings.rule import Verdict
from hwdyno.model.units import plural
from hwdyno.model.words import Curve, ExperimentResult, Finding

_NOTES_APART = {"rate_times_size"}
"""Rules of which a mere note is no further case of a fault: what rounding may explain is no contradiction."""
ORDER = {"invalid": 0, "warning": 1, "info": 2}
_EFFECTS = {
    "serving_rate": "the rate that was not reached",
    "throttled": "a step down",
    "others_at_work": "other load on the CPU",
    "page_cache": "bytes that missed the device",
    "not_steady": "no steady state",
    "depth_not_reached": "too few operations in flight",
    "interval_not_reached": "a wide interval",
    "repeats_disagree": "repeats that disagree",
    "rate_times_size": "a bandwidth that is not rate x block size",
    "stalls": "stalls",
    "two_modes": "two levels of throughput",
    "another_run": "another hwdyno run at the same time",
    "device_changed": "a device that changed",
    "outlying_repeats": "repeats that are far off",
    "array_in_cache": "an array that a cache holds",
    "block_in_cache": "a block that a cache holds",
    "cached_writes": "writes that a cache took",
    "cpu_limited": "a limit on CPU time",
    "disk_not_reached": "operations that no disk saw",
    "training_read_ahead": "data that was read ahead",
    "cache_hidden": "a cache below the counters",
    "client_bound": "a busy client CPU",
    "clock_dropped": "a clock that dropped",
    "compressed_file": "data that the filesystem compressed",
    "contradicts_itself": "figures that contradict each other",
    "direct_refused": "direct I/O that was refused",
    "faults": "errors of operations",
    "host_missing": "a host that was lost",
    "hosts_apart": "hosts that started apart",
    "io_client_bound": "a busy client CPU",
    "io_faults": "errors of transfers",
    "io_limit": "an I/O limit of the control group",
    "kv_no_room": "too little room for the KV cache",
    "little": "a contradiction of Little's law",
    "network_blackhole": "packets that did not arrive",
    "noisy_neighbour": "a noisy neighbour",
    "steal": "CPU time that the hypervisor took",
    "swapping": "swapping",
    "synchronous_engine": "an engine without a queue",
    "too_short": "too short a reading",
    "training_cached": "data that came from memory",
    "training_faults": "errors of reads",
    "training_law": "figures that contradict each other",
    "unwritten_file": "blocks that were never written",
    "unfair": "unequal shares",
    "wrong_result": "a wrong result",
}
"""The effect that a rule found, as a noun."""


def name_effect(rule: str) -> str:
    """What a rule that degrades a point found there, as a noun: ``a wide interval``."""
    return _EFFECTS.get(rule, rule.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Hit:
    """A rule's verdict on one point, with the names of the other rules whose findings it explains there."""

    result: ExperimentResult
    at: int
    verdict: Verdict
    explains: tuple[str, ...] = ()


def summarize_hits(rule: str, hits: Sequence[Hit]) -> Finding:
    """The gravest verdict, with the number of points and their experiments."""
    if rule in _NOTES_APART and any(hit.verdict.severity != "info" for hit in hits):
        hits = [hit for hit in hits if hit.verdict.severity != "info"]
    worst = min(hits, key=lambda hit: (ORDER[hit.verdict.severity], -hit.verdict.weight))
    where = Counter(hit.result.name for hit in hits)
    says, evidence = worst.verdict.says, worst.verdict.evidence
    if len(hits) > 1:
        case = "Clearest" if worst.verdict.severity == "info" else "Worst"
        places = ", ".join(f"{name} {count}" for name, count in where.items())
        named = f"points of {worst.result.name}" if len(where) == 1 else f"points ({places})"
        several = worst.verdict.several.replace("{count}", str(len(hits)))
        says = several or f"{says} {case} of {len(hits)} {named}."
        evidence = {**evidence, "points": {name: [h.at for h in hits if h.result.name == name] for name in where}}
    says += _describe_explained(hits)
    indices = tuple(dict.fromkeys(hit.at for hit in hits if hit.result is worst.result))
    return make_finding(rule, replace(worst.verdict, says=says, evidence=evidence, points=indices), worst.result)


def _describe_explained(hits: Sequence[Hit]) -> str:
    """A sentence on the findings that this one explains, which are not reported again."""
    counts = Counter(name for hit in hits for name in dict.fromkeys(hit.explains))
    if not counts:
        return ""
    if len(hits) == 1:
        return f" This explains {' and '.join(_EFFECTS[name] for name in counts)}."
    parts = [f"{_EFFECTS[name]} ({plural(count, 'point')})" for name, count in counts.items()]
    return f" This explains {', '.join(parts)}."


def add_caution(says: str, result: ExperimentResult, curve: Curve) -> str:
    """A curve's finding, with a caution where most of its points are degraded."""
    poor = sum(result.points[at].validity in {"degraded", "invalid"} for at in curve.points)
    if poor * 2 <= len(curve.points):
        return says
    return f"{says} Caution: {poor} of {len(curve.points)} points are degraded or invalid."


def make_finding(rule: str, verdict: Verdict, result: ExperimentResult | None) -> Finding:
    """A verdict as a finding of the Run."""
    return Finding(
        rule=rule,
        severity=verdict.severity,
        resource=verdict.resource or (result.resource if result else ""),
        says=verdict.says,
        evidence=_as_stored(verdict.evidence),
        advice=verdict.advice,
        experiment=result.name if result else verdict.experiment,
        points=verdict.points,
    )


def _as_stored(value: Any) -> Any:
    """Evidence as a document gives it back: its keys are text, and its rows lists."""
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else f"{key:g}": _as_stored(inner) for key, inner in value.items()}
    return [_as_stored(inner) for inner in value] if isinstance(value, list | tuple) else value
