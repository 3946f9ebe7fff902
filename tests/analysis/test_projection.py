"""Projections past what was measured, compared with closed systems whose exact throughput is known."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from here import sample
from hwdyno.analysis.curves.knee_model import Knee
from hwdyno.analysis.curves.projection import Outlook, outlook
from hwdyno.analysis.curves.scalability import Interval
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.system.store import Store
from numpy.random import Generator, default_rng
from simulated_runs import FIXED, at, experiment, make_run
from simulation.host import SimulatedMachine

SYSTEMS, NOISE, REPEATS = sample(60, 500), 0.02, 3
FAR = (10, 100)
"""Multiples of the largest load that was measured."""


@dataclass(frozen=True)
class Closed:
    """The machine repairman: N clients that think for Z seconds and are then served in S by one of c servers."""

    servers: int
    service_s: float
    thinks_s: float

    def rate(self, clients: int) -> float:
        """Exact throughput, by the birth-death chain of M/M/c//N, in logarithms."""
        busy = np.minimum(np.arange(clients + 1), self.servers)
        steps = np.log((clients - np.arange(clients)) / self.thinks_s * self.service_s / busy[1:])
        weights = np.concatenate([[0.0], np.cumsum(steps)])
        shares = np.exp(weights - weights.max())
        return float((shares * busy).sum() / shares.sum() / self.service_s)

    @property
    def crossing(self) -> float:
        """N*: where the rise of one client meets the ceiling."""
        return self.servers * (1 + self.thinks_s / self.service_s)

    @classmethod
    def random(cls, draw: Generator) -> Closed:
        service_s = 10 ** draw.uniform(-5, -2)
        return cls(int(2 ** draw.uniform(0, 8)), service_s, service_s * 10 ** draw.uniform(-1, 1.5))


def measured(system: Closed, loads: list[int], draw: Generator) -> tuple[list[float], list[float]]:
    noisy = [system.rate(n) * np.exp(draw.normal(0, NOISE, REPEATS)).mean() for n in loads]
    return noisy, [NOISE / math.sqrt(REPEATS)] * len(loads)


def spread_over(most: int) -> list[int]:
    return sorted({round(load) for load in np.geomspace(1, most, 7)})


def answer(system: Closed, most: int, draw: Generator) -> Outlook:
    loads = spread_over(most)
    return outlook(loads, *measured(system, loads, draw), [most * times for times in FAR])


def test_projections_cover_the_truth_and_none_is_given_before_the_knee() -> None:
    draw = default_rng(20261122)
    given, covered, near, refused_in_vain = 0, [0, 0], [0, 0], 0
    for _ in range(SYSTEMS):
        system, most = Closed.random(draw), int(draw.choice([8, 16, 32, 64, 128]))
        found = answer(system, most, draw)
        if found.refused:
            refused_in_vain += system.crossing < most / 2
            assert found.measure is not None and found.measure > most
            assert all(bracket.low <= system.rate(int(bracket.load)) * 1.1 for bracket in found.brackets)
            continue
        given += 1
        assert system.crossing < most * 1.05, "a projection was given before the knee"
        for place, projection in enumerate(found.projections):
            truth = system.rate(int(projection.load))
            assert projection.throughput.low is not None and projection.throughput.high is not None
            covered[place] += projection.throughput.low <= truth <= projection.throughput.high
            near[place] += abs(projection.throughput.value / truth - 1) < 0.10
    assert given > SYSTEMS / 5
    assert min(covered) >= 0.90 * given, (covered, given)
    assert min(near) >= 0.97 * given, (near, given)
    assert refused_in_vain <= 0.02 * SYSTEMS


