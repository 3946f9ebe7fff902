"""The inference part of a study of storages: a language model's KV cache, and a vector index, on each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.cli import kv_cache_plan, vector_search_plan

if TYPE_CHECKING:
    from hwdyno.experiments import Experiment
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

MODEL = "llama3.1-8b"
SCALES = {"quick": 0.01, "standard": 0.1, "full": 1.0}
"""Of the contexts' tokens."""
USERS = "1,4,16"
INDEX = "diskann"
THREADS = "1,4"


def beside(places: Sequence[tuple[str, Path]], profile: str) -> list[tuple[Experiment, Mapping[str, str | float]]]:
    """Both experiments for each storage, with their axes."""
    chosen: list[tuple[Experiment, Mapping[str, str | float]]] = []
    many = len(places) > 1
    for place in places:
        kv = kv_cache_plan.experiment(MODEL, SCALES[profile], place, many=many)
        vectors = vector_search_plan.experiment(INDEX, {}, place, many=many)
        chosen.append((kv, {"users": USERS, "runtime": kv_cache_plan.RUNTIME_S[profile]}))
        chosen.append((vectors, {"threads": THREADS, "runtime": vector_search_plan.RUNTIME_S[profile]}))
    return chosen


def build(plan: Plan, host: Host, made: list[Path], *, quiet: bool) -> bool:
    """Build the plan's vector indices, each noted in ``made``; false if it was interrupted."""
    kernel = vector_search_plan.KERNEL
    mine = [one for one in plan.experiments if one.experiment.kernel == kernel]
    return all(vector_search_plan.build(one.fixed, host, quiet, made) for one in mine)


def remove(plan: Plan, made: Sequence[Path]) -> None:
    """Remove the indices, and what a run that was killed may have left of a KV cache."""
    for folder in made:
        vector_search_plan.remove(folder)
    for one in plan.experiments:
        if one.experiment.kernel == kv_cache_plan.KERNEL:
            kv_cache_plan.remove(Path(str(one.fixed["path"])))
