"""Finds figures of a text that were copied: cells of one row in another, and a part's figure quoted as a result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.formats.statements.sentences import split_sentences

MIN_DIGITS = 5
"""Digits from which on measured figures are not equal by chance."""
MIN_COPIED = 4
"""Cells in a row that make it certain."""
MAX_PARTS, NEAR_ROWS, MAX_ROWS, LONGEST_ROW = 200, 12, 5_000, 400
_ROW = re.compile(r"^[ \t|]*\d[\d.,]*(?:[ \t|]+\d[\d.,]*){5,40}[ \t|]*$", re.M)
_CELL = re.compile(r"\d[\d.,]*")
_CHILDREN = re.compile(
    r"Children see throughput for\s+(\d{1,5}) ([\w -]{1,40}?)\s*=\s*(\d{1,12}(?:\.\d{1,6})?) [kK]B/sec"
    r"((?:(?!Children see throughput).){0,400})",
    re.S,
)
_OF_ONE = re.compile(r"\b(Min|Max) throughput per process\s*=\s*(\d{1,12}(?:\.\d{1,6})?) [kK]B/sec")
_STREAM = re.compile(r"^[ \t]*(Copy|Scale|Add|Triad):[ \t]+(\d{1,12}(?:\.\d{1,6})?)[ \t]", re.M)
_BEST = re.compile(r"\b(?:best|highest|max(?:imum)?|peak)\b", re.I)
_QUOTED = re.compile(r"(?<![\w.,])(\d{4,9}(?:\.\d{1,3})?) ?M(i?)B/s(?:ec)?\b", re.I)
_PARTS = re.compile(r"\bmin(?:imum)?\b|\bslowest\b|\bper process\b|\bper thread\b|\bof one\b|\bcopy\b", re.I)
"""Words of a sentence that says itself that its figure is a part's."""
_SUBJECT = re.compile(r"\b(?:for|of) (f?(?:re)?(?:read|write)s?|random \w+|sequential \w+)\b", re.I)


@dataclass(frozen=True, slots=True)
class _Row:
    line: str
    cells: tuple[str, ...]


def copied_cells(text: str) -> dict[str, object]:
    """The longest run of cells that two rows of a table share at all of their digits; empty without one."""
    rows: list[_Row] = []
    best: dict[str, object] = {}
    for match in _ROW.finditer(text):
        if len(match[0]) > LONGEST_ROW:
            continue
        row = _Row(" ".join(match[0].split()), tuple(_CELL.findall(match[0])))
        for other in rows[-NEAR_ROWS:]:
            if other.cells[:2] == row.cells[:2] or other.cells == row.cells:
                continue  # One result that was printed twice.
            count = _longest_run(other.cells, row.cells)
            if count >= MIN_COPIED and count > int(str(best.get("count", 0))):
                best = {
                    "count": count,
                    "rows": [" ".join(copied.cells[:2]) for copied in (other, row)],
                    "cells": [len(other.cells), len(row.cells)],
                }
        rows.append(row)
        if len(rows) > MAX_ROWS:
            break
    return best


def _longest_run(first: tuple[str, ...], second: tuple[str, ...]) -> int:
    """The most cells one after another that are equal in both, also beside each other, all of many digits and apart."""
    longest = 0
    for shift in range(-3, 4):
        run: list[str] = []
        for at, cell in enumerate(first):
            other = second[at + shift] if 0 <= at + shift < len(second) else ""
            if cell == other and _is_measured(cell) and cell not in run:
                run.append(cell)
                longest = max(longest, len(run))
            else:
                run = []
    return longest


def _is_measured(cell: str) -> bool:
    """Whether a cell has more digits than a setting, and is no power of two."""
    digits = re.sub(r"\D", "", cell)
    number = int(digits) if len(digits) < 16 else 0
    return len(digits.strip("0")) >= MIN_DIGITS and number & (number - 1) != 0


def quoted_parts_of_iozone(text: str) -> list[dict[str, object]]:
    """Figures that a sentence quotes as a result, where IOzone printed them of one process of several."""
    return _find_quotes(text, list(_parts_of_iozone(text)))


def quoted_rows_of_stream(text: str) -> list[dict[str, object]]:
    """Figures that a sentence quotes as STREAM's best, where another row of the same output is faster."""
    return _find_quotes(text, list(_parts_of_stream(text)))


def _find_quotes(text: str, parts: list[_Part]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    parts = parts[:MAX_PARTS]
    for sentence in split_sentences(text) if parts else ():
        if _PARTS.search(sentence) or "throughput per process" in sentence or "Children see" in sentence:
            continue
        for match in _QUOTED.finditer(sentence):
            part = next((part for part in parts if _has_digits(match, part) and part.fits(sentence)), None)
            if part is not None:
                subject = _SUBJECT.search(sentence)
                made = {"quoted": match[0], "subject": subject[1] if subject else "", "part": part.name}
                found.append({**made, "whole": part.whole, "whole_name": part.whole_name})
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """A figure that a tool prints of a part of its result, in bytes/s, and the whole result."""

    name: str
    value: float
    whole: float
    whole_name: str
    best: bool = False
    """Whether it is quoted wrongly only as the best."""

    def fits(self, sentence: str) -> bool:
        """Whether a sentence quotes it as what it is not."""
        return not self.best or (_BEST.search(sentence) is not None and "stream" in sentence.lower())


def _has_digits(match: re.Match[str], part: _Part) -> bool:
    """Whether the quoted digits are those of a part, rounded or cut."""
    digits, binary = match[1], bool(match[2])
    scale = 1024.0**2 if binary else 1e6
    decimals = len(digits.partition(".")[2])
    # A tool's KB are divided by 1000 as often as by 1024.
    values = [part.value / scale] if part.best else [part.value / 1024.0 / 1000.0, part.value / 1024.0**2]
    return any(abs(value - float(digits)) < 10.0**-decimals and value >= float(digits) - 0.5 * 10.0**-decimals
               for value in values)  # fmt: skip


def _parts_of_iozone(text: str) -> Iterator[_Part]:
    """The slowest and the fastest process of each throughput test of several, which is none's result."""
    for match in _CHILDREN.finditer(text):
        count, test, whole = int(match[1]), match[2].strip(), float(match[3]) * 1024.0
        if count < 2:
            continue
        for kind, rate in _OF_ONE.findall(match[4]):
            which = "slowest" if kind == "Min" else "fastest"
            yield _Part(f"the {which} of {count} processes in IOzone's '{test}'", float(rate) * 1024.0, whole,
                        "all of them together have")  # fmt: skip


def _parts_of_stream(text: str) -> Iterator[_Part]:
    """Rows of STREAM's outputs that are quoted as its best, though another row of the same output is faster."""
    output: list[tuple[str, float]] = []
    for match in [*_STREAM.finditer(text), None]:
        if match is None or (output and match[1] == "Copy"):
            name, most = max(output, key=lambda row: row[1], default=("", 0.0))
            for other, rate in output:
                if rate < 0.95 * most:
                    yield _Part(f"STREAM's {other}", rate * 1e6, most * 1e6, f"{name} has", best=True)
            output = []
        if match is not None and re.fullmatch(r"\d{1,9}(?:\.\d{1,6})?", match[2]):
            output.append((match[1], float(match[2])))
