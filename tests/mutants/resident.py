"""Tries changes in forks of a process that has collected the tests: a change costs its tests, and no import."""

from __future__ import annotations

import ast
import gc
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from mutants.changes import ROOT, Change
from mutants.covered import CHOSEN, SCRATCH, Covered, is_cache, kept

SLOWER, LEAST_S = 5.0, 15.0
"""A change under which the tests take so many times longer, and so many seconds more, of processor time, hangs."""
BUSY_MACHINE = 40.0
"""By how much longer than that a fork may take that waits for a processor, or for something else."""
KILLED, ALIVE, ELSEWHERE = 1, 0, 77
"""What a fork ends with; ``ELSEWHERE`` is a change that only a new import shows."""


class Known:
    """What is looked for in every fork, found once."""

    functions: dict[str, list[FunctionType]]
    """By file."""
    caches: list[Any]

    @classmethod
    def find(cls) -> None:
        cls.functions, cls.caches = defaultdict(list), []
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                cls.functions[one.__code__.co_filename].append(one)
            elif is_cache(one):
                cls.caches.append(one)


@dataclass
class Trial:
    """A change that is being tried."""

    number: int
    deadline: float


def run(
    chosen: Sequence[Change],
    tests: Sequence[str],
    jobs: int,
    budget_s: float,
    report: Callable[[int, str], None],
) -> None:
    """Try changes with these test files; ``report`` learns of each one's number and what became of it.

    A change is ``killed`` or ``hangs``, is ``alive`` or ``untested``, or shows ``elsewhere``, after a new import; one
    outside of functions that is alive may show there, too.
    """
    options = [
        "-q",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--no-header",
        "--capture=no",
        "-p",
        "no:timeout",
    ]
    options += ["-o", "addopts=", *CHOSEN]
    os.chdir(ROOT)
    pytest.main([*options, *tests], plugins=[_Resident(chosen, kept(tests), jobs, budget_s, report)])


class _Resident:
    """A plugin of pytest that tries changes instead of running the tests once."""

    def __init__(
        self,
        chosen: Sequence[Change],
        known: Covered,
        jobs: int,
        budget_s: float,
        report: Callable[[int, str], None],
    ) -> None:
        self.chosen, self.known = chosen, known
        self.jobs, self.budget_s, self.report = jobs, budget_s, report

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        Known.find()
        gc.freeze()
        self._try_all(items)
        return True

    def _try_all(self, items: dict[str, pytest.Item]) -> None:
        known = self.known
        waiting = list(range(len(self.chosen)))
        running: dict[int, Trial] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                number = waiting.pop(0)
                change = self.chosen[number]
                tests = within(known, known.of(change.path, change.line), self.budget_s)
                if not tests:
                    self.report(number, "untested")
                    continue
                seconds = sum(known.seconds[one] for one in tests)
                limit_s = LEAST_S + SLOWER * seconds
                child = _fork(lambda change=change, tests=tests: _try(change, [items[one] for one in tests]), limit_s)  # type: ignore[misc]
                running[child] = Trial(number, time.monotonic() + BUSY_MACHINE * limit_s)
            for child, status in list(_ended(running)):
                hangs = {-signal.SIGKILL: "hangs", -signal.SIGXCPU: "hangs"}
                word = {ALIVE: "alive", ELSEWHERE: "elsewhere", **hangs}.get(status, "killed")
                self.report(running.pop(child).number, word)
            time.sleep(0.005)


def within(known: Covered, tests: Sequence[str], budget_s: float) -> list[str]:
    """The quickest tests that take so long in all; at least one."""
    found: list[str] = []
    spent = 0.0
    for one in tests:
        spent += known.seconds[one]
        if found and spent > budget_s:
            break
        found.append(one)
    return found


def _ended(running: dict[int, Trial]) -> Iterator[tuple[int, int]]:
    """The forks that are over, with their status; one that hangs is ended."""
    for child, trial in list(running.items()):
        done, status = os.waitpid(child, os.WNOHANG)
        if not done and time.monotonic() > trial.deadline:
            os.killpg(child, signal.SIGKILL)
            done, status = os.waitpid(child, 0)
        if done:
            shutil.rmtree(SCRATCH / str(child), ignore_errors=True)
            yield child, os.waitstatus_to_exitcode(status)


