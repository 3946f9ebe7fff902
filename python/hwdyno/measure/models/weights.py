"""The weights of a made model: one block of normal numbers, rolled by each tensor's name, with a CRC32C a tensor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from hwdyno.measure.models.shapes import Tensor

BLOCK_ITEMS = 1 << 22
SPREAD = 0.02
"""Standard deviation of the weights, as decoders are initialised (GPT-2)."""
ROTARY_BASE = 10_000.0
"""Base of the rotary position embedding (Su et al. 2021)."""


def crc32c(piece: Any, before: int = 0) -> int:
    """CRC32C of a read-only array or bytes, after a piece whose CRC is ``before``; raises ``UserError``."""
    try:
        import google_crc32c
    except ImportError:
        from hwdyno.system import optional

        raise optional.missing("inference", "a model's checksums") from None
    return int(google_crc32c.extend(before, piece))


def pieces(tensor: Tensor, seed: int) -> Iterator[Any]:
    """A tensor's numbers in order, as read-only float32 arrays; those of random tensors are parts of one block."""
    import numpy as np

    if tensor.fill == "normal":
        block = _block(seed)
        at, left = crc32c(tensor.name.encode()) % BLOCK_ITEMS, tensor.items
        while left:
            piece = block[at : at + left]
            yield piece
            left -= len(piece)
            at = 0
        return
    if tensor.fill in {"cos", "sin"}:
        context, half = tensor.shape
        turns = np.arange(context)[:, None] / ROTARY_BASE ** (np.arange(half)[None, :] / half)
        made = (np.cos(turns) if tensor.fill == "cos" else np.sin(turns)).astype(np.float32).reshape(-1)
    else:
        made = np.full(tensor.items, float(tensor.fill == "ones"), np.float32)
    made.flags.writeable = False
    yield made


def checksum(tensor: Tensor, seed: int) -> int:
    """CRC32C of a tensor's bytes."""
    found = 0
    for piece in pieces(tensor, seed):
        found = crc32c(piece, found)
    return found


@cache
def _block(seed: int) -> Any:
    import numpy as np

    made = np.random.default_rng(seed).standard_normal(BLOCK_ITEMS, np.float32)
    made *= SPREAD
    made.flags.writeable = False
    return made
