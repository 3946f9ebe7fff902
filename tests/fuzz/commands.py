"""Command lines, environments and stored files that are nearly right, as a user or a broken disk makes them."""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hwdyno.cli.help import list_options, spelling
from hwdyno.cli.main import commands, make_parser

from fuzz.mutation import NUMBERS, WORDS, mutants

ENDLESS = {"serve"}
"""Commands that wait for a browser."""
NEVER = {"--peers", "--server", "--destroy", "--url", "--port"}
"""Options that start programs or wait for another machine, and the raw device's."""
FILES = (
    "run.json",
    "bad.json",
    "torn.json",
    "table.csv",
    "text.txt",
    "job.fio",
    "plan.toml",
    "empty",
    "folder",
    "gone",
)
VALUES = (
    *("4k", "1..8", "1,2,4", "4k..1M", "0..8+2", "64", "100ms", "2s", "0.5", "1G", "read", "randread", "randrw:50"),
    *("quick", "full", "last", "storage", "memory", "storage.iodepth", "iodepth", "all", "on", "off", "auto", "none"),
    *("bandwidth", "read=5 GB/s", "rated read 150 MB/s", "PCIe 3 x4", "SATA II", "a=b", "a=b=c", "1%", "90", "knee"),
    *("unet3d", "llama3-8b", "tiny", "diskann", "raw,mapped", "127.0.0.1", "::1", "host:1", "@1", ".", "/", "-", "--"),
)
ENVIRONMENT = {
    "HWDYNO_HOME": ("", "~", "~nobody", "~no-such-user", "/dev/null", "/proc", "home", "x\ny", "é" * 300),
    "HWDYNO_STORE": ("", "home", "gone", "postgresql://", "postgresql://u:p@127.0.0.1:1/d", "mysql://u:p@h/d", "://"),
    "HWDYNO_AGENTS": ("", " ", "/no/such/program", "'", "true", "a;b", ";;"),
    "HWDYNO_RENDEZVOUS": ("", "x", "127.0.0.1", "127.0.0.1:99999"),
    "COLUMNS": ("0", "1", "7", "-3", "40", "99999", "x", ""),
    "LINES": ("0", "x"),
    "TERM": ("", "dumb", "nonsense"),
    "NO_COLOR": ("1", ""),
    "FORCE_COLOR": ("1", ""),
    "TMPDIR": ("gone", "", "/proc"),
    "XDG_DATA_HOME": ("", "gone", "/dev/null", "x" * 5000),
    "HOME": ("", "/nowhere", "gone"),
    "PATH": ("", "gone", "/dev/null"),
    "TZ": ("", "Nowhere/At_All", "UTC+99"),
    "SOURCE_DATE_EPOCH": ("x",),
    "HWDYNO_BLAS": ("gone", "empty"),
    "HWDYNO_LOADER_PYTHON": ("gone",),
}


@dataclass(frozen=True)
class Case:
    """A command line with what it meets."""

    words: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " ".join([*(f"{name}={value!r}" for name, value in self.environment), "hwdyno", *map(repr, self.words)])


@cache
def options(name: str) -> tuple[argparse.Action, ...]:
    """The options of a command that start nothing."""
    return tuple(action for action in list_options(make_parser(name)) if spelling(action) not in NEVER)


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield ``count`` cases; the same seed gives the same ones."""
    rng = random.Random(seed)
    names = [name for name in commands() if name not in ENDLESS]
    for _ in range(count):
        name = rng.choice(names)
        words = [name, *_arguments(rng, name)]
        if "--dry-run" in map(spelling, options(name)) and "--dry-run" not in words and rng.random() < 0.85:
            words.append("--dry-run")
        if rng.random() < 0.05:
            words.insert(rng.randrange(len(words) + 1), _value(rng))
        changed = rng.sample(sorted(ENVIRONMENT), rng.choice((0, 0, 0, 1, 1, 2, 3)))
        yield Case(
            tuple(word.replace("\0", "") for word in words),
            tuple((variable, rng.choice(ENVIRONMENT[variable])) for variable in changed),
        )


def _arguments(rng: random.Random, name: str) -> list[str]:
    guide = make_parser(name).guide
    if guide.examples and rng.random() < 0.4:
        words = rng.choice(guide.examples).partition(" #")[0].split()[2:]
        words = [word.strip("'\"") for word in words if word not in NEVER]
        if words and rng.random() < 0.6:
            words[rng.randrange(len(words))] = _value(rng)
        return words
    words = []
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 5))):
        words.append(_value(rng))
    for action in rng.choices(options(name), k=rng.choice((0, 1, 1, 2, 3, 4))) if options(name) else []:
        words.append(spelling(action))
        if action.nargs != 0:
            words.append(
                str(rng.choice(list(action.choices))) if action.choices and rng.random() < 0.7 else _value(rng)
            )
    return words


def _value(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return rng.choice(FILES)
    if kind < 0.75:
        return rng.choice(VALUES)
    if kind < 0.9:
        return rng.choice(NUMBERS) + rng.choice(("", "", "k", "s", "%", "GB/s", "..", ","))
    return rng.choice(WORDS) + rng.choice(("", rng.choice(VALUES)))


def lay_out(place: Path, document: bytes, rng: random.Random, index: Callable[[Path], None]) -> None:
    """Write the files that cases name, and a home whose documents and index are nearly right; ``index`` makes one."""
    for name in ("folder", "home"):
        shutil.rmtree(place / name, ignore_errors=True)
    (place / "folder").mkdir()
    runs = place / "home" / "runs"
    runs.mkdir(parents=True)
    broken = list(mutants([document], ["schema", "experiments", "points"], 6, rng.randrange(1 << 30)))
    contents: dict[str, bytes] = {
        "run.json": document, "bad.json": broken[0], "torn.json": document[: rng.randrange(len(document))],
        "table.csv": b"test,MB/s\nread,3000\nwrite,x\n", "text.txt": b"read 5 GB/s\n\xff\n", "empty": b"",
        "job.fio": b"[a]\nrw=randread\nsize=4m\nruntime=1\n", "plan.toml": b"profile = 'quick'\n",
    }  # fmt: skip
    for name, content in contents.items():
        (place / name).write_bytes(content)
    identity = _identity(document)
    for number, content in enumerate([document, *broken[1:]]):
        if rng.random() < 0.7:
            named = f"20260101-00000{number}-{number:04x}"
            (runs / f"{named}.json").write_bytes(content.replace(identity, named.encode()))
    index(place / "home")
    stored = place / "home" / "index.sqlite"
    if stored.exists() and rng.random() < 0.5:
        damaged = bytearray(stored.read_bytes())
        for _ in range(rng.choice((1, 1, 5, 50))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        stored.write_bytes(damaged[: rng.choice((len(damaged), len(damaged), rng.randrange(len(damaged))))])


def _identity(document: bytes) -> bytes:
    import json

    found: Sequence[str] = [json.loads(document)["id"]]
    return found[0].encode()
