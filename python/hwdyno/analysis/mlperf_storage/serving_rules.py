"""The rules of MLPerf Storage on vector databases and on the KV cache."""

from __future__ import annotations

from collections.abc import Sequence

from hwdyno.analysis.mlperf_storage.judgement import (
    Judgement,
    report_broken,
    report_unknown,
    report_without_division,
)
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts
from hwdyno.analysis.mlperf_storage.training_rules import check_filesystems
from hwdyno.model.units import as_number, format_count, plural

VECTOR_RUNS = 5
CLOSED_INDEXES = ("DISKANN", "HNSW", "AISAQ")
KV_OPTIONS, KV_TRIALS, KV_SEED, KV_PAUSE_S = ("1", "2", "3"), 3, 42, 90
_KV_NAMES = (
    "model", "num-users", "duration", "gpu-mem-gb", "cpu-mem-gb", "max-concurrent-allocs", "generation-mode",
)  # fmt: skip
_KV_TABLE = {
    "1": ("llama3.1-8b", "200", "300", "0", "0", "16", "none"),
    "2": ("llama3.1-8b", "100", "300", "0", "4", "16", "none"),
    "3": ("llama3.1-70b-instruct", "70", "300", "0", "0", "4", "none"),
}
"""What CLOSED sets for each option (Rules.md, Table KVCache-1)."""
MAX_DIFFERENCES = 3


