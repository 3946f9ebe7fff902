"""Which tests fail when a rule finds nothing: ``PYTHONPATH=tests:python python -m disabled_rules [RULE …]``.

All tests that name a rule are collected once. A fork for each rule disables its function and runs the tests that name
it until one fails that passes with the rule. A rule that no test misses is printed as NO TEST MISSES IT, with status 1.
"""

from __future__ import annotations

import argparse
import ast
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TextIO

import pytest
from _pytest.runner import runtestprotocol
from hwdyno.explain.findings import all_rules
from hwdyno.explain.findings.applies import Rule

ROOT = Path(__file__).parents[1]
HEAVY = ("machine", "browser", "peer", "slow", "long")
"""Markers of tests that are run only for a rule that no other test names."""
MAX_RULE_S = 240.0
"""A fork that takes longer is ended, and its rule counts as missed by no test."""
OPTIONS = (
    "-p",
    "no:terminal",
    "-o",
    "addopts=",
    "-o",
    "timeout=0",
    "--strict-markers",
    "--capture=no",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
)
NEAR, FAR = 0, 1
"""A test names a rule by itself or by its parameters, or by something of its file that it uses."""
MAX_DEPTH = 6
"""Depth of containers in a test's parameters."""


def disable(rule: Rule) -> None:
    """Let the rule's function find nothing, wherever it was imported to."""
    assert isinstance(rule.check, FunctionType), rule.name
    rule.check.__code__ = _finds_nothing.__code__


def _finds_nothing(*_args: object, **_options: object) -> None:
    return None


def rule_words(rule: Rule) -> frozenset[str]:
    """The rule's name and its function's."""
    return frozenset({rule.name, getattr(rule.check, "__name__", rule.name)})


