"""Keys for block sizes: one size, a range, or a table with shares, for reads, writes and trims."""

from __future__ import annotations

import re
from collections.abc import Callable

from hwdyno.formats.fio_job.reader import JobOption, Reader, traits
from hwdyno.model.words import Parameters

MAX_LENGTHS = 256
_SizeTable = list[tuple[int, str]]


def read(reader: Reader, given: Parameters) -> None:
    """Read ``bs``, ``bsrange``, ``bssplit`` and related keys; ``given`` already has ``rw``."""
    rw = str(given["rw"])
    by_order = bool(reader.flag("bs_is_seq_rand"))
    ways = (0, 1) if by_order else directions(rw)
    keys: tuple[tuple[str, Callable[[Reader, JobOption], _SizeTable]], ...]
    keys = (("bs", _one_length), ("bsrange", _range), ("bssplit", _table))
    values = [(reader.by_direction(key), convert) for key, convert in keys]
    tables = []
    for way in ways:
        table = [(4096, "100")]
        for entries, convert in values:
            if entries is not None:
                table = convert(reader, entries[way])
        tables.append(table)
    given["bs"] = max(length for table in tables for length, _ in table)
    unaligned = reader.flag("bs_unaligned")
    if all(table == tables[0] and len(table) == 1 for table in tables):
        return
    if by_order:
        given["bs_is_seq_rand"] = True
    if unaligned:
        given["bs_unaligned"] = True
    texts = [
        ":".join(f"{length}/{percent}" if percent else str(length) for length, percent in split) for split in tables
    ]
    given["bssplit"] = texts[0]
    if texts[-1] != texts[0]:
        given["bssplit_write"] = texts[-1]


def directions(rw: str) -> tuple[int, ...]:
    """The directions that a job uses, as indices in fio's lists: reads, writes, trims."""
    does = traits(rw)
    return tuple(place for place, trait in ((0, "reads"), (2, "trims"), (1, "writes")) if trait in does)


def _one_length(reader: Reader, entry: JobOption) -> _SizeTable:
    if re.fullmatch(r"[^-]+-[^-]+", entry.value):
        return _range(reader, entry)
    length = reader.parse_bytes(entry.value)
    if length is None or not 1 <= length <= 1 << 40:
        raise reader.error(entry, f"bs={entry.value} is not a block size of 1 byte or more")
    return [(length, "100")]


def _range(reader: Reader, entry: JobOption) -> _SizeTable:
    low, _, high = entry.value.partition("-")
    first, last = reader.parse_bytes(low), reader.parse_bytes(high)
    if not first or not last or last < first:
        raise reader.error(entry, f"bsrange={entry.value} is not LOW-HIGH, such as 4k-64k")
    if "bs_unaligned" in reader.options or last // first > MAX_LENGTHS:
        if "bs_unaligned" not in reader.options:
            raise reader.error(entry, f"bsrange={entry.value}: at most {MAX_LENGTHS} multiples of the smallest")
        return [(first, "50"), (last, "50")]
    # As in fio, multiples of the smallest, with equal shares.
    return [(length, "") for length in range(first, last + 1, first)]


def _table(reader: Reader, entry: JobOption) -> _SizeTable:
    parts = []
    for part in entry.value.split(":"):
        word, _, percent = part.partition("/")
        length = reader.parse_bytes(word)
        if not length or not re.fullmatch(r"\d{0,3}", percent):
            raise reader.error(entry, f"bssplit={entry.value} is not BYTES/PERCENT:BYTES/PERCENT, such as 4k/60:64k/40")
        parts.append((length, percent))
    total, open_ = sum(int(percent or 0) for _, percent in parts), any(not percent for _, percent in parts)
    if total > 100 or (total < 100 and not open_):
        raise reader.error(entry, f"bssplit={entry.value}: the shares add up to {total}%, not 100%")
    return parts
