"""The files of a folder of results, within limits: no link is followed, and what was not read is counted."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hwdyno.model.units import format_size, plural
from hwdyno.model.words import UserError
from hwdyno.system import foreign

MAX_ENTRIES = 500_000
"""Files and folders that a walk looks at; the 2024 results of all submitters together have 16,000, and one checkpoint
run of 2026 with 1,024 ranks has 2,048."""
MAX_DEPTH = 24
"""Levels below the folder. A submission's deepest file is at level 11."""
LARGEST_FILE = 8 << 20
"""A summary has kilobytes; a file of samples over time may have a gigabyte."""
MAX_READ, MAX_SLOW = 1 << 30, 4 << 20
"""Bytes that are read of a folder, and how much of it may be YAML, whose parser takes a second for 300 kB. The metadata
of one run of 2026 has 40 kB to 2.4 MB, by its hosts."""


@dataclass(slots=True)
class ResultFolder:
    """The regular files below a folder by their paths, and which of them were read."""

    root: Path
    files: tuple[str, ...] = ()
    """Paths below the root, sorted, with ``/`` between names."""
    left_out: list[str] = field(default_factory=list)
    """A phrase each: what was no regular file, too deep, or more than a walk looks at."""
    _read: set[str] = field(default_factory=set)
    _left: int = MAX_READ
    _slow_left: int = MAX_SLOW

    @classmethod
    def walk(cls, root: Path) -> ResultFolder:
        """The files below a folder. Raises ``UserError`` where the folder itself cannot be read."""
        folder, found, seen = cls(root), list[str](), 0
        waiting = [("", 0)]
        while waiting:
            below, depth = waiting.pop()
            try:
                with os.scandir(root / below) as entries:
                    inside = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                if not below:
                    raise UserError(f"cannot read {root}: {(error.strerror or str(error)).lower()}") from None
                folder.left_out.append(f"{below}: {(error.strerror or str(error)).lower()}")
                continue
            for entry in inside:
                seen += 1
                name = f"{below}/{entry.name}".lstrip("/")
                if seen > MAX_ENTRIES:
                    folder.left_out.append(f"all after {plural(MAX_ENTRIES, 'file')}: name a smaller folder")
                    waiting.clear()
                    break
                if entry.is_symlink():
                    folder.left_out.append(f"{name}: a link")
                elif entry.is_file(follow_symlinks=False):
                    found.append(name)
                elif not entry.is_dir(follow_symlinks=False):
                    folder.left_out.append(f"{name}: no regular file")
                elif depth >= MAX_DEPTH:
                    folder.left_out.append(f"{name}: more than {MAX_DEPTH} levels deep")
                else:
                    waiting.append((name, depth + 1))
        folder.files = tuple(sorted(found))
        return folder

    def text(self, name: str, most: int = LARGEST_FILE, *, is_slow: bool = False) -> str:
        """The text of one of its files, which is slow to parse where it is YAML. Raises ``UserError`` in one line."""
        try:
            # Nothing waits where a named pipe took the file's place meanwhile.
            descriptor = os.open(self.root / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise UserError(f"{name}: no regular file")
                if status.st_size > most:
                    raise UserError(f"{name} is too large for its kind ({format_size(status.st_size)})")
                if status.st_size > (self._slow_left if is_slow else self._left):
                    raise UserError(f"{name}: more than is read of one folder; name a smaller one")
                data = foreign.read_at_most(file, most)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
        self._read.add(name)
        self._left -= len(data)
        self._slow_left -= len(data) if is_slow else 0
        return data.decode(errors="replace")

    def list_unread(self) -> Sequence[str]:
        """The files that nothing has read, sorted."""
        return [name for name in self.files if name not in self._read]
