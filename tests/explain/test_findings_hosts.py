"""What a site of several hosts can do wrong, planted on simulated sites; and nothing on 200 random clean ones."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hwdyno.explain.findings import explain
from hwdyno.measure.hosts import HostLostError
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.words import Finding, Measurement
from made_experiment import made_experiment
from simulated_runs import FIXED, MACHINES, at, make_run
from simulation.host import SimulatedMachine
from simulation.site import SimulatedMember, site_of_two

RULES = {"host_missing", "hosts_apart", "straggler"}
SHORT = {**FIXED, "runtime": 0.2, "interval_s": 0.05, "path": "/x"}
REPEATS = 3


def members(machine: SimulatedMachine, names: str = "ab") -> list[SimulatedMember]:
    """Like hosts, each with noise that is its own, and a clock that is its own."""
    return [
        SimulatedMember(name, replace(machine, seed=machine.seed + number), number * 10**9)
        for number, name in enumerate(names)
    ]


def explained(hosts: list[SimulatedMember], repeats: int = REPEATS) -> tuple[Measurement, dict[str, Finding]]:
    """The point that a site of the hosts measured, and its findings on hosts."""
    site, _ = site_of_two(*hosts)
    point = at(iodepth=4)
    kernel = site.kernels()["storage_blocks"]
    readings = [site.run("storage_blocks", {**SHORT, **point}) for _ in range(repeats)]
    made = make_measurement(point, readings, kernel)
    result = made_experiment(
        "storage.iodepth", "storage", "?", "iodepth", "storage_blocks", (made,), fixed=SHORT, declaration=kernel
    )
    run = explain(make_run(hosts[0].machine, result))
    assert explain(run) == run
    return run.experiments[0].points[0], {finding.rule: finding for finding in run.findings if finding.rule in RULES}


@pytest.mark.parametrize("kind", ["dies_at", "hangs_at", "refuses_at"])
def test_a_host_without_a_reading_is_named_and_degrades_the_point(kind: str) -> None:
    hosts = members(SimulatedMachine(seed=5, noise=0.005))
    setattr(hosts[1], kind, 3)
    point, found = explained(hosts)
    assert set(found) == {"host_missing"} and "host_missing" in point.why and point.validity == "degraded"
    assert found["host_missing"].says.endswith(
        "b gave 2 of 3 readings (randread 4 KiB, iodepth=4). The result does not cover all 2 hosts."
    )
    assert "Check b, then repeat: hwdyno storage " in found["host_missing"].advice
    assert found["host_missing"].evidence["hosts"]["b"]["failure"]


def test_host_that_hangs_is_named() -> None:
    hosts = members(SimulatedMachine(seed=5, noise=0.005))
    hosts[1].endless_at = 1
    _, found = explained(hosts, repeats=1)
    assert found["host_missing"].says.startswith("Host stopped: b did not end with the others (")


def test_no_host_at_all_is_an_error_and_no_finding() -> None:
    hosts = members(SimulatedMachine(seed=5))
    hosts[0].dies_at = hosts[1].dies_at = 1
    with pytest.raises(HostLostError):
        explained(hosts)


@pytest.mark.parametrize(("skew_s", "fires"), [(0.05, True), (0.0, False)])
def test_hosts_that_start_apart_are_named_with_a_length_that_helps(skew_s: float, fires: bool) -> None:
    hosts = members(SimulatedMachine(seed=5, noise=0.005))
    hosts[1].skew_s = skew_s
    point, found = explained(hosts)
    assert set(found) == ({"hosts_apart"} if fires else set())
    assert ("hosts_apart" in point.why) == fires and point.validity == ("degraded" if fires else "valid")
    if fires:
        assert "b started 50.0 ms after the first host, 20% of a reading" in found["hosts_apart"].says
        assert found["hosts_apart"].advice.endswith("--runtime 60 --path /x")


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_straggler_is_named_with_how_much_slower_it_is(names: str) -> None:
    hosts = members(SimulatedMachine(seed=5, noise=0.005), names)
    hosts[1].slow = 1.5
    point, found = explained(hosts)
    assert set(found) == {"straggler"} and point.validity == "valid", point.why
    others = "host" if names == "ab" else "3 hosts"
    # A third, within the noise of half a percent.
    assert re.search(rf"b is 3[34]% slower than the other {others} \(", found["straggler"].says)
    assert "The site waits for it." in found["straggler"].says
    assert not [note for note in point.notes if note.code == "straggler"], "said once"


def test_a_slow_device_is_a_straggler_that_nobody_waits_for() -> None:
    fast, slow = members(SimulatedMachine(seed=5, noise=0.005))
    slow.machine = replace(slow.machine, latency_one_s=2 * slow.machine.latency_one_s)
    _, found = explained([fast, slow])
    assert found["straggler"].says.endswith(" The site's result includes it.")
    assert found["straggler"].advice.startswith("Measure alone on b: hwdyno storage ")


def test_clean_random_sites_have_no_finding_on_hosts() -> None:
    alarms: Mapping[int, dict[str, Finding]] = {
        seed: explained(members(SimulatedMachine.random(seed), "abcd"[: random.Random(seed).randint(2, 4)]))[1]
        for seed in MACHINES
    }
    assert not {seed: found for seed, found in alarms.items() if found}
