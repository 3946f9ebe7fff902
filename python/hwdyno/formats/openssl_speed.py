"""Reads the text of ``openssl speed`` into a Run. Its k are 1000 bytes/s; what it counts in a time is of one size."""

from __future__ import annotations

import re

from hwdyno.formats import printed
from hwdyno.formats.row import figures, make_point, number
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.words import Measurement, Parameters, Run

NAME = "openssl-text"
_DOING = re.compile(
    r"^[ \t]{0,8}Doing (?P<name>[\w./-]{1,40}(?: [\w-]{1,20}){0,2}?) (?:ops )?for \d{1,4}s on (?P<size>\d{1,9}) size "
    r"blocks: (?P<count>\d{1,15}) [\w./-]{1,40}(?: [\w-]{1,20}){0,2}?'s in (?P<time>\d{1,6}\.\d{1,3})s[ \t]*$",
    re.M,
)
_HEADS = re.compile(r"^[ \t]{0,8}type((?:\s{1,20}\d{1,9} bytes){1,12})[ \t]*$", re.M)
_ROW = re.compile(
    r"\n[ \t]{0,8}(?P<name>[\w.-]{1,40}(?: [\w-]{1,20}){0,2}?)(?P<k>(?:\s{1,12}\d{1,12}\.\d\dk){1,12})[ \t]*(?=\n|$)"
)
_VERSION = re.compile(r"^(?:OpenSSL|version:) (\d[\w.]{1,12})", re.M)
_MIN_S = 0.5
"""A shorter time is of the processor beside an accelerator, not of the cipher."""


def recognizes(text: str) -> bool:
    """Whether this looks like the text of ``openssl speed``."""
    return _DOING.search(text) is not None or any(_ROW.match(text, heads.end()) for heads in _HEADS.finditer(text))


def read(text: str, name: str) -> Run:
    """Make a Run of it: of its table where it has one, else of its counts. Raises ``UserError`` in one line."""
    points: list[Measurement] = []
    for heads in _HEADS.finditer(text):
        sizes = re.findall(r"\d+", heads[1])
        row = _ROW.match(text, heads.end())
        while row is not None:
            for size, cell in zip(sizes, row["k"].split(), strict=False):
                points += _point(row["name"], size, number(cell.rstrip("k"), 1e3))
            row = _ROW.match(text, row.end())
    for line in _DOING.finditer(text) if not points else ():
        count, time = number(line["count"]), number(line["time"])
        if count is not None and time is not None and time.value >= _MIN_S:
            moved = count.value * int(line["size"]) / time.value
            rate = PrintedNumber(moved, time.rounding)
            points += _point(line["name"], line["size"], rate, count=count.value, took_s=time.value)
    version = _VERSION.search(text)
    table = printed.experiment("compute.openssl", "openssl speed results", "table", "bs", points)
    return printed.run(NAME, "openssl speed", text, name, [table], version[1] if version else "")


def _point(cipher: str, size: str, rate: PrintedNumber | None, **details: float) -> list[Measurement]:
    given: Parameters = {"operation": cipher.lower(), "bs": int(size)}
    made = make_point(given, figures(bw=rate), **details)
    return [made] if made else []
