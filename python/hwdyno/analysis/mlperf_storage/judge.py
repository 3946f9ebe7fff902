"""Judges the runs of one workload by the rules of their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hwdyno.analysis.mlperf_storage.checkpoint_rules import check_checkpoints
from hwdyno.analysis.mlperf_storage.judgement import Judgement
from hwdyno.analysis.mlperf_storage.parameter_rules import check_parameters
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts
from hwdyno.analysis.mlperf_storage.serving_rules import check_kv_cache, check_vectors
from hwdyno.analysis.mlperf_storage.training_rules import check_training

_CHECKS: dict[str, Callable[[Sequence[RunFacts]], list[Judgement]]] = {
    "training": check_training,
    "checkpointing": check_checkpoints,
    "vector_database": check_vectors,
    "kv_cache": check_kv_cache,
}


def judge_runs(runs: Sequence[RunFacts]) -> list[Judgement]:
    """What is broken or undecided in the runs of one workload; several facts of one run are one of it."""
    distinct = list({facts.run: facts for facts in runs}.values())
    check = _CHECKS.get(distinct[0].kind) if distinct else None
    return [*check(distinct), *check_parameters(distinct)] if check is not None else []
