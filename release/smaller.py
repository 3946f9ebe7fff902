"""Packs a wheel again with the best deflate streams and one time for all files; pip and uv read it as before."""

from __future__ import annotations

import io
import struct
import time
import zipfile
import zlib
from pathlib import Path

import zopfli.zlib

FIRST = 315532800
"""1980-01-01, the earliest time of a zip file."""


def pack(path: Path, epoch: int) -> None:
    """Replace a wheel by one with the same files in the same order, smaller, all of them of the time ``epoch``."""
    stamp = time.gmtime(max(epoch, FIRST))[:6]
    out, central = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(path) as wheel:
        entries = wheel.infolist()
        for entry in entries:
            data = wheel.read(entry)
            packed = zopfli.zlib.compress(data)[2:-4]
            _write(out, central, entry, data, packed, stamp)
    start, size = out.tell(), central.tell()
    out.write(central.getvalue())
    out.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(entries), len(entries), size, start, 0))
    path.write_bytes(out.getvalue())


def _write(
    out: io.BytesIO,
    central: io.BytesIO,
    entry: zipfile.ZipInfo,
    data: bytes,
    packed: bytes,
    stamp: tuple[int, ...],
) -> None:
    """One file and its line of the directory (APPNOTE.TXT, 4.3.7 and 4.3.12)."""
    name = entry.filename.encode()
    day = (stamp[0] - 1980) << 9 | stamp[1] << 5 | stamp[2]
    second = stamp[3] << 11 | stamp[4] << 5 | stamp[5] // 2
    utf8 = 0 if name.isascii() else 0x800
    common = struct.pack(
        "<5H3L2H", 20, utf8, zipfile.ZIP_DEFLATED, second, day, zlib.crc32(data), len(packed), len(data), len(name), 0
    )
    central.write(b"PK\1\2" + struct.pack("<H", 3 << 8 | 20) + common)
    central.write(struct.pack("<3H2L", 0, 0, 0, entry.external_attr, out.tell()) + name)
    out.write(b"PK\3\4" + common + name + packed)
