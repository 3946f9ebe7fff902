"""Keys for the order of blocks: direction, mix, gaps, distribution, zones, alignment."""

from __future__ import annotations

import re

from hwdyno.formats.fio_job.block_sizes import directions
from hwdyno.formats.fio_job.reader import JobOption, Reader, traits
from hwdyno.model.axes import FIELD
from hwdyno.model.words import Parameters

ALIASES = {"readwrite": "rw", "randreadwrite": "randrw"}
ORDERS = tuple(word for word in FIELD["rw"].traits if word not in ALIASES)


def read_rw(reader: Reader, given: Parameters, line: int) -> None:
    """Read ``rw`` with its modifier, and the mix."""
    entry = reader.options.pop("rw", None) or JobOption("read", line)
    word, colon, modifier = entry.value.partition(":")
    rw = ALIASES.get(word, word)
    if rw not in ORDERS:
        raise reader.error(entry, f"rw={word} is not supported; use one of: {', '.join(ORDERS)}")
    given["rw"] = rw
    read, write = reader.integer("rwmixread", 0, 100), reader.integer("rwmixwrite", 0, 100)
    if {"reads", "writes"} <= traits(rw):
        given["rwmixread"] = read if read is not None else 100 - write if write is not None else 50
    if "random" not in traits(rw):
        # fio keeps a position for reads and one for writes.
        if rw == "rw":
            given["positions_apart"] = True
        if colon:
            by = reader.parse_bytes(modifier.lstrip("-"))
            if by is None:
                raise reader.error(entry, f"rw={entry.value}: write a distance after the colon, such as read:8k")
            given["gap"] = -by if modifier.startswith("-") else by
    elif colon:
        if not re.fullmatch(r"\d{1,9}", modifier) or not int(modifier):
            raise reader.error(
                entry, f"rw={entry.value}: a random order needs a number of operations, such as randread:8"
            )
        if int(modifier) > 1:
            given["random_every"] = int(modifier)
    kind = reader.options.pop("rw_sequencer", None)
    if kind is not None and kind.value not in {"sequential", "identical"}:
        raise reader.error(kind, f"rw_sequencer={kind.value} is neither sequential nor identical")
    if kind is not None and "random_every" in given:
        given["rw_sequencer"] = kind.value


def read(reader: Reader, given: Parameters) -> None:
    """Read the keys that select blocks; ``given`` already has ``rw`` and block sizes."""
    _zones(reader, given)
    drawn = reader.options.pop("random_distribution", None)
    repeats, align = reader.flag("norandommap"), reader.by_direction("blockalign")
    shares = reader.by_direction("percentage_random")
    rw = str(given["rw"])
    if "random" not in traits(rw):
        return
    if drawn is not None:
        given["random_distribution"] = _spread(reader, drawn)
    if repeats:
        given["norandommap"] = True
    ways = directions(rw)
    for key, way in (("blockalign", ways[0]), ("blockalign_write", ways[-1])):
        if align is not None and (length := reader.parse_bytes(align[way].value)) is None:
            raise reader.error(align[way], f"blockalign={align[way].value} is not a size such as 4k")
        if align is not None and length:
            given[key] = length
            given["norandommap"] = True  # as in fio
    for key, way in (("sequential_read", ways[0]), ("sequential_write", ways[-1])):
        if shares is None:
            break
        if not re.fullmatch(r"\d{1,3}", shares[way].value) or int(shares[way].value) > 100:
            raise reader.error(shares[way], f"percentage_random={shares[way].value} is not a share from 0 to 100")
        if int(shares[way].value) < 100:
            given[key] = 100 - int(shares[way].value)


def _zones(reader: Reader, given: Parameters) -> None:
    mode = reader.options.pop("zonemode", None)
    if mode is not None and mode.value == "zbd":
        raise reader.error(mode, "zonemode=zbd needs a zoned block device, which is not supported; use strided")
    if mode is not None and mode.value not in {"none", "strided"}:
        raise reader.error(mode, f"zonemode={mode.value} is neither none nor strided")
    size, length, skip = (reader.size(key) for key in ("zonesize", "zonerange", "zoneskip"))
    if mode is not None and mode.value == "strided" and not size:
        raise reader.error(mode, "zonemode=strided needs zonesize")
    if size and (mode is None or mode.value == "strided"):
        given["zonesize"], given["zonerange"], given["zoneskip"] = size, length or size, skip or 0
        if (length or size) < int(given["bs"] or 0):
            raise reader.error(mode or 0, f"a zone of {length or size} bytes must hold an operation of {given['bs']}")


def _spread(reader: Reader, entry: JobOption) -> str:
    """Read the distribution; as in fio, zones without a share or size divide the rest equally."""
    spread = entry.value
    if spread.startswith("sequence:"):
        raise reader.error(
            entry, "random_distribution=sequence lists its blocks; write them to an iolog and use read_iolog"
        )
    if "," in spread or spread.startswith("zoned_abs"):
        raise reader.error(entry, f"random_distribution={spread}: use one for reads and writes, relative")
    if not spread.startswith("zoned:"):
        kind, _, value = spread.partition(":")
        if kind not in {"random", "zipf", "pareto", "normal"} or (value and not re.fullmatch(r"\d+(\.\d+)?", value)):
            raise reader.error(
                entry, f"random_distribution={spread}: use random, zipf:N, pareto:N, normal:N or zoned:A/B:C/D"
            )
        return spread
    columns: list[list[float | None]] = [[], []]
    for zone in spread.removeprefix("zoned:").split(":"):
        parts = zone.split("/")
        if len(parts) != 2 or not all(re.fullmatch(r"(\d{1,3}(\.\d+)?)?", part) for part in parts):
            raise reader.error(entry, f"random_distribution={spread}: zones are SHARE/SIZE:SHARE/SIZE, in percent")
        for column, part in zip(columns, parts, strict=True):
            column.append(float(part) if part else None)
    for column in columns:
        left, open_ = 100 - sum(part or 0 for part in column), column.count(None)
        if left < -1e-9 or (not open_ and left > 1e-9):
            raise reader.error(entry, f"random_distribution={spread}: shares and sizes must each add up to 100%")
        column[:] = [left / open_ if part is None else part for part in column]
    return "zoned:" + ":".join(f"{visits:.12g}/{size:.12g}" for visits, size in zip(*columns, strict=True))
