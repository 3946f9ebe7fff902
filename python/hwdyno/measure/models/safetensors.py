"""The safetensors file of a made model: a JSON header that names each tensor's place, and their bytes without gaps."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwdyno.measure.models import weights
from hwdyno.measure.models.shapes import Model
from hwdyno.model.words import UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

LONGEST_HEADER = 100 << 20
"""What the format allows (safetensors, format description)."""
PAGE = 4096
_PIECE = 8 << 20


@dataclass(frozen=True, slots=True)
class TensorExtent:
    """A tensor's place in the file, counted from the file's first byte."""

    offset: int
    length: int


def header(model: Model, seed: int) -> bytes:
    """The header, padded so that the first tensor begins at a page; it holds every tensor's CRC32C."""
    table: dict[str, Any] = {}
    at = 0
    for tensor in model.tensors:
        table[tensor.name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.bytes]}
        at += tensor.bytes
    sums = {tensor.name: weights.checksum(tensor, seed) for tensor in model.tensors}
    about = {"model": model.name, "family": model.family, "seed": str(seed), "crc32c": json.dumps(sums)}
    text = json.dumps({"__metadata__": about, **table}, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % PAGE)
    return struct.pack("<Q", len(text)) + text


def parts(model: Model, seed: int) -> Iterator[Any]:
    """The whole file in pieces."""
    yield header(model, seed)
    for tensor in model.tensors:
        yield from weights.pieces(tensor, seed)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a header says."""

    places: Mapping[str, TensorExtent]
    about: Mapping[str, str]
    data_at: int


def read_header(path: Path) -> Opened:
    """The header of a safetensors file of anyone; raises ``UserError`` in one line."""
    try:
        with path.open("rb") as file:
            first = file.read(8)
            length = struct.unpack("<Q", first)[0] if len(first) == 8 else 0
            if not 2 <= length <= LONGEST_HEADER:
                raise UserError(f"{path} is not a safetensors file: its header has {length} bytes")
            text = file.read(length)
            size = path.stat().st_size
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    title = f"the header of {path}"
    table = Table.from_value(foreign.parse_json(text.decode(errors="replace"), title), title).values
    places: dict[str, TensorExtent] = {}
    about: dict[str, str] = {}
    for name, value in table.items():
        if name == "__metadata__":
            about = {key: str(inner) for key, inner in value.items()} if isinstance(value, dict) else {}
            continue
        ends = value.get("data_offsets") if isinstance(value, dict) else None
        if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(bound, int) for bound in ends)):
            raise UserError(f"{title} gives no place for the tensor {name}")
        begin, end = 8 + length + int(ends[0]), 8 + length + int(ends[1])
        if not 8 + length <= begin <= end <= size:
            raise UserError(f"{path} ends before its tensor {name}: copy the file again")
        places[name] = TensorExtent(begin, end - begin)
    return Opened(places, about, 8 + length)


def wrong_tensors(path: Path, opened: Opened) -> list[str]:
    """The tensors whose bytes differ from the CRC32C in the header; none for a file that has no checksums."""
    sums = Table.from_value(foreign.parse_json(opened.about.get("crc32c", "{}"), str(path)), str(path))
    known = sums.values
    wrong = []
    with path.open("rb") as file:
        for name, place in opened.places.items():
            if name not in known:
                continue
            file.seek(place.offset)
            found, left = 0, place.length
            while left and (piece := file.read(min(left, _PIECE))):
                found = weights.crc32c(piece, found)
                left -= len(piece)
            if left or found != known[name]:
                wrong.append(name)
    return wrong
