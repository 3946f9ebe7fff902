"""An interval keeps what it promises: on machines whose speed drifts, runs agree within theirs 95 times in 100."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import made_store as made
import pytest
from here import sample
from hwdyno.explain.findings import explain
from hwdyno.explain.repeatability import (
    estimate_spread,
    half_width,
    qn_scale,
    unknown,
    with_earlier,
    with_pooled_repeats,
)
from hwdyno.measure import experiments, runner
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import build
from hwdyno.measure.runner import plan_run
from hwdyno.measure.runner.in_turn import blocks
from hwdyno.measure.runner.near_knee import NOTE
from hwdyno.model.words import ExperimentResult, Measurement, Run, RunToRun, Value
from made_point import base, make_run
from simulated_hosts import Memory
from simulation.core import Core
from simulation.host import SimulatedHost, SimulatedMachine

EXPERIMENTS = ("memory.grid", "memory.threads", "memory.levels", "memory.latency", "memory.loaded")
RUNS = 4
MACHINES = sample(2, 6)
HISTORIES = sample(30, 200)


def run_at(core: Core, begun_s: float, seed: int, path: Path) -> Run:
    """A quick run that begins at a moment of the machine's life."""
    host = SimulatedHost(SimulatedMachine(seed=seed, threads=core.threads, core=core))
    host.now_s = begun_s
    chosen = [(experiment, {}) for name in EXPERIMENTS for experiment in experiments.find(name)]
    return runner.run(build(chosen, host, path=path, seed=seed), host, Memory(), "run")


def planned(result: ExperimentResult) -> list[Measurement]:
    """The points that every run has: those near a bend are added where a run finds it."""
    return [point for point in result.points if all(note.code != NOTE.code for note in point.notes)]


def intervals(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    return {
        (result.name, str(point.parameters)): (point.throughput.low, point.throughput.high)
        for result in run.experiments
        for point in planned(result)
        if point.throughput.low is not None and point.throughput.high is not None
    }


def least(share: float, cases: int) -> float:
    """What a binomial share of this many independent cases falls below once in a thousand."""
    return share - 3.1 * math.sqrt(share * (1 - share) / cases)


def test_stateless_experiments_are_one_block(tmp_path: Path) -> None:
    host = Local()
    names = ("storage.iodepth", "storage.blocksize", "memory.grid", "memory.latency", "compute.grid", "compute.threads")
    names += ("compute.linpack", "memory.threads")
    chosen = [(experiment, {}) for name in names for experiment in experiments.find(name)]
    found = blocks(build(chosen, host, path=tmp_path).experiments)
    assert [[planned.experiment.name for planned in block] for block in found] == [
        ["storage.iodepth"],
        ["storage.blocksize"],
        ["memory.grid", "memory.latency"],
        ["compute.grid", "compute.threads"],
        ["compute.linpack"],
        ["memory.threads"],
    ]


def test_a_points_repeats_lie_as_far_apart_as_the_run_is_long(tmp_path: Path) -> None:
    class Watched(SimulatedHost):
        def __init__(self) -> None:
            super().__init__()
            self.order: list[str] = []

        def run(self, kernel: str, parameters: dict[str, object]) -> dict[str, object]:
            self.order.append(kernel)
            return super().run(kernel, parameters)

    host = Watched()
    chosen = [(experiment, {}) for name in EXPERIMENTS for experiment in experiments.find(name)]
    run = runner.run(build(chosen, host, path=tmp_path, seed=3), host, Memory(), "run")
    for result in run.experiments:
        assert len(result.points) == result.planned
    points = sum(len(result.points) for result in run.experiments)
    # Each third of the readings, which is about a round, has every kernel.
    thirds = [host.order[len(EXPERIMENTS) + at * points :][:points] for at in range(3)]
    assert all(set(third) == set(host.order) for third in thirds)


def shares(path: Path) -> tuple[float, float]:
    """The share of points whose intervals meet, of all pairs of runs, and of intervals that hold the truth."""
    met: list[float] = []
    covered: list[float] = []
    for seed in range(MACHINES):
        # A seventh of such a run's length later, the machine knows nothing of its speed.
        core = Core.random(seed, drift=0.03, drift_s=5.0)
        truth = {name: sum(span) / 2 for name, span in truths(Core.random(seed, noise=0.0)).items()}
        runs = [intervals(run_at(core, 1000.0 * (seed * RUNS + at), seed + 100 * at, path)) for at in range(RUNS)]
        met += [mean(overlap(run[name], other[name]) for name in run) for run, other in combinations(runs, 2)]
        covered += [mean(low <= truth[name] <= high for name, (low, high) in run.items()) for run in runs]
    return mean(met), mean(covered)


def test_runs_of_a_drifting_machine_agree_within_their_intervals(tmp_path: Path) -> None:
    met, covered = shares(tmp_path)
    assert met >= 0.95
    assert covered >= least(0.95, len(EXPERIMENTS) * MACHINES * RUNS)


def test_repeats_close_in_time_would_promise_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_run, "blocks", lambda experiments: [(experiment,) for experiment in experiments])
    met, covered = shares(tmp_path)
    assert met < 0.95 and covered < 0.85


