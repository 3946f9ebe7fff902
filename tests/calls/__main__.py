"""Keeps calls: ``PYTHONPATH=tests:python python -m calls --write``, or ``--choose [--jobs 2]`` for others.

``--write`` keeps the calls that are there and takes what they come to anew; what then differs is to be read.
``--choose`` runs the tests, takes the calls that they make, changes single values in them, and keeps those by which
single-line changes of the product show. It takes an hour and a half on two processors; a step can be repeated alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import pickle
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from mutants.changes import ROOT, Change, changes, files, thresholds
from mutants.covered import CHOSEN, test_files
from mutants.equal import why_equal
from mutants.trial import Finder

from calls.kept import Call, comes_to, kept, write
from calls.nudged import nudged
from calls.taken import Taker, entering
from calls.written import Tree

SCRATCH = ROOT / "target/calls"
SMALLEST, OTHERS = 80, 40
"""Of a function's calls, those that are tried: small ones, and some of the rest."""
LARGEST, LARGEST_TEXT = 12_000, 6_000
"""Characters of a kept call's arguments, and of what it comes to."""
STEPS = ("take", "gather", "pick", "search", "pick")


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="calls", description=__doc__)
    parser.add_argument("--write", action="store_true", help="take anew what the kept calls come to")
    parser.add_argument("--choose", nargs="*", choices=STEPS, help="choose other calls, by all steps or these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write == (args.choose is not None):
        parser.error("one of --write and --choose")
    if args.write:
        rewrite()
    elif args.part is not None:
        {"take": _take, "gather": _gather, "pick": _pick, "search": _search}[args.choose[0]](args.part, args.jobs)
    else:
        for step in args.choose or STEPS:
            _in_parts(step, args.jobs)
        calls, alive = _picked()
        write(_small(calls))
        print(*alive, sep="\n")


def rewrite() -> None:
    """Write what the kept calls come to now; those that can no longer be made are left out and named."""
    found: list[Call] = []
    for one in (one for calls in kept().values() for one in calls):
        try:
            text = comes_to(one.function, nudged(one.arguments, one.nudges))
        except Exception as error:  # A function or field is gone, or the values no longer fit it.
            print(f"left out: {one.function}: {type(error).__name__}: {error}")
            continue
        found.append(Call(one.function, one.arguments, one.nudges, text))
    write(found)


def _in_parts(step: str, jobs: int) -> None:
    """Perform a step in as many processes."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "calls", "--choose", step, "--jobs", str(jobs), "--part"]
    parts = [subprocess.Popen([*command, str(part)], cwd=ROOT) for part in range(jobs)]
    statuses = [part.wait() for part in parts]
    if any(statuses):
        raise SystemExit(f"the step '{step}' failed")


def _take(part: int, jobs: int) -> None:
    for path in files():
        sys.meta_path.insert(0, Finder(path, entering(path)))
    taker = Taker()
    options = ["-q", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "--no-header"]
    pytest.main([*options, "--disable-warnings", *CHOSEN, *test_files()[part::jobs]], plugins=[taker])
    calls = {name: list(found.values()) for name, found in taker.calls.items()}
    (SCRATCH / f"taken{part}.json").write_text(json.dumps(calls))


def _gather(part: int, jobs: int) -> None:
    from calls.chosen import gather

    for path in (*SCRATCH.glob("picked*"), *SCRATCH.glob("searched*")):
        path.unlink(missing_ok=True)
    _store(f"gathered{part}", gather(part, jobs, _trees()))


def _search(part: int, jobs: int) -> None:
    """More candidates of the functions whose changes no call shows."""
    from calls.chosen import search

    places = [(one.path, one.line) for one in _alive()]
    _store(f"searched{part}", search(part, jobs, _trees(), places))


def _pick(part: int, jobs: int) -> None:
    """Calls for all changes, or for those that the calls of a first time do not show."""
    from calls.chosen import Choice, choose

    candidates = [one for found in _stored("searched") or _stored("gathered") for one in found]
    known = _picked()[0]
    todo = _alive() if known else _todo()
    picked = choose(part, jobs, Choice(candidates, _taken()), todo)
    _store(f"picked-{'again' if known else 'first'}{part}", picked)


def _picked() -> tuple[list[Call], list[str]]:
    """All calls that were picked, and the changes that none of them shows."""
    first, again = _stored("picked-first"), _stored("picked-again")
    calls = [one for found, _ in (*first, *again) for one in found]
    return calls, [one for _, alive in again or first for one in alive]


def _small(calls: Sequence[Call]) -> list[Call]:
    """Each call once, with as few arguments as show the same; those that are large all the same are left out."""
    from calls.chosen import Caches, shrunk

    Caches.find()
    of_base: dict[tuple[str, str], dict[str, Call]] = defaultdict(dict)
    for one in calls:
        of_base[one.function, json.dumps(one.arguments)][json.dumps(one.nudges)] = one
    found = [one for key in sorted(of_base) for one in shrunk(list(of_base[key].values()))]
    return [one for one in found if len(json.dumps(one.arguments)) <= LARGEST and len(one.text) <= LARGEST_TEXT]


def _alive() -> list[Change]:
    """The changes that no call that was picked shows."""
    alive = {one.partition(": ")[2] for one in _picked()[1]}
    return [one for one in _todo() if str(one) in alive]


def _stored(name: str) -> list[Any]:
    found = []
    for path in sorted(SCRATCH.glob(f"{name}[0-9]*.pickle")):
        with path.open("rb") as file:
            found.append(pickle.load(file))
    return found


def _store(name: str, value: object) -> None:
    with (SCRATCH / f"{name}.pickle").open("wb") as out:
        pickle.dump(value, out)


def _trees() -> dict[str, list[Tree]]:
    trees = {name: list(map(json.loads, texts)) for name, texts in _taken().items()}
    gc.collect()
    gc.freeze()
    return trees


def _todo() -> Sequence[Change]:
    """All changes, in any order."""
    found = [
        one for path in files() for of_file in (changes, thresholds) for one in of_file(path) if not why_equal(one)
    ]
    random.Random(1).shuffle(found)
    return found


def _taken() -> dict[str, list[str]]:
    """By function: some of the calls that the tests made, as JSON."""
    found: dict[str, set[str]] = {}
    for path in sorted(SCRATCH.glob("taken*.json")):
        for name, trees in json.loads(path.read_text()).items():
            found.setdefault(name, set()).update(map(json.dumps, trees))
    return {name: _some(texts) for name, texts in found.items()}


def _some(texts: set[str]) -> list[str]:
    ordered = sorted(texts, key=lambda one: (len(one), one))
    rest = ordered[SMALLEST:]
    return ordered[:SMALLEST] + random.Random(len(ordered)).sample(rest, min(OTHERS, len(rest)))


if __name__ == "__main__":
    main()
