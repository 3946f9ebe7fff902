"""The runner: order, repeats, budgets and listings of a plan, on simulated hosts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from calibration.repeats import reading
from hwdyno.measure import plan, runner
from hwdyno.measure.dry_run import listing
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.runner.point import PointInWork
from hwdyno.measure.sweep import Sweep
from made_experiment import ON_ONE_HOST
from simulated_hosts import QUIET, Memory, Slow, Tampered, measured, nothing, planned
from simulation.host import SimulatedHost, SimulatedMachine


def test_points_come_back_in_the_plans_order_though_they_ran_shuffled(tmp_path: Path) -> None:
    host = Tampered(QUIET, nothing)
    run, store = measured(tmp_path, host)
    result = run.experiments[0]
    assert [point.parameters["iodepth"] for point in result.points] == [1, 8, 64]
    assert result.planned == 3
    orders = [[call["iodepth"] for call in host.calls[at : at + 3]] for at in (1, 4, 7)]
    assert all(sorted(order) == [1, 8, 64] for order in orders)
    assert orders != [[1, 8, 64]] * 3
    assert store.finished == [run]
    assert not run.degraded


def test_same_seed_gives_same_order(tmp_path: Path) -> None:
    orders = []
    for _ in range(2):
        host = Tampered(QUIET, nothing)
        measured(tmp_path, host)
        orders.append([(call["iodepth"], call["seed"]) for call in host.calls])
    assert orders[0] == orders[1]


def test_no_reading_repeats_a_random_order(tmp_path: Path) -> None:
    """A device's own cache would answer it, as a server's did with the same prompts at each point."""
    host = Tampered(QUIET, nothing)
    measured(tmp_path, host)
    seeds = [call["seed"] for call in host.calls]
    assert len(seeds) >= 10 and len(set(seeds)) == len(seeds)


def test_measured_rates_match_the_machine(tmp_path: Path) -> None:
    host = SimulatedHost(QUIET)
    run, _ = measured(tmp_path, host)
    for point in run.experiments[0].points:
        depth = point.parameters["iodepth"]
        assert isinstance(depth, int)
        truth = QUIET.operations_per_s("randread", 100, 4096, depth)
        assert point.rate is not None
        assert point.rate.value == pytest.approx(truth, rel=0.02)
        assert point.throughput.value == pytest.approx(point.rate.value * 4096)
        assert point.concurrency is not None
        assert point.concurrency.effective == pytest.approx(depth, rel=0.01)
        assert point.latency_ns is not None
        assert point.latency_ns.count == point.operations
        assert point.repeats == len(point.repeat_values) >= 3
        assert point.validity == "valid"
        assert point.samples is not None
        assert point.samples.min <= point.samples.avg <= point.samples.max


def test_a_noisy_point_is_repeated_to_the_cap_and_says_what_it_reached(tmp_path: Path) -> None:
    depths = {"iodepth": "1,2,4,8,16,32,64"}
    run, _ = measured(tmp_path, SimulatedHost(SimulatedMachine(seed=4, noise=0.3)), given=depths)
    capped = [point for point in run.experiments[0].points if point.repeats == plan.PROFILES["quick"].repeats_max]
    assert capped
    assert any(note.code == "interval_not_reached" for point in capped for note in point.notes)


class Seeded(SimulatedHost):
    """A simulated machine whose noise does not depend on the folder's name."""

    readings = 0

    def read(self, kernel: str, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        self.readings += 1
        return super().read(kernel, given, random.Random(self.readings))


@pytest.mark.parametrize(("depths", "repeats"), [("8", 14), ("1,64", 14), ("1,2,64", 9), ("1,2,32,64", 6), (None, 4)])
def test_points_with_few_beside_them_have_more_repeats(tmp_path: Path, depths: str | None, repeats: int) -> None:
    """What lasts for a reading shows in other points; where there are few, in more repeats."""
    still = SimulatedMachine(seed=3, noise=0.0005)
    run, _ = measured(tmp_path, Seeded(still), given={"iodepth": depths or "1,2,4,8,16,32,64"})
    assert {point.repeats for point in run.experiments[0].points} == {repeats}
    assert not any(note.code == "interval_not_reached" for point in run.experiments[0].points for note in point.notes)


def test_a_point_alone_is_not_held_up_where_time_is_short() -> None:
    readings = [reading(np.tile([0.99, 1.01], 10)) for _ in range(12)]
    timing = plan.Timing(1.0, 0.1, 3, 5)
    alone, among = PointInWork(0, {}, showing=12), PointInWork(0, {})
    alone.readings, among.readings = readings[:3], readings[:3]
    assert among.ends(timing, 0.1) == "sure" and alone.ends(timing, 0.1) == ""
    assert alone.ends(timing, 0.1, hurried=True) == "sure"
    alone.readings = readings[:11]
    assert alone.ends(timing, 0.1) == "" and alone.ends(timing, 1e-9) == ""
    alone.readings = readings
    assert alone.ends(timing, 0.1) == "sure" and alone.ends(timing, 1e-9) == "repeats"
    assert alone.least(replace(timing, repeats_min=1)) == 1, "one reading is all that there was time for"


@pytest.mark.parametrize(
    ("runtime_s", "most", "repeats"), [(6.7, 5, 14), (6.8, 5, 0), (6.8, 14, 14), (30.0, 13, 0), (30.0, 20, 14)]
)
def test_repeats_that_show_a_rare_level_take_no_longer_than_that_is_worth(
    runtime_s: float, most: int, repeats: int, tmp_path: Path
) -> None:
    (experiment,) = planned(tmp_path, SimulatedHost(QUIET), {"iodepth": "8"}).experiments
    chosen = plan.Timing(runtime_s, 0.0, 3, most)
    assert plan.showing(experiment, experiment.points[0], chosen, frozenset()) == repeats


def test_longer_readings_count_in_budget(tmp_path: Path) -> None:
    """A reading is begun where it ends within the budget and 10%; of four, the upper middle one says how long it is."""
    made = replace(planned(tmp_path, SimulatedHost(QUIET), {"iodepth": "8"}), budget_s=100.0)
    experiment, point = made.experiments[0], PointInWork(0, {"iodepth": 8})
    allowance = Allowance(replace(made, prepared_s=96.0), {experiment.experiment.name: [point]})
    once_s = plan.reading_s(experiment, point.parameters, allowance.timing, frozenset())
    for excess_s in (1.0, 2.0, 13.0, 20.0):
        allowance.learn(experiment, excess_s - once_s)
    assert not allowance.overruns(experiment, point)
    allowance.learn(experiment, 15.0 - once_s)
    allowance.learn(experiment, 15.0 - once_s)
    assert allowance.overruns(experiment, point)


def test_listing_counts_repeats_of_point_alone(tmp_path: Path) -> None:
    alone, many = (planned(tmp_path, SimulatedHost(QUIET), {"iodepth": depths}) for depths in ("8", "1,2,4,8,16,32,64"))
    reading_s = plan.reading_s(
        alone.experiments[0], alone.experiments[0].points[0], plan.timing(alone, None), frozenset()
    )
    assert listing(alone)[0].takes_s == pytest.approx(14 * reading_s)
    assert listing(many)[3].takes_s == pytest.approx(4 * reading_s)
    hurried = replace(alone, budget_s=100.0)
    assert listing(hurried)[0].takes_s == pytest.approx(7 * reading_s), "a headline quotes it"
    hurried = replace(many, budget_s=100.0)
    assert [round(line.takes_s / reading_s) for line in listing(hurried)] == [7, 3, 3, 3, 3, 7, 3], (
        "those nearest Q1 and Q32"
    )


def test_a_point_is_kept_at_its_first_reading_and_at_its_end(tmp_path: Path) -> None:
    run, store = measured(tmp_path, SimulatedHost(QUIET))
    whole = [point.repeats for point in run.experiments[0].points]
    assert len(whole) == 3 and min(whole) >= 3
    assert sorted(point.repeats for _, point in store.points) == sorted([1, 1, 1, *whole])


def test_nothing_is_left_in_the_directory(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    measured(tmp_path, SimulatedHost(QUIET))
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "precious"


def test_conditions_stand_beside_each_point(tmp_path: Path) -> None:
    machine = SimulatedMachine(seed=3, steal=0.2, load_before=1.5)
    run, _ = measured(tmp_path, SimulatedHost(machine))
    conditions = run.experiments[0].points[0].conditions
    assert conditions["steal"] == pytest.approx(0.2)
    assert conditions["load_1m"] == 1.5
    assert 0 <= conditions["cpu_busy"] <= 1


def test_the_shared_parameters_are_told_once_with_the_place_and_the_seed(tmp_path: Path) -> None:
    run, _ = measured(tmp_path, SimulatedHost(QUIET))
    fixed = run.experiments[0].fixed
    assert fixed["path"] == str(tmp_path)
    assert fixed["seed"] == 5
    assert fixed["direct"] is True
    assert fixed["size"] == 256 << 20
    assert "iodepth" not in fixed


def test_every_experiment_of_the_catalogue_runs(tmp_path: Path) -> None:
    host, store = SimulatedHost(QUIET), Memory()
    chosen = [(experiment, {}) for experiment in ON_ONE_HOST if experiment.kernel in host.kernels()]
    made = plan.build(chosen, host, path=tmp_path, budget_s=900.0, seed=1)
    run = runner.run(made, host, store, "run-1")
    assert not run.degraded
    assert all(len(result.points) == result.planned > 0 for result in run.experiments)


def test_mix_keeps_its_share_apart(tmp_path: Path) -> None:
    host = SimulatedHost(QUIET)
    made = planned(tmp_path, host, given={"rw": "randrw:70", "iodepth": "8"})
    run = runner.run(made, host, Memory(), "run-1")
    point = run.experiments[0].points[0]
    assert point.parameters["rw"] == "randrw"
    assert point.parameters["rwmixread"] == 70
    assert [stream.name for stream in point.streams] == ["read", "write"]
    assert made.experiments[0].points[0]["rwmixread"] == 70


def test_the_sampling_interval_follows_the_runtime(tmp_path: Path) -> None:
    for runtime, interval_s in (("100ms", 0.01), ("0.4s", 0.02), ("1s", 0.05), ("30s", 0.1)):
        host = Tampered(QUIET, nothing)
        runner.run(planned(tmp_path, host, given={"runtime": runtime}), host, Memory(), "run-1")
        assert {call["interval_s"] for call in host.calls[1:]} == {interval_s}
    host = Tampered(QUIET, nothing)
    runner.run(planned(tmp_path, host, given={"interval_s": "0.25"}), host, Memory(), "run-1")
    assert {call["interval_s"] for call in host.calls} == {0.25}


@pytest.mark.parametrize("overhead_s", [0.01, 0.3, 0.6])
def test_large_grid_reads_every_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overhead_s: float) -> None:
    from hwdyno.measure.runner import allowance, plan_run

    host = Slow(overhead_s)
    for module in (allowance, plan_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: host.clock_s))
    given = {"iodepth": "1,2,4,8,16,32", "numjobs": "1,2,3,4,6,8", "bs": "4k,8k,64k,1M"}
    run = runner.run(planned(tmp_path, host, given=given, budget_s=150.0, profile="standard"), host, Memory(), "run-1")
    (result,) = run.experiments
    assert len(result.points) == result.planned >= 144 and not run.degraded
    assert host.clock_s <= 1.15 * 150.0