def in_sequence(core: Core, seed: int, path: Path, runs: int) -> list[Run]:
    """Runs at times far apart, each kept beside those before it as the command line does."""
    kept: list[Run] = []
    for at in range(runs):
        run = run_at(core, 10_000.0 * (100 * seed + at), seed + 100 * at, path)
        kept.append(with_earlier(run, kept[::-1]))
    return kept


@cache
def steady_sequence() -> list[Run]:
    """Nine runs of a machine that stays as it is."""
    return in_sequence(Core.random(3), 3, Path(), 9)


def across_runs(run: Run) -> dict[tuple[str, str], tuple[float, float]]:
    """What another run may read: the interval of the repeats and the spread between runs, as independent."""
    found = {}
    for result in run.experiments:
        between = half_width(result.run_to_run or unknown())
        for point in planned(result):
            if point.throughput.low is not None and point.throughput.high is not None:
                value = point.throughput.value
                half = math.hypot((point.throughput.high - point.throughput.low) / 2 / value, between)
                found[result.name, str(point.parameters)] = (value * math.exp(-half), value * math.exp(half))
    return found


def test_what_differs_between_runs_is_learnt_from_earlier_ones(tmp_path: Path) -> None:
    """A drift far slower than a run: nothing within one can tell of it."""
    alone: list[float] = []
    with_earlier_runs: list[float] = []
    for seed in range(MACHINES):
        core = Core.random(seed, drift=0.03, drift_s=1000.0)
        truth = {name: sum(span) / 2 for name, span in truths(Core.random(seed, noise=0.0)).items()}
        runs = in_sequence(core, seed, tmp_path, 7)
        for shares_covered, spans in (
            (alone, map(intervals, runs[:2])),
            (with_earlier_runs, map(across_runs, runs[3:])),
        ):
            shares_covered += [
                mean(low <= truth[name] <= high for name, (low, high) in found.items()) for found in spans
            ]
    assert mean(alone) < 0.6
    assert mean(with_earlier_runs) >= least(0.95, len(with_earlier_runs))


def test_earlier_runs_widen_no_interval(tmp_path: Path) -> None:
    core = Core.random(2, drift=0.05, drift_s=1000.0)
    runs = in_sequence(core, 2, tmp_path, 4)
    alone = run_at(core, 10_000.0 * 203, 302, tmp_path)
    untimed = [
        [[replace(point, repeat_starts_s=()) for point in experiment.points] for experiment in run.experiments]
        for run in (runs[3], alone)
    ]
    assert untimed[0] == untimed[1], "but for when each was read"
    assert all(experiment.run_to_run and experiment.run_to_run.earlier == 3 for experiment in runs[3].experiments)


def test_a_steady_machine_has_a_narrow_spread_and_another_question_tells_nothing(tmp_path: Path) -> None:
    core, kept = Core.random(3), steady_sequence()
    spreads = [experiment.run_to_run for experiment in kept[-1].experiments]
    # The prior of 3% counts for 2 of 9 degrees of freedom, twice: for the other experiments, and beside them for each.
    least = 0.03 * 2 / 9
    assert all(spread and least <= spread.deviation < 0.012 and spread.point_deviation < 0.01 for spread in spreads)
    alone = run_at(core, 10_000.0 * 305, 503, tmp_path)
    other = replace(
        kept[0], experiments=tuple(replace(experiment, name="memory.other") for experiment in kept[0].experiments)
    )
    assert with_earlier(alone, [other, other, other]) == alone
    assert with_earlier(alone, kept[:1]) == alone, "one earlier run tells one difference"
    assert with_earlier(replace(alone, version="2"), kept).experiments == alone.experiments, "another version"


