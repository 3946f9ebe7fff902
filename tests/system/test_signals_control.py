"""The harness of signals tells what a machine was late from what a command took."""

from __future__ import annotations

import os
import signal
import time

import pytest
from signals.__main__ import tally
from signals.commands import COMMANDS
from signals.moments import Control, Moment, Verdict


def test_only_stopped_control_is_late() -> None:
    control = Control()
    control.go()
    os.kill(control.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(control.pid, signal.SIGCONT)
    assert control.late_s() >= 0.4


def test_unstarted_control_is_not_late() -> None:
    assert Control().late_s() == 0.0


@pytest.mark.parametrize(("took_s", "late_s", "excused"), [(0.9, 0.0, 0), (2.0, 0.5, 0), (2.0, 1.5, 1)])
def test_tally_excuses_only_late_clocks(took_s: float, late_s: float, excused: int) -> None:
    verdict = Verdict(Moment(COMMANDS[0], "INT INT", 0.5), "left", [], took_s, late_s)
    assert f"what the machine was late: {excused}" in tally([verdict])
