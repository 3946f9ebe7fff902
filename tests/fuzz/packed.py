"""Files that zstd packed, as the reader of a result file gets them."""

from __future__ import annotations

from hwdyno.formats import compressed
from hwdyno.model.words import UserError


def unpack(data: bytes) -> None:
    """Unpack one input, of which no more is made than its limit says."""
    if not data.startswith(compressed.MAGIC):
        raise UserError("it is a file as it is")
    assert len(compressed.unpack(data, "input.zst", 1 << 20)) <= 1 << 20
