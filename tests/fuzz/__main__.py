"""Fuzzes each reader for some seconds, guided by coverage (atheris), from its seeds and the kept corpus.

``python -m fuzz --seconds 10 [--keep] [TARGET …]``, with an interpreter that has atheris; ``make fuzz`` makes one. Each
reader runs in a separate process. What fails is written to ``target/fuzz`` and named; ``--keep`` adds inputs that reach
new code to ``tests/data/fuzz-corpus``, the smallest first, up to a limit.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fuzz import libfuzzer

ROOMS = ("foreign", "formats", "peers", "units", "sweep", "plan", "store", "machine")
"""Where new code is looked for; what becomes of a Run after it was read is not what is fuzzed."""
LONGEST_INPUT = 24 << 10


def _child(name: str, options: Sequence[str]) -> None:
    """Run one target's loop in this process; it never returns."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=[f"hwdyno.{room}" for room in ROOMS]):
        targets = importlib.import_module("fuzz.targets")
    target = next(candidate for candidate in targets.TARGETS if candidate.name == name)
    atheris.Setup([sys.argv[0], *options], target)
    atheris.Fuzz()


def _words(words: Sequence[str]) -> str:
    """A dictionary as libFuzzer reads it."""
    lines = []
    for word in dict.fromkeys(words):
        data = word.encode()
        if 0 < len(data) <= 64:
            lines.append('"' + "".join(f"\\x{byte:02x}" for byte in data) + '"')
    return "\n".join(lines) + "\n"


def _fuzz(name: str, seconds: int, keep: bool) -> libfuzzer.Outcome:
    """Fuzz one reader."""
    mutation, targets = importlib.import_module("fuzz.mutation"), importlib.import_module("fuzz.targets")
    target = next(candidate for candidate in targets.TARGETS if candidate.name == name)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        corpus, words = Path(folder) / "corpus", Path(folder) / "words"
        corpus.mkdir()
        seeds = [*target.corpus(), *(path.read_bytes() for path in target.failed())]
        for number, data in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(data)
        for number, data in enumerate(target.kept()):
            (corpus / f"kept-{number}").write_bytes(data)
        words.write_text(_words([*target.words, *mutation.WORDS, *mutation.NUMBERS]))
        command = [sys.executable, "-W", "ignore", "-m", "fuzz", "--child", name]
        outcome = libfuzzer.run(name, command, corpus, words, seconds=seconds, longest=LONGEST_INPUT, env={})
        if outcome.failed:
            _, _, raised = outcome.output.partition("=== Uncaught Python exception: ===")
            print("\n".join(raised.splitlines()[:30]))
        elif keep:
            libfuzzer.keep(targets.KEPT / f"{name}.txt", corpus, repr)
        return outcome


def main() -> int:
    """Fuzz the targets that are named, or all."""
    if sys.argv[1:2] == ["--child"]:
        _child(sys.argv[2], sys.argv[3:])
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=18, help="for each reader")
    parser.add_argument("--keep", action="store_true", help="keep inputs that reach new code")
    parser.add_argument("targets", nargs="*")
    args = parser.parse_args()
    known = [target.name for target in importlib.import_module("fuzz.targets").TARGETS]
    if unknown := set(args.targets) - set(known):
        parser.error(f"no target is called {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    failed = False
    for name in args.targets or known:
        outcome = _fuzz(name, args.seconds, args.keep)
        failed |= bool(outcome.failed)
        libfuzzer.report(name, outcome)
    if failed:
        print("Move each failing input to tests/data/fuzz-failed/TARGET/, where a test runs it, and mend the reader.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
