"""Runs a libFuzzer program on one reader from its seeds, and reads what it did and what it failed on."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOUND = ROOT / "target" / "fuzz"
"""The inputs on which a reader failed, by reader."""
MAX_KEPT_BYTES = 8 << 10
"""Limit of each reader's inputs; all of them together stay below 700 kB."""
SLOWEST_S = 10
"""Limit for one input."""


@dataclass(frozen=True)
class Outcome:
    """What came of fuzzing one reader."""

    executed: int
    """Inputs that were run."""
    failed: tuple[Path, ...]
    """Inputs on which it failed."""
    output: str
    """All that the program printed."""


def run(
    name: str, command: Sequence[str], corpus: Path, words: Path, *, seconds: int, longest: int, env: Mapping[str, str]
) -> Outcome:
    """Fuzz the reader ``name`` by ``command`` for ``seconds``; inputs that reach new code are added to ``corpus``."""
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    options = [
        *(f"-max_total_time={seconds}", f"-timeout={SLOWEST_S}", f"-max_len={longest}"),
        # It takes an empty dictionary for a mistake.
        *((f"-dict={words}",) if words.stat().st_size else ()),
        *(f"-artifact_prefix={found}/", "-print_final_stats=1", "-rss_limit_mb=2048", str(corpus)),
    ]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, errors="replace", check=False, env={**os.environ, **env}
    )
    executed = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    failed = re.findall(r"Test unit written to (\S+)", done.stderr)
    if done.returncode and not failed:
        raise SystemExit(f"{name}: the fuzzer itself failed: {done.stderr[-2000:]}")
    return Outcome(int(executed[1]) if executed else 0, tuple(map(Path, failed)), done.stdout + done.stderr)


def keep(path: Path, corpus: Path, format_line: Callable[[bytes], str]) -> None:
    """Keep the inputs that reach something new, the smallest first, a line each."""
    known = ("seed-", "failed-")
    fresh = sorted((file.read_bytes() for file in corpus.iterdir() if not file.name.startswith(known)), key=len)
    lines: list[str] = []
    for data in fresh:
        lines.append(format_line(data))
        if sum(map(len, lines)) > MAX_KEPT_BYTES:
            lines.pop()
            break
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def report(name: str, outcome: Outcome) -> None:
    """Print a line on one reader."""
    failed = "".join(f"  FAILED on {file}" for file in outcome.failed)
    print(f"{name:18} {outcome.executed:9,} inputs{failed}", flush=True)
