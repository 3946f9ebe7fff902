"""How a reference tool's figures compare with ours: by the ratio of pairs and its interval, and on random machines."""

from __future__ import annotations

import random
from dataclasses import replace

import made_training as training
import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.peers import peer_ratio
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.explain.findings.training_peer import dlio_compared
from hwdyno.model.words import Declaration, PeerResult, Value
from made_experiment import made_experiment
from made_point import base, case_of_base, make_case
from simulated_runs import MACHINES, TWO_POINTS, experiment, make_run, the
from simulation.host import SimulatedMachine


def compared(*ratios: Value | None, cpu: float | None = None, at: int = 0, bs: int = 4096) -> list[Verdict]:
    result = replace(case_of_base().result, points=(base(parameters={**base().parameters, "bs": bs}),) * 2)
    of_cpu = None if cpu is None else Value(cpu, "1")
    peers = [PeerResult("fio", "1.0", at, Value(1e9, "bytes/s"), ratio, cpu_ratio=of_cpu) for ratio in ratios]
    return peer_ratio(make_case(replace(result, peers=tuple(peers)), -1))


@pytest.mark.parametrize(("ratio", "severity", "begins"), [
    # Within 3% of 1 they agree.
    (Value(0.95, "1", 0.94, 0.969), "info", "Differs from"), (Value(0.95, "1", 0.94, 0.971), "info", "Agrees with"),
    (Value(1.2, "1", 1.031, 1.4), "info", "Differs from"), (Value(1.2, "1", 1.029, 1.4), "info", "Agrees with"),
    # A tool that is a tenth faster is a warning.
    (Value(0.89, "1", 0.87, 0.91), "warning", "Differs"), (Value(0.91, "1", 0.89, 0.93), "info", "Differs from"),
    # Without an interval a tenth is the least difference, and no evidence.
    *((Value(ratio, "1"), "info", "Differs from") for ratio in (1.101, 0.899, 0.5)),
    *((Value(ratio, "1"), "info", "Agrees with") for ratio in (1.099, 0.901)),
    # Ends that differ by half show nothing.
    (Value(1.0, "1", 0.8, 1.199), "info", "Agrees"), (Value(1.0, "1", 0.8, 1.201), "info", "Agreement with"),
])  # fmt: skip
def test_ratio_with_its_interval(ratio: Value, severity: str, begins: str) -> None:
    (found,) = compared(ratio)
    assert found.severity == severity and found.says.startswith(begins)


def test_furthest_ratio_is_above_or_below() -> None:
    for ratios, furthest in (((1.25, 0.5, 1.9), 0.5), ((0.8, 0.55, 2.0), 2.0)):
        (found,) = compared(*(Value(ratio, "1") for ratio in ratios))
        assert found.evidence["furthest"] == furthest


def test_large_blocks_are_in_other_pages() -> None:
    for size, is_noted in (((512 << 10) - 512, False), (512 << 10, True)):
        (found,) = compared(Value(1.2, "1", 1.1, 1.3), bs=size)
        assert ("With `--mem small` both do the same." in found.says) == is_noted


def test_pair_has_ratio_and_point() -> None:
    ratio = Value(1.0, "1", 0.99, 1.01)
    assert not compared(None) and not compared(Value(0.0, "1")) and len(compared(ratio, at=1)) == 1
    assert not compared(ratio, at=2) and not compared(ratio, at=-1)
    cpu = [compared(ratio, cpu=share)[0].evidence["cpu_ratio"] for share in (0.5, 0.0)]
    assert cpu == [pytest.approx(0.5), None]


@pytest.mark.parametrize(("why", "named"), [(("others_at_work",), True), ((), False), (("steal",), False)])
def test_other_work_beside_dlio_is_named(why: tuple[str, ...], named: bool) -> None:
    peer = PeerResult("dlio", "2.0", 0, Value(1e9, "bytes/s"), None, details={"au": 0.5})
    point = replace(training.point(1, 0.9), why=why)
    made = ("training.x", "training", "?", "accelerators", "training_loader", (point,))
    result = replace(made_experiment(*made, fixed=training.FIXED), peers=(peer,))
    found = dlio_compared(Case(case_of_base().run, result))
    assert found is not None and ("Other processes loaded this machine." in found.says) == named


def test_peers_agree_or_not() -> None:
    for seed in MACHINES:
        draw = random.Random(seed)
        machine = SimulatedMachine.random(seed)
        result = experiment(machine, "iodepth", TWO_POINTS, repeats=1)
        truth = draw.choice([0.5, 0.8, 1.0, 1.4])
        peers = tuple(
            PeerResult(
                "fio", "3.33", at, result.points[at].throughput, Value(truth, "ratio", truth * 0.98, truth * 1.02)
            )
            for at in range(2)
        )
        run = explain(make_run(machine, replace(result, peers=peers)))
        finding = the(run, "peer_ratio")
        assert finding.severity == ("warning" if truth < 0.9 else "info")
        assert ("Agrees with" in finding.says) == (truth == 1.0)
        assert "fio 3.33" in finding.says


def test_pairs_that_lie_far_apart_tell_of_no_agreement() -> None:
    result = experiment(SimulatedMachine.random(0), "iodepth", TWO_POINTS, repeats=1)
    wide = PeerResult("fio", "3.33", 0, result.points[0].throughput, Value(1.2, "ratio", 0.3, 4.8))
    finding = the(explain(make_run(SimulatedMachine.random(0), replace(result, peers=(wide,)))), "peer_ratio")
    assert "too wide to tell" in finding.says
    assert "--peers --profile full" in finding.advice


@pytest.mark.parametrize(
    ("mem", "bs", "noted"), [("huge", 1 << 20, True), ("small", 1 << 20, False), ("huge", 4096, False)]
)
def test_huge_page_blocks_differ_from_fios(mem: str, bs: int, noted: bool) -> None:
    machine = SimulatedMachine.random(5)
    result = experiment(machine, "iodepth", [{**point, "bs": bs} for point in TWO_POINTS], repeats=1)
    result = replace(result, fixed={**result.fixed, "mem": mem, "direct": True})
    far = Value(2.0, "ratio", 1.9, 2.1)
    peers = (PeerResult("fio", "3.33", 0, result.points[0].throughput, far),)
    finding = the(explain(make_run(machine, replace(result, peers=peers))), "peer_ratio")
    assert ("With `--mem small` both do the same" in finding.says) == noted


def test_one_pair_accuses_no_one() -> None:
    machine = SimulatedMachine.random(5)
    result = experiment(machine, "iodepth", TWO_POINTS, repeats=1)
    for ratio, severity in ((Value(0.7, "ratio"), "info"), (Value(0.7, "ratio", 0.68, 0.72), "warning")):
        peers = (PeerResult("fio", "3.33", 0, result.points[0].throughput, ratio),)
        finding = the(explain(make_run(machine, replace(result, peers=peers))), "peer_ratio")
        assert finding.severity == severity
        assert ("One pair per point gives no interval" in finding.says) == (ratio.low is None)
    loops = replace(result, resource="memory", kernel="memory_bandwidth", points=result.points[:1], fixed={})
    points = (replace(loops.points[0], parameters={"operation": "read", "threads": 1}),)
    loops = replace(loops, points=points, declaration=Declaration())
    loops = replace(loops, peers=(PeerResult("hpcc", "1.5.0", 0, result.points[0].throughput, Value(0.7, "ratio")),))
    advice = the(explain(make_run(machine, loops)), "peer_ratio").advice
    assert ": hwdyno memory stream --" in advice and advice.endswith("--peers --profile full")
