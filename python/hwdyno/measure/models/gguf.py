"""The GGUF file of a made decoder, as llama.cpp reads it (ggml's docs/gguf.md, version 3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hwdyno.measure.models import weights
from hwdyno.measure.models.shapes import COS, EMBEDDING, SIN, Decoder, Model, Tensor

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
_U32, _I32, _F32, _BOOL, _TEXT, _ARRAY = 4, 5, 6, 7, 8, 9
_TENSOR_F32 = 0
_UNKNOWN, _CONTROL, _NORMAL, _BYTE = 2, 3, 1, 6
"""Types of tokens."""
FIRST_WORD = 300
"""Tokens from here on are plain words; below are the bytes and what steers."""
_NAMES = {
    EMBEDDING: "token_embd", "norm": "output_norm", "head": "output", "attention_norm": "attn_norm", "q": "attn_q",
    "k": "attn_k", "v": "attn_v", "o": "attn_output", "ffn_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up",
    "down": "ffn_down",
}  # fmt: skip


def parts(model: Model, seed: int) -> Iterator[Any]:
    """The whole file in pieces. Random weights have no orientation: rows and columns are only named the other way."""
    assert model.decoder is not None
    kept = [tensor for tensor in model.tensors if tensor.name not in {COS, SIN}]
    fields = list(_fields(model, model.decoder))
    head = MAGIC + struct.pack("<IQQ", VERSION, len(kept), len(fields)) + b"".join(fields)
    at = 0
    for tensor in kept:
        head += _info(tensor, at)
        at += tensor.bytes + -tensor.bytes % ALIGNMENT
    yield head + bytes(-len(head) % ALIGNMENT)
    for tensor in kept:
        yield from weights.pieces(tensor, seed)
        if padding := -tensor.bytes % ALIGNMENT:
            yield bytes(padding)


def tensor_name(name: str) -> str:
    """What llama.cpp calls one of the tensors."""
    if not name.startswith("layers."):
        return f"{_NAMES[name]}.weight"
    _, layer, part = name.split(".")
    return f"blk.{layer}.{_NAMES[part]}.weight"


def _info(tensor: Tensor, at: int) -> bytes:
    # ggml names the fastest axis first: a matrix of (in, out) takes vectors of `in` numbers.
    shape = tensor.shape[::-1] if tensor.name == EMBEDDING else tensor.shape
    dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return _text(tensor_name(tensor.name)) + dims + struct.pack("<IQ", _TENSOR_F32, at)


def _fields(model: Model, shape: Decoder) -> Iterator[bytes]:
    yield _field("general.architecture", _TEXT, _text("llama"))
    yield _field("general.name", _TEXT, _text(f"hwdyno {model.name}"))
    yield _field("general.file_type", _U32, struct.pack("<I", 0))
    numbers = {
        "context_length": shape.context, "embedding_length": shape.dim, "block_count": shape.layers,
        "feed_forward_length": shape.ffn, "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads, "rope.dimension_count": shape.head, "vocab_size": shape.vocab,
    }  # fmt: skip
    for name, value in numbers.items():
        yield _field(f"llama.{name}", _U32, struct.pack("<I", value))
    yield _field("llama.attention.layer_norm_rms_epsilon", _F32, struct.pack("<f", 1e-5))
    yield _field("tokenizer.ggml.model", _TEXT, _text("llama"))
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    names += [f"word{at}" for at in range(len(names), shape.vocab)]
    kinds = [_UNKNOWN, _CONTROL, _CONTROL, *([_BYTE] * 256)]
    kinds += [_NORMAL] * (shape.vocab - len(kinds))
    yield _field("tokenizer.ggml.tokens", _ARRAY, _array(_TEXT, [_text(name) for name in names]))
    yield _field(
        "tokenizer.ggml.scores", _ARRAY, _array(_F32, [struct.pack("<f", -float(at)) for at in range(len(names))])
    )
    yield _field("tokenizer.ggml.token_type", _ARRAY, _array(_I32, [struct.pack("<i", kind) for kind in kinds]))
    for name, value in {"bos": 1, "eos": 2, "unknown": 0}.items():
        yield _field(f"tokenizer.ggml.{name}_token_id", _U32, struct.pack("<I", value))
    yield _field("tokenizer.ggml.add_bos_token", _BOOL, b"\0")


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _array(kind: int, values: Sequence[bytes]) -> bytes:
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


def _field(name: str, kind: int, value: bytes) -> bytes:
    return _text(name) + struct.pack("<I", kind) + value