def _fork(body: Callable[[], int], limit_s: float) -> int:
    """A fork in a process group of its own, with folders of its own; its status is what the body returns.

    It is ended where it takes more processor time than ``limit_s``: that does not grow with the load of the machine.
    """
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = ELSEWHERE
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), resource.RLIM_INFINITY))
        scratch = SCRATCH / str(os.getpid())
        scratch.mkdir(parents=True, exist_ok=True)
        os.environ["TMPDIR"] = str(scratch)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        status = body()
    finally:
        os._exit(status)


def _folder_at(item: pytest.Item, path: Path) -> None:
    """Let the tests' temporary folders lie here."""
    factory = item.config._tmp_path_factory  # type: ignore[attr-defined]
    factory._given_basetemp, factory._basetemp = path / "pytest", None
    path.mkdir(parents=True, exist_ok=True)


def _try(change: Change, items: Sequence[pytest.Item]) -> int:
    """Whether one of these tests fails under the change, in the fork."""
    how = patched(change, Known.functions[str(ROOT / change.path)])
    if not how:
        return ELSEWHERE
    for one in Known.caches:
        one.cache_clear()
    _folder_at(items[0], SCRATCH / str(os.getpid()))
    # What is advised is parsed by each test; performed as a dry run it is by the tests of advice.
    sys.modules["conftest"].SIMULATED = ()  # type: ignore[attr-defined]
    for item, following in zip(items, [*items[1:], None], strict=True):
        if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
            return KILLED
    return ALIVE if how == "functions" else ELSEWHERE


def patched(change: Change, functions: Sequence[FunctionType]) -> str:
    """Make the change in this process: to ``functions``, to ``names`` of a module, or not at all (empty)."""
    top = [one for one in change.code().body if one.lineno <= change.line <= (one.end_lineno or one.lineno)]
    if any(isinstance(one, ast.Assign | ast.AnnAssign) for one in top):
        return "names" if _renamed(change) else ""
    path = str(ROOT / change.path)
    old = compile((ROOT / change.path).read_text(), path, "exec")
    pairs = list(_differing(old, compile(change.code(), path, "exec")))
    if not pairs or any(before.co_flags & 2 == 0 for before, _ in pairs):  # 2: CO_NEWLOCALS, a function
        return ""
    for before, after in pairs:
        users = [one for one in functions if one.__code__ == before]
        # A function within a function is made anew by the outer one, whose constants hold its code.
        if not users and not any(before in outer.co_consts for outer, _ in pairs):
            return ""
        if any(one.__code__.co_freevars != after.co_freevars for one in users):
            return ""
        for one in users:
            one.__code__ = after
    return "functions"


def _renamed(change: Change) -> bool:
    """Give a name of a module its changed value wherever it was imported to; false where more than functions use it."""
    tree, module = change.code(), sys.modules[change.module]
    statement = next(one for one in tree.body if one.lineno <= change.line <= (one.end_lineno or one.lineno))
    names = {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    at_import: list[ast.AST] = [
        one for one in tree.body if one is not statement and not isinstance(one, ast.FunctionDef)
    ]
    at_import += [one for each in ast.walk(tree) if isinstance(each, ast.arguments) for one in each.defaults]
    if any(isinstance(one, ast.Name) and one.id in names for top in at_import for one in ast.walk(top)):
        return False
    space = dict(vars(module))
    exec(compile(ast.Module([statement], []), change.path, "exec"), space)
    before = {name: getattr(module, name) for name in names}
    for other in list(sys.modules.values()):
        for name in names:
            if getattr(other, "__dict__", {}).get(name) is before[name]:
                setattr(other, name, space[name])
    return True


def _differing(before: CodeType, after: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """The code objects that differ, the outer ones first; a module or class only if it does so itself."""
    inner = [(one, other) for one, other in zip(before.co_consts, after.co_consts, strict=False) if _is_code(one)]
    alike = _bare(before) == _bare(after)
    if not alike or (before.co_flags & 2 and any(True for pair in inner for _ in _differing(*pair))):
        yield before, after
    for one, other in inner:
        if _is_code(other):
            yield from _differing(one, other)


def _is_code(value: object) -> bool:
    return isinstance(value, CodeType)


def _bare(code: CodeType) -> tuple[object, ...]:
    """What a code object does itself, without those within."""
    constants = tuple("code" if _is_code(one) else (type(one), one) for one in code.co_consts)
    return code.co_code, repr(constants), code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
