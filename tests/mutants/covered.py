"""Which tests run which lines of what is changed, and how long each takes."""

from __future__ import annotations

import ast
import builtins
import gc
import hashlib
import json
import os
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from functools import lru_cache as _any_cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from mutants.changes import ROOT, files
from mutants.trial import Finder, warm

KEPT = ROOT / "target/mutants/covered"
SCRATCH = ROOT / f"target/mutants/scratch-{os.getpid()}"
"""Of this process and its forks."""
NAMES = """
advice api audit audit_public audit_tools audit_unseen axes bend caches calibration calls ceilings
clean_direct compare comparison contention curves edges_conditions edges_curves edges_more
edges_published edges_rules edges_statistics elsewhere exact_figures export faults_environment
faults_network findings findings_caches findings_coverage findings_curves findings_hosts
findings_in_process findings_memory findings_published findings_serving findings_settings
findings_why fleet formats_fio formats_memory formats_real formats_serving formats_tools gpu
gpu_findings help imports inference inference_findings inference_images inference_models kv_cache
limits linpack measurement measuring named_by named_rates network network_findings
network_wrong_input never_fooled open_loop peers_loaders power projection projection_events ranks
ranks_between repeatability report report_page resources roofline rules_apply runner samples scaling
scorecard serving_in_process simulated simulated_core single_caches single_ceilings single_claims
single_commands single_courses single_curves single_gpu single_knee single_limits single_lines
single_network single_paths single_published single_rules single_serving single_statistics
single_steadiness site smbios snia statistics store studies studies_memory study_network style
survey sweep thresholds thresholds_edges thresholds_more thresholds_rules training_bad_luck
training_findings training_workloads trends units users_wait vector_search
"""
TESTS = tuple(NAMES.split())
"""The test files of what is changed."""
LONG = (
    "test_what_every_rule_advises_is_taken_by_the_command_line",
    "test_a_clean_machine_has_no_contention",
    "test_a_chart_holds_at_most_eight_series_and_no_point_is_lost",
    "test_the_command_measures_this_machine",
    "test_nothing_is_invented_in_flat_histories",
    "test_planted_changes_are_found_at_their_run",
    "test_runs_that_resemble_the_one_before_are_no_change",
    "test_no_clean_direct_run_is_called_cached",
    "test_the_workflows_commands_run",
)
"""Tests that take five seconds or more, and what they find is found by others."""
CHOSEN = ("-m", "not machine and not browser and not peer", "-k", " and ".join(f"not {one}" for one in LONG))
"""Pytest's options for the tests that are tried: none measures this machine, so that a busy one changes nothing."""
OF_TABLES = (
    "tests/test_thresholds.py::test_just_these_rules_degrade_their_points",
    "tests/test_thresholds.py::test_these_rules_come_first_because_they_explain_others",
    "tests/test_named_rates.py::test_memory_has_the_transfer_rates_of_jedec",
    "tests/test_named_rates.py::test_lines_have_the_rates_of_ieee_802_3",
    "tests/test_named_rates.py::test_a_command_takes_what_is_in_its_range",
)
"""Tests that read tables and run no line of a function: they are tried first on a change of what modules name."""
SHARE_POWER = 3
"""A test that runs half of a line's function is tried as if it took so many times twice as long."""
CACHE = type(_any_cache(len))
RAN = "__hwdyno_ran__"
"""What the product calls while it is recorded, before each statement."""
PLACES = 1_000_000
"""More than the lines of a file."""


@dataclass
class Covered:
    """What each test runs."""

    lines: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """By file and line: the tests that run it."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By test."""

    def of(self, path: str, line: int) -> list[str]:
        """The tests of a line; of a default, of its function; of a line outside of functions, of what uses its names.

        The quickest come first that run most of its function: whatever is explained runs the first lines of each rule.
        """
        lines = self.lines.get(path, {})
        tests: Iterable[str] = lines.get(line, [])
        around: Iterable[int] = _function(path, line)
        if not tests:
            around = around if _is_default(path, line) else users(path, line)
            every = {one for at in around for one in lines.get(at, [])}
            tests = every | {one for one in self.seconds if _is_of_tables(one)} if around else []
        ran = Counter(one for at in around for one in set(lines.get(at, [])))
        most = max(ran.values(), default=1)
        known = [one for one in tests if one in self.seconds]
        seconds = {one: self.seconds[one] / (max(1, ran[one]) / most) ** SHARE_POWER for one in known}
        return sorted(known, key=lambda one: (not _is_of_tables(one), seconds[one], one))


