"""A results folder in one input: each file is a line ``=== PATH`` and its text below it."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from hwdyno import formats
from hwdyno.explain.findings import explain
from hwdyno.system.store import from_json, to_json

MAX_FILES = 40
_FILE = re.compile(r"^=== ([A-Za-z0-9_./-]{1,120})\n", re.M)


def write_folder(text: str, root: Path) -> None:
    """Write the files of an input below a folder; paths that lead out of it are left out."""
    _, *parts = _FILE.split(text)
    for name, content in list(zip(parts[::2], parts[1::2], strict=True))[:MAX_FILES]:
        path = root / name.lstrip("/")
        if ".." in path.parts or path.is_dir() or any(above.is_file() for above in path.parents):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            path.write_text(content)


def read_results(data: bytes) -> None:
    """Read a folder as ``hwdyno audit`` does, judge it and store it."""
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    try:
        write_folder(data.decode(errors="replace"), root)
        run = explain(formats.read_folder(root))
    finally:
        shutil.rmtree(root)
    document = to_json(run)
    assert from_json(document.encode()) == run, "it is another Run after it was stored"
    assert all(point.throughput.value > 0 for result in run.experiments for point in result.points)
