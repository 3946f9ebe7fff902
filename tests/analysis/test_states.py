"""A device that changes during the run is named once, and its curves are of one state."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from calibration import states as planted
from here import sample
from hwdyno.analysis.curves import fit_curves
from hwdyno.analysis.states import CHANGED_AT, CHANGED_NOTE, change_in, in_one_state
from hwdyno.explain.findings import explain
from hwdyno.measure.measurement import BEGAN, Reading, make_measurement
from hwdyno.measure.runner.point import PointInWork
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run
from made_experiment import made_experiment
from simulated_runs import FIXED, MACHINES, at, list_rules, make_run, the
from simulation.host import SimulatedHost, SimulatedMachine

DEPTHS = [at(iodepth=2**k) for k in range(8)]
MIXED = [at(rw=rw, iodepth=depth) for rw in ("randread", "randwrite") for depth in (1, 4, 16, 64)]


def slower(machine: SimulatedMachine, share: float) -> SimulatedMachine:
    """The machine with this share of its throughput."""
    return replace(
        machine,
        latency_one_s=machine.latency_one_s / share,
        operations_s=machine.operations_s * share,
        read_bytes_s=machine.read_bytes_s * share,
    )


def in_rounds(
    machine: SimulatedMachine, points: list[Parameters], share: float = 1.0, after: float = 0.5, rounds: int = 3
) -> tuple[ExperimentResult, float]:
    """Points read in rounds on a machine that has a share of its throughput after a part of the readings, and when."""
    rng, host = random.Random(machine.seed), SimulatedHost(machine)
    works = [PointInWork(at, parameters) for at, parameters in enumerate(points)]
    total, changed_s = rounds * len(points), 0.0
    for taken in range(total):
        if taken % len(points) == 0:
            order = rng.sample(works, len(works))
        if taken == round(after * total):
            host.machine, changed_s = slower(machine, share), host.now_s
        point, before, began_s = order[taken % len(points)], host.snapshot(), host.now_s
        given = {**FIXED, **point.parameters}
        point.readings.append({BEGAN: began_s, **host.run("storage_blocks", given)})
        point.snapshots.append((before, host.snapshot()))
    declared = host.kernels()["storage_blocks"]
    made = [make_measurement(work.parameters, work.readings, declared, work.snapshots) for work in works]
    result = made_experiment("storage.iodepth", "storage", "?", "iodepth", "storage_blocks", tuple(made), fixed=FIXED)
    return result, changed_s


def explained(machine: SimulatedMachine, points: list[Parameters], share: float, after: float = 0.5) -> Run:
    return explain(make_run(machine, in_rounds(machine, points, share, after)[0]))


@pytest.mark.parametrize("after", [0.25, 0.5, 0.75])
def test_a_change_of_a_quarter_is_named_once_with_its_place_and_bytes(after: float) -> None:
    named, machines = 0, MACHINES[: sample(8, 40)]
    for seed in machines:
        machine = SimulatedMachine.random(seed)
        result, changed_s = in_rounds(machine, MIXED, 0.75, after)
        run = explain(make_run(machine, result))
        found = [finding for finding in run.findings if finding.rule == "device_changed"]
        named += len(found)
        if not found:
            continue
        assert found[0].evidence["changed_at_s"] == pytest.approx(changed_s, abs=2.5), f"machine {seed}"
        assert found[0].evidence["ratio"] == pytest.approx(0.75, abs=0.05)
        assert "Storage: throughput fell to 7" in found[0].says and "B, and stayed there" in found[0].says
        symptoms = {"repeats_disagree", "interval_not_reached", "outlying_repeats", "throttled"}
        touched = {at for at, point in enumerate(run.experiments[0].points) if "device_changed" in point.why}
        assert touched
        assert not any(touched & set(finding.points) for finding in run.findings if finding.rule in symptoms), (
            f"machine {seed}"
        )
    assert named >= 0.95 * len(machines)


def test_a_change_that_other_load_explains_is_that_loads() -> None:
    """What is known to have taken the processor is reported, and no change of the device is."""
    for seed in MACHINES[:10]:
        rules = list_rules(explained(SimulatedMachine.random(seed, others_cpu=0.6), MIXED, 0.6).findings)
        assert "others_at_work" in rules and "device_changed" not in rules, f"machine {seed}"


def test_a_small_change_degrades_nothing() -> None:
    """The change after a minute of another load's: 11% are within what most figures leave open."""
    for seed in MACHINES[:20]:
        assert "device_changed" not in list_rules(explained(SimulatedMachine.random(seed), MIXED, 0.89).findings)