def _function(path: str, line: int) -> range:
    """The lines of the innermost function around a line; none outside of functions."""
    found = [
        range(one.lineno, (one.end_lineno or one.lineno) + 1)
        for one in ast.walk(_tree(path))
        if isinstance(one, ast.FunctionDef) and one.lineno <= line <= (one.end_lineno or one.lineno)
    ]
    return min(found, key=len, default=range(0))


def _is_of_tables(test: str) -> bool:
    """Whether a test, for whichever parameters, reads tables."""
    return test.partition("[")[0] in OF_TABLES


def _is_default(path: str, line: int) -> bool:
    """Whether a line is of a function's signature, which runs at import alone."""
    return any(
        isinstance(one, ast.FunctionDef) and one.lineno <= line < one.body[0].lineno for one in ast.walk(_tree(path))
    )


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def users(path: str, line: int) -> set[int]:
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
        if row is not None:
            names = {one.id for part in (row, *_targets(top)) for one in ast.walk(part) if isinstance(one, ast.Name)}
    users = [
        one for one in whole if one.name in names or names & {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
    ]
    return {at for one in users or whole for at in range(one.lineno, (one.end_lineno or one.lineno) + 1)}


def _targets(one: ast.Assign | ast.AnnAssign) -> list[ast.expr]:
    return one.targets if isinstance(one, ast.Assign) else [one.target]


def is_cache(one: object) -> bool:
    """Whether it is a cache of the product: what it has was computed for another test, or without the change."""
    return isinstance(one, CACHE) and str(getattr(one, "__module__", "")).startswith("hwdyno")


def probed(path: str, number: int) -> ast.Module:
    """A module that says before each statement of a function that it runs, as ``number * PLACES + line``."""
    tree = ast.parse((ROOT / path).read_text())
    for function in [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]:
        _probe(function.body, number)
    return ast.fix_missing_locations(tree)


def _probe(statements: list[ast.stmt], number: int) -> None:
    for at in range(len(statements) - 1, -1, -1):
        one = statements[at]
        if isinstance(one, ast.FunctionDef | ast.ClassDef):
            continue
        inner = [getattr(part, name, []) for name in ("body", "orelse", "finalbody") for part in [one, *_cases(one)]]
        for block in inner:
            _probe(block, number)
        is_text = isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        if not is_text and not isinstance(one, ast.Global | ast.Nonlocal):
            place = ast.Constant(number * PLACES + one.lineno)
            called = ast.Expr(ast.Call(ast.Name(RAN, ast.Load()), [place], []))
            statements.insert(at, ast.copy_location(called, one))


def _cases(one: ast.stmt) -> list[Any]:
    return [*getattr(one, "handlers", []), *getattr(one, "cases", [])]


def _lines_of(path: str) -> dict[int, range]:
    """By the first line of a statement: its lines, without those of the statements within."""
    found = {}
    for one in ast.walk(_tree(path)):
        if isinstance(one, ast.stmt):
            within = [inner.lineno for inner in ast.walk(one) if isinstance(inner, ast.stmt) and inner is not one]
            end = min([line for line in within if line > one.lineno], default=(one.end_lineno or one.lineno) + 1)
            found[one.lineno] = range(one.lineno, end)
    return found


class Recorder:
    """Notes the lines that each test runs: a plugin of pytest."""

    def __init__(self) -> None:
        self.lines: dict[int, set[str]] = defaultdict(set)
        """By place: the tests."""
        self.seconds: dict[str, float] = {}
        self.fixtures: dict[str, set[int]] = {}
        """Places that a fixture of several tests runs, which are those of each of them."""
        self.now: set[int] = set()
        self.failed: set[str] = set()
        self.caches: list[Any] = []
        setattr(builtins, RAN, self.now.add)

    def pytest_collection_finish(self) -> None:
        self.caches = [one for one in gc.get_objects() if is_cache(one)]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None]:
        if fixturedef.scope == "function":
            yield
            return
        outer = set(self.now)
        self.now.clear()
        yield
        self.fixtures[fixturedef.argname] = set(self.now)
        self.now.clear()
        self.now.update(outer)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        for one in self.caches:
            one.cache_clear()
        self.now.clear()
        before = time.perf_counter()
        yield
        self.seconds[item.nodeid] = time.perf_counter() - before
        shared = [self.fixtures[name] for name in getattr(item, "fixturenames", ()) if name in self.fixtures]
        for place in self.now.union(*shared):
            self.lines[place].add(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    def kept(self) -> dict[str, object]:
        """What was found, as it is written."""
        by_path: dict[str, dict[int, list[str]]] = {}
        for number, path in enumerate(files()):
            of = {at % PLACES: sorted(tests) for at, tests in self.lines.items() if at // PLACES == number}
            by_path[path] = {line: of[at] for at, lines in _lines_of(path).items() if at in of for line in lines}
        seconds = {test: seconds for test, seconds in self.seconds.items() if test not in self.failed}
        return {"lines": by_path, "seconds": seconds, "left_out": sorted(self.failed)}


def record(jobs: int, tests: Sequence[str]) -> None:
    """Run those of the test files whose map is not kept, each in a fork of its own."""
    waiting = [path for path in tests if _read(path) is None]
    if not waiting:
        return
    KEPT.mkdir(parents=True, exist_ok=True)
    warm()
    running: dict[int, str] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            path = waiting.pop(0)
            child = os.fork()
            if not child:
                _record(path)
            running[child] = path
        done, status = os.wait()
        path = running.pop(done)
        shutil.rmtree(SCRATCH / str(done), ignore_errors=True)
        if status:
            raise SystemExit(f"the recorded run of {path} ended with {os.waitstatus_to_exitcode(status)}")


def _record(path: str) -> None:
    """In a fork: run a test file with probes in what is changed, and keep its map."""
    status = 1
    try:
        before = key(path)
        scratch = SCRATCH / str(os.getpid())
        scratch.mkdir(parents=True, exist_ok=True)
        os.environ["TMPDIR"] = str(scratch)
        os.chdir(ROOT)
        for number, file in enumerate(files()):
            sys.meta_path.insert(0, Finder(file, probed(file, number)))
        recorder = Recorder()
        options = ["-q", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--disable-warnings"]
        pytest.main([*options, "-o", "addopts=", f"--basetemp={scratch}/pytest", *CHOSEN, path], plugins=[recorder])
        _file(path).write_text(json.dumps({"key": before, **recorder.kept()}))
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def _file(path: str) -> Path:
    return KEPT / f"{Path(path).stem}.json"


@cache
def _shared_key() -> str:
    """What changes with every file that all maps depend on."""
    found = hashlib.sha256()
    helpers = [one for one in sorted((ROOT / "tests").rglob("*.py")) if not one.name.startswith("test_")]
    for one in chain(map(ROOT.__truediv__, files()), helpers):
        if not {"mutants", "calls"} & set(one.parts):
            found.update(one.read_bytes())
    return found.hexdigest()


def key(path: str) -> str:
    """What changes with a test file, and with every file that its map depends on."""
    data = ROOT / "tests/data" / f"{Path(path).stem.removeprefix('test_')}.jsonl"
    found = hashlib.sha256(_shared_key().encode() + (ROOT / path).read_bytes())
    found.update(data.read_bytes() if data.exists() else b"")
    return found.hexdigest()


def _read(path: str) -> dict[str, Any] | None:
    """The map of a test file as kept; none where anything changed since."""
    if not _file(path).exists():
        return None
    found: dict[str, Any] = json.loads(_file(path).read_text())
    return found if found["key"] == key(path) else None


def kept(tests: Sequence[str]) -> Covered:
    """The maps of test files."""
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    seconds: dict[str, float] = {}
    for part in _parts(tests):
        seconds |= part["seconds"]
        for path, places in part["lines"].items():
            for at, tests in places.items():
                lines[path][int(at)] += tests
    return Covered(lines, seconds)


def left_out(tests: Sequence[str]) -> list[str]:
    """The tests that fail without any change: none of them tries one."""
    return [name for part in _parts(tests) for name in part["left_out"]]


def _parts(tests: Sequence[str]) -> Iterator[dict[str, Any]]:
    for path in tests:
        part = _read(path)
        if part is None:
            raise SystemExit(f"{path} changed while changes were tried")
        yield part


def test_files(names: Sequence[str] = TESTS) -> list[str]:
    """The test files that exist of these."""
    return [f"tests/test_{name}.py" for name in names if (ROOT / f"tests/test_{name}.py").exists()]
