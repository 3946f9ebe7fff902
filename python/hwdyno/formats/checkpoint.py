"""Checkpoints as data: how large a model's is and over how many ranks, shrunk by a stated factor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwdyno.formats.workload import toml
from hwdyno.units import format_size
from hwdyno.words import Parameters, UserError

FILE = Path(__file__).parents[1] / "data" / "checkpoints.toml"
TRANSFER_BYTES = 8 << 20


@dataclass(frozen=True)
class Checkpoint:
    """One model's checkpoint at a scale."""

    model: str
    full_bytes: int
    """Of the model's own checkpoint, over all ranks: fp16 model and fp32 optimizer."""
    ranks: int
    writes: int
    reads: int
    scale: float = 1.0
    model_share: float = 0.0
    """Of the bytes, the model's; the rest is the optimizer's."""
    model_ranks_share: float = 1.0
    """Of the ranks, those that save the model: fewer where replicas of it would only save it again."""

    @property
    def bytes(self) -> int:
        """At this scale."""
        return max(4096, int(self.full_bytes * self.scale))

    def memory(self, ranks: int) -> str:
        """The memory that it takes, in a sentence, to be said before anything is done."""
        return (
            f"{self.model} at scale {self.scale:g}: {format_size(self.bytes)} a checkpoint over {ranks} ranks; a job "
            f"would hold {format_size(self.bytes / ranks)} in memory on each, and this takes "
            f"{format_size(min(TRANSFER_BYTES, self.bytes // ranks + 4096) * ranks)} in all"
        )

    @property
    def parameters(self) -> Parameters:
        """What the kernel ``training_checkpoint`` is told."""
        return {
            "checkpoint_bytes": self.bytes, "writes": self.writes, "reads": self.reads, "model": self.model,
            "scale": self.scale, "transfer_size": TRANSFER_BYTES, "model_share": self.model_share,
            "model_ranks_share": self.model_ranks_share,
        }  # fmt: skip


def find(model: str, scale: float) -> Checkpoint:
    """The checkpoint of a model of the catalogue; raises ``UserError`` that names what there is."""
    told = toml(FILE.read_text(encoding="utf-8"))
    models = told["models"]
    if model not in models:
        raise UserError(f"no checkpoint is called '{model}'; there are: {', '.join(models)}")
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale:g} must be above 0 and at most 1, such as 0.01")
    one = models[model]
    share = one["model_ranks"] / one["ranks"]
    sizes = (one["bytes"], one["ranks"], told["writes"], told["reads"])
    return Checkpoint(model, *sizes, scale, told["model_bytes_share"], share)
