"""What the findings read off a curve is the truth of 200 random simulated machines."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace

import pytest
from here import sample
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.saturation import around
from hwdyno.measure.hosts.local import Local
from hwdyno.model.axes import FIELD
from simulated_runs import FIXED, MACHINES, experiment, list_rules, make_run, the
from simulated_runs import at as _at
from simulation.host import SimulatedMachine


@pytest.mark.slow  # each machine is swept and fitted
def test_knee_and_ceiling_are_machines_own() -> None:
    off_by, counted = [], 0
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        r1, most = machine.law(True, False, 4096)
        points = [_at(iodepth=2**k) for k in range(11)]
        run = explain(make_run(machine, experiment(machine, "iodepth", points, repeats=2)))
        (curve,) = run.experiments[0].curves
        truth = machine.operations_per_s("randread", 100, 4096, 1024) * 4096
        if truth < 0.97 * most * 4096 or r1 * most < 2:
            continue
        counted += 1
        finding = the(run, "knee")
        assert curve.ceiling is not None and curve.best is not None
        assert -0.07 <= curve.ceiling.value / (most * 4096) - 1 <= 0.05, f"machine {seed}"
        assert finding.evidence["N*"] == pytest.approx(r1 * most, rel=0.25), f"machine {seed}, p {machine.p}"
        reached = machine.operations_per_s("randread", 100, 4096, curve.best.load)
        below = machine.operations_per_s("randread", 100, 4096, curve.best.load / 2)
        assert reached > 0.85 * most and below < 0.95 * most, f"machine {seed}"
        off_by.append(abs(finding.evidence["N*"] / (r1 * most) - 1))
        assert "N* " not in finding.says and "ceiling" in finding.says and "operating point" in finding.says
    assert counted >= 0.9 * len(MACHINES)
    assert sorted(off_by)[len(off_by) // 2] < 0.03


@pytest.mark.parametrize("most", [3, 4, 64, 1024])
def test_bend_is_measured_on_both_sides(most: int) -> None:
    for bend in [0.6, 1, 1.4, 2, 2.5, 3.1, 5, 12.3, 47, 333, 900, 1024, 1300]:
        loads = around(bend, most)
        assert len(loads) >= 3 and loads == sorted(set(loads)) and loads[0] >= 1 and loads[-1] <= most
        inside = min(max(1, bend), most)
        assert loads[0] <= inside <= loads[-1]
        assert loads[0] < round(inside) or round(inside) == 1
        assert loads[-1] > round(inside) or round(inside) == most
        assert loads[-1] / loads[0] <= 4, "no wider than what was known of it"
        gaps = [high / low for low, high in itertools.pairwise(loads) if low >= 10]
        assert all(gap > 1.04 for gap in gaps), f"loads that no reading can part: {loads}"


def test_a_bend_at_one_job_is_looked_at_with_more_than_one() -> None:
    """The advice was once ``--numjobs 1``: of a single value no one sees a bend."""
    counted, machines = 0, sample(20, 40)
    for seed in range(machines):
        machine = SimulatedMachine.random(seed, latency_one_s=1e-4, operations_s=1.3e4, p=8.0)
        points = [_at(numjobs=2**k) for k in range(6)]
        run = explain(make_run(machine, experiment(machine, "numjobs", points, repeats=2)))
        for found in (finding for finding in run.findings if finding.rule == "knee"):
            counted += 1
            assert re.search(r"--numjobs 1,2,3\b", found.advice), found.advice
    assert counted > machines / 2


def test_nothing_is_left_to_look_at_where_each_whole_load_was_measured() -> None:
    machine = SimulatedMachine.random(3, latency_one_s=1e-4, operations_s=2e4, p=8.0)
    points = [_at(numjobs=n) for n in (1, 2, 3, 4, 5, 6)]
    run = explain(make_run(machine, experiment(machine, "numjobs", points, repeats=2)))
    advice = the(run, "knee").advice
    assert "Run the workload at" in advice and "closer" not in advice


@pytest.mark.slow  # each machine is swept and fitted
def test_curve_cut_short_is_still_rising() -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        r1, most = machine.law(True, False, 4096)
        last = max(4, int(r1 * most / 3))
        if machine.operations_per_s("randread", 100, 4096, last) < 1.12 * machine.operations_per_s(
            "randread", 100, 4096, last / 2
        ):
            continue
        loads = sorted({max(1, last // 2**k) for k in range(5)})
        if len(loads) < 3:
            continue
        run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=n) for n in loads], repeats=2)))
        assert {"still_rising"} <= list_rules(run.findings), f"machine {seed}"
        assert "knee" not in list_rules(run.findings)
        assert f"{last}.." in the(run, "still_rising").advice


def test_a_curve_begun_too_late_is_saturated_at_its_first_point() -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed, p=random.Random(seed).uniform(2.5, 8), noise=0.005)
        r1, most = machine.law(True, False, 4096)
        first = max(1, int(r1 * most * 8))
        if first > 256:
            continue
        loads = [first, 2 * first, 4 * first]
        run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=n) for n in loads], repeats=2)))
        assert list_rules(run.findings) - {"interval_not_reached"} == {"saturated"}, f"machine {seed}"
        assert "More load only adds latency" in the(run, "saturated").says


def test_load_without_arrivals_has_no_effect() -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed, depth_cap=1)
        points = [_at(iodepth=n) for n in (1, 4, 16, 64)]
        run = explain(make_run(machine, experiment(machine, "iodepth", points, repeats=2)))
        finding = the(run, "load_without_effect")
        assert "never arrives" in finding.says
        assert the(run, "depth_not_reached").points == (1, 2, 3)


def test_mix_penalty_is_measured() -> None:
    for seed in MACHINES:
        planted = random.Random(seed).choice([0.0, random.Random(seed + 1).uniform(0.12, 0.5)])
        machine = SimulatedMachine.random(seed, mix_penalty=planted)
        points = [_at(rw=rw, iodepth=8) for rw in ("randread", "randrw:50", "randwrite")]
        run = explain(make_run(machine, experiment(machine, "bs", points)))
        if not planted:
            assert "mix_penalty" not in list_rules(run.findings), f"machine {seed}"
            continue
        finding = the(run, "mix_penalty")
        assert finding.evidence["penalty"] == pytest.approx(planted, abs=0.05)
        assert finding.points == (1,)


def test_block_sizes_have_a_best_and_it_reaches_the_ceiling() -> None:
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        sizes = [4096 * 4**k for k in range(6)]
        run = explain(make_run(machine, experiment(machine, "bs", [_at(bs=bs, iodepth=8) for bs in sizes], repeats=2)))
        (curve,) = run.experiments[0].curves
        assert curve.state == "knee", f"machine {seed}"
        finding = the(run, "best_block_size")
        best = int(finding.evidence["best_load"])
        top = max(machine.operations_per_s("randread", 100, bs, 8) * bs for bs in sizes)
        assert machine.operations_per_s("randread", 100, best, 8) * best > 0.85 * top, f"machine {seed}"
        if best > 4096:
            assert machine.operations_per_s("randread", 100, best // 4, 8) * (best // 4) < 0.95 * top


def test_spinning_disks_differ_from_solid() -> None:
    for seed in MACHINES:
        spins = seed % 2 == 0
        machine = SimulatedMachine.spinning(seed) if spins else SimulatedMachine.random(seed)
        points = [_at(), _at(rw="read", bs=1 << 20, iodepth=8)]
        fixed = {**FIXED, "runtime": 10.0, "interval_s": 1.0}
        run = explain(make_run(machine, experiment(machine, "iodepth", points, fixed, repeats=2)))
        finding = the(run, "spinning_or_solid")
        assert finding.evidence["verdict"] == ("spinning" if spins else "solid state")
        assert "The kernel agrees" in finding.says
        lies = make_run(machine, *run.experiments)
        storage = lies.machine.storage
        storage = replace(storage, disks=(replace(storage.disk, rotational=not spins),))
        lies = replace(lies, machines=(replace(lies.machine, storage=storage),))
        assert "The kernel reports" in the(explain(lies), "spinning_or_solid").says


def test_best_combination_is_least_sufficient() -> None:
    machine = SimulatedMachine(p=6, operations_s=80e3, latency_one_s=100e-6, noise=0.002)
    points = [_at(numjobs=jobs, bs=bs) for jobs in (1, 2, 4, 8, 16, 32) for bs in (4096, 65536, 1 << 20)]
    run = explain(make_run(machine, experiment(machine, "numjobs", points)))
    finding = the(run, "best_combination")
    assert finding.evidence["share"] >= 0.9
    assert finding.evidence["best"] == {"numjobs": 8, "bs": 65536}, finding.says


def test_on_any_machine_the_best_combination_is_enough_and_nothing_less_is() -> None:
    grid = [(jobs, bs) for jobs in (1, 4, 16) for bs in (4096, 32768, 262144)]
    for seed in MACHINES:
        machine = SimulatedMachine.random(seed)
        rw = random.Random(seed).choice(["randread", "randwrite", "read"])
        points = [_at(rw=rw, numjobs=jobs, bs=bs) for jobs, bs in grid]
        result = experiment(machine, "numjobs", points, repeats=2)
        best = the(explain(make_run(machine, result)), "best_combination").evidence["best"]
        share = 100 if rw.endswith("read") else 0
        truth = {(jobs, bs): machine.operations_per_s(rw, share, bs, jobs) * bs for jobs, bs in grid}
        top = max(truth.values())
        assert truth[best["numjobs"], best["bs"]] > 0.86 * top, f"machine {seed}"
        cost = best["numjobs"] * best["bs"]
        less = [(jobs, bs) for (jobs, bs), reached in truth.items() if reached > 0.94 * top and jobs * bs < cost]
        assert not less, f"machine {seed}: {less} are enough"
        along = replace(result, points=tuple(point for point in result.points if point.parameters["bs"] == 4096))
        assert "best_combination" not in list_rules(explain(make_run(machine, along)).findings)


def test_no_load_is_advised_that_its_command_does_not_take() -> None:
    for name, kernel in Local().kernels().items():
        for axis in kernel.axes:
            most = FIELD[axis.name].most if axis.name in FIELD else None
            if most is not None and name not in {"idle", "memory_loaded_latency"}:
                assert most <= (axis.most or 0), f"{name}: {axis.name}"


def test_rise_at_greatest_depth_adds_jobs() -> None:
    machine = SimulatedMachine.random(5, latency_one_s=0.1, operations_s=1e6, p=4.0)
    points = [_at(iodepth=n, numjobs=4) for n in (256, 512, 1024)]
    run = explain(make_run(machine, experiment(machine, "iodepth", points, repeats=2)))
    assert "--numjobs 16" in the(run, "still_rising").advice