def check_vectors(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The rules on the runs of one vector index."""
    first = runs[0]
    found = list[Judgement]()
    number = int(first.run_folders or 0)
    if not number:
        found += report_unknown("vdbRunCount", runs, "how many runs there are: the folder is one of them")
    elif number != VECTOR_RUNS:
        found += report_broken(
            "vdbRunCount", runs, f"{first.label}: there {'is' if number == 1 else 'are'} {plural(number, 'run')} "
            f"instead of {VECTOR_RUNS}", "Run the queries five times.", number=number,
        )  # fmt: skip
    lacking = [facts for facts in runs if facts.missing]
    if lacking:
        found += report_broken(
            "vdbMetricsReported", runs,
            f"{first.label}: {', '.join(lacking[0].missing)} is missing in {len(lacking)} of "
            f"{plural(len(runs), 'run')}",
            "Repeat the run with a mlpstorage that writes them.", lacking, missing=list(lacking[0].missing),
        )  # fmt: skip
    return found + _check_recall(runs) + _check_collection(runs) + _check_closed_vectors(runs) + [
        *report_unknown("vdbDatasetScale", runs, "the edition's table of scales is not published"),
        *report_unknown("vdbQueryCountMinimum", runs, "the edition's least number of queries is not published"),
        *check_filesystems("vdbFilesystemCheck", runs, "vectors"),
    ]  # fmt: skip


def _check_recall(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, found = runs[0], list[Judgement]()
    without = [facts for facts in runs if not facts.recall]
    if without:
        states = "states no recall" if without[0].recall is None else "has a recall of 0"
        found += report_broken(
            "vdbRecallReported", runs,
            f"{first.label}: {len(without)} of {plural(len(runs), 'run')} {states}, so its queries found nothing known",
            "Make the exact answers anew, and run again.", without,
        )  # fmt: skip
    else:
        found += report_unknown("vdbRecallReported", runs, "the edition's least recall is not published")
    partial = [facts for facts in runs if facts.coverage is not None and facts.coverage < 1]
    if partial:
        found += report_broken(
            "vdbGroundTruthIntegrity", runs,
            f"{first.label}: the exact answers cover {100 * (partial[0].coverage or 0):.4g}% of the vectors, so the "
            "recall is no measure",
            "Make the exact answers from all vectors, and run again.", partial, coverage=partial[0].coverage,
        )  # fmt: skip
    elif any(facts.coverage is None for facts in runs):
        found += report_unknown("vdbGroundTruthIntegrity", runs, "what the exact answers cover: no result_verdict.json")
    return found


def _check_collection(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, found = runs[0], list[Judgement]()
    if first.loaded_dimension is None or first.dimension is None:
        found += report_unknown("vdbDimensionConsistency", runs, "the dimension at loading or at querying")
    elif first.dimension != first.loaded_dimension:
        found += report_broken(
            "vdbDimensionConsistency", runs,
            f"{first.label}: vectors of {first.loaded_dimension:.0f} dimensions were loaded, and queries have "
            f"{first.dimension:.0f}",
            "Load and query one collection.", dimension=first.dimension,
        )  # fmt: skip
    if first.inserted is None or first.vectors is None:
        found += report_unknown("vdbCollectionPopulated", runs, "how many vectors were loaded")
    elif first.inserted != first.vectors:
        found += report_broken(
            "vdbCollectionPopulated", runs,
            f"{first.label}: {format_count(first.inserted)} of {format_count(first.vectors)} vectors were loaded",
            "Load all vectors before the queries.", inserted=first.inserted, vectors=first.vectors,
        )  # fmt: skip
    return found


def _check_closed_vectors(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, found = runs[0], list[Judgement]()
    if first.division != "closed":
        return report_without_division("vdbClosedDatabaseBackend", runs)
    if not first.database:
        found += report_unknown("vdbClosedDatabaseBackend", runs, "the database")
    elif first.database != "milvus":
        found += report_broken(
            "vdbClosedDatabaseBackend", runs, f"{first.label}: CLOSED requires Milvus, and this is {first.database}",
            "Submit it to OPEN.", database=first.database,
        )  # fmt: skip
    if first.index and first.index.upper() not in CLOSED_INDEXES:
        found += report_broken(
            "vdbClosedIndexTypes", runs,
            f"{first.label}: CLOSED has the indexes {', '.join(CLOSED_INDEXES)}, and this is {first.index}",
            "Submit it to OPEN.", index=first.index,
        )  # fmt: skip
    return found


def check_kv_cache(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The rules on runs of the KV cache."""
    first, found = runs[0], list[Judgement]()
    lacking = [facts for facts in runs if facts.incomplete]
    if lacking:
        found += report_broken(
            "kvcacheAggregateBandwidth", runs,
            f"{first.label}: results of ranks are missing in option {', '.join(lacking[0].incomplete)}, so its sums "
            "are of the other ranks alone",
            "Find in the logs why ranks wrote no result, and repeat the run.", lacking,
        )  # fmt: skip
    cached = [facts for facts in runs if facts.from_memory]
    if cached:
        found += report_broken(
            "kvcacheLatencyValidity", runs,
            f"{first.label}: every rank of option {', '.join(cached[0].from_memory)} was served from memory, "
            "so its latencies are none of the storage",
            "Set --cpu-mem-gb 0 and --gpu-mem-gb 0, so that the storage is read.", cached,
        )  # fmt: skip
    if first.division != "closed":
        return found + report_without_division("kvcacheFixedWorkloadPerOption", runs)
    return found + _check_closed_kv(runs)


def _check_closed_kv(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, found = runs[0], list[Judgement]()
    absent = [option for option in KV_OPTIONS if option not in first.options]
    if absent:
        found += report_broken(
            "kvcacheFixedWorkloadPerOption", runs,
            f"{first.label}: option {', '.join(absent)} has no result, and CLOSED runs all three",
            "Run all options in one command: mlpstorage closed kvcache run", options=list(first.options),
        )  # fmt: skip
    else:
        found += _check_options(runs)
    settings = (
        ("trials", first.trials, KV_TRIALS), ("the seed", first.seed, KV_SEED),
        ("the pause between options in s", first.pause_s, KV_PAUSE_S),
    )  # fmt: skip
    for setting, value, wanted in settings:
        if value is None:
            found += report_unknown("kvcacheClosedSequenceLocks", runs, setting)
        elif value != wanted:
            found += report_broken(
                "kvcacheClosedSequenceLocks", runs,
                f"{first.label}: CLOSED sets {setting} to {wanted}, and this has {value:g}", "Leave it at its default.",
            )  # fmt: skip
    if first.autoscaling is None:
        found += report_unknown("kvcacheAutoscalingProhibited", runs, "whether autoscaling was on")
    elif first.autoscaling:
        found += report_broken(
            "kvcacheAutoscalingProhibited", runs, f"{first.label}: autoscaling was on, which CLOSED prohibits",
            "Leave out --enable-autoscaling.",
        )  # fmt: skip
    return found


def _check_options(runs: Sequence[RunFacts]) -> list[Judgement]:
    """What the commands of each option set, against the edition's table."""
    name, first = "kvcacheFixedWorkloadPerOption", runs[0]
    stated: dict[tuple[str, str], set[str]] = {}
    for line in (line for facts in runs for line in facts.option_settings if line.count(" ") == 2):
        option, key, value = line.split(" ")
        stated.setdefault((option, key), set()).add(value)
    wanted = {
        (option, key): value for option, row in _KV_TABLE.items() for key, value in zip(_KV_NAMES, row, strict=True)
    }
    other = [
        f"option {option} has {key} {value} instead of {right}"
        for (option, key), right in wanted.items()
        for value in sorted(stated.get((option, key), ()))
        if not _is_same(value, right)
    ]
    if other:
        more = f" and {len(other) - MAX_DIFFERENCES} more" if len(other) > MAX_DIFFERENCES else ""
        return report_broken(
            name, runs, f"{first.label}: {', '.join(other[:MAX_DIFFERENCES])}{more}",
            "Run mlpstorage closed kvcache run without options of the workload, or submit it to OPEN.",
            differences=other,
        )  # fmt: skip
    if wanted.keys() <= stated.keys():
        return []
    return report_unknown(name, runs, "users, model and time of each option: no command of each option is recorded")


def _is_same(value: str, wanted: str) -> bool:
    number = as_number(wanted)
    return as_number(value) == number if number is not None else value == wanted
