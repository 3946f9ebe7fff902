"""A result file as text, unpacked where it is compressed by zstd, as warp's files of requests are."""

from __future__ import annotations

from pathlib import Path

from hwdyno.formats.format import LARGEST_BYTES
from hwdyno.model.units import format_size
from hwdyno.model.words import UserError
from hwdyno.system import foreign, optional

MAGIC = b"\x28\xb5\x2f\xfd"
"""How a frame of zstd begins (RFC 8878)."""
LARGEST_WINDOW = 128 << 20
"""Bytes of memory that a frame may ask for; ``zstd -d`` refuses more, too."""
_PIECE_BYTES = 1024
"""Four bytes unpack to 128 KiB at most, so a piece makes no more than 32 MiB."""


def read_result_file(path: Path) -> str:
    """The text of a result file; bytes that are no text are replaced. Raises ``UserError`` in one line."""
    return unpack(foreign.read_bytes(path, LARGEST_BYTES), str(path)).decode(errors="replace")


def unpack(data: bytes, name: str, max_bytes: int = LARGEST_BYTES) -> bytes:
    """The data, unpacked if zstd packed them. Raises ``UserError`` in one line."""
    if not data.startswith(MAGIC):
        return data
    try:
        import zstandard
    except ImportError as error:
        raise optional.missing("zstd", name, "zstd -d unpacks it, and what that writes needs nothing") from error
    unpacker, frame = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW), None
    unpacked = bytearray()
    try:
        for at in range(0, len(data), _PIECE_BYTES):
            left = data[at : at + _PIECE_BYTES]
            while left:
                frame = frame or unpacker.decompressobj()
                unpacked += frame.decompress(left)
                left, frame = (frame.unused_data, None) if frame.eof else (b"", frame)
            if len(unpacked) > max_bytes:
                raise UserError(f"{name} has more than {format_size(max_bytes)} when it is unpacked; split it")
    except (zstandard.ZstdError, MemoryError) as error:
        raise UserError(f"{name} is not readable as zstd ({error}); it may be damaged") from None
    if frame is not None:
        raise UserError(f"{name} ends within its packed data; it was cut off, so copy it again")
    return bytes(unpacked)