@pytest.mark.parametrize("overhead_s", [0.01, 0.3, 1.5])
@pytest.mark.parametrize("budget_s", [10.0, 40.0, 150.0])
def test_budget_is_kept_within_fifth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overhead_s: float, budget_s: float
) -> None:
    """However long readings take beside their timed regions, which no plan can know."""
    from hwdyno.measure.runner import allowance, plan_run

    host = Slow(overhead_s)
    for module in (allowance, plan_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: host.clock_s))
    chosen = [(experiment, {}) for experiment in ON_ONE_HOST if experiment.kernel == "storage_blocks"]
    made = plan.build(chosen, host, path=tmp_path, budget_s=budget_s, seed=1, profile="standard")
    run = runner.run(made, host, Memory(), "run-1")
    assert host.clock_s <= 1.2 * budget_s + overhead_s
    if overhead_s < budget_s / 10:
        assert all(result.points for result in run.experiments), "every question has some answer"
    left_out = any(len(result.points) < result.planned for result in run.experiments)
    assert left_out == bool(run.degraded)


@pytest.mark.parametrize(("overhead_s", "warm_ups"), [(0.4, 1), (4.0, 0)])
def test_long_readings_have_no_warm_up(tmp_path: Path, overhead_s: float, warm_ups: int) -> None:
    """Where a reading takes over a tenth of the budget, a warm-up would cost the only other one."""
    host = Tampered(QUIET, nothing)
    made = replace(planned(tmp_path, host, {"iodepth": "8"}), budget_s=30.0)
    long = replace(made.experiments[0].experiment, setup_s=overhead_s)
    made = replace(made, experiments=(replace(made.experiments[0], experiment=long),))
    run = runner.run(made, host, Memory(), "run-1")
    (point,) = run.experiments[0].points
    assert len(host.calls) - point.repeats == warm_ups


