"""What each edition of MLPerf Storage requires, and where its rules say so.

Sources: mlcommons/storage, ``Submission_guidelines.md`` of 1.0 (2024) and 2.0 (2025), ``Rules.md`` and
``mlpstorage_py/rules/editions.yaml`` of 3.0 (2026).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hwdyno.analysis.mlperf_storage.run_facts import RunFacts

LATEST = "3.0"
"""The edition that judges a run which states none."""
CHECKED_BY = "mlpstorage"
"""The only program that makes a submission."""
MIN_STEPS, MIN_MEMORIES = 500, 5
"""Steps of each accelerator in an epoch, and hosts' memories, that a data set has at least."""


@dataclass(frozen=True, slots=True)
class Edition:
    """What differs between editions."""

    document: str
    """The file of mlcommons/storage that has its rules."""
    min_au: dict[str, float]
    """The least AU of each of its workloads, as a share."""
    measured_runs: int
    warm_up: Literal["", "unseen", "kept"]
    """Whether a warm-up run is required, and whether its folder must be kept."""
    accelerator_bytes: dict[str, float]
    """Memory of an emulated accelerator, bytes."""


EDITIONS = {
    "1.0": Edition(
        "Submission_guidelines.md", {"unet3d": 0.9, "resnet50": 0.9, "cosmoflow": 0.7}, 5, "", {}
    ),
    "2.0": Edition(
        "Submission_guidelines.md", {"unet3d": 0.9, "resnet50": 0.9, "cosmoflow": 0.7}, 5, "unseen",
        {"a100": 80e9, "h100": 80e9},
    ),
    "3.0": Edition(
        "Rules.md", {"unet3d": 0.9, "retinanet": 0.85}, 5, "kept",
        {"b200": 180e9, "mi355": 288e9, "a100": 80e9, "h100": 80e9},
    ),
}  # fmt: skip

_SECTIONS: dict[str, dict[str, str]] = {
    "trainingAcceleratorUtilizationCheck": {"1.0": "1", "2.0": "2.1", "3.0": "3.3.2"},
    "trainingRecalculateDatasetSize": {"1.0": "3", "2.0": "7", "3.0": "3.1.2"},
    "trainingDatagenMinimumSize": {"3.0": "3.2.1"},
    "trainingRunDataMatchesDatasize": {"3.0": "3.3.1"},
    "trainingSingleHostClientLimit": {"3.0": "3.3.4"},
    "trainingIdenticalAcceleratorsPerNode": {"1.0": "5", "2.0": "9", "3.0": "3.3.6"},
    "trainingResultAggregation": {"3.0": "3.3.8"},
    "trainingMlpstoragePathArgs": {"3.0": "3.4.1"},
    "trainingMlpstorageFilesystemCheck": {"3.0": "3.4.2"},
    "trainingClosedSubmissionParameters": {"1.0": "6", "2.0": "10.1", "3.0": "3.6.2"},
    "trainingOpenSubmissionParameters": {"1.0": "6", "2.0": "10.2", "3.0": "3.6.3"},
    "trainingWorkloads": {"3.0": "2.1.11"},
    "runTimestamps": {"1.0": "7", "2.0": "6.6", "3.0": "2.1.17"},
    "runTimestampGap": {"3.0": "2.1.18"},
    "checkpointingTimestamps": {"3.0": "2.1.23"},
    "checkpointDataSizeRatio": {"3.0": "4.3.1"},
    "checkpointFsyncVerification": {"2.0": "2.2.2", "3.0": "4.3.2"},
    "checkpointModelConfigurationReq": {"2.0": "2.2.1", "3.0": "4.3.3"},
    "checkpointAggregateAcceleratorMemory": {"2.0": "2.2.1", "3.0": "4.3.4"},
    "checkpointSubsetRunValidation": {"3.0": "4.3.5"},
    "checkpointPathArgs": {"3.0": "4.4.1"},
    "checkpointFilesystemCheck": {"3.0": "4.4.2"},
    "checkpointClosedMpiProcesses": {"2.0": "2.2.1", "3.0": "4.6.1"},
    "checkpointClosedAcceleratorsPerHost": {"2.0": "2.2.1", "3.0": "4.6.2"},
    "checkpointClosedCheckpointParameters": {"2.0": "2.2.5", "3.0": "4.6.3"},
    "checkpointCacheFlushValidation": {"2.0": "2.2.5", "3.0": "4.7.1"},
    "vdbDatasetScale": {"3.0": "5.1.1"},
    "vdbDimensionConsistency": {"3.0": "5.1.2"},
    "vdbCollectionPopulated": {"3.0": "5.2.1"},
    "vdbRunCount": {"3.0": "5.3.1"},
    "vdbRecallReported": {"3.0": "5.3.2"},
    "vdbQueryCountMinimum": {"3.0": "5.3.3"},
    "vdbMetricsReported": {"3.0": "5.3.4"},
    "vdbGroundTruthIntegrity": {"3.0": "5.3.5"},
    "vdbFilesystemCheck": {"3.0": "5.4.2"},
    "vdbClosedDatabaseBackend": {"3.0": "5.6.2"},
    "vdbClosedIndexTypes": {"3.0": "5.6.3"},
    "kvcacheFixedWorkloadPerOption": {"3.0": "6.3.1.1"},
    "kvcacheClosedSequenceLocks": {"3.0": "6.3.2.1"},
    "kvcacheAutoscalingProhibited": {"3.0": "6.3.2.2"},
    "kvcacheAggregateBandwidth": {"3.0": "6.3.4.1"},
    "kvcacheLatencyValidity": {"3.0": "6.3.4.4"},
}
"""Where each edition has a rule, by the name that ``Rules.md`` gives it."""


def edition_of_run(facts: RunFacts) -> Edition:
    """The edition that judges a run."""
    return EDITIONS.get(facts.edition) or EDITIONS[LATEST]


def find_section(name: str, facts: RunFacts) -> str:
    """The number of a rule in a run's edition; empty where it has no such rule."""
    return _SECTIONS[name].get(facts.edition if facts.edition in EDITIONS else LATEST, "")


def cite(name: str, facts: RunFacts) -> tuple[str, str]:
    """A rule as a reader finds it: ``Rules.md 3.3.2`` and ``MLPerf Storage 3.0``."""
    edition = facts.edition if facts.edition in EDITIONS else LATEST
    return f"{EDITIONS[edition].document} {_SECTIONS[name][edition]}", f"MLPerf Storage {edition}"
