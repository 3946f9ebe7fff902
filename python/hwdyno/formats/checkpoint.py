"""Checkpoints as data: what a model's consists of and over how many ranks, shrunk by a stated factor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwdyno.formats.workload import toml
from hwdyno.units import format_size
from hwdyno.words import Parameters, UserError

FILE = Path(__file__).parents[1] / "data" / "checkpoints.toml"
TRANSFER_BYTES = 8 << 20
MODEL_BYTES = 2
"""Of a parameter in fp16."""
OPTIMIZER_BYTES = 3 * 4
"""Of a parameter in the optimizer: a copy and two moments, in fp32."""

SAME = 0.01
"""Sizes that are nearer than this to the rules' are theirs, rounded."""


@dataclass(frozen=True)
class Layout:
    """A transformer's shape and how its ranks share it; all sizes follow by the rules of DLIO's checkpoints."""

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
    """With stage 3 every rank has a part of the model; with stage 1 only one replica's ranks save it."""
    stated_gib: int
    """What MLPerf Storage's rules say that the whole is, GiB."""

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.tensor * self.pipeline * self.data

    @property
    def model_ranks(self) -> int:
        """Those that save a part of the model."""
        return self.ranks if self.zero_stage == 3 else self.tensor * self.pipeline

    @property
    def parameters(self) -> int:
        """Embedding and head, of each layer attention, gated feed-forward and two norms, and the last norm."""
        kv = self.hidden // self.heads * self.kv_heads
        layer = self.hidden * (2 + 2 * self.hidden + 2 * kv + 3 * self.ffn)
        return 2 * self.vocab * self.hidden + layer * self.layers + self.hidden

    @property
    def model_bytes(self) -> int:
        """Over all ranks; norms are not shared by tensor ranks, but saved by each."""
        norms = self.hidden * (2 * self.layers + 1)
        return MODEL_BYTES * (self.parameters + norms * (self.tensor - 1))

    @property
    def optimizer_bytes(self) -> int:
        """Over all ranks; each has five rows of norms beside its part of the parameters."""
        return OPTIMIZER_BYTES * (self.parameters + 5 * self.hidden * self.ranks)

    @property
    def model_files(self) -> int:
        """Of a rank that saves the model: one a layer where layers lie on several stages, else one; the mean."""
        return max(1, round((self.layers + 3) / self.pipeline)) if self.pipeline > 1 else 1


@dataclass(frozen=True)
class Checkpoint:
    """One model's checkpoint at a scale."""

    model: str
    layout: Layout
    writes: int
    reads: int
    scale: float = 1.0

    @property
    def full_bytes(self) -> int:
        """Of the model's own checkpoint, over all ranks: fp16 model and fp32 optimizer."""
        return self.layout.model_bytes + self.layout.optimizer_bytes

    @property
    def ranks(self) -> int:
        """Of the model's own job."""
        return self.layout.ranks

    @property
    def bytes(self) -> int:
        """At this scale."""
        return max(4096, int(self.full_bytes * self.scale))

    def memory(self, ranks: int) -> str:
        """The memory that it takes, in a sentence, to be said before anything is done."""
        stated = self.layout.stated_gib << 30
        differs = (
            f"; the rules state {format_size(stated)} for the whole, but this layout comes to "
            f"{format_size(self.full_bytes)}"
        )
        return (
            f"{self.model} at scale {self.scale:g}: {format_size(self.bytes)} a checkpoint over {ranks} ranks; a job "
            f"would hold {format_size(self.bytes / ranks)} in memory on each, and this takes "
            f"{format_size(min(TRANSFER_BYTES, self.bytes // ranks + 4096) * ranks)} in all"
            + (differs if abs(self.full_bytes / stated - 1) > SAME else "")
        )

    @property
    def parameters(self) -> Parameters:
        """What the kernel ``training_checkpoint`` is told; it gives every rank an equal part, the mean."""
        return {
            "checkpoint_bytes": self.bytes, "writes": self.writes, "reads": self.reads, "model": self.model,
            "scale": self.scale, "transfer_size": TRANSFER_BYTES,
            "model_share": self.layout.model_bytes / self.full_bytes,
            "model_ranks_share": self.layout.model_ranks / self.ranks, "model_files": self.layout.model_files,
        }  # fmt: skip


def find(model: str, scale: float) -> Checkpoint:
    """The checkpoint of a model of the catalogue; raises ``UserError`` that names what there is."""
    told = toml(FILE.read_text(encoding="utf-8"))
    models = told["models"]
    if model not in models:
        raise UserError(f"no checkpoint is called '{model}'; there are: {', '.join(models)}")
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g} must be above 0 and at most 1, such as 0.01")
    return Checkpoint(model, Layout(vocab=told["vocab"], **models[model]), told["writes"], told["reads"], scale)