@cache
def definitions(path: Path) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """What a file defines at its top, and methods: the words that each contains, and the names that it uses."""
    found: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
    tree = ast.parse(path.read_text())
    inside = [statement for top in tree.body if isinstance(top, ast.ClassDef) for statement in top.body]
    for node in [*tree.body, *inside]:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            targets = [node.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            whole = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets = [part.id for target in whole for part in ast.walk(target) if isinstance(part, ast.Name)]
        else:
            continue
        parts = list(ast.walk(node))
        texts = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        names |= {part.attr for part in parts if isinstance(part, ast.Attribute)}
        names |= {part.arg for part in parts if isinstance(part, ast.arg)}  # Fixtures.
        for target in targets:
            before = found.get(target, (frozenset(), frozenset()))
            found[target] = before[0] | texts | names, before[1] | names
    return found


def used_by(path: Path, name: str) -> set[str]:
    """The definitions of a file that one of them uses, directly or not."""
    known, waiting, found = definitions(path), [name], set[str]()
    while waiting:
        used = known[waiting.pop()][1] & known.keys() - found - {name}
        found |= used
        waiting += used
    return found


def how_named(item: pytest.Item, words: frozenset[str]) -> int | None:
    """How a test names one of the words; none where it does not."""
    parameters = getattr(item, "callspec", None)
    name = getattr(item, "originalname", item.name)
    if parameters is not None and any(_has(value, words) for value in parameters.params.values()):
        return NEAR
    known = definitions(item.path)
    if name not in known:
        return None
    if known[name][0] & words:
        return NEAR
    used = used_by(item.path, name)
    return FAR if any(known[used_name][0] & words for used_name in used) else None


def _has(value: object, words: frozenset[str], depth: int = 0) -> bool:
    if isinstance(value, str):
        return value in words
    if isinstance(value, FunctionType):
        return value.__name__ in words
    if depth == MAX_DEPTH:
        return False
    if isinstance(value, Mapping):
        return any(_has(inner, words, depth + 1) for pair in value.items() for inner in pair)
    return isinstance(value, tuple | list | set | frozenset) and any(_has(inner, words, depth + 1) for inner in value)


def is_heavy(item: pytest.Item) -> bool:
    """Whether a test has a marker of those that take long or measure this machine."""
    return any(item.get_closest_marker(name) for name in HEAVY)


def naming(items: Sequence[pytest.Item], rule: Rule) -> list[pytest.Item]:
    """The tests that name a rule, the likeliest to miss it first; heavy ones where no other names it."""
    named = [(how, item) for item in items if (how := how_named(item, rule_words(rule))) is not None]
    light = [(how, item) for how, item in named if not is_heavy(item)]
    by_parameter = {id(item): _is_its_case(item, rule) for _, item in named}
    return [item for _, item in sorted(light or named, key=lambda pair: (not by_parameter[id(pair[1])], pair[0]))]


def _is_its_case(item: pytest.Item, rule: Rule) -> bool:
    parameters = getattr(item, "callspec", None)
    return parameters is not None and any(value == rule.name for value in parameters.params.values())


@dataclass(eq=False)
class Missing:
    """A plugin of pytest that finds the rules that no test misses, in place of running the tests."""

    rules: Sequence[Rule]
    jobs: int
    out: TextIO
    missed: set[str] = field(default_factory=set)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Name a file that cannot be collected, whose tests miss nothing."""
        if report.failed:
            print(f"cannot be collected: {report.nodeid}", file=self.out, flush=True)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run a fork for each rule."""
        waiting = list(self.rules)
        running: dict[int, tuple[Rule, float, int, Path]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                rule = waiting.pop(0)
                tests = naming(session.items, rule)
                answers = Path(tempfile.mkdtemp(prefix="hwdyno-disabled-"))
                child = _fork(lambda rule=rule, tests=tests, at=answers: _try(rule, tests, at), leads=True)
                running[child] = rule, time.monotonic(), len(tests), answers
            for child, (rule, began, count, answers) in list(running.items()):
                done, _ = os.waitpid(child, os.WNOHANG)
                if not done and time.monotonic() - began > MAX_RULE_S:
                    os.killpg(child, signal.SIGKILL)
                    done, _ = os.waitpid(child, 0)
                if done:
                    del running[child]
                    self._report(rule, time.monotonic() - began, count, answers)
            time.sleep(0.01)
        return True

    def _report(self, rule: Rule, took_s: float, count: int, answers: Path) -> None:
        file = answers / "missed"
        missed = file.read_text() if file.exists() else ""
        shutil.rmtree(answers, ignore_errors=True)
        if missed:
            self.missed.add(rule.name)
        else:
            missed = f"NO TEST MISSES IT, of {count} tests that name it"
        print(f"{rule.name}: {missed} ({took_s:.1f} s)", file=self.out, flush=True)


def _fork(body: Callable[[], None], *, leads: bool = False) -> int:
    """A fork without output; one that ``leads`` has a process group, in which its own forks are ended with it."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    try:
        if leads:
            os.setpgid(0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        body()
    finally:
        os._exit(0)


def _try(rule: Rule, tests: Sequence[pytest.Item], answers: Path) -> None:
    """Write the first test that fails without the rule and passes with it; runs in the fork."""
    # Its commands are performed as dry runs by other tests, and its lines in tests/data are no assertion of a test.
    settings: Any = sys.modules.get("conftest")
    if settings is not None:
        settings.SIMULATED, settings.expected = (), dict
    for at, item in enumerate(tests):
        folder = answers / str(at)
        child = _fork(lambda item=item, folder=folder: _outcome(item, folder, rule))
        os.waitpid(child, 0)
        if (folder / "failed").exists():
            child = _fork(lambda item=item, folder=folder: _outcome(item, folder / "with", None))
            os.waitpid(child, 0)
            if (folder / "with/passed").exists():
                (answers / "missed").write_text(item.nodeid)
                return
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(item: pytest.Item, folder: Path, without: Rule | None) -> None:
    """Run one test in a fork, and leave ``passed``, ``failed`` or, of one that is skipped, nothing."""
    folder.mkdir(parents=True)
    os.environ["TMPDIR"] = str(folder)
    factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    factory._given_basetemp, factory._basetemp = folder / "pytest", None
    if without is not None:
        disable(without)
    reports = runtestprotocol(item, log=False, nextitem=None)
    if any(report.failed for report in reports):
        (folder / "failed").touch()
    elif any(report.passed and report.when == "call" for report in reports):
        (folder / "passed").touch()


def files_that_name(rules: Sequence[Rule]) -> list[str]:
    """The test files in which one of the rules' words occurs."""
    words = {word for rule in rules for word in rule_words(rule)}
    texts = {path: path.read_text() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    return [str(path) for path, text in texts.items() if any(word in text for word in words)]


def missed_by_nobody(names: Sequence[str], jobs: int, files: Sequence[str] = ()) -> list[str]:
    """The named rules, or all, that no test misses; what is found is printed."""
    rules = [rule for rule in all_rules() if not names or rule.name in names]
    plugin = Missing(rules, jobs, os.fdopen(os.dup(1), "w"))
    os.chdir(ROOT)
    pytest.main([*OPTIONS, *(files or files_that_name(rules))], plugins=[plugin])
    return [rule.name for rule in rules if rule.name not in plugin.missed]


def main() -> int:
    """Disable each rule, and report which test misses it."""
    parser = argparse.ArgumentParser(prog="disabled_rules", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="rules at once")
    parser.add_argument("--tests", nargs="+", default=[], metavar="FILE", help="with the tests of these files alone")
    parser.add_argument("rules", nargs="*", metavar="RULE", help="all where none is given")
    args = parser.parse_args()
    unknown = set(args.rules) - {rule.name for rule in all_rules()}
    if unknown:
        parser.error(f"no such rule: {', '.join(sorted(unknown))}")
    began = time.monotonic()
    nobody = missed_by_nobody(args.rules, args.jobs, args.tests)
    count = len(args.rules or all_rules())
    print(f"{count - len(nobody)} of {count} rules are missed by a test, in {time.monotonic() - began:.0f} s")
    return 1 if nobody else 0


if __name__ == "__main__":
    sys.exit(main())
