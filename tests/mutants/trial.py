"""Runs the tests against one change, in a process of its own whose import of the module has that change."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

import pytest

from mutants.changes import ROOT, Change, module_of

SLOWER, LEAST_S = 10.0, 60.0
"""A change under which the tests take so many times longer, and so many seconds more, hangs."""


class _Changed(SourceFileLoader):
    """Loads a module from a syntax tree."""

    tree: ast.Module

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec")


class Finder:
    """Finds a changed module before anything else does."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path, self.tree, self.module = path, tree, module_of(path)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != self.module:
            return None
        file = ROOT / self.path
        loader = _Changed(name, str(file))
        loader.tree = self.tree
        inside = [str(file.parent)] if file.name == "__init__.py" else None
        return spec_from_file_location(name, file, loader=loader, submodule_search_locations=inside)


def warm() -> None:
    """Import what every trial needs and no change concerns, so that a fork has it."""
    import hypothesis  # noqa: F401
    import jsonschema  # noqa: F401
    import numpy as np  # noqa: F401
    import scipy.optimize
    import scipy.special
    import scipy.stats  # noqa: F401

    assert not any(name.partition(".")[0] == "hwdyno" for name in sys.modules), "a fork would have the module unchanged"


def killed(change: Change | None, tests: Sequence[str], expected_s: float = 0.0) -> str:
    """What ends the tests under a change: ``fails`` or ``hangs``; empty where they pass."""
    scratch = tempfile.mkdtemp(prefix="hwdyno-mutant-")
    child = os.fork()
    if not child:
        _try(change, tests, scratch)
    deadline = time.monotonic() + LEAST_S + SLOWER * expected_s
    try:
        while time.monotonic() <= deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                child = 0
                return "fails" if os.waitstatus_to_exitcode(status) else ""
            time.sleep(0.01)
        return "hangs"
    finally:
        if child:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
        shutil.rmtree(scratch, ignore_errors=True)


def _try(change: Change | None, tests: Sequence[str], scratch: str) -> None:
    """In the child: run the tests, and end with pytest's status."""
    os.setpgid(0, 0)
    os.environ["TMPDIR"] = scratch
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    status = 2
    try:
        if change is not None:
            sys.meta_path.insert(0, Finder(change.path, change.code()))
        os.chdir(ROOT)
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header"]
        options += ["--basetemp", f"{scratch}/pytest"]
        status = int(pytest.main([*options, *tests]))
    finally:
        os._exit(status)
