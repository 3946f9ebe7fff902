"""How a reference tool's figures compare with ours, by the ratio of pairs and its interval."""

from __future__ import annotations

from dataclasses import replace

import pytest
import test_training_findings as training
from hwdyno.explain.findings.peers import peer_ratio
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.explain.findings.training_peer import dlio_compared
from hwdyno.model.words import PeerResult, Value
from made_experiment import made_experiment
from made_point import base, case_of_base, make_case


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
