"""Training workloads: the data set, the batches, and an accelerator's computing time per batch."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from hwdyno.model.words import Parameters, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.suggestions import hint

FOLDER = Path(__file__).parents[1] / "data" / "workloads"

RULE_STEPS = 500
"""MLPerf Storage: a data set has at least this many steps of every accelerator …"""
RULE_MEMORIES = 5
"""… and at least this many times the host's memory."""


@dataclass(frozen=True)
class TrainingWorkload:
    """One workload on one accelerator, with the sizes of its data set."""

    name: str
    accelerator: str
    format: str
    files: int
    samples_per_file: int
    record_bytes: float
    batch_size: int
    compute_s: float
    """Computing time of a batch, s."""
    record_bytes_stdev: float = 0.0
    read_threads: int = 1
    prefetch: int = 1
    """Batches that each reader prefetches; DLIO's 2 over all readers are one for each of several readers."""
    epochs: int = 1
    steps: int = 0
    """Most steps; 0 for all."""
    au: float = 0.9
    """Accelerator utilization (AU) needed to pass."""
    version: str = ""
    """The benchmark that defines the workload."""
    source: str = ""
    transfer_size: int = 512 << 10
    prefix: str = "img"
    subfolders: int = 0
    row_group: int = 0
    columns: int = 1
    read_columns: int = 0
    folder: str = ""
    """The data folder that the workload file names; empty without one."""

    @property
    def samples(self) -> int:
        """Number of samples in the data set."""
        return self.files * self.samples_per_file

    @property
    def bytes(self) -> float:
        """Nominal size of the data set."""
        return self.samples * self.record_bytes

    @property
    def need_bytes_s(self) -> float:
        """Data rate of one accelerator at full speed: batch x record / compute, bytes/s."""
        return self.batch_size * self.record_bytes / self.compute_s if self.compute_s else math.inf

    @property
    def read_record_bytes(self) -> float:
        """Bytes read per sample: all, or those of the selected columns (4 bytes wide, the last ones 1)."""
        if not 0 < self.read_columns < self.columns:
            return self.record_bytes
        wide = min(self.columns, int(self.record_bytes - self.columns) // 3)
        return 4 * min(self.read_columns, wide) + max(0, self.read_columns - wide)

    @property
    def need_read_bytes_s(self) -> float:
        """Data rate that one accelerator needs from storage at full speed, counting only the columns read, bytes/s."""
        return self.need_bytes_s * self.read_record_bytes / self.record_bytes

    def min_bytes(self, accelerators: int, memory_bytes: float) -> float:
        """The smallest data set whose result counts, by MLPerf Storage's rules."""
        return max(RULE_STEPS * self.batch_size * accelerators * self.record_bytes, RULE_MEMORIES * memory_bytes)

    def with_samples(self, samples: int) -> TrainingWorkload:
        """This workload with ``samples`` samples, rounded up to whole files."""
        if samples < 1:
            raise UserError("a data set needs at least 1 sample; use --samples 1 or more")
        per_file = min(self.samples_per_file, samples)
        return replace(self, files=-(-samples // per_file), samples_per_file=per_file)

    @property
    def layout(self) -> Parameters:
        """The data set as parameters of the kernels ``training_generate`` and ``training_loader``."""
        names = ("format", "files", "samples_per_file", "record_bytes", "record_bytes_stdev", "subfolders", "prefix")
        values = asdict(self)
        return {name: values[name] for name in (*names, "row_group", "columns")}

    @property
    def parameters(self) -> Parameters:
        """All parameters of the kernel ``training_loader``."""
        names = ("batch_size", "read_threads", "prefetch", "epochs", "steps", "transfer_size", "read_columns")
        values = asdict(self)
        labels: Parameters = {"workload": self.name, "accelerator": self.accelerator, "au_pass": self.au}
        return {**self.layout, **{name: values[name] for name in names}, "compute": self.compute_s, **labels}


@cache
def catalogue() -> dict[str, dict[str, TrainingWorkload]]:
    """Every workload of the catalogue, by name and accelerator."""
    paths = sorted(FOLDER.glob("*.toml"))
    return {path.stem: read_workloads(path.read_text(encoding="utf-8"), path.stem) for path in paths}


def read_workloads(text: str, name: str) -> dict[str, TrainingWorkload]:
    """A workload by accelerator, as its TOML file describes it. Raises ``UserError``."""
    shared = Table.from_value(foreign.parse_toml(text, name), name)
    accelerators = shared.table("accelerators").tables()
    values = {key: value for key, value in shared.values.items() if key != "accelerators"}
    return {
        accelerator: Table({**values, **variant.values}, name).to_dataclass(
            TrainingWorkload, name=name, accelerator=accelerator
        )
        for accelerator, variant in accelerators.items()
    }


def named_in(words: str) -> list[str]:
    """The catalogue's workloads that a text names, as people spell them: ``3D U-Net`` is unet3d."""
    return [name for name, spelling in _spellings().items() if spelling.search(words)]


@cache
def _spellings() -> dict[str, re.Pattern[str]]:
    ways = {name: [name] for name in catalogue()}
    ways["unet3d"].append("3dunet")
    return {
        name: re.compile(rf"(?<![a-z0-9])(?:{'|'.join('[-_ ]?'.join(way) for way in spelled)})(?![0-9])", re.I)
        for name, spelled in ways.items()
    }


def find(name: str, accelerator: str) -> TrainingWorkload:
    """Look up a workload. Raises ``UserError`` that lists the known ones."""
    known = catalogue()
    if name not in known:
        raise UserError(f"no workload is called '{name}'; {hint(name, known)} (or use a DLIO YAML file)")
    of = known[name]
    if accelerator.lower() not in of:
        raise UserError(f"{name} has no accelerator '{accelerator}'; {hint(accelerator.lower(), of)}")
    return of[accelerator.lower()]
