"""KV cache sizes of language models: the bytes that each token of a conversation takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwdyno.model.words import Parameters, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from hwdyno.system.suggestions import hint

FILE = Path(__file__).parents[1] / "data" / "kv_models.toml"
FLOAT16_BYTES = 2
_SHORT = {"llama3.1-70b": "llama3.1-70b-instruct"}


@dataclass(frozen=True)
class KvModel:
    """One language model."""

    name: str
    bytes_per_token: int

    @property
    def parameters(self) -> Parameters:
        """Parameters of the kernel ``inference_kv_cache``."""
        return {"model": self.name, "bytes_per_token": self.bytes_per_token}


@cache
def catalogue() -> dict[str, KvModel]:
    """Every model, by name."""
    return read_models(FILE.read_text(encoding="utf-8"), FILE.name)


def read_models(text: str, name: str) -> dict[str, KvModel]:
    """The models of a TOML file. Raises ``UserError``."""
    models = Table.from_value(foreign.parse_toml(text, name), name).table("models").tables()
    return {name: KvModel(name, _bytes_per_token(table)) for name, table in models.items()}


def find(name: str) -> KvModel:
    """Look up a model. Raises ``UserError`` that lists the known models."""
    found = catalogue().get(_SHORT.get(name, name))
    if found is None:
        raise UserError(f"no model is called '{name}'; {hint(name, catalogue())}")
    return found


def _bytes_per_token(model: Table) -> int:
    # Keys and values of each head, or, with multi-head latent attention, one vector for both.
    latent = model.count("latent") + model.count("rope") if "latent" in model else 0
    per_layer = latent or 2 * model.count("kv_heads") * model.count("head")
    return model.count("layers") * per_layer * FLOAT16_BYTES
