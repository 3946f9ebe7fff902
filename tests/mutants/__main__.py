"""Prints how many single-line changes the tests notice, and which they do not: ``python -m mutants [FILE …]``."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from mutants.changes import Change, changes, files
from mutants.covered import Covered, covered
from mutants.equal import why_equal
from mutants.trial import killed, warm

FEW = 40
"""Tests that are tried first, the quickest: most changes fall there."""


def _alive(change: Change, known: Covered) -> str:
    """Why a change is alive; empty where the tests notice it."""
    tests = known.of(change.path, change.line)
    if not tests:
        return "no test runs it"
    for some in (tests[:FEW], tests[FEW:]):
        if some and killed(change, some, sum(known.seconds[one] for one in some)):
            return ""
    return "the tests that run it pass"


def _part(chosen: Sequence[Change], known: Covered | None, tests: Sequence[str], pipe: int) -> None:
    """In a child: try changes, and write a line for each."""
    with os.fdopen(pipe, "w", buffering=1) as out:
        for change in chosen:
            why = _alive(change, known) if known else "" if killed(change, tests, 60) else "the tests pass"
            out.write(f"{change.path}\t{change.number}\t{why}\n")
    os._exit(0)


def main() -> None:
    """Try the changes, and report the share that the tests notice and the rest."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--sample", type=int, help="try so many changes, drawn by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", help="try these test files, instead of what a traced run of all shows")
    parser.add_argument("files", nargs="*", help="parts of names of files; all where none is given")
    args = parser.parse_args()
    paths = [path for path in files() if not args.files or any(one in path for one in args.files)]
    every = [one for path in paths for one in changes(path) if not why_equal(one)]
    chosen = random.Random(args.seed).sample(every, min(args.sample or len(every), len(every)))
    started = time.monotonic()
    warm()
    known = None if args.tests else covered()
    read, write = os.pipe()
    for job in range(args.jobs):
        if not os.fork():
            os.close(read)
            _part(chosen[job :: args.jobs], known, args.tests, write)
    os.close(write)
    named = {(one.path, one.number): one for one in chosen}
    alive: list[tuple[Change, str]] = []
    tried: Counter[str] = Counter()
    lived: Counter[str] = Counter()
    # Ctrl-C ends it early, with the table of what was tried.
    with suppress(KeyboardInterrupt), os.fdopen(read) as lines:
        for line in lines:
            path, number, why = line.rstrip("\n").split("\t")
            tried[path] += 1
            lived[path] += bool(why)
            if why:
                alive.append((named[path, int(number)], why))
                print(f"alive: {alive[-1][0]} ({why}); {tried.total()} tried", flush=True)
    print("\n| file | changes | killed |\n| --- | --- | --- |")
    for path in sorted(tried):
        print(f"| {path.removeprefix('python/hwdyno/')} | {tried[path]} | {1 - lived[path] / tried[path]:.0%} |")
    total = tried.total()
    share = 1 - len(alive) / max(1, total)
    print(f"\n{share:.1%} of {total} changes killed in {time.monotonic() - started:.0f} s; {len(alive)} alive")
    sys.exit(0 if total else 2)


if __name__ == "__main__":
    main()