def test_latency_follows_by_littles_law_without_the_time_between_requests() -> None:
    system, loads = Closed(4, 1e-3, 9e-3), spread_over(128)
    rates = [system.rate(n) for n in loads]
    waits_ns = [(n / rate - system.thinks_s) * 1e9 for n, rate in zip(loads, rates, strict=True)]
    found = outlook(loads, rates, [1e-3] * len(loads), [1000], latencies_ns=waits_ns)
    (projected,) = found.projections
    assert projected.latency_ns is not None
    assert projected.latency_ns.value == pytest.approx((1000 / system.rate(1000) - system.thinks_s) * 1e9, rel=0.02)
    assert projected.latency_ns.low is not None and projected.latency_ns.high is not None
    assert projected.latency_ns.low <= projected.latency_ns.value <= projected.latency_ns.high
    moved = [4096 * rate for rate in rates]
    (same,) = outlook(loads, moved, [1e-3] * 7, [1000], latencies_ns=waits_ns, per_request=4096).projections
    assert same.latency_ns is not None and same.latency_ns.value == pytest.approx(projected.latency_ns.value, rel=1e-3)
    assert outlook(loads, moved, [1e-3] * 7, [1000], per_request=None).projections[0].latency_ns is None


def test_a_knee_beyond_the_data_is_bracketed_and_names_the_load_to_measure() -> None:
    system, loads = Closed(64, 1e-3, 1e-2), [1, 2, 4, 8, 16]
    rates = [system.rate(n) for n in loads]
    found = outlook(loads, rates, [0.01] * len(loads), [1000])
    assert found.refused == "the knee was not reached" and not found.projections
    assert found.measure is not None and found.measure >= 32
    (bracket,) = found.brackets
    assert bracket.low == max(rates) and bracket.high == pytest.approx(1000 * rates[0])


def test_throughput_that_falls_is_not_projected() -> None:
    loads = [1, 2, 4, 8, 16, 32, 64, 128]
    rates = [min(n, 8) * 100.0 * (1 if n <= 16 else (n / 16) ** -0.4) for n in loads]
    found = outlook(loads, rates, [0.005] * len(loads), [1000])
    assert "falls past" in found.refused and not found.projections


def test_few_loads_and_what_cannot_be_prediction_of_last() -> None:
    assert "measure at least 4" in outlook([1, 2, 4], [1.0, 2.0, 3.0], [], [100]).refused
    late = outlook([1, 2, 4, 8, 16, 32], [100, 200, 400, 700, 790, 800], [0.01] * 6, [100])
    early = outlook([1, 2, 4, 8, 16, 32, 64], [100, 198, 370, 500, 515, 518, 520], [0.01] * 7, [100])
    assert early.predicted_share == pytest.approx(1.0, abs=0.05)
    assert not late.refused and late.predicted_share == pytest.approx(0.992, abs=0.005)


def test_the_interval_is_no_narrower_than_the_error_of_the_held_out_load() -> None:
    loads = [1, 2, 4, 8, 16, 32, 64]
    rates = [100.0, 198.0, 370.0, 500.0, 515.0, 518.0, 560.0]
    found = outlook(loads, rates, [0.001] * 7, [1000])
    assert found.predicted_share is not None and found.predicted_share < 0.97
    (projected,) = found.projections
    assert projected.throughput.low is not None and projected.throughput.high is not None
    assert projected.throughput.high / projected.throughput.value >= 1 / found.predicted_share - 1e-9


LOADS = (1, 2, 4, 8, 16, 32, 64)
HARD = [100.0 * min(load, 4) for load in LOADS]


@pytest.mark.parametrize(("crossing", "falls", "refused", "measure"), [
    # A power of two from twice the knee on, or twice the greatest load; not beyond 64 times that.
    ((4.0, 3.0, 5.0), 0.49, "", None), ((4.0, 3.0, 63.9), 0.0, "", None), ((4.0, 3.0, 5.0), 0.5, "falls past", 128),
    ((4.0, 3.0, 64.0), 0.0, "not reached", 128), ((65.0, 3.0, 99.0), 0.0, "not reached", 256),
    ((1e6, 3.0, 1e7), 0.0, "not reached", 8192), ((4.0, None, None), 0.0, "not reached", 128),
])  # fmt: skip
def test_only_a_knee_inside_is_projected(
    crossing: Any, falls: float, refused: str, measure: Any, monkeypatch: Any
) -> None:
    top = Interval(400.0, 390.0, 410.0)
    made = Knee(top, Interval(*crossing), top, top=400.0, r1=0.01, gain=top, falls=falls, fall_load=9.0)
    monkeypatch.setattr("hwdyno.analysis.curves.projection.fit_knee", lambda *given, **named: made)
    found = outlook(LOADS, HARD, [0.01] * 7, [1000])
    assert refused in found.refused and bool(refused) == bool(found.refused) != bool(found.projections)
    assert found.measure == measure
    below_one = outlook((0.1, 0.2, 0.3, 0.4), HARD[:4], [0.01] * 4, [1000])
    assert below_one.measure == 2 or falls < 0.5


