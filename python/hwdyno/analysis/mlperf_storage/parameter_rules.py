"""Which parameters a run may change in the CLOSED and in the OPEN division."""

from __future__ import annotations

from collections.abc import Sequence

from hwdyno.analysis.mlperf_storage.judgement import Judgement, report_broken, report_unknown
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts

_CLOSED = {
    "training": {
        *("dataset.num_files_train", "dataset.num_subfolders_train", "dataset.data_folder"),
        *("reader.read_threads", "reader.computation_threads", "reader.transfer_size", "reader.prefetch_size"),
        *("reader.odirect", "storage.storage_root", "storage.storage_type", "checkpoint.checkpoint_folder"),
        "storage.storage_options.prefetch_window",
    },
    "checkpointing": {
        *("checkpoint.checkpoint_folder", "checkpoint.num_checkpoints_write", "checkpoint.num_checkpoints_read"),
        *("storage.storage_root", "storage.storage_type"),
    },
}
"""The tables of tunable parameters (Rules.md 3.6.2, 4.6.3)."""
_OPEN = {
    "training": {"framework", "dataset.format", "dataset.num_samples_per_file", "reader.data_loader"},
    "checkpointing": set[str](),
}
"""What OPEN allows besides (Rules.md 3.6.3)."""
_BY_THE_TOOL = (
    *("workflow.", "profiling.", "output.", "storage.storage_options.storage_library"),
    *("storage.storage_options.uri_scheme", "storage.s3_force_path_style", "dataset.skip_listing"),
    *("dataset.listing_validation_interval", "dataset.total_disk_bytes", "dataset.num_files_generated"),
    *("checkpoint.mode", "model.parallelism.data"),
)
"""How parameters begin that benchmark.sh or mlpstorage sets by itself (``TOOL_INJECTED_PARAMS``)."""
_RULES = {
    "training": ("trainingClosedSubmissionParameters", "trainingOpenSubmissionParameters"),
    "checkpointing": ("checkpointClosedCheckpointParameters", ""),
}


def division_by_parameters(facts: RunFacts) -> str:
    """The division that the changed parameters leave: ``closed``, ``open``, ``neither``; empty where unknown."""
    if facts.kind not in _CLOSED or not facts.overrides_known:
        return ""
    beyond = _beyond_closed(facts)
    return "closed" if not beyond else "open" if beyond <= _OPEN[facts.kind] else "neither"


def _beyond_closed(facts: RunFacts) -> set[str]:
    changed = {name for name in facts.overrides if not name.startswith(_BY_THE_TOOL)}
    return changed - _CLOSED[facts.kind]


def check_parameters(runs: Sequence[RunFacts]) -> list[Judgement]:
    """Runs that changed what their division does not allow, or what neither does."""
    kind = runs[0].kind
    if kind not in _CLOSED:
        return []
    closed_rule, open_rule = _RULES[kind]
    if not any(facts.overrides_known for facts in runs):
        return report_unknown(closed_rule, runs, "no file lists the parameters that were changed")
    found = []
    for division, rule, beyond in (
        ("closed", closed_rule, _CLOSED[kind]),
        ("open", open_rule or closed_rule, _CLOSED[kind] | _OPEN[kind]),
    ):
        at = [
            facts
            for facts in runs
            # A run of no division may be of either, so it must keep to the wider list.
            if (facts.division or "open") == division and _beyond_closed(facts) - beyond
        ]
        # OPEN may change the number of checkpoints and processes; what else it may change is not listed.
        if at and (kind == "training" or division == "closed"):
            names = sorted(set().union(*(_beyond_closed(facts) - beyond for facts in at)))
            were = "was" if len(names) == 1 else "were"
            allowed = "CLOSED does not allow" if division == "closed" else "no division allows"
            found += report_broken(
                rule, runs,
                f"{runs[0].label}: {_list_names(names)} {were} changed, which {allowed}",
                "Run it again without that change, or submit it to OPEN if that division lists the parameter.",
                at, parameters=names, division=division,
            )  # fmt: skip
    return found


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
