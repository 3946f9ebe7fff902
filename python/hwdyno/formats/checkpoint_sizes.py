"""The sizes of model checkpoints, by model and rank count, with an optional scale."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwdyno.model.units import format_size
from hwdyno.model.words import Parameters, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.suggestions import hint

FILE = Path(__file__).parents[1] / "data" / "checkpoints.toml"
TRANSFER_BYTES = 8 << 20
MODEL_BYTES = 2
"""Size of a parameter in fp16."""
OPTIMIZER_BYTES = 3 * 4
"""Optimizer state of a parameter: a copy and two moments, in fp32."""

SAME = 0.01
"""A computed size within this share of MLPerf Storage's rounded figure takes that figure."""


@dataclass(frozen=True)
class TransformerLayout:
    """A transformer's shape and its parallelism; all sizes follow from them by DLIO's checkpoint rules."""

    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    vocab: int
    tensor: int
    pipeline: int
    data: int
    zero_stage: int
    """ZeRO stage: with 3 every rank saves a part of the model; with 1 only the ranks of one replica do."""
    stated_gib: int
    """Checkpoint size by MLPerf Storage's rules, GiB."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.tensor * self.pipeline * self.data

    @property
    def model_ranks(self) -> int:
        """Number of ranks that save a part of the model."""
        return self.ranks if self.zero_stage == 3 else self.tensor * self.pipeline

    @property
    def parameters(self) -> int:
        """Parameters: embedding, head, the final norm, and per layer attention, gated feed-forward and two norms."""
        kv = self.hidden // self.heads * self.kv_heads
        layer = self.hidden * (2 + 2 * self.hidden + 2 * kv + 3 * self.ffn)
        return 2 * self.vocab * self.hidden + layer * self.layers + self.hidden

    @property
    def model_bytes(self) -> int:
        """Model bytes over all ranks; each tensor rank saves a copy of the norms."""
        norms = self.hidden * (2 * self.layers + 1)
        return MODEL_BYTES * (self.parameters + norms * (self.tensor - 1))

    @property
    def optimizer_bytes(self) -> int:
        """Optimizer bytes over all ranks; each rank adds five rows of norms to its part of the parameters."""
        return OPTIMIZER_BYTES * (self.parameters + 5 * self.hidden * self.ranks)

    @property
    def model_files(self) -> int:
        """Mean number of model files of a rank that saves the model: one per layer with pipeline stages, else one."""
        return max(1, round((self.layers + 3) / self.pipeline)) if self.pipeline > 1 else 1


@dataclass(frozen=True)
class Checkpoint:
    """One model's checkpoint at a scale."""

    model: str
    layout: TransformerLayout
    writes: int
    reads: int
    scale: float = 1.0

    @property
    def full_bytes(self) -> int:
        """Checkpoint size at scale 1, over all ranks: fp16 model and fp32 optimizer."""
        return self.layout.model_bytes + self.layout.optimizer_bytes

    @property
    def ranks(self) -> int:
        """Ranks of the model's reference job."""
        return self.layout.ranks

    @property
    def bytes(self) -> int:
        """Checkpoint size at this scale."""
        return max(4096, int(self.full_bytes * self.scale))

    def memory(self, ranks: int) -> str:
        """The memory that the checkpoint takes, in a sentence for the user before anything is written."""
        stated = self.layout.stated_gib << 30
        differs = (
            f"; the rules state {format_size(stated)} in total, but this layout has {format_size(self.full_bytes)}"
        )
        return (
            f"{self.model} at scale {self.scale:g}: {format_size(self.bytes)} per checkpoint over {ranks} ranks; a "
            f"job holds {format_size(self.bytes / ranks)} in memory on each rank; this test uses "
            f"{format_size(min(TRANSFER_BYTES, self.bytes // ranks + 4096) * ranks)} in all"
            + (differs if abs(self.full_bytes / stated - 1) > SAME else "")
        )

    @property
    def parameters(self) -> Parameters:
        """Parameters of the kernel ``training_checkpoint``, which gives every rank the mean part."""
        return {
            "checkpoint_bytes": self.bytes, "writes": self.writes, "reads": self.reads, "model": self.model,
            "scale": self.scale, "transfer_size": TRANSFER_BYTES,
            "model_share": self.layout.model_bytes / self.full_bytes,
            "model_ranks_share": self.layout.model_ranks / self.ranks, "model_files": self.layout.model_files,
        }  # fmt: skip


def find(model: str, scale: float) -> Checkpoint:
    """Look up a model's checkpoint. Raises ``UserError`` that lists the known models."""
    catalogue = Table.from_value(foreign.parse_toml(FILE.read_text(encoding="utf-8"), FILE.name), FILE.name)
    models = read_layouts(catalogue)
    if model not in models:
        raise UserError(f"no checkpoint is called '{model}'; {hint(model, models)}")
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g} must be above 0 and at most 1, such as 0.01")
    return Checkpoint(model, models[model], catalogue.count("writes"), catalogue.count("reads"), scale)


def read_layouts(catalogue: Table) -> dict[str, TransformerLayout]:
    """The models' layouts. Raises ``UserError``."""
    vocab = catalogue.count("vocab", 1)
    models = catalogue.table("models").tables()
    return {name: model.to_dataclass(TransformerLayout, least=1, vocab=vocab) for name, model in models.items()}
