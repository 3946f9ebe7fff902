"""Packs a wheel again: the best deflate streams, no comments, the lessons in one file, and one time for all."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import struct
import time
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import NamedTuple

import zopfli.zlib

FIRST = 315532800
"""1980-01-01, the earliest time of a zip file."""
LESSONS = "hwdyno/data/lessons"


class File(NamedTuple):
    """A file of a wheel: its name, its mode as a zip file has it, and what it holds."""

    name: str
    attributes: int
    data: bytes


def pack(path: Path, epoch: int) -> None:
    """Replace a wheel by a smaller one in the same order, all of it of the time ``epoch``; pip and uv read it."""
    stamp = time.gmtime(max(epoch, FIRST))[:6]
    out, central = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(path) as wheel:
        files = joined([File(entry.filename, entry.external_attr, wheel.read(entry)) for entry in wheel.infolist()])
    for file in files:
        _write(out, central, file, zopfli.zlib.compress(file.data, blocksplittingmax=0)[2:-4], stamp)
    start, size = out.tell(), central.tell()
    out.write(central.getvalue())
    out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(files), len(files), size, start, 0))
    path.write_bytes(out.getvalue())


def joined(files: list[File]) -> list[File]:
    """The files without comments, with all lessons in one, and RECORD as it is then.

    As many small files the lessons would share no words for the compression, and have a name each in three places;
    `findings/lessons.py` reads them from one as well. Comments, and what is said of private
    names, stay in the source distribution.
    """
    files = [file._replace(data=uncommented(file.data)) if file.name.endswith(".py") else file for file in files]
    apart = [file for file in files if file.name.startswith(f"{LESSONS}/")]
    if apart:
        texts = {Path(file.name).stem: file.data.decode() for file in apart}
        whole = File(f"{LESSONS}.json", apart[0].attributes, json.dumps(texts, ensure_ascii=False).encode())
        files = [whole if file is apart[0] else file for file in files if file is apart[0] or file not in apart]
    return [_recorded(file, files) if file.name.endswith(".dist-info/RECORD") else file for file in files]


def uncommented(source: bytes) -> bytes:
    """A Python file without comments and without docstrings of private names: the same program on the same lines.

    So tracebacks name them rightly. A docstring that is all of a body stays.
    """
    text = source.decode()
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and is_private(node.name):
            first, *rest = node.body
            if rest and ast.get_docstring(node) is not None and first.end_lineno is not None:
                lines[first.lineno - 1 : first.end_lineno] = [""] * (first.end_lineno - first.lineno + 1)
    return "\n".join(lines).encode()


def is_private(name: str) -> bool:
    """Whether a name is of its module alone."""
    return name.startswith("_") and not name.endswith("__")


def _recorded(record: File, files: list[File]) -> File:
    """RECORD with a line for each file, by the specification of recorded projects."""
    lines = [
        f"{file.name},," if file is record else f"{file.name},sha256={_digest(file.data)},{len(file.data)}"
        for file in files
    ]
    return File(record.name, record.attributes, "".join(f"{line}\n" for line in lines).encode())


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _write(out: io.BytesIO, central: io.BytesIO, file: File, packed: bytes, stamp: tuple[int, ...]) -> None:
    """One file and its line of the directory (APPNOTE.TXT, 4.3.7 and 4.3.12)."""
    name = file.name.encode()
    day = (stamp[0] - 1980) << 9 | stamp[1] << 5 | stamp[2]
    second = stamp[3] << 11 | stamp[4] << 5 | stamp[5] // 2
    utf8 = 0 if name.isascii() else 0x800
    sums = (zlib.crc32(file.data), len(packed), len(file.data))
    common = struct.pack("<5H3L2H", 20, utf8, zipfile.ZIP_DEFLATED, second, day, *sums, len(name), 0)
    central.write(b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + common)
    central.write(struct.pack("<3H2L", 0, 0, 0, file.attributes, out.tell()) + name)
    out.write(b"PK\3\4" + common + name + packed)
