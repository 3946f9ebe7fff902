"""Figures, words and formulas of single lines, each against its definition: what no planted fault would show."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_findings_memory as memory
import test_training_findings as training
from hwdyno.axes import with_field_axes
from hwdyno.ceilings.compute import _units
from hwdyno.ceilings.links import of_link
from hwdyno.ceilings.named import only_link
from hwdyno.curves import _Series
from hwdyno.curves.loaded import _MOST, Loaded, _fitted
from hwdyno.curves.models import Interval, Scalability
from hwdyno.findings.applies import Applies
from hwdyno.findings.between_runs import _within
from hwdyno.findings.claims import _factors
from hwdyno.findings.conditions import load_before
from hwdyno.findings.coverage import too_short
from hwdyno.findings.curve_shape import off_the_curve
from hwdyno.findings.device import _error
from hwdyno.findings.imports import _off
from hwdyno.findings.limits import _curve_of, _waits
from hwdyno.findings.memory import ALLOCATED, _chases
from hwdyno.findings.network_path import _lost_without_a_queue
from hwdyno.findings.open_loop import users_wait
from hwdyno.findings.published import _floor
from hwdyno.findings.rule import Case, Verdict, contrast, quantity
from hwdyno.findings.steadiness import _about_line, unsteady
from hwdyno.findings.training import training_client_bound
from hwdyno.findings.training_data import _divided, training_uneven
from hwdyno.machine import Link, Machine
from hwdyno.samples import _inflation
from hwdyno.statistics import Histogram
from hwdyno.words import Axis, Claim, Concurrency, Curve, ExperimentResult, Note, OperatingPoint, Run, Value
from test_thresholds import base, run_of


def case_of(**changes: Any) -> Case:
    run = run_of(replace(base(), **changes))
    return Case(run, run.experiments[0], 0)


def open_curve(**ceiling: Any) -> Verdict:
    points = tuple(
        replace(base(), parameters={"rate": rate}, rate=None, throughput=Value(rate, "operations/s"),
                operations=round(3 * rate))
        for rate in (1000.0, 2000.0, 5000.0)
    )  # fmt: skip
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", points))
    capacity = Value(2e4, "operations/s", 1.2e4, 8e4)
    curve = Curve(
        series={}, load="rate", points=(0, 1, 2), unit="operations/s", model="g-g-m",
        parameters={"S": Value(1e5, "ns"), "m": Value(2.0, "servers"), "v": Value(1.0, "1"), "capacity": capacity},
        floor=OperatingPoint(1000.0, 1000.0, 1e5, True, ""), **ceiling,
    )  # fmt: skip
    run = Run("x", "", None, (Machine(),), "quick", "hwdyno run", (result,))
    verdict = users_wait(Case(run, result, curve=curve))
    assert verdict is not None
    return verdict


def test_a_capacity_that_is_open_is_said_with_its_range_and_the_rate_that_would_tell() -> None:
    verdict = open_curve()
    assert "The capacity is open: 12.0 k to 80.0 k IOPS fit these points alike (best fit: 20.0 k)." in verdict.says
    assert verdict.advice == "Measure a higher rate too: hwdyno storage --rate 1000,2000,5000,6250"


def test_a_link_in_a_title_is_what_it_carries_at_most() -> None:
    jumbo = only_link("Throughput over 100GbE")
    # 9000 B of MTU less 28 B of IP and UDP, in 9000 B and 38 B of frame, preamble and gap.
    assert jumbo is not None and jumbo.bytes_s == pytest.approx(12.5e9 * 8972 / 9038)


def test_claims_below_one_are_figures_too() -> None:
    claim = Claim("rate", 0.8, 0.5, "operations/s", "IOPS", 0.01, False)
    assert _off(claim) == pytest.approx(0.6)
    assert _off(replace(claim, stated=0.0)) == 0.0 and _off(replace(claim, follows=0.0)) == 0.0
    assert _off(replace(claim, at_most=True)) == pytest.approx(0.6)
    assert _off(replace(claim, stated=0.4, at_most=True)) == 0.0


def test_percentiles_are_where_they_are() -> None:
    found = Histogram.from_values(range(1, 101)).summary()
    assert (found.p50, found.p90, found.p99, found.p999) == (50, 90, 99, None)
    assert Histogram.from_values(range(1, 1001)).summary().p90 == 900


def test_autocorrelation_inflates_the_variance_by_its_sum() -> None:
    """Var(mean) n / Var = 1 + 2 sum (1 - k / n) r^k over all lags k."""
    for ratio in (0.2, 0.7, 0.95):
        for count in (8, 20, 60):
            expected = 1 + 2 * sum((1 - lag / count) * ratio**lag for lag in range(1, count))
            assert _inflation(ratio, count) == pytest.approx(expected)


def test_the_scatter_about_a_line_is_that_of_least_squares() -> None:
    draw = np.random.default_rng(2)
    for count in (8, 9, 25):
        values = list(10 + 0.3 * np.arange(count) + draw.standard_normal(count))
        rest = np.polyfit(np.arange(count), values, 1, full=True)[1]
        assert _about_line(values) == pytest.approx(float(rest[0]))


@pytest.mark.parametrize("operation", sorted(ALLOCATED))
def test_a_store_that_allocates_moves_each_line_once_more(operation: str) -> None:
    """STREAM counts what is read and written: a store of one of n arrays reads its line first, n + 1 for n."""
    arrays = {"write": 1, "copy": 2, "scale": 2, "add": 3, "triad": 3}[operation]
    assert ALLOCATED[operation] == pytest.approx((arrays + 1) / arrays)
    run = memory.run_of(
        memory.result(
            "memory_bandwidth", "threads", memory.point(1e10, operation=operation, threads=1),
            memory.point(1.3e10, operation=f"nt_{operation}", threads=1), working_set=memory.SET,
        )
    )  # fmt: skip
    (found,) = [one for one in run.findings if one.rule == "write_allocate"]
    assert found.evidence["bus_bytes_s"] == pytest.approx(1e10 * (arrays + 1) / arrays)
    assert found.evidence["ratio"] == pytest.approx(1.3) and found.points == (0, 1)


def test_nodes_are_named_by_their_numbers() -> None:
    points = [memory.point(value, node=node, threads=1) for node, value in ((2, 1e10), (3, 0.5e10))]
    run = memory.run_of(memory.result("memory_bandwidth", "threads", *points, working_set=memory.SET))
    (found,) = [one for one in run.findings if one.rule == "wrong_node"]
    assert (found.evidence["far_node"], found.evidence["near_node"]) == (3, 2)
    assert found.evidence["loss"] == pytest.approx(0.5) and found.points == (1, 0)
    assert "--cpunodebind=2 --membind=2" in found.advice


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ("0.94 µs", "0.25 µs", "0.94 → 0.25 µs"),
        ("1.04 µs", "9.96 µs", "1.0 → 10.0 µs"),
        ("10.4 µs", "99.6 µs", "10 → 100 µs"),
        ("10.4 µs", "10.6 µs", "10.4 → 10.6 µs"),
        ("940 ns", "1.3 µs", "940 ns → 1.3 µs"),
        ("1,240 µs", "10.0 µs", "1,240 → 10 µs"),
    ],
)
def test_two_quantities_have_the_digits_that_tell_them_apart(first: str, second: str, words: str) -> None:
    assert contrast(first, second) == words


def test_an_interval_is_printed_of_any_value_above_zero() -> None:
    assert quantity(Value(0.5, "ns", 0.45, 0.55)).endswith("±10%")
    assert "±" not in quantity(Value(0.0, "ns", 0.0, 0.0)) and "±" not in quantity(Value(5.0, "ns"))


def test_a_point_of_one_in_flight_is_a_time() -> None:
    case = case_of(concurrency=Concurrency(1.0, 1.0))
    latency = Case(case.run, replace(case.result, metric="latency"), 0)
    assert latency.timed and not case.timed
    assert not Case(case.run, latency.result).timed, "an experiment as a whole is none"
    assert not Case(case.run, replace(run_of(base()).experiments[0], metric="latency"), 0).timed, "eight in flight"


def test_the_error_of_a_throughput_is_a_share() -> None:
    value = Value(100.0, "bytes/s", 100 - 9.8, 100 + 9.8)
    assert _error(replace(base(), throughput=value)) == pytest.approx(0.05)
    for unknown in (Value(100.0, "bytes/s"), Value(0.0, "bytes/s", 0.0, 0.0), Value(1.0, "bytes/s", 0.5, None)):
        assert _error(replace(base(), throughput=unknown)) == 0.02
    assert _error(replace(base(), throughput=Value(0.5, "bytes/s", 0.402, 0.598))) == pytest.approx(0.1)


def test_units_are_whole_and_one_at_least() -> None:
    found = [_units({"instructions_per_cycle": one}) for one in (0.2, 0.9, 1.4, 1.6, 2.1)]
    assert found == [1, 1, 1, 2, 2]


def test_the_factors_of_a_product_have_their_words() -> None:
    assert _factors("8 drives x 2.5 GB/s") == [(8.0, "drives"), (2.5, "gb")] or _factors("8 x 2.5")[0] == (8.0, "")
    assert _factors("8 x 2.5") == [(8.0, ""), (2.5, "")] and _factors("no product 8") == []


def test_a_link_has_one_lane_where_none_is_known() -> None:
    sas = of_link(Link(type="sas", bits_s=12e9))
    assert sas is not None and sas.label == "SAS 12 Gbit/s"
    four = of_link(Link(type="sas", bits_s=48e9, lanes=4))
    assert four is not None and four.label == "SAS 12 Gbit/s x4"
    card = of_link(Link(type="mmc", bits_s=3.2e9, lanes=8, clock_hz=200e6))
    assert card is not None and "2 × 200 MHz × 8 bits / 8" in card.formula and card.bytes_s == pytest.approx(400e6)
    for generation, source in ((5, "5.0: 128b/130b encoding"), (6, "242 B of each 256 B flit")):
        pcie = of_link(Link(type="pcie", bits_s=1.0, generation=generation, lanes=4))
        assert pcie is not None and source in pcie.source


def test_scalability_is_gunthers_law() -> None:
    """X = cN / (1 + a(N - 1) + bN(N - 1)), with its peak at sqrt((1 - a) / b)."""
    found = Scalability(c=Interval(100.0, None, None), a=Interval(0.1, None, None), b=Interval(0.01, None, None))
    assert found.at(4) == pytest.approx(400 / (1 + 0.3 + 0.12))
    assert found.peak_load == pytest.approx(math.sqrt(0.9 / 0.01))


def test_a_scalability_without_contention_has_no_ceiling() -> None:
    def of(a: float) -> float | None:
        return Scalability(c=Interval(100.0, None, None), a=Interval(a, None, None), b=None).ceiling

    assert of(0.0011) == pytest.approx(100 / 0.0011) and of(0.0009) is None and of(0.25) == pytest.approx(400.0)


@pytest.mark.parametrize(("ratio", "words"), [(0.7, "30% below"), (1.4, "40% above")])
def test_a_load_off_the_curve_is_below_or_above_it(ratio: float, words: str) -> None:
    run = run_of(base())
    curve = Curve(
        series={}, load="iodepth", points=(0,), unit="bytes/s", model="queue",
        parameters={"odd_load": Value(8.0, ""), "odd_ratio": Value(ratio, "1")},
        floor=OperatingPoint(1.0, 1.0, 1.0, True, ""),
    )  # fmt: skip
    found = off_the_curve(Case(run, run.experiments[0], curve=curve))
    verdicts = found if isinstance(found, list) else [found]
    assert words in verdicts[0].says and verdicts[0].weight == pytest.approx(abs(1 - ratio))


def test_a_point_without_a_curve_has_the_one_that_speaks_of_it() -> None:
    case = case_of()
    ceiling = Value(1e9, "bytes/s")
    curve = Curve(
        series={}, load="iodepth", points=(0,), unit="bytes/s", model="queue", parameters={},
        floor=OperatingPoint(1.0, 1.0, 1.0, True, ""), ceiling=ceiling,
    )  # fmt: skip
    plain = replace(curve, ceiling=None)
    for curves, expected in (((curve,), curve), ((plain,), plain), ((), None)):
        result = replace(case.result, curves=curves)
        found = _curve_of(Case(replace(case.run, experiments=(result,)), result, 0))
        assert (found and found[1]) == expected


def test_weights_are_how_much_it_costs() -> None:
    need = training.NEED * 0.9
    clients = training.client(need / 4)
    result = training.made_experiment(
        "training.unet3d.h100", "training", "?", "accelerators", "training_loader", (training.point(1, 0.6),),
        fixed=training.FIXED,
    )  # fmt: skip
    run = Run("x", "", None, (Machine(),), "", "", (result, clients))
    verdict = training_client_bound(Case(run, result, 0))
    assert verdict is not None and verdict.weight == pytest.approx(4.0)
    point = training.point(1, 0.9, samples_left_over=3, samples_per_epoch=9)
    noted = replace(point, notes=(Note("uneven_tails", "they end together"),))
    uneven = replace(result, points=(noted,))
    left = training_uneven(Case(replace(run, experiments=(uneven,)), uneven, 0))
    assert left is not None and left.weight == pytest.approx(3 / 12) and "3 of 12 samples are never read" in left.says
    assert math.isclose(left.evidence["samples_left_over"], 3)


def test_repeats_leave_open_their_deviation_over_the_root_of_their_count() -> None:
    assert _within([90.0, 100.0, 110.0, 100.0]) == pytest.approx(math.sqrt(200 / 3) / 100 / 2)
    assert _within([100.0]) == 0.0 == _within([-1.0, 1.0])


def test_a_loaded_latency_grows_without_end_towards_the_limit() -> None:
    found = Loaded(90.0, 18.0, 10.0, 110.0, True, top=20.0, rest_ns=100.0, wait_ns=10.0)
    assert found.latency_ns(15.0) == pytest.approx(100 + 10 * 15 / 5)
    assert found.latency_ns(19.99) is not None and found.latency_ns(20.0) is None


@pytest.mark.parametrize(
    ("pages", "locality", "stride", "counted"),
    [
        *(("2m", "random", 64, True), ("2m", "random", 256, True), ("2m", "random", 257, False)),
        *(("4k", "random", 64, False), ("2m", "page", 64, False)),
    ],
)
def test_caches_are_looked_for_in_random_chases_on_huge_pages(
    pages: str, locality: str, stride: int, counted: bool
) -> None:
    chase = memory.point(1e9, "operations/s", 1.0, working_set=1 << 20, pages=pages, locality=locality, stride=stride)
    run = memory.run_of(memory.result("memory_latency", "working_set", chase))
    assert bool(_chases(run)) == counted


@pytest.mark.parametrize(
    ("mean_us", "least_us", "share", "policed"),
    [
        *((0.5, 0.5, 0.003, True), (0.0, 0.0, 0.003, False), (650.0, 100.0, 0.003, True)),
        *((651.0, 100.0, 0.003, False), (0.5, 0.5, 0.0029, False)),
    ],
)
def test_loss_without_a_queue_is_a_policers(mean_us: float, least_us: float, share: float, policed: bool) -> None:
    """A queue shows in the mean round trip: above 1.5 times the least one and half a millisecond."""
    point = replace(base(), details={"rtt_mean_us": mean_us, "rtt_min_us": least_us, "retransmit_share": share})
    assert _lost_without_a_queue(point) == policed


@pytest.mark.parametrize(("accelerators", "samples"), [({}, 12), ({"accelerators": 1}, 12), ({"accelerators": 2}, 8)])
def test_samples_are_shared_evenly_by_whole_batches(accelerators: dict[str, int], samples: int) -> None:
    point = replace(training.point(1, 0.9), parameters={"batch_size": 4, **accelerators})
    result = training.made_experiment("training.unet3d", "training", "?", "accelerators", "training_loader", (point,))
    run = Run("x", "", None, (Machine(),), "", "hwdyno training", (result,))
    assert f"--samples {samples}" in _divided(Case(run, result, 0), 15).replace("=", " ")


@pytest.mark.parametrize(("load", "delay"), [(2.0, 0.0), (1.0, 0.0), (0.5, 2.0), (0.25, 4.0)])
def test_the_highest_load_of_a_delay_is_none(load: float, delay: float) -> None:
    axis = Axis("delay", "cycles", "delay")
    series = _Series((0,), (load,), (Value(1.0, "bytes/s"),), (None,), (None,), axis, (None,), None, 1.0)
    assert series.as_given(load) == delay


def test_a_rule_needs_what_its_point_has_and_not_another() -> None:
    without, having = replace(base(), samples=None), base()
    run = run_of(having)
    result = replace(run.experiments[0], points=(without, having))
    needs = Applies(needs=("samples",))
    assert not needs.to(Case(run, result, 0)) and needs.to(Case(run, result, 1)) and needs.to(Case(run, result))


def test_a_busy_machine_is_advised_the_command_of_its_run() -> None:
    machine = replace(Machine(), conditions=replace(Machine().conditions, others_cpu_share=0.5))
    run = replace(run_of(base()), machines=(machine,), command="hwdyno memory --quick")
    for command, advised in (("hwdyno memory --quick", "hwdyno memory --quick"), ("", "hwdyno run")):
        verdict = load_before(Case(replace(run, command=command), run.experiments[0]))
        assert verdict is not None and verdict.advice.endswith(f"run again: {advised}")


@pytest.mark.parametrize(("path", "floor"), [("127.0.0.1", None), ("10.0.0.2", 500.0), (None, 500.0)])
def test_a_message_within_a_host_has_no_floor(path: str | None, floor: float | None) -> None:
    point = replace(base(), parameters={"streams": 1, **({"path": path} if path else {})})
    result = with_field_axes(ExperimentResult("network.rtt", "network", "?", "streams", "", (point,)))
    found = _floor(Case(replace(run_of(base()), experiments=(result,)), result, 0))
    assert (found and found[1]) == floor


def test_a_short_point_is_measured_for_twice_the_least_operations() -> None:
    verdict = too_short(case_of(operations=10, elapsed_s=5.0))
    assert verdict is not None and "takes at least 100." in verdict.says
    assert "--runtime 100" in verdict.advice.replace("=", " "), "200 operations of half a second"


@pytest.mark.parametrize(("times", "named"), [(1.02, True), (0.98, False)])
def test_a_drift_is_sure_from_five_standard_errors_of_its_line_on(times: float, named: bool) -> None:
    """Of n values a deviation of s leaves the rise of their line open by s times the root of 12 / n."""
    count, moves = 40, 0.2
    # Plus, minus, minus, plus lies on no line: its squares are those about the line.
    scatter = moves / (5 * times) * math.sqrt((count - 2) / 12)
    values = [1 + moves * (at / (count - 1) - 0.5) + scatter * (1, -1, -1, 1)[at % 4] for at in range(count)]
    assert (unsteady(values) == "throughput rose by 20% from start to end") == named


def test_threads_wait_by_the_time_of_all_of_them() -> None:
    point = replace(base(), parameters={"numjobs": 4, "iodepth": 1}, elapsed_s=2.0, cpu_user_s=3.0, cpu_system_s=1.0,
                    counters={"run_delay_s": 2.0, "voluntary_switches": 10.0})  # fmt: skip
    run = run_of(point)
    waits = _waits(Case(run, run.experiments[0], 0))
    assert waits is not None and (waits.running, waits.waiting, waits.woken) == (0.5, 0.25, 10.0)


def test_a_latency_that_hardly_bends_has_the_greatest_limit_that_is_tried() -> None:
    top = 10.0 * _MOST
    points = [(rate, 100 + 50 * rate / (top - rate)) for rate in (1.0, 2.0, 4.0, 7.0, 10.0)]
    assert _fitted(points, 10.0) == pytest.approx((top, 100.0, 50.0))
