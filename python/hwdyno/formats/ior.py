"""Reads IOR's text or JSON into a Run: a point for each write and read of its results. Its MiB are of 2^20 bytes."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.kernels import STORAGE_BLOCKS
from hwdyno.model.units import parse_size
from hwdyno.model.words import Measurement, Parameters, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table

NAME = "ior-text"
_HEADS = re.compile(r"^access\s+bw\(MiB/s\)(?P<rest>[^\n]*)$", re.M)
_ROW = re.compile(r"^(write|read)\s+([\d.]+)((?:\s+[\d.eE+-]+){3,9})\s*$", re.M)
_MAX = re.compile(r"^Max (Write|Read):\s+([\d.]+) MiB/sec \(([\d.]+) MB/sec\)", re.M)
_OPTIONS = {
    "ranks": re.compile(r"^\s*(?:tasks|clients)\s*[:=]\s*(\d{1,7})", re.M),
    "bs": re.compile(r"^\s*(?:xfersize|transfer size)\s*[:=]\s*([\d.]+ ?[KMGTi]*(?:bytes?|B)?)", re.M | re.I),
    "size": re.compile(r"^\s*aggregate filesize\s*[:=]\s*([\d.]+ ?[KMGTi]*(?:bytes?|B)?)", re.M | re.I),
}
_SUMMARY = re.compile(r"^(Operation +Max\(MiB\)[^\n]*)\n((?:(?:write|read) [^\n]*(?:\n|$))+)", re.M)
"""Statistics over the repetitions of a test, a line for each way."""
_VERSION = re.compile(r"IOR-([\w.+]+)")
_MIB = 2.0**20


def recognizes(text: str) -> bool:
    """Whether this looks like IOR's output."""
    return _HEADS.search(text) is not None or _MAX.search(text) is not None or _is_json(text)


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    if _is_json(text):
        return _of_json(text, name)
    parameters: Parameters = {}
    for key, pattern in _OPTIONS.items():
        if match := pattern.search(text):
            try:
                plain = re.sub(r"(?i)bytes?", "B", match[1])
                parameters[key] = parse_size(plain.replace(" ", ""))
            except UserError:
                continue
    random = re.search(r"ordering in a file\s*[:=]\s*random", text) is not None
    points: list[Measurement] = []
    heads = _HEADS.search(text)
    names = re.findall(r"(\w+)\((?:KiB|s)\)|(\w+)", heads["rest"]) if heads else []
    columns = [label or other for label, other in names]
    for match in _ROW.finditer(text, heads.end()) if heads else ():
        cells = match[3].split()
        rate = cells[columns.index("IOPS")] if "IOPS" in columns and columns.index("IOPS") < len(cells) else None
        given: Parameters = {**parameters, "rw": ("rand" if random else "") + match[1]}
        made = make_point(given, figures(bw=number(match[2], _MIB), iops=number(rate)))
        points += [made] if made else []
    points = points or _read_summaries(text, parameters, "rand" if random else "")
    if not points:
        for way, binary, decimal in _MAX.findall(text):
            found = figures(bw=number(binary, _MIB, "MiB/s"), bw_again=number(decimal, 1e6, "MB/s"))
            made = make_point({**parameters, "rw": way.lower()}, found)
            points += [made] if made else []
    version = _VERSION.search(text)
    table = printed.experiment("storage.ior", "IOR results", STORAGE_BLOCKS, "ranks", points)
    return printed.run(NAME, "IOR", text, name, [table], version[1] if version else "")


def _read_summaries(text: str, parameters: Parameters, order: str) -> list[Measurement]:
    """The mean of each test's repetitions, of a text without their rows; what the options lack is in the summary."""
    points: list[Measurement] = []
    for heads, rows in _SUMMARY.findall(text):
        names = heads.split()
        for line in rows.splitlines():
            cells = line.split()
            if len(cells) != len(names):
                continue
            # Two columns are called StdDev; none that is read here is.
            row = dict(zip(names, cells, strict=True))
            stated = {
                "ranks": number(row.get("#Tasks")),
                "bs": number(row.get("xsize")),
                "size": number(row.get("aggsize")) or number(row.get("aggs(MiB)"), _MIB),
            }
            given = {name: round(found.value) for name, found in stated.items() if found is not None and found.value}
            repetitions = number(row.get("reps"))
            made = make_point(
                {**given, **parameters, "rw": order + row["Operation"]},
                figures(
                    bw_mean=number(row.get("Mean(MiB)"), _MIB),
                    bw_min=number(row.get("Min(MiB)"), _MIB),
                    bw_max=number(row.get("Max(MiB)"), _MIB),
                ),
                **({"repetitions": round(repetitions.value)} if repetitions else {}),
            )
            points += [made] if made else []
    return points


def _is_json(text: str) -> bool:
    return text.lstrip().startswith("{") and '"bwMiB"' in text and '"tests"' in text


def _of_json(text: str, name: str) -> Run:
    """A Run of what ``-O summaryFormat=JSON`` writes, with a point for each repetition."""
    document = Table.from_value(foreign.parse_json(text, name), name)
    points: list[Measurement] = []
    tests = document.values.get("tests")
    for listed_test in tests if isinstance(tests, list) else ():
        test = Table.from_value(listed_test, name)
        options, given = (test.table(key) if key in test else Table({}, name) for key in ("Options", "Parameters"))
        parameters: Parameters = {"ranks": options.count("tasks")} if "tasks" in options else {}
        if "transferSize" in given:
            parameters["bs"] = given.count("transferSize")
        random = options.values.get("ordering in a file") == "random"
        for row in _rows(test.values.get("Results")):
            result = Table.from_value(row, name)
            way = result.text("access")
            # Its "iops" leave out the time of opening and closing, which its bandwidth has.
            found = figures(bw=number(f"{result.number('bwMiB'):f}", _MIB))
            made = make_point({**parameters, "rw": ("rand" if random else "") + way}, found)
            points += [made] if made and way in {"read", "write"} else []
    version = document.values.get("Version")
    table = printed.experiment("storage.ior", "IOR results", STORAGE_BLOCKS, "ranks", points)
    return printed.run(NAME, "IOR", text, name, [table], version if isinstance(version, str) else "")


def _rows(results: object) -> list[object]:
    """The results of a test, which some versions nest in a list for each repetition."""
    found = results if isinstance(results, list) else []
    return [row for block in found for row in (block if isinstance(block, list) else [block])]
