"""Which tests run which lines of what is changed, and how long each takes."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from mutants.changes import ROOT, files

KEPT = ROOT / "target/mutants/covered.json"
TESTS = (
    *("audit", "axes", "caches", "ceilings", "comparison", "contention", "curves", "exact_figures", "findings"),
    "findings_caches",
    *("findings_coverage", "findings_curves", "findings_hosts", "findings_memory", "findings_published"),
    *("findings_settings", "findings_why", "formats_fio", "formats_memory", "formats_tools", "imports", "kv_cache"),
    *("measurement", "network_findings", "never_fooled", "open_loop", "power", "repeatability", "report", "roofline"),
    *("rules_apply", "samples", "scorecard", "simulated", "simulated_core", "snia", "statistics", "studies"),
    *("studies_memory", "study_network", "style", "thresholds", "thresholds_more", "training_findings", "units"),
    *("users_wait", "vector_search", "advice"),
)
"""The fast tests of what is changed."""
LONG = (
    "test_what_every_rule_advises_is_taken_by_the_command_line",
    "test_a_clean_machine_has_no_contention",
    "test_a_chart_holds_at_most_eight_series_and_no_point_is_lost",
    "test_the_command_measures_this_machine",
)
"""Tests that take ten seconds or more, and what they find is found by others."""
JOBS = 3
"""Files that are traced at the same time."""


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
        tests = lines.get(line, [])
        if not tests:
            used = _users(path, line)
            tests = sorted({one for at in used for one in lines.get(at, [])})
        return sorted(tests, key=self.seconds.__getitem__)


def _users(path: str, line: int) -> set[int]:
    """The lines of functions that use what a statement outside of them defines or names; all where nothing does."""
    tree = ast.parse((ROOT / path).read_text())
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


class _Recorder:
    """A plugin of pytest that notes the lines that each test runs."""

    def __init__(self) -> None:
        self.names = {str(ROOT / path): path for path in files()}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.seconds: dict[str, float] = {}
        self.test = ""
        self.failed: list[str] = []

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code: CodeType = frame.f_code
        path = self.names.get(code.co_filename)
        if path is None:
            return None
        lines, test = self.lines[path], self.test

        def ran(frame: FrameType, event: str, arg: Any) -> Any:
            lines[frame.f_lineno].add(test)
            return ran

        lines[frame.f_lineno].add(test)
        return ran

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        self.test = item.nodeid
        before = time.perf_counter()
        sys.settrace(self._called)
        yield
        sys.settrace(None)
        self.seconds[item.nodeid] = time.perf_counter() - before

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def _key() -> str:
    found = hashlib.sha256()
    for path in [*map(ROOT.__truediv__, files()), *sorted((ROOT / "tests").rglob("*.py"))]:
        found.update(path.read_bytes())
    return found.hexdigest()


def covered() -> Covered:
    """What each fast test runs: as kept, where nothing changed since, or by a traced run of them all."""
    key = _key()
    if KEPT.exists():
        kept = json.loads(KEPT.read_text())
        if kept["key"] == key:
            lines = {path: {int(at): tests for at, tests in one.items()} for path, one in kept["lines"].items()}
            return Covered(lines, kept["seconds"])
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    waiting, running = list(test_files()), set[int]()
    while waiting or running:
        if waiting and len(running) < JOBS:
            test = waiting.pop(0)
            child = os.fork()
            if not child:
                _record(test)
            running.add(child)
        else:
            child, status = os.wait()
            running.discard(child)
            if status:
                raise SystemExit("a traced run of tests ended early")
    _merge(key)
    return covered()


def _part(test: str) -> Path:
    return KEPT.with_name(f"{Path(test).stem}.json")


def _record(test: str) -> None:
    """Trace the tests of a file, and keep what they ran; never returns."""
    status = 1
    try:
        recorder = _Recorder()
        os.chdir(ROOT)
        pytest.main([*quiet(), "-k", " and ".join(f"not {one}" for one in LONG), test], plugins=[recorder])
        for name in recorder.failed:
            print(f"fails without any change, and is left out: {name}", flush=True)
            recorder.seconds.pop(name, None)
        found = {path: {at: sorted(tests) for at, tests in one.items()} for path, one in recorder.lines.items()}
        _part(test).write_text(json.dumps({"lines": found, "seconds": recorder.seconds}))
        status = 0
    finally:
        os._exit(status)


def _merge(key: str) -> None:
    """Join what the files' tests ran."""
    lines: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, float] = {}
    for test in test_files():
        part = json.loads(_part(test).read_text())
        seconds |= part["seconds"]
        for path, places in part["lines"].items():
            for at, tests in places.items():
                lines[path][at] += [one for one in tests if one in part["seconds"]]
        _part(test).unlink()
    KEPT.write_text(json.dumps({"key": key, "lines": lines, "seconds": seconds}))


def test_files() -> Sequence[str]:
    """The test files of ``TESTS`` that exist."""
    return [f"tests/test_{name}.py" for name in TESTS if (ROOT / f"tests/test_{name}.py").exists()]


def quiet() -> list[str]:
    """Arguments of pytest that keep it from writing anything."""
    return ["-q", "-x" if os.environ.get("MUTANT") else "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
