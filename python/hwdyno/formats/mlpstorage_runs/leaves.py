"""Finds the runs in a results folder: each folder with a summary or with the metadata of mlpstorage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hwdyno.formats.result_folder import ResultFolder

_DIVISIONS = ("closed", "open", "whatif")
_KINDS = {
    "training": "training", "checkpointing": "checkpointing",
    **dict.fromkeys(("vector_database", "vectordb", "vdb", "vdb_bench"), "vector_database"),
    **dict.fromkeys(("kv_cache", "kvcache"), "kv_cache"),
}  # fmt: skip
PHASES = ("datasize", "datagen", "run")
_RUN = re.compile(r"\d{8}_\d{6}|run[-_]?\d+|\d{4}(?:-\d\d){5}", re.I)
"""``20260701_101500`` of mlpstorage, ``run1`` of 1.0, ``2023-04-04-11-32-50`` of DLIO."""
_CODE = re.compile(r"code|code-images|code-[0-9a-f]{8}|\.git|__pycache__|node_modules|\.mlps")
"""Copies of the benchmark's source, whose tests have results too, and what is no part of a submission."""
METADATA = "_metadata.json"
_INNER = ("dlio_config", "configs", ".hydra", "vectordb/simple", "vectordb/enhanced", "vectordb/load")
"""Folders of a run that have its configuration, and the parts of a vector database's result."""
_RESULTS = re.compile(r"summary\.json|statistics\.json|kvcache_run_summary\w*\.json|.+_metadata\.json")


@dataclass(frozen=True, slots=True)
class Leaf:
    """The folder of one run, with what its path states; empty where the path does not."""

    folder: str
    """Path below the results folder; empty for the results folder itself."""
    files: tuple[str, ...]
    """Names in it and in the folders of its configuration."""
    group: str
    """The path of the folder that has all runs of this workload."""
    run: str
    phase: str
    division: str = ""
    system: str = ""
    kind: str = ""
    names: tuple[str, ...] = ()
    """The folders between the kind and the phase: the workload, or the database and its index."""

    @property
    def is_known(self) -> bool:
        """Whether it is a run of DLIO or mlpstorage by names alone: other tools have a ``summary.json`` too."""
        marks = (METADATA, "/config.yaml", "/overrides.yaml", "per_epoch_stats.json", "recall_stats.json")
        return bool(self.kind or self.find(*marks) or any(name.startswith("kvcache_run_") for name in self.files))

    def find(self, *endings: str) -> str:
        """Path of the first file whose name ends so; empty without one."""
        found = (name for ending in endings for name in self.files if name.endswith(ending))
        name = next(found, "")
        return f"{self.folder}/{name}".lstrip("/") if name else ""


def find_leaves(folder: ResultFolder) -> list[Leaf]:
    """Every run of a results folder, by path."""
    names: dict[str, list[str]] = {}
    for path in folder.files:
        above, _, name = path.rpartition("/")
        if not name.startswith("._"):
            names.setdefault(above, []).append(name)
    for above in [above for above in names if any(_CODE.fullmatch(part) for part in above.split("/"))]:
        del names[above]
    found, above_root = list[Leaf](), folder.root.resolve().parts
    for above, inside in names.items():
        if any(_RESULTS.fullmatch(name) for name in inside) and not _is_inner(above):
            below = [f"{inner}/{name}" for inner in _INNER for name in names.get(f"{above}/{inner}".lstrip("/"), ())]
            found.append(_make_leaf(above, (*inside, *below), above_root))
    return sorted(found, key=lambda leaf: leaf.folder)


def _is_inner(folder: str) -> bool:
    """Whether a folder has the parts of a run above it, as those of ranks and of the vector database are."""
    parts = folder.split("/")
    return any(part in {"vectordb", "vectordb_mpi"} or re.fullmatch(r"rank_\d+|trial_\d+", part) for part in parts)


def _as_text(path: str) -> str:
    """A path as a Run keeps it: a name on Linux is bytes."""
    return path.encode(errors="replace").decode()


def _find_place(above: Sequence[str], parts: Sequence[str]) -> tuple[str, str]:
    """Division and system of ``closed/SUBMITTER/results/SYSTEM``, whose first folders may be above the results folder.

    Without a submitter's folder, a division is one of the first three below the results folder.
    """
    whole = [_as_text(part) for part in (*above, *parts)]
    small = [part.lower() for part in whole]
    for at in range(len(whole) - 2, 1, -1):
        if small[at] == "results" and small[at - 2] in _DIVISIONS:
            return small[at - 2], whole[at + 1]
    below = small[len(above) :]
    division = next((part for part in below[:3] if part in _DIVISIONS), "")
    results = below.index("results") if "results" in below else -1
    return division, parts[results + 1] if 0 <= results < len(parts) - 1 and division else ""


def _make_leaf(folder: str, files: tuple[str, ...], above: tuple[str, ...]) -> Leaf:
    """The leaf of a folder; ``above`` is the path of the results folder, which may be the only run itself."""
    parts = _as_text(folder).split("/") if folder else []
    small = [part.lower() for part in parts]
    at = max((place for place, part in enumerate(parts) if _RUN.fullmatch(part)), default=-1)
    run = parts[at] if at >= 0 else ""
    group = "/".join(parts[:at] if at >= 0 else parts[:-1])
    division, system = _find_place(above, parts)
    kind_at = next((place for place, part in enumerate(small) if part in _KINDS), -1)
    before_run = at if at >= 0 else len(parts)
    phase = small[before_run - 1] if before_run > 0 and small[before_run - 1] in PHASES else ""
    names = parts[kind_at + 1 : before_run - bool(phase)] if kind_at >= 0 else []
    return Leaf(
        folder=folder,
        files=files,
        group=group.removesuffix(f"/{phase}") if phase else group,
        run=run or (parts[-1] if parts else _as_text(above[-1])),
        phase=phase,
        division=division,
        system=system,
        kind=_KINDS[small[kind_at]] if kind_at >= 0 else "",
        names=tuple(names),
    )
