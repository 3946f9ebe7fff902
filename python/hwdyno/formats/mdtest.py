"""Reads mdtest's summary into a Run: rates of operations on files and directories, as max, min, mean."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "mdtest-text"
_HEAD = re.compile(r"SUMMARY(?: rate)?(?: \(in ops/sec\))?:?\s*\(of (\d{1,6}) iterations\)")
_ROW = re.compile(
    r"((?:File|Directory|Tree) (?:creation|stat|removal|read|rename))\s*:?\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)"
)
_TASKS = re.compile(r"launched with (\d{1,7}) total task\(s\)")
_VERSION = re.compile(r"mdtest-([\w.]+)")


def recognizes(text: str) -> bool:
    """Whether this looks like mdtest's output."""
    return _HEAD.search(text) is not None and _ROW.search(text) is not None


def read(text: str, name: str) -> Run:
    """Make a Run of it. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    heads = list(_HEAD.finditer(text))
    for at, head in enumerate(heads):
        part = text[head.end() : heads[at + 1].start() if at + 1 < len(heads) else len(text)]
        # From 4.0 on a second table has the same rows as times.
        part = part.partition("SUMMARY time")[0]
        tasks = list(_TASKS.finditer(text[: head.start()]))
        for test, most, least, mean, _ in _ROW.findall(part):
            parameters: Parameters = {"test": test.lower(), **({"ranks": int(tasks[-1][1])} if tasks else {})}
            made = make_point(parameters, figures(iops=number(mean), iops_max=number(most), iops_min=number(least)))
            points += [made] if made else []
    version = _VERSION.search(text)
    table = printed.experiment("storage.mdtest", "mdtest results", "storage_metadata", "ranks", points)
    return printed.run(NAME, "mdtest", text, name, [table], version[1] if version else "")