def test_early_noise_takes_no_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do cheap readings of one kernel promise cheap ones of the next."""
    from hwdyno.measure.runner import allowance, plan_run

    noisy = replace(QUIET, noise=0.2, core=replace(QUIET.core, noise=0.2))
    host = Slow(0.4, noisy, slow="storage")
    for module in (allowance, plan_run):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: host.clock_s))
    made = plan.build(plan.select(None, host), host, path=tmp_path, budget_s=100.0, seed=1)
    run = runner.run(made, host, Memory(), "run-1")
    assert not run.degraded
    assert min(point.repeats for result in run.experiments for point in result.points) >= 2
    assert host.clock_s <= 1.1 * 100.0


def test_thinning_keeps_the_ends_of_an_axis_and_every_word() -> None:
    points = Sweep(rw=("read", "randread"), bs="4k,8k,16k,32k,64k", iodepth=(1, 2, 4, 8, 16, 32)).points()
    kept = runner.budget.thin_points(points, "iodepth", 20)
    assert len(kept) <= 20
    for name in ("rw", "bs", "iodepth"):
        values = [point[name] for point in points]
        assert {values[0], values[-1]} <= {point[name] for point in kept}
    assert runner.budget.thin_points(points, "iodepth", 1) == (points[0],)
    assert runner.budget.thin_points(points, "iodepth", 1000) == tuple(points)
