"""A comparison reports the changes that are there, and between two runs of one machine hardly ever one that is not."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import made_store as made
import pytest
from here import sample
from hwdyno.explain import comparison
from hwdyno.explain.comparison import Change, match_points
from hwdyno.explain.comparison.changes import changes_in
from hwdyno.explain.repeatability import PRIOR_DEVIATION, with_earlier
from hwdyno.model.words import Run, RunToRun
from simulation.core import Core
from test_repeatability import least, run_at

PAIRS = sample(30, 250)
EXPERIMENTS, POINTS = 4, 8


def find_changes(before: Run, after: Run) -> list[Change]:
    return changes_in(match_points(before, after))


def made_run(
    seed: int,
    *,
    shift: float = 0.0,
    between: float = 0.0,
    noise: float = 0.03,
    repeats: int = 3,
    spread: RunToRun | None = None,
) -> Run:
    """A Run of some experiments, each with one effect of the run, that is ``shift`` (logarithm) off the others."""
    rng = random.Random(seed)
    experiments = []
    for number in range(EXPERIMENTS):
        effect = shift + rng.gauss(0, between)
        points = []
        for load in range(1, POINTS + 1):
            values = tuple(1e8 * load * math.exp(effect + rng.gauss(0, noise)) for _ in range(repeats))
            points.append(made.point(load, sum(values) / repeats, values))
        experiments.append(replace(made.experiment(*points, name=f"storage.{number}"), run_to_run=spread))
    return made.run(*experiments, run_id=str(seed))


def is_slower(changes: Sequence[Change]) -> bool:
    return any(change.verdict == "slower" for change in changes)


def share_slower(**changed: float) -> float:
    found = [
        is_slower(
            find_changes(
                made_run(2 * at, between=PRIOR_DEVIATION), made_run(2 * at + 1, between=PRIOR_DEVIATION, **changed)
            )
        )
        for at in range(PAIRS)
    ]
    return sum(found) / PAIRS


def most(share: float, cases: int) -> float:
    return share + 3.1 * math.sqrt(share * (1 - share) / cases)


def test_two_runs_of_one_machine_hardly_ever_differ() -> None:
    assert share_slower() <= most(0.05, PAIRS)


def test_loss_of_tenth_is_found() -> None:
    still = [
        is_slower(find_changes(made_run(2 * at), made_run(2 * at + 1, shift=math.log(0.9)))) for at in range(PAIRS)
    ]
    assert sum(still) / PAIRS >= 0.9
    # Four experiments that each wander by 3% from run to run leave enough to see it.
    assert share_slower(shift=math.log(0.9)) >= 0.8


def test_a_machine_that_wanders_more_is_known_by_its_earlier_runs() -> None:
    wandering = RunToRun(0.08, 0.0, 8)
    found = {
        known: sum(
            is_slower(find_changes(made_run(2 * at, between=0.08), made_run(2 * at + 1, between=0.08, spread=spread)))
            for at in range(PAIRS)
        )
        / PAIRS
        for known, spread in (("unknown", None), ("known", wandering))
    }
    assert found["known"] <= most(0.05, PAIRS) and found["unknown"] > 0.2


def test_single_slow_point_is_named() -> None:
    before, after = made_run(1, noise=0.01), made_run(2, noise=0.01)
    first = after.experiments[0]
    slow = replace(first.points[3], repeat_values=tuple(value / 1.5 for value in first.points[3].repeat_values))
    points = (*first.points[:3], slow, *first.points[4:])
    changes = find_changes(before, replace(after, experiments=(replace(first, points=points), *after.experiments[1:])))
    slower = [change for change in changes if change.verdict == "slower"]
    assert [(change.experiment, change.parameters["iodepth"]) for change in slower] == [("storage.0", 4)]


def test_three_repeats_that_do_not_overlap_are_no_proof() -> None:
    """The exact permutation test of three against three cannot go below 0.1."""
    before = made.run(made.experiment(made.point(1, 101e6, (100e6, 101e6, 102e6))))
    after = made.run(made.experiment(made.point(1, 98.4e6, (98e6, 98.5e6, 98.7e6))))
    (change,) = find_changes(before, after)
    assert change.verdict == "same" and change.p_value is not None and change.p_value > 0.1


def test_a_run_is_the_same_as_itself_even_where_experiments_share_points() -> None:
    shared = made.experiment(made.point(1, 1e8), made.point(2, 2e8))
    other = made.experiment(made.point(1, 0.5e8), made.point(2, 1.1e8), name="storage.grid")
    run = made.run(shared, other)
    changes = find_changes(run, run)
    assert [change.verdict for change in changes] == ["same"] * 6
    assert all(change.ratio.value == pytest.approx(1) and change.p_value == 1 for change in changes)


def test_renamed_experiments_are_matched_where_that_leaves_no_choice() -> None:
    before = made.run(made.experiment(made.point(1), made.point(2), name="study.depths"))
    after = made.run(made.experiment(made.point(1), made.point(2)))
    assert len(find_changes(before, after)) == 3
    twice = made.run(*(made.experiment(made.point(1), name=name) for name in ("one", "two")))
    assert find_changes(twice, after) == []


def test_without_repeats_nothing_is_judged() -> None:
    before, after = (made.run(made.experiment(made.point(1, value, (value,)))) for value in (1e8, 0.5e8))
    (change,) = find_changes(before, after)
    assert change.verdict == "unknown" and change.p_value is None and change.ratio.low is None


def test_change_below_noise_floor_is_none() -> None:
    known = RunToRun(0.0001, 0.0, 8)
    before = made_run(1, noise=1e-5, spread=known)
    assert not is_slower(find_changes(before, made_run(2, shift=-0.009, noise=1e-5, spread=known)))
    assert is_slower(find_changes(before, made_run(2, shift=-0.011, noise=1e-5, spread=known)))


def test_the_ratio_interval_holds_the_truth() -> None:
    covered = total = 0
    for at in range(100):
        changes = find_changes(made_run(2 * at, between=0.03), made_run(2 * at + 1, between=0.03, shift=-0.2))
        for change in changes:
            assert change.ratio.low is not None and change.ratio.high is not None
            covered += change.ratio.low <= math.exp(-0.2) <= change.ratio.high
            total += 1
    assert covered / total >= least(0.95, 100 * EXPERIMENTS)


def test_prior_holds_until_earlier_runs() -> None:
    before, after = made_run(1), made_run(2)
    assert comparison.assumed_spread(before, after) == PRIOR_DEVIATION
    assert comparison.assumed_spread(before, made_run(2, spread=RunToRun(0.01, 0.0, 3))) is None


def test_a_table_of_changes_has_one_unit_for_what_is_moved() -> None:
    from hwdyno.explain.comparison import runs_compared
    from hwdyno.report.compared import format_comparison

    def at(bytes_s: float) -> Run:
        run = made_run(1)
        first, *others = run.experiments
        points = tuple(replace(point, throughput=replace(point.throughput, value=bytes_s)) for point in first.points)
        return replace(run, experiments=(replace(first, points=points), *others))

    text = format_comparison("before", [runs_compared(at(5e7), at(3e10), "after")], verbose=True)
    assert "30.0 GB/s" in text and "0.0500 GB/s" in text


def test_on_the_simulated_machine(tmp_path: Path) -> None:
    """Nothing changes between like runs, and a machine that lost a tenth of everything is slower."""
    false = found = 0
    cases = sample(2, 10)
    for seed in range(cases):
        core = Core.random(seed, noise=0.03)
        slow = replace(
            core,
            channels_bytes_s=0.9 * core.channels_bytes_s,
            thread_bytes_s=0.9 * core.thread_bytes_s,
            caches_ns=tuple(ns / 0.9 for ns in core.caches_ns),
            memory_ns=core.memory_ns / 0.9,
        )
        runs = [run_at(core, 10_000.0 * at, 10 * seed + at, tmp_path) for at in range(5)]
        after = with_earlier(run_at(core, 60_000.0, 10 * seed + 6, tmp_path), runs)
        worse = with_earlier(run_at(slow, 70_000.0, 10 * seed + 7, tmp_path), runs)
        false += is_slower(find_changes(runs[-1], after))
        found += is_slower(find_changes(runs[-1], worse))
    assert false <= 0.2 * cases and found >= 0.9 * cases
