"""The points that headlines quote: read first, in turn with each other, and again all through a run with a budget."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hwdyno.measure import plan, runner
from hwdyno.measure.plan import QUOTED_REPEATS, Plan
from hwdyno.model.words import Run
from hwdyno.report.headlines import headlines
from simulated_hosts import Memory, Slow

BUDGET_S = 200.0
LARGE = (256 << 20, "2m")
Key = tuple[str, str]


class Board(Slow):
    """A machine that needs 20 s for a walk through much memory."""

    def run(self, kernel: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self.clock_s += 20.0 * (
            kernel == "memory_latency" and (parameters["working_set"], parameters["pages"]) == LARGE
        )
        return super().run(kernel, parameters)


class Noted(runner.Silent):
    """Keeps when each point was read, warm-ups included."""

    def __init__(self, host: Slow) -> None:
        self.host = host
        self.readings: list[tuple[float, Key]] = []

    def begins(self, step: runner.NextReading) -> None:
        """A reading begins."""
        self.readings.append((self.host.clock_s, (step.experiment, str(step.parameters))))


def measured(monkeypatch: pytest.MonkeyPatch, path: Path, host: Slow, **how: Any) -> tuple[Plan, Run, Noted]:
    from hwdyno.measure.runner import allowance, plan_run

    for module in (allowance, plan_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: host.clock_s))
    noted = Noted(host)
    made = plan.build(plan.select(None, host), host, path=path, seed=1, **how)
    return made, runner.run(made, host, Memory(), "run-1", progress=noted), noted


def list_quoted(made: Plan) -> set[Key]:
    return {(planned.experiment.name, str(point)) for planned in made.experiments for point in planned.quoted}


def count_repeats(run: Run) -> dict[Key, int]:
    return {
        (experiment.name, str(point.parameters)): point.repeats
        for experiment in run.experiments
        for point in experiment.points
    }


def test_what_a_plan_counts_as_quoted_is_what_the_headlines_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, run, _ = measured(monkeypatch, tmp_path, Slow(0.05), budget_s=BUDGET_S)
    rows = [row for row in headlines(run)[1] if not row.title.startswith("latency at half load")]
    shown = [(run.experiments[row.experiment], row.point) for row in rows]
    assert {(experiment.name, str(experiment.points[point].parameters)) for experiment, point in shown} == list_quoted(
        made
    )
    assert len(list_quoted(made)) >= 12


def test_headlines_come_first_and_have_seven_readings_spread_over_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, run, noted = measured(monkeypatch, tmp_path, Slow(0.05), budget_s=BUDGET_S)
    quoted = list_quoted(made)
    assert not run.degraded and noted.host.clock_s <= 1.1 * BUDGET_S
    assert min(count_repeats(run)[key] for key in quoted) >= QUOTED_REPEATS
    warm_ups = sum(bool(planned.quoted) for planned in made.experiments)
    assert {key for _, key in noted.readings[warm_ups : warm_ups + len(quoted)]} == quoted
    begun, ended = noted.readings[warm_ups][0], noted.readings[-1][0]
    for key in quoted:
        shares = [(when - begun) / (ended - begun) for when, of in noted.readings[warm_ups:] if of == key]
        assert all(any(k / 4 <= share <= (k + 1) / 4 for share in shares) for k in range(4)), f"{key}: {shares}"


def test_a_slow_reading_waits_for_the_end_with_its_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, run, noted = measured(monkeypatch, tmp_path, Board(0.05), budget_s=BUDGET_S)
    repeats = count_repeats(run)
    (slow,) = {key for key in list_quoted(made) if key[0] == "memory.latency"}
    assert 1 <= repeats[slow] <= 3
    assert min(repeats[key] for key in list_quoted(made) - {slow}) >= QUOTED_REPEATS
    assert not run.degraded and noted.host.clock_s <= 1.1 * BUDGET_S


@pytest.mark.parametrize("how", [{}, {"budget_s": 4.0}])
def test_without_a_budget_or_with_a_tiny_one_nothing_is_read_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, float]
) -> None:
    _, run, noted = measured(monkeypatch, tmp_path, Slow(0.05), **how)
    order = [key[0] for _, key in noted.readings]
    blocks = [name for at, name in enumerate(order) if name.startswith("storage.") and name != order[at - 1]]
    assert len(blocks) == len(set(blocks)), "each storage experiment is read in one piece"
    assert max(count_repeats(run).values()) <= 12
