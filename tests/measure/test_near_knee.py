"""The points that a run adds to its plan: where a curve bends, and where an open loop leaves its capacity open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import runner
from simulated_hosts import Memory, planned
from simulation.host import SimulatedHost, SimulatedMachine

BENT = SimulatedMachine(seed=3, noise=0.005, operations_s=100e3)


def test_point_near_knee_is_added(tmp_path: Path) -> None:
    host, store = SimulatedHost(BENT), Memory()
    run = runner.run(planned(tmp_path, host, given={"iodepth": "1..256"}), host, store, "run-1")
    (result,) = run.experiments
    assert [point.parameters["iodepth"] for point in result.points[:-1]] == [2**k for k in range(9)]
    more = result.points[-1]
    assert [note.code for note in more.notes] == ["near_the_knee"]
    assert more.rate is not None and 0.85 < more.rate.value / BENT.law(True, False, 4096)[1] < 0.95
    assert more.repeats >= 3 and list(more.parameters) == list(result.points[0].parameters)
    assert result.planned == len(result.points) == 10
    assert not any(note.code == "near_the_knee" for point in result.points[:-1] for note in point.notes)
    assert store.points[-1][1] == more


@pytest.mark.parametrize("most", [0.6, 0.7])
def test_open_capacity_adds_a_rate(most: float, tmp_path: Path) -> None:
    """Hardly any request waits at 70% of what 32 servers serve."""
    machine = SimulatedMachine(seed=3, noise=0.005, servers=32)
    host = SimulatedHost(machine)
    capacity = machine.servers / machine.latency_one_s
    rates = [round(capacity * share) for share in (0.2, 0.3, 0.4, 0.5, most)]
    given = {"rate": ",".join(map(str, rates)), "iodepth": "256", "rate_process": "poisson"}
    run = runner.run(planned(tmp_path, host, given=given), host, Memory(), "run-1")
    (result,) = run.experiments
    *before, more = result.points
    assert len(before) == len(rates)
    assert float(str(more.parameters["rate"])) == pytest.approx(1.25 * rates[-1], rel=0.01)
    assert [note.code for note in more.notes] == ["near_the_knee"]


def test_no_rate_is_added_where_the_capacity_is_known(tmp_path: Path) -> None:
    machine = SimulatedMachine(seed=3, noise=0.005, servers=4)
    host = SimulatedHost(machine)
    rates = [round(machine.servers / machine.latency_one_s * share) for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    given = {"rate": ",".join(map(str, rates)), "iodepth": "256", "rate_process": "poisson"}
    run = runner.run(planned(tmp_path, host, given=given), host, Memory(), "run-1")
    assert len(run.experiments[0].points) == len(rates)


def test_no_point_is_added_without_a_knee_or_along_block_sizes(tmp_path: Path) -> None:
    given: tuple[dict[str, Any], ...] = ({"iodepth": "1,2,4"}, {"iodepth": "16", "bs": "4k,16k,64k,256k,1M"})
    for axes in given:
        host = SimulatedHost(BENT)
        run = runner.run(planned(tmp_path, host, given=axes), host, Memory(), "run-1")
        assert len(run.experiments[0].points) == max(len(value.split(",")) for value in axes.values())


def test_point_near_knee_needs_time(tmp_path: Path) -> None:
    host = SimulatedHost(BENT)
    made = planned(tmp_path, host, given={"iodepth": "1..256", "runtime": "1s"}, budget_s=1e-3)
    run = runner.run(made, host, Memory(), "run-1")
    assert len(run.experiments[0].points) == 9