def test_nothing_is_named_on_a_machine_that_stays_as_it_is() -> None:
    for seed in MACHINES:
        assert "device_changed" not in list_rules(explained(SimulatedMachine.random(seed), MIXED, 1.0).findings)


@pytest.mark.parametrize(("noise", "least"), [("2% normal", 0.97), ("5% normal", 0.94), ("2%, Student's t of 3", 0.95)])
def test_quarter_change_is_found_in_noise(noise: str, least: float) -> None:
    runs = sample(100, 300)
    assert planted.score(noise, 0.75, runs, 5).placed >= least * runs


@pytest.mark.parametrize("noise", planted.NOISES)
def test_at_most_one_run_of_a_hundred_is_said_to_change_without_cause(noise: str) -> None:
    runs = sample(200, 600)
    assert planted.score(noise, 1.0, runs, 6).named <= 0.01 * runs


def test_a_curve_is_of_one_state() -> None:
    """Read half in each state, eight depths have their knee where each state alone has it."""
    machine = SimulatedMachine.random(3, latency_one_s=1e-4, operations_s=8e4, p=4.0, noise=0.005, read_bytes_s=9e9)
    run = explained(machine, DEPTHS, 0.3, after=0.45)
    (curve,) = run.experiments[0].curves
    assert curve.state == "knee" and curve.knee is not None
    assert curve.ceiling is not None and curve.ceiling.value == pytest.approx(0.3 * 8e4 * 4096, rel=0.05)
    assert curve.knee.load == pytest.approx(8, rel=0.2)
    assert "off_the_curve" not in list_rules(run.findings)


def test_points_of_the_other_state_alone_are_on_no_curve() -> None:
    result, _ = in_rounds(SimulatedMachine.random(3), DEPTHS, 0.3, after=0.5)
    marked = explain(make_run(SimulatedMachine.random(3), result)).experiments[0]
    cut = marked.points[0].conditions[CHANGED_AT]

    def only(point: Measurement, *, late: bool) -> Measurement:
        timed = zip(point.repeat_starts_s, point.repeat_values, strict=True)
        starts, values = zip(*(reading for reading in timed if (reading[0] >= cut) == late), strict=True)
        return replace(point, repeat_starts_s=starts, repeat_values=values)

    early, *late = (only(marked.points[at], late=at > 2) for at in (2, 3, 4))
    settled = in_one_state(replace(marked, points=(*marked.points[:2], early, *late, *marked.points[5:])))
    assert [at for at, point in enumerate(settled.points) if "other_state" in point.why] == [2]
    assert {at for curve in fit_curves(settled) for at in curve.points} == {0, 1, 3, 4, 5, 6, 7}


def test_explaining_twice_changes_nothing() -> None:
    run = explained(SimulatedMachine.random(5), MIXED, 0.5)
    assert explain(run) == run
    assert "Curves use the readings of one state" in the(run, "device_changed").says
    assert sum(note.code == CHANGED_NOTE for point in run.experiments[0].points for note in point.notes) >= 2


def test_readings_without_times_tell_no_change() -> None:
    result, _ = in_rounds(SimulatedMachine.random(5), MIXED, 0.5)
    assert change_in(result.points) is not None
    assert change_in([replace(point, repeat_starts_s=()) for point in result.points]) is None
    assert change_in(result.points[:1]) is None


def test_a_reading_knows_when_it_began() -> None:
    host = SimulatedHost()
    readings: list[Reading] = [{BEGAN: began, **host.run("storage_blocks", {**FIXED, **at()})} for began in (1.0, 4.5)]
    assert make_measurement(at(), readings).repeat_starts_s == (1.0, 4.5)
    assert make_measurement(at(), [readings[0], host.run("storage_blocks", {**FIXED, **at()})]).repeat_starts_s == ()
