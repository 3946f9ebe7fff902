"""The tensors of the models that can be made: Llama-like decoders of several sizes, ResNet-50, a sentence encoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Literal

from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint

Fill = Literal["normal", "ones", "zeros", "cos", "sin"]
ModelFamily = Literal["decoder", "vision", "encoder"]

ITEM_BYTES = 4
"""All weights are float32."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One array of weights."""

    name: str
    shape: tuple[int, ...]
    fill: Fill = "normal"

    @property
    def items(self) -> int:
        """Its numbers."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """What it takes in a file and in memory."""
        return self.items * ITEM_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """The shape of a Llama-like decoder: RMS norm, rotary positions, grouped-query attention, gated feed-forward."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    context: int = 2048
    """Tokens that its KV cache has room for."""

    @property
    def head(self) -> int:
        """Numbers of one head."""
        return self.dim // self.heads

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV cache a token: 2 x layers x KV heads x head size x bytes of a number."""
        return 2 * self.layers * self.kv_heads * self.head * ITEM_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """The shape of a sentence encoder in the manner of BERT."""

    dim: int = 384
    layers: int = 6
    heads: int = 12
    ffn: int = 1536
    vocab: int = 30522
    positions: int = 512


@dataclass(frozen=True, slots=True)
class Model:
    """A model that can be made: its name, its family, and all of its tensors in the order of the file."""

    name: str
    family: ModelFamily
    tensors: tuple[Tensor, ...]
    decoder: Decoder | None = None
    encoder: Encoder | None = None

    @property
    def bytes(self) -> int:
        """Bytes of all its weights."""
        return sum(tensor.bytes for tensor in self.tensors)

    @property
    def gguf_bytes(self) -> int:
        """Bytes of its weights in a GGUF file, without the tables of rotary positions, which llama.cpp computes."""
        return sum(tensor.bytes for tensor in self.tensors if tensor.name not in {COS, SIN})

    @property
    def bytes_per_token(self) -> int:
        """Weights that decoding one token reads: all but the embedding table, of which it reads one row."""
        return self.bytes - sum(tensor.bytes for tensor in self.tensors if tensor.name in {EMBEDDING, COS, SIN})


EMBEDDING, COS, SIN = "embed", "cos", "sin"
DECODERS = {
    "tiny": Decoder(dim=64, layers=2, heads=4, kv_heads=2, ffn=128, vocab=512),
    "32m": Decoder(dim=512, layers=8, heads=8, kv_heads=4, ffn=1408, vocab=8192),
    "62m": Decoder(dim=768, layers=8, heads=12, kv_heads=4, ffn=2048, vocab=7680),
    "246m": Decoder(dim=1024, layers=16, heads=16, kv_heads=4, ffn=2816, vocab=32000),
    "850m": Decoder(dim=2048, layers=16, heads=32, kv_heads=8, ffn=5632, vocab=32000),
}
"""The decoders by name: millions of weights."""
NAMES = (*DECODERS, "resnet50", "encoder")
STAGES = ((3, 64, 256), (4, 128, 512), (6, 256, 1024), (3, 512, 2048))
"""ResNet-50's stages: blocks, channels inside, channels out (He et al. 2015, table 1)."""


def find(name: str) -> Model:
    """The model called so; raises ``UserError``."""
    if name in DECODERS:
        shape = DECODERS[name]
        return Model(name, "decoder", tuple(_large_first(_of_decoder(shape))), decoder=shape)
    if name == "resnet50":
        return Model(name, "vision", tuple(_large_first(_of_resnet())))
    if name == "encoder":
        encoder = Encoder()
        return Model(name, "encoder", tuple(_large_first(_of_encoder(encoder))), encoder=encoder)
    raise UserError(f"no model is called '{name}'; {hint(name, NAMES)}")


def _large_first(tensors: Iterator[Tensor]) -> list[Tensor]:
    """Those of whole pages first, so that each of them begins at a page of the file."""
    return sorted(tensors, key=lambda tensor: tensor.bytes % 4096 != 0)


def _of_decoder(shape: Decoder) -> Iterator[Tensor]:
    narrow = shape.kv_heads * shape.head
    yield Tensor(EMBEDDING, (shape.vocab, shape.dim))
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        yield Tensor(f"{at}.attention_norm", (shape.dim,), "ones")
        yield Tensor(f"{at}.q", (shape.dim, shape.dim))
        yield Tensor(f"{at}.k", (shape.dim, narrow))
        yield Tensor(f"{at}.v", (shape.dim, narrow))
        yield Tensor(f"{at}.o", (shape.dim, shape.dim))
        yield Tensor(f"{at}.ffn_norm", (shape.dim,), "ones")
        yield Tensor(f"{at}.gate", (shape.dim, shape.ffn))
        yield Tensor(f"{at}.up", (shape.dim, shape.ffn))
        yield Tensor(f"{at}.down", (shape.ffn, shape.dim))
    yield Tensor("norm", (shape.dim,), "ones")
    yield Tensor("head", (shape.dim, shape.vocab))
    yield Tensor(COS, (shape.context, shape.head // 2), "cos")
    yield Tensor(SIN, (shape.context, shape.head // 2), "sin")


def _of_resnet() -> Iterator[Tensor]:
    """Convolutions with their batch norms folded into a bias, as for inference."""
    yield from _convolution("stem", 3, 64, 7)
    before = 64
    for stage, (blocks, inside, out) in enumerate(STAGES):
        for block in range(blocks):
            at = f"stage{stage}.{block}"
            if block == 0:
                yield from _convolution(f"{at}.shortcut", before, out, 1)
            yield from _convolution(f"{at}.reduce", before, inside, 1)
            yield from _convolution(f"{at}.middle", inside, inside, 3)
            yield from _convolution(f"{at}.expand", inside, out, 1)
            before = out
    yield Tensor("classes", (before, 1000))
    yield Tensor("classes.bias", (1000,), "zeros")


def _convolution(name: str, before: int, out: int, size: int) -> Iterator[Tensor]:
    yield Tensor(name, (out, before, size, size))
    yield Tensor(f"{name}.bias", (out,), "zeros")


def _of_encoder(shape: Encoder) -> Iterator[Tensor]:
    yield Tensor(EMBEDDING, (shape.vocab, shape.dim))
    yield Tensor("positions", (shape.positions, shape.dim))
    yield from _norm("norm", shape.dim)
    for layer in range(shape.layers):
        at = f"layers.{layer}"
        for name in ("q", "k", "v", "o"):
            yield from _linear(f"{at}.{name}", shape.dim, shape.dim)
        yield from _norm(f"{at}.attention_norm", shape.dim)
        yield from _linear(f"{at}.up", shape.dim, shape.ffn)
        yield from _linear(f"{at}.down", shape.ffn, shape.dim)
        yield from _norm(f"{at}.ffn_norm", shape.dim)


def _linear(name: str, before: int, out: int) -> Iterator[Tensor]:
    yield Tensor(name, (before, out))
    yield Tensor(f"{name}.bias", (out,), "zeros")


def _norm(name: str, dim: int) -> Iterator[Tensor]:
    yield Tensor(name, (dim,), "ones")
    yield Tensor(f"{name}.bias", (dim,), "zeros")
