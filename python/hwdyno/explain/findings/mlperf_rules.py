"""The rules of MLPerf Storage, where a folder of its results breaks one; each is cited by its number and edition."""

from __future__ import annotations

from hwdyno.analysis.mlperf_storage import RunFacts, judge_runs
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict

_NEEDS = ("details.mlperf",)
_PARAMETERS = (
    "trainingClosedSubmissionParameters", "trainingOpenSubmissionParameters", "checkpointClosedCheckpointParameters",
)  # fmt: skip


def mlperf_training(case: Case) -> list[Verdict]:
    """Rules on training: accelerator utilization, data set, runs and hosts."""
    return [verdict for name, verdict in _broken_rules(case, "training") if name not in _PARAMETERS]


def mlperf_checkpoints(case: Case) -> list[Verdict]:
    """Rules on checkpoints: how many, how large, by how many processes, and synced."""
    return [verdict for name, verdict in _broken_rules(case, "checkpointing") if name not in _PARAMETERS]


def mlperf_division(case: Case) -> list[Verdict]:
    """Parameters were changed that the division of a run does not allow."""
    found = [*_broken_rules(case, "training"), *_broken_rules(case, "checkpointing")]
    return [verdict for name, verdict in found if name in _PARAMETERS]


def mlperf_vectors(case: Case) -> list[Verdict]:
    """Rules on vector databases: runs, recall, exact answers, collection and index."""
    return [verdict for _, verdict in _broken_rules(case, "vector_database")]


def mlperf_kv_cache(case: Case) -> list[Verdict]:
    """Rules on the KV cache: options, settings, and whether the storage was read at all."""
    return [verdict for _, verdict in _broken_rules(case, "kv_cache")]


def _broken_rules(case: Case, kind: str) -> list[tuple[str, Verdict]]:
    """The broken rules of one kind of runs, by their names, each with the points of the runs that break it."""
    points = [
        (at, RunFacts.from_details(details))
        for at, point in enumerate(case.result.points)
        if isinstance(details := point.details.get("mlperf"), dict)
    ]
    facts = [fact for _, fact in points if fact.kind == kind]
    found = []
    for judgement in judge_runs(facts):
        if judgement.is_unknown:
            continue
        at = tuple(at for at, fact in points if not judgement.runs or fact.run in judgement.runs)
        verdict = Verdict("warning", judgement.says, judgement.evidence, judgement.advice, points=at)
        found.append((judgement.name, verdict))
    return found


RULES = tuple(
    Rule(check.__name__, "experiment", check, Applies(imported=True, needs=_NEEDS))
    for check in (mlperf_training, mlperf_checkpoints, mlperf_division, mlperf_vectors, mlperf_kv_cache)
)