def made_runs(effects: list[float], seed: int, points: int = 12) -> list[ExperimentResult]:
    """An experiment of some points in runs that differ by these effects, with repeat noise of 1%."""
    rng = random.Random(seed)
    results = []
    for effect in effects:
        found = []
        for load in range(1, points + 1):
            repeats = tuple(1e9 * load * math.exp(effect + rng.gauss(0, 0.01)) for _ in range(3))
            found.append(made.point(load, mean(repeats), repeats))
        results.append(made.experiment(*found))
    return results


def test_two_slow_runs_of_eight_do_not_stand_for_all() -> None:
    halves = []
    for seed in range(HISTORIES):
        rng = random.Random(seed)
        effects = [rng.gauss(0, 0.02) for _ in range(6)] + [math.log(0.5), math.log(0.6)]
        rng.shuffle(effects)
        spread = estimate_spread(made_runs(effects, seed))
        assert spread is not None and spread.earlier == 8
        halves.append(half_width(spread))
    assert 0.06 < sorted(halves)[HISTORIES // 2] < 0.11 and max(halves) < 0.2


def test_degraded_points_teach_nothing(tmp_path: Path) -> None:
    rng = random.Random(1)
    results = made_runs([rng.gauss(0, 0.01) for _ in range(5)], 1)
    loaded = [
        replace(experiment, points=tuple(replace(point, validity="degraded") for point in experiment.points))
        for experiment in made_runs([-0.7, -0.4, -0.5], 2)
    ]
    assert estimate_spread(results + loaded) is None, "a run with no valid point shares none"
    runs = [replace(made.run(result), version="1") for result in [*results, *loaded]]
    new = with_earlier(replace(made.run(made_runs([0.0], 3)[0]), version="1"), runs)
    spread = new.experiments[0].run_to_run
    assert spread is not None and spread.earlier == 5 and spread.deviation < 0.025


def test_spread_is_found_from_many_runs() -> None:
    for true in (0.01, 0.05):
        found = [
            estimate_spread(made_runs([random.Random(f"{seed} {at}").gauss(0, true) for at in range(8)], seed))
            for seed in range(HISTORIES)
        ]
        middle = sorted(run_to_run.deviation for run_to_run in found if run_to_run)[HISTORIES // 2]
        expected = math.sqrt((2 * 0.03**2 + 7 * true**2) / 9)
        assert 0.8 * expected < middle < 1.2 * expected


def test_experiment_leans_on_its_resource() -> None:
    """Eight runs of another experiment that differ by 20% count for one with two, unless it is of another resource."""
    rng = random.Random(5)
    restless = made_runs([rng.gauss(0, 0.2) for _ in range(9)], 1)
    few = made_runs([0.0, 0.01], 2)

    def spread(resource: str, others: list[ExperimentResult]) -> float:
        runs = []
        for at, result in enumerate(others):
            known = [replace(few[at], name="storage.few")] if at < 2 else []
            other = replace(result, name="x.restless", resource=resource)
            runs.append(replace(made.run(other), version="1", experiments=(other, *known)))
        now = replace(runs[0], experiments=(runs[0].experiments[0], replace(few[0], name="storage.few")))
        found = with_earlier(now, runs).experiments[1].run_to_run
        assert found is not None and found.earlier == 2
        return found.deviation

    alone = spread("memory", restless)
    # One degree of freedom, almost nothing, and the prior of 3% for two.
    assert alone == pytest.approx(0.03 * math.sqrt(2 / 3), rel=0.05)
    assert 0.10 < spread("storage", restless) < 0.25
    assert spread("storage", made_runs([0.0] * 9, 3)) < 0.6 * alone, "calm neighbours lower it"


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 12, 25, 100])
def test_qn_is_scale_of_normal_data(count: int) -> None:
    rng = random.Random(count)
    found = [qn_scale([rng.gauss(0, 2.0) for _ in range(count)]) for _ in range(4000 if count < 50 else 300)]
    assert mean(found) == pytest.approx(2.0, rel=0.04)


