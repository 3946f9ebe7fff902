"""Which tests run which lines of what is changed, and how long each takes."""

from __future__ import annotations

import ast
import gc
import hashlib
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from functools import lru_cache as _any_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from mutants.changes import ROOT, files

KEPT = ROOT / "target/mutants/covered.json"
TESTS = (
    *("advice", "audit", "axes", "caches", "ceilings", "comparison", "contention", "curves", "exact_figures"),
    *("findings", "findings_caches", "findings_coverage", "findings_curves", "findings_hosts", "findings_memory"),
    *("findings_published", "findings_settings", "findings_why", "formats_fio", "formats_memory", "formats_real"),
    *("formats_tools", "imports", "kv_cache", "limits", "measurement", "network_findings", "never_fooled"),
    *("open_loop", "power", "projection", "repeatability", "report", "roofline", "rules_apply", "samples"),
    *("scorecard", "simulated", "simulated_core", "site", "smbios", "snia", "statistics", "studies", "studies_memory"),
    *("study_network", "style", "thresholds", "thresholds_more", "training_findings", "trends", "units"),
    *("users_wait", "vector_search"),
)
"""The test files of what is changed."""
LONG = (
    "test_what_every_rule_advises_is_taken_by_the_command_line",
    "test_a_clean_machine_has_no_contention",
    "test_a_chart_holds_at_most_eight_series_and_no_point_is_lost",
    "test_the_command_measures_this_machine",
)
"""Tests that take ten seconds or more, and what they find is found by others."""
MOST_CALLS = 40
"""Of a function by a test, whose lines are noted."""
OF_TABLES = (
    "tests/test_thresholds.py::test_just_these_rules_degrade_their_points",
    "tests/test_thresholds.py::test_these_rules_come_first_because_they_explain_others",
)
"""Tests that read the rules' table and run no line of a rule."""
CACHE = type(_any_cache(len))


@dataclass
class Covered:
    """What each test runs."""

    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """By file and line: the tests that run it."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By test."""

    def of(self, path: str, line: int) -> list[str]:
        """The tests of a line, the quickest first; of a line outside of functions, those of what uses its names."""
        lines = self.lines.get(path, {})
        tests: Iterable[str] = lines.get(line, [])
        if not tests:
            used = _users(path, line)
            tests = {*OF_TABLES, *(one for at in used for one in lines.get(at, []))} if used else []
        return sorted((one for one in tests if one in self.seconds), key=self.seconds.__getitem__)


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def _users(path: str, line: int) -> set[int]:
    """The lines of functions that use what a statement outside of them defines or names; all where nothing does."""
    tree = _tree(path)
    whole = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)]
    top = next((one for one in tree.body if one.lineno <= line <= (one.end_lineno or line)), None)
    if top is None or isinstance(top, ast.FunctionDef):
        return set()
    names = {one.id for one in ast.walk(top) if isinstance(one, ast.Name)}
    if isinstance(top, ast.Assign | ast.AnnAssign) and getattr(top.value, "elts", None):
        # Of a table, the row.
        row = next((one for one in top.value.elts if one.lineno <= line <= (one.end_lineno or line)), None)  # type: ignore[union-attr]
        names = {one.id for one in ast.walk(row) if isinstance(one, ast.Name)} if row is not None else names
    users = [
        one for one in whole if one.name in names or names & {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
    ]
    return {at for one in users or whole for at in range(one.lineno, (one.end_lineno or one.lineno) + 1)}


def is_cache(one: object) -> bool:
    """Whether it is a cache of the product: what it has was computed for another test, or without the change."""
    return isinstance(one, CACHE) and str(getattr(one, "__module__", "")).startswith("hwdyno")


class Recorder:
    """Notes the lines that each test runs: a plugin of pytest."""

    def __init__(self) -> None:
        self.names = {str(ROOT / path): path for path in files()}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, set[tuple[str, int]]] = defaultdict(set)
        """Lines that a fixture of several tests runs, which are lines of each of them."""
        self.now: set[tuple[str, int]] = set()
        self.calls: Counter[CodeType] = Counter()
        self.failed: set[str] = set()
        self.caches: list[Any] = [one for one in gc.get_objects() if is_cache(one)]

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code: CodeType = frame.f_code
        path = self.names.get(code.co_filename)
        if path is None:
            return None
        # Of what is called again and again, the first calls show the lines.
        self.calls[code] += 1
        if self.calls[code] > MOST_CALLS:
            return None
        add = self.now.add

        def ran(frame: FrameType, event: str, arg: Any) -> Any:
            add((path, frame.f_lineno))
            return ran

        add((path, frame.f_lineno))
        return ran

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None]:
        if fixturedef.scope == "function":
            yield
            return
        outer, self.now = self.now, self.fixtures[fixturedef.argname]
        sys.settrace(self._called)
        yield
        self.now = outer
        sys.settrace(self._called)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        for one in self.caches:
            one.cache_clear()
        self.now = set()
        self.calls.clear()
        before = time.perf_counter()
        sys.settrace(self._called)
        yield
        sys.settrace(None)
        self.seconds[item.nodeid] = time.perf_counter() - before
        shared = [self.fixtures[name] for name in getattr(item, "fixturenames", ()) if name in self.fixtures]
        for path, line in self.now.union(*shared):
            self.lines[path][line].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            print(f"fails without any change, and is left out: {report.nodeid}", flush=True)
            self.failed.add(report.nodeid)

    def keep(self, part: int) -> None:
        """Write what was found."""
        lines = {path: {at: sorted(tests) for at, tests in one.items()} for path, one in self.lines.items()}
        seconds = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
        _part(part).write_text(json.dumps({"lines": lines, "seconds": seconds}))


def _part(number: int) -> Path:
    return KEPT.with_name(f"part-{number}.json")


def join(parts: int, key: str) -> None:
    """Make the map of what so many recorders kept."""
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, float] = {}
    for number in range(parts):
        part = json.loads(_part(number).read_text())
        seconds |= part["seconds"]
        for path, places in part["lines"].items():
            for at, tests in places.items():
                lines[path][at] += tests
        _part(number).unlink()
    KEPT.write_text(json.dumps({"key": key, "lines": lines, "seconds": seconds}))


def key() -> str:
    """What changes with every file that the map depends on."""
    found = hashlib.sha256()
    for path in [*map(ROOT.__truediv__, files()), *sorted((ROOT / "tests").rglob("*.py"))]:
        if "mutants" not in path.parts:
            found.update(path.read_bytes())
    return found.hexdigest()


def kept() -> Covered | None:
    """The map as kept; none where anything changed since."""
    if not KEPT.exists():
        return None
    found = json.loads(KEPT.read_text())
    if found["key"] != key():
        return None
    lines = {path: {int(at): tests for at, tests in one.items()} for path, one in found["lines"].items()}
    return Covered(lines, found["seconds"])


def test_files(names: Sequence[str] = TESTS) -> list[str]:
    """The test files that exist of these."""
    return [f"tests/test_{name}.py" for name in names if (ROOT / f"tests/test_{name}.py").exists()]
