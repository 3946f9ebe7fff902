"""Prints how many single-line changes the tests notice, and which they do not: ``python -m mutants [FILE …]``.

A change is tried in a fork of a process that has collected all tests, with those that run its line, the quickest first,
until one fails. What only a new import shows is tried again in a process that imports it anew.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from mutants import resident
from mutants.changes import Change, changes, files, thresholds
from mutants.covered import SCRATCH, TESTS, Covered, kept, left_out, record, test_files
from mutants.equal import why_equal
from mutants.trial import killed, warm

BUDGET_S = 45.0
"""Tests that are tried on a change, by what they take without it; one that lives through them counts as alive."""
PASS = ("alive", "untested")


def _apart(body: Callable[[Callable[[int, str], None]], None]) -> tuple[int, int]:
    """Do it in a fork that sends numbers with words: its end of a pipe, and the fork."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return read, child
    status = 1
    try:
        os.close(read)
        with os.fdopen(write, "w", buffering=1) as out:
            body(lambda number, word: print(number, word, file=out, flush=True))
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        os._exit(status)


def _words(pipe: int) -> Iterator[tuple[int, str]]:
    with os.fdopen(pipe) as lines:
        for line in lines:
            number, word = line.split()
            yield int(number), word


def _anew(
    chosen: Sequence[Change],
    numbers: Sequence[int],
    known: Covered,
    budget_s: float,
    report: Callable[[int, str], None],
) -> None:
    """Try changes, each in a process that imports the product with it."""
    for number in numbers:
        change = chosen[number]
        tests = resident.within(known, known.of(change.path, change.line), budget_s)
        if not tests:
            report(number, "untested")
            continue
        ended = killed(change, tests, sum(known.seconds[one] for one in tests))
        report(number, {"fails": "killed", "hangs": "hangs", "": "alive"}[ended])


def interval(share: float, count: int) -> tuple[float, float]:
    """Clopper & Pearson's 95% interval of a share."""
    from scipy.stats import beta

    hits = round(share * count)
    low = float(beta.ppf(0.025, hits, count - hits + 1)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 1, count - hits)) if hits < count else 1.0
    return low, high


def main() -> None:
    """Try the changes, and report the share that the tests notice and the rest."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("--sample", type=int, help="try so many changes, drawn by the seed, instead of all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds of tests that are tried on a change")
    parser.add_argument("--least", type=float, default=0.0, help="fail where a smaller share is killed")
    parser.add_argument("--thresholds", action="store_true", help="move named numbers by a tenth instead")
    parser.add_argument("--again", type=Path, help="try those changes alone that such a run printed into this file")
    parser.add_argument("--tests", nargs="+", metavar="NAME", help="try with tests/test_NAME.py alone")
    parser.add_argument("files", nargs="*", help="parts of names of files; all where none is given")
    args = parser.parse_args()
    paths = [path for path in files() if not args.files or any(one in path for one in args.files)]
    of_file = thresholds if args.thresholds else changes
    every = [one for path in paths for one in of_file(path) if not why_equal(one)]
    if args.again:
        printed = {line.partition(": ")[2] for line in args.again.read_text().splitlines()}
        every = [one for one in every if str(one) in printed]
    chosen = random.Random(args.seed).sample(every, min(args.sample, len(every))) if args.sample else every
    started = time.monotonic()
    outcome = _outcomes(chosen, test_files(args.tests or TESTS), args.jobs, args.budget)
    print("\n| file | changes | killed |\n| --- | --- | --- |")
    for path in sorted({chosen[number].path for number in outcome}):
        words = Counter(word for number, word in outcome.items() if chosen[number].path == path)
        dead = words.total() - sum(words[word] for word in PASS)
        print(f"| {path.removeprefix('python/hwdyno/')} | {words.total()} | {dead / words.total():.0%} |")
    words = Counter(outcome.values())
    total = words.total()
    dead = total - sum(words[word] for word in PASS)
    share = dead / max(1, total)
    low, high = interval(share, total)
    print(
        f"\n{dead} of {total} changes killed ({share:.1%}, 95% interval {low:.1%} to {high:.1%}; {words['hangs']} by a "
        f"hang) in {time.monotonic() - started:.0f} s; seed {args.seed}, of {len(every)} changes"
    )
    sys.exit(0 if total and share >= args.least else 2)


def _outcomes(chosen: Sequence[Change], tests: Sequence[str], jobs: int, budget_s: float) -> dict[int, str]:
    """What became of each change; Ctrl-C ends it early."""
    outcome: dict[int, str] = {}
    again = []
    with suppress(KeyboardInterrupt):
        _, child = _apart(lambda report: record(jobs, tests))
        if os.waitpid(child, 0)[1]:
            raise SystemExit("the tests could not be recorded")
        for name in left_out(tests):
            print(f"left out, as it fails without any change: {name}", flush=True)
        pipe, child = _apart(lambda report: resident.run(chosen, tests, jobs, budget_s, report))
        for number, word in _words(pipe):
            if word == "elsewhere":
                again.append(number)
            else:
                outcome[number] = word
                _print_passed(chosen[number], word)
        os.waitpid(child, 0)
        shutil.rmtree(SCRATCH, ignore_errors=True)
        print(f"{len(outcome)} changes were decided without a new import, {len(again)} were not", flush=True)
        known = kept(tests)
        warm()
        parts = [
            _apart(lambda report, job=job: _anew(chosen, again[job::jobs], known, budget_s, report))  # type: ignore[misc]
            for job in range(jobs)
        ]
        for pipe, child in parts:
            for number, word in _words(pipe):
                outcome[number] = word
                _print_passed(chosen[number], word)
            os.waitpid(child, 0)
    return outcome


def _print_passed(change: Change, word: str) -> None:
    if word in PASS:
        print(f"{word}: {change}", flush=True)


if __name__ == "__main__":
    main()
