"""Protocol Buffers' wire format, as far as writing a message needs it (protobuf.dev, "Encoding")."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits, a negative one in two's complement."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def integer(field: int, value: int) -> bytes:
    """A field of whole numbers."""
    return varint(field << 3) + varint(value)


def real(field: int, value: float) -> bytes:
    """A field of 32-bit floating point."""
    return varint(field << 3 | 5) + struct.pack("<f", value)


def blob(field: int, value: bytes | str) -> bytes:
    """A field of bytes, of text, or of another message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def pack_varints(field: int, values: Sequence[int]) -> bytes:
    """A field of many whole numbers."""
    return blob(field, b"".join(map(varint, values)))
