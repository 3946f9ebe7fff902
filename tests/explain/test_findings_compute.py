"""Rules on arithmetic: the loops that count, and each limit from both sides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.compute import LINPACK, LOOPS, linpack_share, noisy_neighbour, operands_cost, peak_share
from hwdyno.explain.findings.rule import Case
from hwdyno.model.machine import Machine
from hwdyno.model.words import Ceiling, ExperimentResult, Measurement, Value
from made_experiment import made_experiment
from made_point import base, make_case, make_run
from test_findings_settings import judged, linpack, machine_with, peak


def loop(isa: str = "avx2", rate: float = 1e10, details: dict[str, Any] | None = None, **given: Any) -> Measurement:
    """FMA in FP64 on one thread, known within 0.1%."""
    value = Value(rate, "FLOP/s", 0.999 * rate, 1.001 * rate)
    parameters = {"operation": "fma", "precision": "double", "threads": 1, "isa": isa, **given}
    return base(parameters=parameters, throughput=value, details={"isa": isa, **(details or {})})


def of_loops(*points: Measurement, kernel: str = LOOPS) -> ExperimentResult:
    return made_experiment("compute.x", "compute", "?", "threads", kernel, points, fixed={})


def on_zeros(isa: str, numbers: float, zeros: float = 1e10) -> tuple[Measurement, Measurement]:
    return loop(isa, numbers), loop(isa, zeros, operands="zero")


def share_of_best(share: float) -> dict[str, float]:
    return {"flop_per_cycle": share, "flop_per_cycle_best_slice": 1.0}


@pytest.mark.parametrize(
    ("given", "share", "found"),
    [({}, 0.899, True), ({}, 0.901, False), ({"threads": 1}, 0.5, True), ({"threads": 2}, 0.5, False)],
)
def test_shared_core_is_below_nine_tenths(given: dict[str, Any], share: float, found: bool) -> None:
    """One processor: without a number of threads there is one."""
    run = make_run(base(parameters=given, details=share_of_best(share)), "compute")
    run = replace(run, machines=(Machine.of_survey({"cpu": {"threads": 1}}),))
    assert (noisy_neighbour(Case(run, run.experiments[0], 0)) is not None) == found


@pytest.mark.parametrize(
    ("clocks", "share", "drop"),
    [
        ((("scalar", 4e9), ("avx2", 3.86e9)), 1.0, 0.035),
        ((("scalar", 4e9), ("avx2", 3.874e9)), 1.0, 0.0315),
        ((("scalar", 4e9), ("avx2", 3.886e9)), 1.0, None),
        ((("scalar", 4e9), ("avx512", 2e9), ("avx512", 3e9)), 1.0, 0.25),
        ((("scalar", 1.0), ("avx512", 0.5)), 1.0, 0.5),
        ((("avx512", 0.5),), 1.0, None),
        ((("avx2", 4e9), ("avx512", 3e9)), 1.0, None),
        *(((("scalar", 4e9), ("avx2", 3e9)), share, drop)
          for share, drop in [(0.899, None), (0.901, 0.25), (1.111, 0.25), (1.112, None)]),
    ],
)  # fmt: skip
def test_wide_clock_falls_by_three_percent(clocks: Any, share: float, drop: float | None) -> None:
    """A clock below the best narrow one, by loops that had the core to themselves."""
    points = [loop(isa, details={"clock_hz_during": hz, **share_of_best(share)}) for isa, hz in clocks]
    run = explain(replace(make_run(base()), experiments=(of_loops(*points),)))
    found = {finding.rule: finding.evidence for finding in run.findings}.get("wide_clock_drop")
    assert (found and found["drop"]) == (drop and pytest.approx(drop))


@pytest.mark.parametrize(
    ("points", "isa", "cost"),
    [
        ((*on_zeros("avx2", 5e9), *on_zeros("sse", 8e9)), "avx2", 0.5),
        (on_zeros("avx2", 9.499e9), "avx2", 0.0501),
        (on_zeros("avx2", 9.501e9), None, None),
        (on_zeros("avx2", 0.5, 1.0), "avx2", 0.5),
        (on_zeros("avx2", 0.5, 0.0), None, None),
    ],
)
def test_greatest_cost_of_data_is_reported(points: tuple[Measurement, ...], isa: str | None, cost: Any) -> None:
    found = operands_cost(make_case(of_loops(*points)))
    assert (found and found.evidence["isa"]) == isa
    assert found is None or found.evidence["cost"] == pytest.approx(cost)


@pytest.mark.parametrize(
    ("rate", "given", "says"),
    [
        (9.4e10, {}, "reaches 94% of its FP64 peak: 94.0 "),
        (9.6e10, {}, "reaches 96% of its FP64 peak: "),
        (1e11, {}, "reaches its FP64 peak: "),
        (1.01e11, {}, "reaches its FP64 peak: "),
        *((9e10, other, "reaches 70% of its FP64 peak: ")
          for other in ({"operation": "add"}, {"precision": "single"}, {"operands": "zero"})),
    ],
)  # fmt: skip
def test_the_best_fma_on_numbers_is_a_share_of_the_peak(rate: float, given: dict[str, Any], says: str) -> None:
    """A share of 100 GFLOP/s on 4 cores, beside a loop that reaches 70%."""
    bound = Ceiling("flop_s/fma/double/avx2/4", "physical", 1e11, "FLOP/s", "4 cores", "test")
    points = [loop(rate=speed, threads=4, **other) for speed, other in ((7e10, {}), (rate, given))]
    found = peak_share(make_case(replace(of_loops(*points), ceilings=(bound,))))
    assert found is not None and says in found.says and (found.advice == "Nothing to do.") == (rate > 9.5e10)


@pytest.mark.parametrize(
    ("threads", "rate", "share", "disturbed"),
    [(None, 8e10, 0.8, False), (1, 8e10, 0.8, False), (2, 8e10, None, False), (1, 1.019e11, 1.019, False),
     (1, 1.021e11, 1.021, True)],
)  # fmt: skip
def test_linpack_is_a_share_of_fma(threads: int | None, rate: float, share: float | None, disturbed: bool) -> None:
    """The peak of 100 GFLOP/s is measured without a number of threads, which is one."""
    peak_of_fma, solved = of_loops(loop(rate=1e11, threads=None)), loop(rate=rate, operation="lu", n=1, threads=threads)
    results = (peak_of_fma, of_loops(solved, kernel=LINPACK))
    found = linpack_share(Case(replace(make_run(base()), experiments=results), results[1]))
    assert found is not None and found.evidence["measured_peak_share"] == (share and pytest.approx(share))
    assert ("which other work must have disturbed" in found.says) == disturbed


@pytest.mark.parametrize("rates", [(1e9, 2e9), (2e9, 1e9)])
def test_pinned_library_shows_at_its_best(rates: tuple[float, float]) -> None:
    run = judged(machine_with(), *(linpack(rate, "Haswell") for rate in rates), peak(1e10))
    (found,) = [finding for finding in run.findings if finding.rule == "pinned_library"]
    assert found.evidence["peak_share"] == pytest.approx(0.2)
