"""Traces of requests to language models: Mooncake's JSONL, BurstGPT's and Azure's CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from hwdyno.model.units import LARGEST, printed_number
from hwdyno.model.words import UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

LARGEST_BYTES = 256 << 20
"""BurstGPT's largest file has 190 MB."""
MAX_TOKENS = 16 << 20
"""Tokens of one prompt or answer at most."""
MAX_BLOCKS = 1 << 16
"""Hashes of one request."""
BLOCK_TOKENS = 512
"""Tokens that one hash of Mooncake's covers (its README: prefix blocks of 512 tokens)."""
MAX_HASH = (1 << 63) - 1

# Columns of CSV traces: when, the prompt's and the answer's tokens.
_COLUMNS = (
    ("Timestamp", "Request tokens", "Response tokens"),  # BurstGPT
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),  # Azure's public data set
)


@dataclass(frozen=True, slots=True)
class TracedRequest:
    """One request of a trace."""

    due_s: float
    """Time after the trace's first request."""
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    """Which 512-token blocks the prompt begins with: requests that share a number share those tokens."""


def read(path: Path) -> tuple[TracedRequest, ...]:
    """The requests of a trace in order of time. Raises ``UserError``."""
    return read_requests(foreign.read_text(path, LARGEST_BYTES, "a trace of requests"), path.name)


def read_requests(text: str, name: str) -> tuple[TracedRequest, ...]:
    """The requests of a trace's text in order of time; those without an answer failed, and are left out.

    Raises ``UserError`` in one line.
    """
    found = list(_mooncake(text, name) if text.lstrip()[:1] == "{" else _of_table(text, name))
    answered = sorted((request for request in found if request.output_tokens), key=lambda request: request.due_s)
    if not answered:
        raise UserError(f"{name} has no request with an answer; name a trace of Mooncake, BurstGPT or Azure")
    first = answered[0].due_s
    return tuple(replace(request, due_s=request.due_s - first) for request in answered)


def _mooncake(text: str, name: str) -> Iterator[TracedRequest]:
    """Mooncake: a JSON object a line, with ``timestamp`` in ms."""
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        row = Table.from_value(foreign.parse_json(line, f"{name} line {at}"), f"{name} line {at}")
        hashes = row.numbers("hash_ids") if "hash_ids" in row else []
        if len(hashes) > MAX_BLOCKS or any(block_hash > MAX_HASH for block_hash in hashes):
            raise UserError(f"{name} line {at} has hash_ids beyond {MAX_BLOCKS} blocks or 63 bits")
        prompt, answer = (_tokens(row.count(key), key, row.name) for key in ("input_length", "output_length"))
        yield TracedRequest(row.number("timestamp") / 1e3, prompt, answer, tuple(map(int, hashes)))


def _of_table(text: str, name: str) -> Iterator[TracedRequest]:
    """A CSV with a head of BurstGPT's or Azure's columns."""
    rows = csv.DictReader(io.StringIO(text))
    head = _head(rows, name)
    columns = next((names for names in _COLUMNS if set(names) <= set(head)), None)
    if columns is None:
        known = " or ".join(",".join(names) for names in _COLUMNS)
        raise UserError(f"{name} is no trace of requests: it needs JSON lines of Mooncake or the columns {known}")
    for at, row in enumerate(_rows(rows, name), 2):
        where = f"{name} line {at}"
        when, prompt, answer = (str(row.get(column) or "") for column in columns)
        yield TracedRequest(
            _seconds(when, where), _parse_tokens(prompt, columns[1], where), _parse_tokens(answer, columns[2], where)
        )


def _head(rows: csv.DictReader[str], name: str) -> list[str]:
    try:
        return list(rows.fieldnames or ())
    except csv.Error as error:
        raise UserError(f"{name} is not readable as CSV: {error}") from None


def _rows(rows: Iterable[Mapping[str, str]], name: str) -> Iterator[Mapping[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        raise UserError(f"{name} is not readable as CSV: {error}") from None


def _seconds(text: str, where: str) -> float:
    """A time in seconds, or a date with seven digits of a second as Azure prints it."""
    number = printed_number(text)
    if number is not None and 0 <= number <= LARGEST:
        return number
    date, dot, fraction = text.strip().partition(".")
    digits = fraction.removesuffix("Z").partition("+")[0]
    try:
        whole = datetime.strptime(date, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        whole = None
    if whole is None or not (digits or "0").isdecimal() or len(digits) > 9 or (dot and not digits):
        raise UserError(f"{where}: {ascii(text)[:60]} is no time; a number of seconds or a date is needed")
    return whole + (int(digits) / 10 ** len(digits) if digits else 0.0)


def _parse_tokens(text: str, column: str, where: str) -> int:
    number = printed_number(text)
    if number is None or number != int(number) or number < 0:
        raise UserError(f"{where}: {column} = {ascii(text)[:60]} is no count of tokens")
    return _tokens(int(number), column, where)


def _tokens(count: int, name: str, where: str) -> int:
    if count > MAX_TOKENS:
        raise UserError(f"{where}: {name} = {count} is more than {MAX_TOKENS} tokens")
    return count
