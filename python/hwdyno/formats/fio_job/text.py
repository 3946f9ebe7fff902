"""Parses the text of a job file: sections and inheritance, included files, variables and keywords."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from hwdyno.formats import fio_options
from hwdyno.formats.fio_job.reader import JobOption
from hwdyno.model.words import UserError

LARGEST_BYTES = 1 << 20
"""A larger job file is refused."""
DEEPEST_INCLUDE = 16
MAX_INCLUDES = 256
"""Largest number of includes in all: files that include each other many times over would never end."""
_MACHINE: dict[str, Callable[[], int]] = {
    "pagesize": lambda: os.sysconf("SC_PAGE_SIZE"),
    "mb_memory": lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
    "ncpus": lambda: os.cpu_count() or 1,
}

Open = Callable[[str], str]
"""Reads the text of a file that a job file names; raises ``OSError``."""


def no_files(name: str) -> str:
    """Refuse to open any file."""
    raise FileNotFoundError(2, "no such file", name)


def sections(
    text: str, name: str, environment: Mapping[str, str], included: Open
) -> list[tuple[str, int, dict[str, JobOption]]]:
    """Title, line and keys of each job, including the keys of every [global] before it."""
    shared: dict[str, JobOption] = {}
    found: list[tuple[str, int, dict[str, JobOption]]] = []
    current: dict[str, JobOption] | None = None
    for line, where, number in _lines(text, name, included):
        if line.startswith("["):
            title, closed, tail = line[1:].partition("]")
            if not closed or not title.strip() or tail.strip():
                raise UserError(f"{where}:{number}: '{line}' is not a section; write [name]")
            if title.strip().lower() == "global":
                current = shared
            else:
                current = dict(shared)
                found.append((title.strip(), number, current))
            continue
        if current is None:
            raise UserError(f"{where}:{number}: '{line}' is before the first section; write [global] above it")
        key, _, value = line.partition("=")
        key = key.strip().lower()
        entry = JobOption(
            _expand_value(value.strip(), where, number, environment), number, "" if where == name else where
        )
        current[fio_options.ALIASES.get(key, key)] = entry
    return found


def _lines(
    text: str, name: str, included: Open, opened: list[str] | None = None, depth: int = 0
) -> list[tuple[str, str, int]]:
    """Lines without comments, each with file and line number; included files are expanded in place."""
    found: list[tuple[str, str, int]] = []
    opened = [] if opened is None else opened
    if "\0" in text:
        raise UserError(f"{name} is not a job file: it has a NUL byte")
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split("[#;]", raw, maxsplit=1)[0].strip()
        if not line.startswith("include "):
            if line:
                found.append((line, name, number))
            continue
        other = line.removeprefix("include ").strip()
        if depth >= DEEPEST_INCLUDE:
            raise UserError(
                f"{name}:{number}: include {other} is the {DEEPEST_INCLUDE + 1}th inside another; one is enough"
            )
        opened.append(other)
        if len(opened) > MAX_INCLUDES:
            raise UserError(f"{name}:{number}: include {other}: more than {MAX_INCLUDES} files are included")
        try:
            inner = included(other)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{name}:{number}: include {other}: {str(why).lower()}") from None
        if len(inner) > LARGEST_BYTES:
            raise UserError(f"{name}:{number}: include {other}: it is too large for a job file")
        found += _lines(inner, other, included, opened, depth + 1)
    return found


def _expand_value(value: str, name: str, line: int, environment: Mapping[str, str]) -> str:
    def look_up(match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found is None:
            raise UserError(
                f"{name}:{line}: the environment variable {match[1]} is not set; set it, or write the value"
            )
        return found

    value = re.sub(r"\$\{(\w+)\}", look_up, value).strip("\"'")
    return re.sub(r"\$(pagesize|mb_memory|ncpus)\b", lambda match: str(_MACHINE[match[1]]()), value)
