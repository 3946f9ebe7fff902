"""Makes the facts of a run of what its documents and its path state."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone

from hwdyno.analysis.mlperf_storage import KINDS, RunFacts
from hwdyno.formats.mlpstorage_runs.documents import Documents
from hwdyno.formats.mlpstorage_runs.kv_facts import state_kv_facts
from hwdyno.formats.mlpstorage_runs.leaves import PHASES
from hwdyno.model.units import as_number

GIB = 1 << 30
_ON = re.compile(r"(.+?)[-_](v100|[abh]\d{3}|mi\d{3}x?|gb\d{3}|\dacc)", re.I)
"""A workload with its accelerator, as DLIO's configurations are named: ``unet3d_h100``."""
_SPELLINGS = {"resnet": "resnet50", "3dunet": "unet3d", "3d-unet": "unet3d", "llama_70b": "llama3-70b"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_VECTOR_FIGURES = ("throughput_qps", "mean_latency_ms", "p95_latency_ms", "p99_latency_ms", "p999_latency_ms")


def find_kind(found: Documents) -> str:
    """The kind of a run, by its metadata, its path, its figures; empty where none tells."""
    stated = found.text("metadata.benchmark_type").lower()
    if stated in KINDS:
        return stated
    metric = found.value("summary.metric")
    metric = metric if isinstance(metric, Mapping) else {}
    if any(str(key).startswith("train_") for key in metric):
        return "training"
    if any("checkpoint" in str(key) for key in metric):
        return "checkpointing"
    if "throughput_qps" in found.summary:
        return "vector_database"
    if isinstance(found.summary.get("options"), Mapping):
        return "kv_cache"
    return found.leaf.kind


def find_phase(found: Documents) -> str:
    """``run``, ``datagen`` or ``datasize``; what has figures is a run."""
    stated = found.leaf.phase or found.text("metadata.command", "metadata.args.command").lower()
    return stated if stated in PHASES else "run"


def state_facts(found: Documents) -> RunFacts:
    """What is stated of one run."""
    kind, leaf = find_kind(found), found.leaf
    workload, accelerator = _find_workload(found, kind)
    edition = _find_edition(found, kind, accelerator)
    overrides = _find_overrides(found)
    names = found.value("metadata.args.hosts")
    facts = RunFacts(
        kind=kind,
        run=leaf.run,
        edition=edition,
        division=leaf.division or _find_division(found),
        system=leaf.system or found.text("metadata.args.systemname"),
        workload=workload,
        accelerator=accelerator,
        accelerators=found.number("summary.num_accelerators", "summary.total_ranks", "metadata.num_processes"),
        hosts=found.number("summary.num_hosts", "summary.host_count"),
        host_names=float(len(names)) if isinstance(names, list) and names else None,
        started_s=_seconds(found.text("summary.start", "summary.start_time")),
        ended_s=_seconds(found.text("summary.end", "summary.end_time")),
        invoked_s=_seconds(found.text("metadata.invocation_start_time")),
        overrides_known=overrides is not None,
        overrides=tuple(sorted(overrides or ())),
        storage_api=_find_api(found),
        same_filesystem=_flag(found.value("separation.same_filesystem")),
        data_path=found.text("metadata.args.data_dir", "metadata.args.checkpoint_folder"),
        results_path=found.text("metadata.args.results_dir"),
        memory_bytes=_find_memory(found),
    )
    more = _FACTS[kind](found) if kind in _FACTS else {}
    return RunFacts.from_details({**facts.to_details(), **more})


def _find_workload(found: Documents, kind: str) -> tuple[str, str]:
    """The workload and the emulated accelerator, in the names of Rules.md."""
    configured = (found.overrides or {}).get("workload", "")
    stated = found.text(
        "metadata.model", "metadata.args.model", "parameters.model.name", "parameters.model", "summary.model"
    )
    if kind == "vector_database":
        stated = " ".join([_find_database(found), _find_index(found)]).strip()
    name = stated or configured or (found.leaf.names[0] if found.leaf.names else "")
    accelerator = found.text("metadata.accelerator", "metadata.args.accelerator_type")
    for text in (configured, found.text("summary.workload")):
        if (match := _ON.fullmatch(text)) is not None:
            accelerator = accelerator or match[2]
    name = match[1] if (match := _ON.fullmatch(name)) is not None else name
    name = name.lower()
    if kind == "checkpointing" and (size := re.search(r"(8b|70b|405b|1t)$", name)) is not None:
        name = f"llama3-{size[1]}"
    return _SPELLINGS.get(name, name), accelerator.lower()


def _find_edition(found: Documents, kind: str, accelerator: str) -> str:
    """The edition that a stamp states, or that has this layout and this accelerator; empty where neither tells."""
    stated = found.text("stamp.rules_edition")
    if re.fullmatch(r"\d\.\d", stated):
        return stated
    if kind in {"vector_database", "kv_cache"} or accelerator in {"b200", "mi355"}:
        return "3.0"
    if "combined_params" in found.metadata or "params_dict" in found.metadata:
        return "2.0"
    # 3.0 has each run name its code image; its checkpoints state no accelerator.
    if "override_parameters" in found.metadata or found.leaf.find(".mlps-code-image"):
        return "3.0"
    # 1.0 had no metadata, and DLIO's configuration was in a folder of that name.
    return "1.0" if not found.metadata and found.leaf.find("configs/overrides.yaml", "configs/config.yaml") else ""


def _find_api(found: Documents) -> str:
    """How the storage is reached: ``file`` or ``object``; empty where nothing states it."""
    kind = found.text("parameters.storage.storage_type")
    return found.text("metadata.args.data_access_protocol") or ("object" if kind in {"s3", "aistore"} else "")


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _find_division(found: Documents) -> str:
    # An enumeration is kept by its name or by its whole one, ``PARAM_VALIDATION.CLOSED``.
    stated = found.text("metadata.args.mode", "metadata.verification").lower().rpartition(".")[2]
    return stated if stated in {"closed", "open", "whatif"} else ""


def _find_overrides(found: Documents) -> set[str] | None:
    """The parameters that the command changed; none where no file lists them."""
    for path in ("metadata.override_parameters", "metadata.params_dict"):
        stated = found.value(path)
        if isinstance(stated, Mapping):
            return {str(name) for name in stated}
    if found.overrides is None:
        return None
    return {name.removeprefix("workload.") for name in found.overrides if name.startswith("workload.")}


def _find_memory(found: Documents) -> float | None:
    """Memory of all hosts, bytes: DLIO's list has the right sum, though not always the right order."""
    by_host = found.value("summary.host_memory_GB")
    total = sum(as_number(value) or 0.0 for value in by_host) if isinstance(by_host, list) else 0.0
    if total > 0:
        return total * GIB
    host_gib, hosts = found.number("metadata.args.client_host_memory_in_gb"), found.number("summary.num_hosts")
    if host_gib and hosts:
        return host_gib * hosts * GIB
    return found.number("metadata.system_info.total_memory_bytes") or None


def _seconds(text: str) -> float | None:
    """Seconds of a moment, in its own clock."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or timezone.utc) - _EPOCH).total_seconds()


def _training_facts(found: Documents) -> dict[str, object]:
    return {
        "au_template": found.number("parameters.metric.au"),
        "files": found.number("summary.num_files_train", "parameters.dataset.num_files_train"),
        "samples_per_file": found.number("summary.num_samples_per_file", "parameters.dataset.num_samples_per_file"),
        "record_bytes": found.number("parameters.dataset.record_length_bytes", "parameters.dataset.record_length"),
        "batch_size": found.number("parameters.reader.batch_size"),
    }


def _checkpoint_facts(found: Documents) -> dict[str, object]:
    written, read = (
        found.number(
            f"metadata.args.num_checkpoints_{kind}", f"parameters.checkpoint.num_checkpoints_{kind}",
            f"metadata.params_dict.num_checkpoints_{kind}",
        )
        for kind in ("write", "read")
    )  # fmt: skip
    size = found.number("summary.metric.checkpoint_size_GB")
    return {
        # 2.0 wrote -1 for none.
        "writes": None if written is None else max(0.0, written),
        "reads": None if read is None else max(0.0, read),
        "mode": found.text("parameters.checkpoint.mode"),
        "fsync": _flag(found.value("parameters.checkpoint.fsync")),
        "checkpoint_bytes": size * GIB if size else None,
    }


def _find_database(found: Documents) -> str:
    stated = found.text(
        "summary.database", "summary.database.database", "summary.engine", "parameters.database.database",
        "metadata.args.database", "metadata.args.vdb_engine",
    )  # fmt: skip
    return (stated or (found.leaf.names[0] if len(found.leaf.names) > 1 else "")).lower()


def _find_index(found: Documents) -> str:
    stated = found.text(
        "summary.index_type", "metadata.args.index_type", "metadata.args.vdb_index", "parameters.index.index_type"
    )
    return (stated or (found.leaf.names[-1] if found.leaf.names else "")).upper()


def find_recall(found: Documents) -> float | None:
    """The mean recall of a summary, which is a number or a table."""
    return found.number("summary.recall", "summary.recall.mean_recall", "verdict.recall_summary.mean_recall")


def _vector_facts(found: Documents) -> dict[str, object]:
    fails = found.value("verdict.flat_setup.ok") is False
    return {
        "database": _find_database(found),
        "index": _find_index(found),
        "recall": find_recall(found),
        "missing": tuple(name for name in _VECTOR_FIGURES if found.number(f"summary.{name}") is None),
        "coverage": 0.0 if fails else found.number("verdict.flat_setup.coverage"),
        "dimension": found.number("summary.dimension", "metadata.args.dimension", "metadata.args.vector_dim"),
        "vectors": found.number("summary.num_vectors", "metadata.args.num_vectors"),
        # The exact answers are made from the collection's vectors, which are counted first.
        "inserted": found.number("summary.inserted_vectors", "verdict.flat_setup.total_vectors"),
    }


_FACTS = {
    "training": _training_facts, "checkpointing": _checkpoint_facts, "vector_database": _vector_facts,
    "kv_cache": state_kv_facts,
}  # fmt: skip
