"""What the files of one run of mlpstorage state, as far as a rule of MLPerf Storage depends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from hwdyno.model.units import as_number

KINDS = ("training", "checkpointing", "vector_database", "kv_cache")


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The facts of one run. What its files do not state is none or empty, and never a default."""

    kind: str = ""
    """One of ``KINDS``."""
    run: str = ""
    """The folder that is the run, such as ``20260701_101500``."""
    edition: str = ""
    """Edition of the rules, such as ``3.0``."""
    division: str = ""
    """``closed``, ``open`` or ``whatif``, as the path or the metadata states it."""
    system: str = ""
    workload: str = ""
    accelerator: str = ""
    accelerators: float | None = None
    """All ranks together."""
    hosts: float | None = None
    host_names: float | None = None
    """How many hosts the command named."""
    started_s: float | None = None
    ended_s: float | None = None
    invoked_s: float | None = None
    """When the command began, before any rank did."""
    overrides_known: bool | None = None
    overrides: tuple[str, ...] = ()
    """The parameters that the command changed, dotted."""
    storage_api: str = ""
    """``file`` or ``object``."""
    data_path: str = ""
    results_path: str = ""
    same_filesystem: bool | None = None
    """Whether data and results are on one filesystem."""
    memory_bytes: float | None = None
    """All hosts together."""
    run_folders: float | None = None
    """How many runs its folder has."""
    first_run: str = ""
    """The earliest of them, which may have no result."""
    without_result: tuple[str, ...] = ()
    """Some of those without a summary that can be read."""
    # Training
    au: float | None = None
    """Mean over the epochs, as a share."""
    au_template: float | None = None
    """The least AU by the run's own configuration, as a share."""
    files: float | None = None
    samples_per_file: float | None = None
    record_bytes: float | None = None
    batch_size: float | None = None
    phases: tuple[str, ...] = ()
    """The folders of other phases: ``datagen``, ``datasize``."""
    made_bytes: float | None = None
    """Size of the data set by its generation's configuration."""
    sized_files: float | None = None
    """Number of files that ``datasize`` calculated."""
    # Checkpoints
    writes: float | None = None
    reads: float | None = None
    mode: str = ""
    """``default`` or ``subset``."""
    fsync: bool | None = None
    checkpoint_bytes: float | None = None
    # Vector database
    database: str = ""
    index: str = ""
    recall: float | None = None
    missing: tuple[str, ...] = ()
    """The figures that its summary must have and has not."""
    coverage: float | None = None
    """Share of the vectors that the exact answers cover; 0 where these could not be made."""
    dimension: float | None = None
    loaded_dimension: float | None = None
    vectors: float | None = None
    inserted: float | None = None
    # KV cache
    options: tuple[str, ...] = ()
    trials: float | None = None
    seed: float | None = None
    pause_s: float | None = None
    """The time between two options."""
    option_settings: tuple[str, ...] = ()
    """What the commands set, as ``1 num-users 200``: option, name, value."""
    autoscaling: bool | None = None
    from_memory: tuple[str, ...] = ()
    """The options of which every rank read from memory alone."""
    incomplete: tuple[str, ...] = ()
    """The options of which ranks have no result, and how many: ``1 (24 of 48)``."""

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> RunFacts:
        """The facts that a stored point has; what is of another type counts as unknown."""
        values = {field.name: _TAKERS[str(field.type)](details.get(field.name)) for field in fields(cls)}
        return cls(**values)

    def to_details(self) -> dict[str, Any]:
        """What is known, as plain values for the details of a point."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
        return {name: value for name, value in plain.items() if value not in (None, "", [])}

    @property
    def label(self) -> str:
        """What was run, in a few words: ``unet3d on h100 (system-1)``."""
        on = f" on {self.accelerator}" if self.accelerator else ""
        return f"{self.workload or self.kind}{on}{f' ({self.system})' if self.system else ''}"

    @property
    def samples(self) -> float | None:
        """Samples of the data set."""
        return self.files * self.samples_per_file if self.files and self.samples_per_file else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(text for text in value if isinstance(text, str)) if isinstance(value, list | tuple) else ()


_TAKERS: dict[str, Callable[[object], Any]] = {
    "str": _text,
    "float | None": as_number,
    "bool | None": _flag,
    "tuple[str, ...]": _texts,
}