def test_what_differs_between_runs_is_finding(tmp_path: Path) -> None:
    findings = [
        finding
        for finding in explain(in_sequence(Core.random(5, drift=0.05, drift_s=1000.0), 5, tmp_path, 5)[-1]).findings
        if finding.rule == "between_runs"
    ]
    assert findings and 0.02 < findings[0].evidence["deviation"] < 0.15 and findings[0].evidence["earlier_runs"] == 4
    assert not [finding for finding in explain(steady_sequence()[-1]).findings if finding.rule == "between_runs"]


@pytest.mark.parametrize(("deviation", "values", "within"), [
    (0.0199, (100.0,), []), (0.0201, (100.0,), [0.0]), (0.09, (9.0, 11.0), []), (0.11, (9.0, 11.0), [0.1]),
    (1.0, (90.0, 100.0, 110.0, 100.0), [math.sqrt(200 / 3) / 200]), (1.0, (0.5, 1.5), [0.5]), (1.0, (-1.0, 1.0), [0.0]),
])  # fmt: skip
def test_runs_differ_by_more_than_repeats(deviation: float, values: tuple[float, ...], within: list[float]) -> None:
    """Deviation within a run: the standard error of the mean, as a share of it."""
    run = make_run(base(repeat_values=values, repeats=len(values)))
    result = replace(run.experiments[0], run_to_run=RunToRun(deviation, 0.0, 8))
    found = explain(replace(run, experiments=(result,))).findings
    assert [finding.evidence["within"] for finding in found if finding.rule == "between_runs"] == pytest.approx(within)


def repeated(*values: float) -> Measurement:
    value = Value(100.0, "bytes/s", 90.0, 110.0)
    return base(throughput=value, rate=value, repeats=len(values), repeat_values=values, samples=None)


@pytest.mark.parametrize(("points", "variance"), [
    # A deviation of 3% that is assumed counts for four degrees of freedom of five, where others have fewer.
    ([(100.0, 100.0)], 4 * 0.03**2 / 5),
    ([(100.0, 100.0), (90.0, 90.0, 110.0, 110.0)], 4 * 0.03**2 / 5),
    # The median of chi-square of f degrees is (1 - 2 / 9f)^3 of its mean: 0.842 for four, 0.4705 for one.
    ([(100.0, 100.0), (90.0, 90.0, 100.0, 110.0, 110.0)], 4 * 0.010085 / 0.8424 / 5),
    # ln(1.01 / 0.99)^2 / 2 = 0.0002 and ln(1.04 / 0.96)^2 / 2 = 0.0032.
    ([(96.0, 104.0), *[(99.0, 101.0)] * 5], (4 * 0.000200013 / 0.4705 + 0.00320342) / 5),
    # Two wild ones of seven are not the noise of all.
    ([(100.0, 100.0), *[(99.0, 101.0)] * 4, (20.0, 180.0), (50.0, 150.0)], 4 * 0.000200013 / 0.4705 / 5),
])  # fmt: skip
def test_two_repeats_lean_on_other_points(points: list[tuple[float, ...]], variance: float) -> None:
    """Moderated t (Smyth, 2004), with Student's t of five degrees, 2.570582."""
    run = make_run(base())
    result = replace(run.experiments[0], points=tuple(repeated(*values) for values in points))
    pooled = with_pooled_repeats(replace(run, experiments=(result,)))
    first, half = pooled.experiments[0].points[0], 2.570582 * math.sqrt(variance / 2)
    assert first.rate == first.throughput and with_pooled_repeats(pooled) == pooled
    ends = (first.throughput.low, first.throughput.high)
    assert ends == pytest.approx((100 * math.exp(-half), 100 * math.exp(half)), rel=1e-3)
    assert with_pooled_repeats(run) == run, "three repeats are enough"


@cache
def truths(core: Core) -> dict[tuple[str, str], tuple[float, float]]:
    return intervals(run_at(core, 0.0, 1, Path()))


def overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def mean(values: Iterable[float]) -> float:
    every = list(values)
    return sum(every) / len(every)
