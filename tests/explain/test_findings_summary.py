"""What the findings say of a whole Run: one for alike points, the gravest first, the same when explained again."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings import explain
from simulated_runs import TWO_POINTS, experiment, list_rules, make_run, the
from simulated_runs import at as _at
from simulation.host import SimulatedMachine


def test_many_faults_make_a_point_invalid() -> None:
    machine = SimulatedMachine(short_transfers=10**6)
    run = explain(make_run(machine, experiment(machine, "iodepth", [_at()], repeats=1)))
    assert the(run, "faults").severity == "invalid"


def test_one_finding_covers_alike_points() -> None:
    machine = SimulatedMachine(cache_share=0.9)
    run = explain(make_run(machine, experiment(machine, "iodepth", [_at(iodepth=n) for n in (1, 2, 4)])))
    finding = the(run, "page_cache")
    assert finding.points == (0, 1, 2)
    assert "Worst of 3 points of storage.iodepth." in finding.says
    assert run.findings[0].severity == "invalid", "the gravest comes first"


def test_one_finding_speaks_for_all_experiments_and_explains_what_follows_from_it() -> None:
    machine = SimulatedMachine(others_cpu=0.5, throttle_at=0.5, noise=0.2, load_before=6, others_before=0.4)
    several = [
        experiment(machine, "iodepth", [_at(), _at(iodepth=4)], name=name) for name in ("storage.a", "storage.b")
    ]
    run = explain(make_run(machine, *several))
    assert list_rules(run.findings, "warning", "invalid") == {"others_at_work"}
    finding = run.findings[0]
    assert "Other processes kept" in finding.says and "40% of it before the first point" in finding.says
    assert "Worst of 4 points (storage.a 2, storage.b 2)" in finding.says
    assert "This explains " in finding.says and "a wide interval (" in finding.says
    assert finding.evidence["points"] == {"storage.a": [0, 1], "storage.b": [0, 1]}
    for result in run.experiments:
        for point in result.points:
            assert point.validity == "degraded" and point.why[0] == "others_at_work"
            assert "throttled" not in point.why


def test_a_curve_of_poor_points_is_to_be_taken_with_care() -> None:
    points = [_at(iodepth=2**k) for k in range(9)]
    poor = explain(make_run(SimulatedMachine(steal=0.3), experiment(SimulatedMachine(steal=0.3), "iodepth", points)))
    assert "9 of 9 points are degraded" in the(poor, "knee").says
    clean = explain(make_run(SimulatedMachine(), experiment(SimulatedMachine(), "iodepth", points)))
    assert "Caution" not in the(clean, "knee").says


def test_explaining_twice_changes_nothing() -> None:
    machine = SimulatedMachine.random(3, cache_share=0.4, steal=0.1)
    points = [*TWO_POINTS, _at(), _at(iodepth=64)]
    once = explain(make_run(machine, experiment(machine, "iodepth", points)))
    assert explain(once) == once


def test_what_was_known_of_a_point_before_stays_known() -> None:
    machine = SimulatedMachine()
    result = experiment(machine, "iodepth", [_at()])
    cut = replace(result.points[0], validity="degraded", why=("interrupted",))
    run = explain(explain(make_run(machine, replace(result, points=(cut,)))))
    assert run.experiments[0].points[0].why == ("interrupted",)
    assert run.experiments[0].points[0].validity == "degraded"
