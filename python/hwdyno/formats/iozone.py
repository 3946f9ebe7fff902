"""Reads IOzone's text into a Run: the automatic mode's table, and the throughput mode's sums.

IOzone's Kbytes are of 1024 bytes. Without ``-I`` it goes through the page cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "iozone-text"
TESTS = (
    "write", "rewrite", "read", "reread", "random read", "random write", "backward read", "record rewrite",
    "stride read", "fwrite", "frewrite", "fread", "freread",
)  # fmt: skip
_PATTERNS = {"random read": "randread", "random write": "randwrite"}
_HEADS = re.compile(r"^\s*[kK]B\s+reclen\s+write\s+rewrite", re.M)
_ROW = re.compile(r"^[^\S\n]*(\d{1,12})[^\S\n]+(\d{1,9})((?:[^\S\n]+\d{1,12}){2,13})[^\S\n]*$", re.M)
_SUM = re.compile(r"(Children|Parent) sees? throughput for\s+(\d{1,5}) ([\w -]{1,40}?)\s*=\s*([\d.]+) [kK]B/sec")
_FILE = re.compile(r"Each process writes a (\d{1,12}) [kK][bB]yte file in (\d{1,9}) [kK][bB]yte records")
_REPORT = re.compile(
    r'^"([A-Z][\w -]{2,30}?) report"\s*\n((?:[ \t]*"\d{1,9}")+)[ \t]*\n'
    r'((?:"\d{1,12}"(?:[ \t]+\d{1,12})+[ \t]*(?:\n|$))+)',
    re.M,
)
"""What ``-R`` prints for a spreadsheet: a row for each size of file, a column for each size of record, in KiB."""
_REPORTS = {"writer": "write", "re-writer": "rewrite", "reader": "read", "re-reader": "reread"}
"""What it calls tests there that have another name in its table."""
_COMMAND = re.compile(r"Command line used: ([^\n]{1,400}?)(?=\s+(?:Output|Time)\b|\n|$)")
_KIB = 1024.0
_OFF = 3
"""Columns that a cell may end beside its head."""


def recognizes(text: str) -> bool:
    """Whether this looks like IOzone's output."""
    patterns = (_SUM, _REPORT, _HEADS) if "ozone" in text else (_SUM, _REPORT)
    return any(pattern.search(text) is not None for pattern in patterns)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    automatic = list(_automatic(text)) or list(_reports(text))
    tables = [
        printed.experiment("storage.iozone", "IOzone results", STORAGE_BLOCKS, "bs", automatic),
        printed.experiment(
            "storage.iozone-throughput", "IOzone throughput", STORAGE_BLOCKS, "numjobs", list(_sums(text))
        ),
    ]
    return printed.run(NAME, "IOzone", text, name, tables)


def is_direct(command: str) -> bool:
    """Whether a command line asks for direct I/O."""
    return re.search(r"\s-[A-Za-z]*I(?![a-z])", command) is not None


def _automatic(text: str) -> Iterator[Measurement]:
    heads = _HEADS.search(text)
    if heads is None:
        return
    commands = list(_COMMAND.finditer(text))
    ends = _ends(text, heads.end())
    for row in _ROW.finditer(text, heads.end()):
        size, block = int(row[1]), int(row[2])
        if block == 0 or size % block:
            continue  # The rest of a row that another program's output cut: a file is whole records.
        command = next((candidate for candidate in reversed(commands) if candidate.start() < row.start()), None)
        for test, rate in _cells(row[3].split(), _ends(text, row.start(1)), ends):
            parameters: Parameters = {
                "rw": _PATTERNS.get(test, "read" if "read" in test else "write"),
                "test": test,
                "bs": block * 1024,
                "size": size * 1024,
                **({"direct": is_direct(command[1])} if command else {}),
            }
            if (made := make_point(parameters, figures(bw=number(rate, _KIB)))) is not None:
                yield made


def _reports(text: str) -> Iterator[Measurement]:
    command = _COMMAND.search(text)
    for title, heads, rows in _REPORT.findall(text):
        test = _REPORTS.get(title.lower(), title.lower())
        blocks = [int(word.strip('"')) for word in heads.split()]
        for row in rows.splitlines():
            size, *rates = row.replace('"', "").split()
            # The largest records of small files are not tested: what is missing comes last.
            for block, rate in zip(blocks, rates, strict=False):
                parameters: Parameters = {
                    "rw": _PATTERNS.get(test, "read" if "read" in test else "write"),
                    "test": test,
                    "bs": block * 1024,
                    "size": int(size) * 1024,
                    **({"direct": is_direct(command[1])} if command else {}),
                }
                if (made := make_point(parameters, figures(bw=number(rate, _KIB)))) is not None:
                    yield made


def _ends(text: str, at: int) -> list[int]:
    """Where each word of the line at ``at`` ends, the file's size and the record's left out."""
    begin, end = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    return [match.end() for match in re.finditer(r"\S+", text[begin : end if end >= 0 else len(text)])][2:]


def _cells(rates: list[str], at: list[int], heads: list[int]) -> Iterator[tuple[str, str]]:
    """Each rate with its test: that of the nearest head above its right end.

    Where spaces were lost in printing, a whole row is read in order, and of another only the first two cells.
    """
    near = [min(range(len(heads)), key=lambda head: abs(heads[head] - end)) for end in at] if heads else []
    in_order = all(head < other for head, other in pairwise(near))
    close = all(abs(heads[head] - end) <= _OFF for head, end in zip(near, at, strict=False))
    if len(heads) == len(TESTS) and len(near) == len(rates) and in_order and close:
        yield from ((TESTS[head], rate) for head, rate in zip(near, rates, strict=True))
    else:
        yield from zip(TESTS, rates if len(rates) == len(TESTS) else rates[:2], strict=False)


def _sums(text: str) -> Iterator[Measurement]:
    seen: dict[tuple[str, str, int], float] = {}
    for match in _SUM.finditer(text):
        before = text[: match.start()]
        files, commands = list(_FILE.finditer(before)), list(_COMMAND.finditer(before))
        key = (match[3], match[2], len(commands))
        if match[1] == "Parent":
            continue
        following = _SUM.search(text, match.end())
        parent = number(following[4], _KIB) if following is not None and following[1] == "Parent" else None
        test = match[3].strip()
        parameters: Parameters = {
            "rw": ("rand" if "random" in test else "") + ("read" if "read" in test else "write"),
            "test": test,
            "numjobs": int(match[2]),
            **({"size": int(files[-1][1]) * 1024, "bs": int(files[-1][2]) * 1024} if files else {}),
            **({"direct": is_direct(commands[-1][1])} if commands else {}),
        }
        found = number(match[4], _KIB)
        seen[key] = found.value if found else 0.0
        made = make_point(parameters, figures(bw=found), **({"parent_bytes_s": parent.value} if parent else {}))
        if made is not None:
            yield made
