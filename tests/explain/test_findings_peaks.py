"""Rules on the peak of arithmetic: its formula and its threads, the clock of wide units, LINPACK and wrong results."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_memory import flops, found, make_run, point, result


def test_the_peak_of_auto_is_one_for_all_repeats() -> None:
    """Two of 3 repeats took AVX-512 and 1 AVX2: 13.3 FLOP per instruction are of neither."""
    mixed = flops(100e9, "avx512", threads=2)
    mixed = replace(
        mixed,
        parameters={**mixed.parameters, "isa": "auto"},
        details={**mixed.details, "isa": "avx2", "flop_per_instruction": 40 / 3, "instructions_per_cycle": 1.4},
    )
    pure = flops(110e9, "avx512")
    pure = replace(pure, parameters={**pure.parameters, "isa": "auto"})
    for order in ((mixed, pure), (pure, mixed)):
        run = make_run(result("compute_flops", "threads", *order))
        by_cores = {
            ceiling.metric: ceiling.value for ceiling in run.experiments[0].ceilings if ceiling.kind == "physical"
        }
        assert by_cores["flop_s/fma/double/auto/2"] == pytest.approx(2 * 3.7e9 * 32)
        assert by_cores["flop_s/fma/double/auto/1"] == pytest.approx(3.7e9 * 32)


def test_mixed_precision_has_the_others_units() -> None:
    """Seven readings of FP32 took AVX2 and AVX-512 in turn: it was quoted without a ceiling."""
    mixed = flops(200e9, "avx512", threads=2, precision="single")
    mixed = replace(
        mixed,
        parameters={**mixed.parameters, "isa": "auto"},
        details={**mixed.details, "isa": "avx2", "flop_per_instruction": 80 / 3, "instructions_per_cycle": 1.4},
    )
    double = [flops(110e9, "avx512"), flops(100e9, "scalar")]
    run = make_run(result("compute_flops", "threads", mixed, *double))
    by_cores = {ceiling.metric: ceiling.value for ceiling in run.experiments[0].ceilings if ceiling.kind == "physical"}
    assert by_cores["flop_s/fma/single/auto/2"] == pytest.approx(2 * 3.7e9 * 64)


def test_the_peak_has_its_formula_and_nothing_exceeds_it() -> None:
    run = make_run(result("compute_flops", "threads", flops(116e9, "avx512"), flops(226e9, "avx512", threads=2)))
    finding = found(run, "peak_share")
    assert finding is not None and "2 cores x 3.70 GHz x 32 FLOP per cycle (2 AVX-512 units x 16 FLOP" in finding.says
    assert finding.evidence["share"] == pytest.approx(226e9 / (2 * 3.7e9 * 32))
    over = make_run(result("compute_flops", "threads", flops(130e9, "avx512")))
    assert over.experiments[0].points[0].validity == "invalid"


def test_oversubscribed_threads_keep_cores_ceiling() -> None:
    run = make_run(result("compute_flops", "threads", flops(230e9, "avx512", threads=4), flops(116e9, "avx512")))
    values = sorted(ceiling.value for ceiling in run.experiments[0].ceilings)
    assert values == pytest.approx([3.7e9 * 32, 2 * 3.7e9 * 32])
    assert all(measurement.validity == "valid" for measurement in run.experiments[0].points)


@pytest.mark.parametrize(("cycle", "noisy"), [(24.0, True), (31.5, False)])
def test_a_noisy_neighbour_is_named(cycle: float, noisy: bool) -> None:
    run = make_run(result("compute_flops", "threads", flops(80e9, "avx512", flop_per_cycle=cycle)))
    assert (found(run, "noisy_neighbour") is not None) == noisy
    assert (run.experiments[0].points[0].validity == "degraded") == noisy


@pytest.mark.parametrize(("clock", "falls"), [(3.0e9, True), (3.68e9, False)])
def test_wide_units_lower_the_clock(clock: float, falls: bool) -> None:
    run = make_run(result("compute_flops", "threads", flops(14e9, "scalar"), flops(90e9, "avx512", clock)))
    assert (found(run, "wide_clock_drop") is not None) == falls


def test_a_clock_read_beside_others_at_work_is_not_called_a_drop() -> None:
    disturbed = flops(30e9, "avx512", 1.5e9, flop_per_cycle=20.0)
    run = make_run(result("compute_flops", "threads", flops(14e9, "scalar"), disturbed))
    assert found(run, "wide_clock_drop") is None


def test_linpack_is_held_against_the_measured_peak_and_theory() -> None:
    peak = result("compute_flops", "threads", flops(226e9, "avx512", threads=2))
    peak = replace(peak, points=tuple(replace(p, parameters={**p.parameters, "isa": "auto"}) for p in peak.points))
    solved = result(
        "linpack",
        "n",
        point(100e9, "FLOP/s", operation="lu", n=2000, threads=2, details={"library": "openblas"}),
        point(130e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"library": "openblas"}),
        point(170e9, "FLOP/s", operation="gemm", n=5000, threads=2),
    )
    finding = found(make_run(peak, solved), "linpack_share")
    assert finding is not None and "openblas" in finding.says and "n = 5000" in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(130 / 226)
    assert finding.evidence["theory_share"] == pytest.approx(130e9 / (2 * 3.7e9 * 32))
    assert finding.evidence["average_flop_s"] == pytest.approx(115e9)


def test_linpack_is_held_against_what_fewer_threads_reached_where_others_were_disturbed() -> None:
    """Other work took the processors while two threads ran; one thread alone reached four times as much."""
    loops = result("compute_flops", "threads", flops(57e9, "avx512", threads=1), flops(14e9, "avx512", threads=2))
    solved = point(19e9, "FLOP/s", operation="lu", n=5000, threads=2, details={"library": "openblas"})
    finding = found(make_run(loops, result("linpack", "n", solved)), "linpack_share")
    assert finding is not None and "of the measured FMA peak" in finding.says and "disturbed" not in finding.says
    assert finding.evidence["measured_peak_share"] == pytest.approx(19 / 57)
    alone = result("compute_flops", "threads", flops(10e9, "avx512", threads=1))
    unlike = found(make_run(alone, result("linpack", "n", solved)), "linpack_share")
    assert unlike is not None and unlike.evidence["measured_peak_share"] is None


def test_wrong_results_make_a_point_invalid() -> None:
    run = make_run(result("compute_flops", "threads", flops(100e9, "avx512", verification="failed")))
    assert run.experiments[0].points[0].validity == "invalid"
    assert run.experiments[0].points[0].why == ("wrong_result",)
    finding = found(run, "wrong_result")
    assert finding is not None and (finding.severity, finding.points) == ("invalid", (0,))
    assert "verification after the pass failed" in finding.says
    sound = make_run(result("compute_flops", "threads", flops(100e9, "avx512", verification="passed")))
    assert sound.experiments[0].points[0].validity == "valid" and found(sound, "wrong_result") is None
