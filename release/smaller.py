"""Packs a wheel again: the best deflate streams, no comments, the lessons in one file, and one time for all."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import itertools
import json
import struct
import time
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeGuard

import zopfli.zlib

from release.build import ROOT

FIRST = 315532800
"""1980-01-01, the earliest time of a zip file."""
LESSONS = "hwdyno/data/lessons"
BILL = ".cyclonedx.json"
"""End of the name of the crates' bill, which says where each crate of hwdyno was built."""


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
        _write(out, central, file, zopfli.zlib.compress(file.data, numiterations=30, blocksplittingmax=0)[2:-4], stamp)
    start, size = out.tell(), central.tell()
    out.write(central.getvalue())
    out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(files), len(files), size, start, 0))
    path.write_bytes(out.getvalue())


def joined(files: list[File]) -> list[File]:
    """The files without comments, with all lessons in one, and RECORD as it is then.

    As many small files the lessons would share no words for the compression, and have a name each in three places;
    `findings/lessons.py` reads them from one as well. Comments, and what is said of private
    names, stay in the source distribution. The bill of crates names no folder of the machine that built the wheel.
    """
    smaller = {".py": uncommented, ".json": compact}
    here, anywhere = f"path+{ROOT.as_uri()}/".encode(), b"path+file:///hwdyno/"
    files = [
        file._replace(data=file.data.replace(here, anywhere)) if file.name.endswith(BILL) else file for file in files
    ]
    files = [file._replace(data=smaller.get(Path(file.name).suffix, bytes)(file.data)) for file in files]
    apart = [file for file in files if file.name.startswith(f"{LESSONS}/")]
    if apart:
        texts = {Path(file.name).stem: file.data.decode() for file in apart}
        whole = File(f"{LESSONS}.json", apart[0].attributes, compact(json.dumps(texts).encode()))
        files = [whole if file is apart[0] else file for file in files if file is apart[0] or file not in apart]
    return [_recorded(file, files) if file.name.endswith(".dist-info/RECORD") else file for file in files]


def compact(document: bytes) -> bytes:
    """The same JSON without spaces."""
    return json.dumps(json.loads(document), ensure_ascii=False, separators=(",", ":")).encode()


def uncommented(source: bytes) -> bytes:
    """A Python file without comments and without what is said of private names: the same program on the same lines.

    So tracebacks name them rightly. A docstring that is all of a body stays.
    """
    text = source.decode()
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for said in private_texts(ast.parse(text).body):
        last = said.end_lineno or said.lineno
        lines[said.lineno - 1 : last] = [""] * (last - said.lineno + 1)
    return "\n".join(lines).encode()


def private_texts(body: list[ast.stmt], *, is_inside: bool = False) -> Iterator[ast.stmt]:
    """What is said of private names in a body, and of all names inside of them; never a last statement."""
    for one, after in itertools.pairwise([*body, None]):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            of_private = is_inside or is_private(one.name)
            if of_private and len(one.body) > 1 and is_text(one.body[0]):
                yield one.body[0]
            yield from private_texts(one.body, is_inside=of_private or not isinstance(one, ast.ClassDef))
        elif isinstance(one, ast.Assign | ast.AnnAssign) and is_text(after) and after is not body[-1]:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            if all(isinstance(target, ast.Name) and (is_inside or is_private(target.id)) for target in targets):
                yield after


def is_text(statement: ast.stmt | None) -> TypeGuard[ast.Expr]:
    """Whether a statement is nothing but a string, which does nothing when the program runs."""
    constant = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)


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
