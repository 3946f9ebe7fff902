"""Reads IOzone's text into a Run: the automatic mode's table, and the throughput mode's sums.

IOzone's Kbytes are of 1024 bytes. Without ``-I`` it goes through the page cache.
"""

from __future__ import annotations

import re
from bisect import bisect_right
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
_HEADS = re.compile(r"^[^\S\n]*[kK]B[^\S\n]+reclen[^\S\n]+write[^\S\n]+rewrite(?P<others>[a-z \t]*)", re.M)
_ROW = re.compile(r"^[^\S\n]*(\d{1,12})[^\S\n]+(\d{1,9})((?:[^\S\n]+\d{1,12}(?:\.\d{1,6})?){2,13})[^\S\n]*$", re.M)
_BEGUN = re.compile(r"^[^\S\n]*\d{1,12}[^\S\n]+\d{1,9}[^\S\n]+\d[^\n]*$", re.M)
"""A row whose end another program's output may have cut."""
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
_COMMAND = re.compile(
    r"(?:Command line used: |^[^\n]{0,60}[$#>] ?(?=\S{0,200}iozone ))([^\n]{1,400}?)(?=\s+(?:Output|Time)\b|\n|$)", re.M
)
_OF_OPTION = {
    "0": TESTS[:2], "1": TESTS[2:4], "2": TESTS[4:6], "3": TESTS[6:7], "4": TESTS[7:8], "5": TESTS[8:9],
    "6": TESTS[9:11], "7": TESTS[11:],
}  # fmt: skip
"""The tests that each ``-i`` chooses."""
_UNITS = (
    (re.compile(r"OPS Mode"), "iops", 1.0),
    (re.compile(r"Microseconds/op Mode"), "lat_mean", 1e-6),
)
"""What figures are with ``-O`` and ``-N``, instead of a rate of bytes."""
_KIB = 1024.0
_OFF = 3
"""Columns that a cell may end beside its head."""


def recognizes(text: str) -> bool:
    """Whether this looks like IOzone's output."""
    patterns = (_SUM, _REPORT, _HEADS) if "ozone" in text else (_SUM, _REPORT)
    return any(pattern.search(text) is not None for pattern in patterns)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    unread: list[str] = []
    automatic = list(_automatic(text, unread)) or list(_reports(text))
    tables = [
        printed.experiment("storage.iozone", "IOzone results", STORAGE_BLOCKS, "bs", automatic),
        printed.experiment(
            "storage.iozone-throughput", "IOzone throughput", STORAGE_BLOCKS, "numjobs", list(_sums(text))
        ),
    ]
    return printed.run(NAME, "IOzone", text, name, tables, unread=unread)


def is_direct(command: str) -> bool:
    """Whether a command line asks for direct I/O."""
    return re.search(r"\s-[A-Za-z]*I(?![a-z])", command) is not None


def _automatic(text: str, unread: list[str]) -> Iterator[Measurement]:
    """A point of each cell; rows whose cells belong to no head for certain are added to ``unread``."""
    tables = list(_HEADS.finditer(text))
    if not tables:
        return
    commands = list(_COMMAND.finditer(text))
    quantity, factor = next(
        ((quantity, factor) for pattern, quantity, factor in _UNITS if pattern.search(text)), ("bw", _KIB)
    )
    for begun in _BEGUN.finditer(text, tables[0].end()):
        row = _ROW.match(text, begun.start())
        heads = tables[bisect_right(tables, begun.start(), key=lambda match: match.start()) - 1]
        if row is None or not _are_sizes(int(row[1]), int(row[2])):
            if "\n\n" not in text[heads.end() : begun.start()]:
                unread.append(begun[0].strip())
            continue
        size, block = int(row[1]), int(row[2])
        at = bisect_right(commands, row.start(), key=lambda match: match.start()) - 1
        command = commands[at][1] if at >= 0 else ""
        rates = row[3].split()
        cells = list(_cells(rates, _ends(text, row.start(1)), heads, command))
        if len(cells) < len(rates):
            unread.append(row[0].strip())
        for test, rate in cells:
            parameters: Parameters = {
                "rw": _PATTERNS.get(test, "read" if "read" in test else "write"),
                "test": test,
                "bs": block * 1024,
                "size": size * 1024,
                **({"direct": is_direct(command)} if command else {}),
            }
            if (made := make_point(parameters, figures(**{quantity: number(rate, factor)}))) is not None:
                yield made


def _are_sizes(file: int, record: int) -> bool:
    """Whether two numbers are a file's size and a record's, and no rates of a row that other output cut in two.

    A file is whole records, or its last one is left out where the record is a power of two.
    """
    return 0 < record <= file and (file % record == 0 or record & (record - 1) == 0)


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


def _cells(rates: list[str], at: list[int], heads: re.Match[str], command: str) -> Iterator[tuple[str, str]]:
    """Each rate with its test.

    A row as long as its heads is read in order, as is one as long as the tests that the command chooses. Of other rows,
    each rate is that of the nearest head above its right end; where spaces were lost in printing, only the first two
    cells are certain.
    """
    words = ["write", "rewrite", *heads["others"].split()]
    count = min(len(words), len(TESTS))
    known = words[:count] == [test.rpartition(" ")[2] for test in TESTS[:count]]
    ends = _ends(heads.string, heads.start())
    near = [min(range(count), key=lambda head: abs(ends[head] - end)) for end in at]
    in_order = all(head < other for head, other in pairwise(near))
    close = all(abs(ends[head] - end) <= _OFF for head, end in zip(near, at, strict=True))
    chosen = [test for option in re.findall(r"\s-i ?(\d{1,2})\b", command) for test in _OF_OPTION.get(option, ())]
    chosen = sorted(set(chosen or TESTS), key=TESTS.index)
    if known and len(rates) == count:
        yield from zip(TESTS, rates, strict=False)
    elif len(rates) == len(chosen):
        yield from zip(chosen, rates, strict=True)
    elif known and in_order and close and "  " in heads[0].strip():
        yield from ((TESTS[head], rate) for head, rate in zip(near, rates, strict=True))
    elif chosen[:2] == list(TESTS[:2]):
        yield from zip(TESTS, rates[:2], strict=False)


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
