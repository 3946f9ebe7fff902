"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest
from advised import commands_in, is_dry_run, not_taken, refused, shape
from here import missing, sample
from hwdyno.explain.findings import explanation, summary
from hwdyno.measure import concurrent_runs, engine, peers
from hwdyno.system import failures
from hypothesis import settings
from real_cluster import IS_HERE
from simulated_runs import MACHINES
from style import find_faults

# A shell without job control starts its background jobs with SIGINT ignored, nohup with SIGHUP, and the programs that
# tests interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# What they ask for, no package brings; tests/cluster.py replaces it.
collect_ignore = [] if IS_HERE else ["measure/test_kubernetes_real.py"]

# A test asserts no time that the machine decides, and examples are the same in every run.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")

# Their documents and Runs hold any text.
HOSTILE = {"test_hostile", "test_fuzz", "test_resources"}


@lru_cache(maxsize=4096)
def _faults(text: str) -> tuple[str, ...]:
    return tuple(find_faults(text))


@lru_cache
def _is_installed(peer: str) -> bool:
    return peers.find(peer).version() is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of a module that tries some of its cases, so that ``make test-long`` tries all of them.

    What is long has half an hour on a machine that does other work, where it states no limit itself.
    """
    for item in items:
        module = item.getparent(pytest.Module)
        names = {} if module is None else vars(module.obj)
        if names.get("sample") is sample or names.get("MACHINES") is MACHINES:
            item.add_marker("sampled")
        is_long = item.get_closest_marker("long") or ("HWDYNO_TEST_WHOLE" in os.environ and "sampled" in item.keywords)
        if is_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(1800))


def pytest_collection_finish() -> None:
    """Keeps what was collected out of the searches for garbage, which took a sixth of the tests' CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("peer"):
        if not _is_installed(mark.args[0]):
            missing(f"{mark.args[0]} is not installed")


@pytest.fixture(autouse=True)
def surroundings(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What every test finds; as a fixture each, these would take seconds of all tests together."""
    # Tests that measure here at the same time in other processes are no other Runs, and none goes to the user's.
    monkeypatch.setattr(concurrent_runs, "NAME", f"hwdyno-test-{os.getpid()}")
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path_factory.getbasetemp() / "home"))
    # A bug in a part of an answer fails the test that meets it, but for those that plant it.
    if request.module.__name__ != "test_failed_parts":
        monkeypatch.setattr(failures, "describe_bug", _raise)
    # Runs of simulated machines need not outlive the power: waiting for the disk took a third of their time.
    if request.node.get_closest_marker("machine") is None:
        monkeypatch.setattr(os, "fsync", lambda _file: None)


def _raise(error: BaseException) -> str:
    raise error


SIMULATED = ("test_findings", "test_never_fooled", "test_training_findings", "test_network_findings", "test_open_loop")
"""How the modules begin whose Runs are simulated: a dry run of what they advise needs nothing of a test's own."""
SURVEYED = lru_cache(maxsize=8)(engine.survey)
"""A survey watches the machine for half a second: one serves every dry run."""
DRY_RUN: set[tuple[str, ...]] = set()
"""Rules with the options that they advise, of which a command was performed as a dry run."""


@pytest.fixture(autouse=True)
def plain_findings(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Fails a test in which any finding's text or advice is out of style, or advises a command that is none.

    Each command is parsed, and one of each rule and set of options is performed as a dry run.
    """
    wrong: dict[str, tuple[str, ...]] = {}
    advised: dict[tuple[str, ...], str] = {}
    made = explanation.make_finding

    def checked(*args: Any) -> Any:
        found = made(*args)
        wrong.update({text: faults for text in (found.says, found.advice) if (faults := _faults(text))})
        wrong.update({line: (why,) for line in commands_in(found.advice) if (why := refused(line))})
        advised.update({(str(args[0]), *shape(line)): line for line in commands_in(found.advice)})
        return found

    if request.module.__name__ not in HOSTILE:
        monkeypatch.setattr(explanation, "make_finding", checked)
        monkeypatch.setattr(summary, "make_finding", checked)
    yield
    simulated = request.module.__name__.startswith(SIMULATED)
    for name, line in advised.items():
        if simulated and name not in DRY_RUN and line not in wrong and is_dry_run(line):
            DRY_RUN.add(name)
            with monkeypatch.context() as patched:
                patched.setattr(engine, "survey", SURVEYED)
                why = not_taken(line, tmp_path_factory.getbasetemp())
            if why:
                wrong[line] = (why,)
    assert not wrong
