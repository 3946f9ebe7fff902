"""The rules of all families, found by walking this folder, in the order in which their findings are printed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from hwdyno.analysis.resources import all_resources
from hwdyno.explain.findings.applies import Rule
from hwdyno.model.words import Finding

FAMILIES = (
    "laws",
    # Did it measure what it claims?
    "truth",
    "hidden_caches",
    "imports",
    "published_accelerators",
    "published",
    "published_figures",
    "published_limits",
    "mlperf_rules",
    "published_loads",
    "published_statements",
    "published_copies",
    "published_sums",
    "claims",
    "open_loop",
    "coverage",
    "children",
    # Were the conditions good?
    "bottleneck",
    "steadiness",
    "conditions",
    "between_runs",
    "hosts",
    "scaling",
    "host_pairs",
    # Curves
    "saturation",
    "snia",
    "device",
    # What limits a network path
    "network_path",
    "network",
    # Does the storage feed accelerators, serve a KV cache, answer a vector index's queries?
    "training_data",
    "training",
    "training_capacity",
    "training_peer",
    "training_loaders",
    "inference",
    "inference_images",
    "kv_cache",
    "vector_search",
    # How does a server of a language model answer?
    "serving",
    "serving_limit",
    # What resources cost each other
    "contention",
    # Memory and arithmetic
    "memory",
    "tlb",
    "compute",
    "settings",
    # Reference tools
    "peers",
)
"""The files in the order in which findings of one severity are printed, the most important first."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """The rules of all files in this folder: those of ``FAMILIES`` in order, then any others by name."""
    folder = importlib.import_module(__package__)
    names = dict.fromkeys([*FAMILIES, *(module.name for module in pkgutil.iter_modules(folder.__path__))])
    modules = [importlib.import_module(f"{__package__}.{name}") for name in names]
    return tuple(rule for module in modules for rule in vars(module).get("RULES", ()))


@cache
def rules_by_name() -> Mapping[str, Rule]:
    """Every rule by its name."""
    return {rule.name: rule for rule in all_rules()}


OF_OTHERS = frozenset({"others_at_work", "another_run", "load_before", "steal", "noisy_neighbour"})
"""Rules that find other load on the machine while a point ran."""
ABOUT_THE_RUN = OF_OTHERS | {
    *("interval_not_reached", "outlying_repeats", "repeats_disagree", "two_modes", "modes_nearby", "not_steady"),
    *("off_the_curve", "between_runs", "hosts_apart", "too_short", "small_region", "host_missing"),
}
"""Rules whose findings are about how this run went, and say nothing of what the machine can do."""


def about_this_run(finding: Finding) -> bool:
    """Whether a finding is about this run's conditions and noise, not about the machine.

    Processors and their memory stall where a scheduler takes the processor away; a disk also stalls by itself.
    """
    resource = all_resources().get(finding.resource)
    of_processors = resource is not None and resource.client == "measured"
    return finding.rule in ABOUT_THE_RUN or (finding.rule == "stalls" and of_processors)
