"""No command line, environment or stored file ends in an internal error or without an end."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fuzz.commands import Case, cases, lay_out
from here import sample, shortly
from hwdyno import session
from hwdyno.cli import watch
from hwdyno.cli.main import main
from hwdyno.measure import engine, peers
from hwdyno.measure.engine import MachineError
from hwdyno.measure.runner import contention
from hwdyno.model.words import Declaration
from hwdyno.system.store import Store, to_json
from made_run import whole_run
from simulation.coupled import CoupledHost

CASES = sample(200, 10_000)
A_PLACE = 25
"""Cases between two layouts of the files that they meet."""
SEED = 39
LIMIT_S = 60
"""Longest processor time of a case; a measurement of the simulated machine takes a few seconds."""


class AnyKernel(CoupledHost):
    """A simulated machine that has every kernel, and refuses those that it cannot simulate."""

    def kernels(self) -> dict[str, Declaration]:
        return {**engine.kernels(), **super().kernels()}

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        try:
            return super().run(kernel, parameters) if kernel in super().kernels() else refuse()
        except ValueError as error:  # An instruction set that the simulated processor lacks.
            raise MachineError(str(error)) from None


def refuse(*_: Any) -> Any:
    raise MachineError("no kernel runs in this test")


class EndlessError(BaseException):
    """A case that does not end."""


@pytest.fixture(autouse=True)
def bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place whose commands measure a simulated machine, start no reference tool and call no kernel."""
    here = tmp_path / "a" / "b" / "c"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.delenv("HWDYNO_TRACEBACK", raising=False)
    monkeypatch.setattr(session, "this_site", lambda: AnyKernel(1))
    monkeypatch.setitem(contention.ROUNDS, "quick", 1)
    surveyed = engine.survey()
    monkeypatch.setattr(engine, "survey", lambda *_: surveyed)
    monkeypatch.setattr(peers, "find_installed", lambda *_: ())
    monkeypatch.setattr(engine, "run", refuse)
    # A watch has no end: its turns would be awaited for hours.
    monkeypatch.setattr(watch, "_take_turns", lambda args, _every_s: watch.take_turn(args))
    return here


def ended(case: Case) -> tuple[int, str]:
    """The status of a case, and what it printed on stderr."""
    before = dict(os.environ)
    error = io.StringIO()

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise EndlessError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    try:
        os.environ.update(case.environment)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
            status = main(list(case.words))
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.environ.clear()
        os.environ.update(before)
    return status, error.getvalue()


@pytest.mark.parametrize("part", shortly(4, *range(8)))
def test_no_case_ends_in_an_internal_error(part: int, bounded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(bounded / "home"))
    document = to_json(whole_run()).encode()
    rng = random.Random(SEED + part)
    wrong: list[str] = []
    for number, case in enumerate(cases(CASES // 8, 1000 * SEED + part)):
        if number % A_PLACE == 0:
            lay_out(bounded, document, rng, lambda home: Store(home).history())
        try:
            status, error = ended(case)
        except EndlessError:
            wrong.append(f"{case}\n  did not end")
            continue
        except Exception as bug:
            wrong.append(f"{case}\n  {type(bug).__name__}: {bug}")
            continue
        last = error.strip().rpartition("\n")[2]
        if "internal error" in error or "Traceback" in error or status not in {0, 1, 2, 3}:
            wrong.append(f"{case}\n  status {status}: {last[:300]}")
        elif status == 2 and not last.startswith("hwdyno"):
            wrong.append(f"{case}\n  status 2 without a line of why: {last[:300]}")
    assert not wrong, f"{len(wrong)} cases:\n" + "\n".join(wrong[:40])