@pytest.mark.parametrize(("between_ns", "least", "thinks_ns"), [
    (4.75e5, 1, 0.0), (5.25e5, 1, 5.25e5), (5e6, 1, 5e6), (5e6, 64, 0.0), (5e6, 99, 0.0),
])  # fmt: skip
def test_client_thinks_from_twentieth_on(between_ns: float, least: int, thinks_ns: float) -> None:
    """R = N / X - Z: the first of the known requests takes 10 ms, of which 4.75%, 5.25% or half is between two."""
    waits = [load / rate * 1e9 - between_ns if load >= least else None for load, rate in zip(LOADS, HARD, strict=True)]
    (found,) = outlook(LOADS, HARD, [0.01] * 7, [1000], latencies_ns=waits).projections
    assert found.latency_ns is not None
    assert found.latency_ns.value == pytest.approx(1e12 / found.throughput.value - thinks_ns, abs=1e4)


@pytest.mark.parametrize(
    ("loads", "crossing", "predicted"), [((1, 16, 64, 256), 4.0, None), ((0.5, *LOADS[1:], 128, 256), 8.0, 1.0)]
)
def test_last_load_is_predicted_from_four(loads: Any, crossing: float, predicted: float | None) -> None:
    """Loads of less than one are no count of requests: X = 1000 N / (N + 8), and not 1000 N / (N + 7)."""
    rates = [1000 * (load / (load + crossing) if predicted else min(1.0, load / crossing)) for load in loads]
    found = outlook(loads, rates, [0.001] * len(loads), [1000])
    assert found.projections and found.crossing is not None
    assert found.crossing.value == pytest.approx(crossing, rel=0.01)
    assert found.predicted_share == (predicted and pytest.approx(predicted, rel=0.01))


# --- the command


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    return Store()


def shown(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = main(["project", *words])
    return status, capsys.readouterr().out


def kept(stored: Store, loads: list[int], **machine: float) -> None:
    made = SimulatedMachine(**machine)  # type: ignore[arg-type]
    stored.save(explain(make_run(made, experiment(made, "iodepth", [at(iodepth=load) for load in loads], FIXED))))


def test_a_run_past_its_knee_is_projected_with_its_check_and_assumptions(
    stored: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(stored, [1, 2, 4, 8, 16, 32, 64, 128])
    status, text = shown(["--load", "1000"], capsys)
    assert status == 0
    assert "measured queue depth 1 to 128" in text and "\n  1000 " in text
    assert "check: the smaller loads predict" in text and "assumed: the queue stays" in text
    status, text = shown(["--load", "1000", "--json"], capsys)
    (curve,) = json.loads(text)
    (projected,) = curve["projections"]
    assert projected["throughput"]["low"] <= projected["throughput"]["value"] <= projected["throughput"]["high"]
    assert not curve["refused"] and not curve["command"]


def test_a_run_before_its_knee_gets_bounds_and_the_command_that_settles_it(
    stored: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(stored, [1, 2, 3, 4])
    status, text = shown(["--load", "1000"], capsys)
    assert status == 0
    assert "no projection: the knee was not reached." in text
    command = next(line for line in text.splitlines() if line.startswith("measure: "))
    assert command.startswith("measure: hwdyno storage ") and "--iodepth 1.." in command


@pytest.mark.parametrize("given", ["0", "x", "1,true", "", "1e12"])
def test_loads_that_are_none_are_refused_in_one_line(
    given: str, stored: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(stored, [1, 2, 4, 8, 16, 32])
    assert main(["project", "--load", given]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_run_without_such_a_curve_says_what_to_measure(stored: Store, capsys: pytest.CaptureFixture[str]) -> None:
    made = SimulatedMachine()
    stored.save(make_run(made, experiment(made, "bs", [at(bs=size) for size in (4096, 8192, 16384)], FIXED)))
    assert main(["project"]) == 2
    assert "hwdyno storage --iodepth 1..64" in capsys.readouterr().err
