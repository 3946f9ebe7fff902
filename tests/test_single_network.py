"""Single lines of rules about networks, devices, rounds, curves and several hosts that a change would break unseen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.axes import BETWEEN, CLIENTS, SHARED_FILE
from hwdyno.findings.applies import ROUND
from hwdyno.findings.between_runs import _within
from hwdyno.findings.curve_shape import rolls_over
from hwdyno.findings.device import _error
from hwdyno.findings.network_path import _copy, _is_paced, _lost_without_a_queue, server_of
from hwdyno.findings.ranks import _figure, shared_file, slow_pair
from hwdyno.findings.rule import Case
from hwdyno.findings.scaling import scaling, steps_of, unfair
from hwdyno.findings.settings import _cpuset, _memlock
from hwdyno.findings.snia import _value, is_rounds
from hwdyno.words import Curve, ExperimentResult, Run, Value
from made_clients import closed_rate, made, point, whole_curve
from made_experiment import made_experiment
from test_single_lines import case_of
from test_thresholds import base, run_of


def network(parameters: dict[str, Any], rate: float = 1e8) -> ExperimentResult:
    point = replace(base(), parameters=parameters, throughput=Value(rate, "bytes/s", 0.99 * rate, 1.01 * rate))
    return made_experiment("network.x", "network", "?", "streams", "network_throughput", (point,), fixed={})


@pytest.mark.parametrize(
    ("given", "bytes_s", "paced"),
    [
        ({"rate": 800}, 95.5, True),
        ({"rate": 800}, 94.5, False),
        ({"rate": 800, "streams": 2}, 190.5, True),
        ({"rate": 800, "streams": 2}, 189.5, False),
        ({"rate": 800, "direction": "both"}, 190.5, True),
        ({"rate": 800, "direction": "both"}, 189.5, False),
        ({"rate": 1}, 1.0, True),
        ({"rate": 0}, 1.0, False),
        ({}, 1.0, False),
    ],
)
def test_a_point_is_paced_from_95_percent_of_the_asked_rate_on(
    given: dict[str, Any], bytes_s: float, paced: bool
) -> None:
    """The rate is in bits per second for each stream and each way: 800 bit/s are 100 bytes/s."""
    case = case_of(network(given, bytes_s))
    assert _is_paced(case, case.result.points[0]) == paced


@pytest.mark.parametrize(
    ("share", "mean_us", "least_us", "found"),
    [
        (0.003, 2000.0, 1000.0, True),
        (0.003, 2000.5, 1000.0, False),
        (0.0029, 2000.0, 1000.0, False),
        (0.003, 1.0, 0.0, True),
        (0.003, 0.0, 0.0, False),
    ],
)
def test_losses_have_no_queue_up_to_half_more_than_the_shortest_round_trip_and_500_us(
    share: float, mean_us: float, least_us: float, found: bool
) -> None:
    details = {"retransmit_share": share, "rtt_mean_us": mean_us, "rtt_min_us": least_us}
    assert _lost_without_a_queue(replace(base(), details=details)) == found


def test_a_command_names_only_a_port_other_than_the_usual_one() -> None:
    assert server_of(network({"server": "far", "port": 5201})) == {"server": "far"}
    assert server_of(network({"server": "far", "port": 5202})) == {"server": "far", "port": "5202"}
    assert server_of(network({"port": 5202})) == {}


def test_the_variation_within_a_run_is_the_standard_error_as_a_share_of_the_mean() -> None:
    """Of 0.5 and 1.5: the deviation is √0.5, the mean 1, the root of the number √2."""
    assert _within([0.5, 1.5]) == pytest.approx(0.5)
    assert _within([0.5]) == 0.0
    assert _within([0.0, 0.0]) == 0.0


def test_the_error_of_a_throughput_is_its_interval_over_twice_1_96_or_2_percent() -> None:
    assert _error(replace(base(), throughput=Value(1.0, "bytes/s", 0.804, 1.196))) == pytest.approx(0.1)
    assert _error(replace(base(), throughput=Value(0.0, "bytes/s", 0.0, 0.0))) == 0.02
    assert _error(replace(base(), throughput=Value(1.0, "bytes/s", None, None))) == 0.02


@pytest.mark.parametrize(("allowed", "every", "says"), [(0, 4, ""), (1, 4, "1 of 4"), (3, 4, "3 of 4"), (4, 4, "")])
def test_a_cpuset_counts_where_it_leaves_processors_out(allowed: int, every: int, says: str) -> None:
    machine = run_of(base()).machine
    container = replace(machine.container, cpuset=tuple(range(allowed)))
    found = _cpuset(replace(machine, container=container, cpu=replace(machine.cpu, threads=every)))
    assert says in found and bool(found) == bool(says)


def test_a_limit_of_locked_memory_is_given_in_kib() -> None:
    machine = run_of(base()).machine
    assert " 64 KiB " in _memlock(replace(machine, settings=replace(machine.settings, limits={"memlock": "65536"})))


def test_rounds_are_those_of_a_snia_experiment_with_the_load_round() -> None:
    result = network({})
    rounds = replace(result, name="storage.snia-iops", load=ROUND)
    assert is_rounds(rounds)
    assert not is_rounds(replace(rounds, load="streams"))
    assert not is_rounds(replace(rounds, name="storage.blocks"))


@pytest.mark.parametrize(
    ("given", "bytes_s"),
    [
        ({"operation": "copy", "working_set": 128 << 20, "threads": 4}, 10.0),
        ({"operation": "copy", "working_set": 128 << 20}, 40.0),
        ({"operation": "copy", "working_set": (128 << 20) - 1, "threads": 4}, 0.0),
        ({"operation": "copy", "threads": 4}, 0.0),
        ({"operation": "read", "working_set": 128 << 20, "threads": 4}, 0.0),
    ],
)
def test_a_core_copies_half_of_the_bytes_that_one_thread_moves_beyond_the_caches(
    given: dict[str, Any], bytes_s: float
) -> None:
    """A copy reads and writes: 80 bytes/s of traffic are 40 copied, by four threads 10 each."""
    point = replace(base(), parameters=given, throughput=Value(80.0, "bytes/s", 79.0, 81.0))
    copies = ExperimentResult("memory.x", "memory", "?", "threads", "memory_bandwidth", (point,), fixed={})
    assert _copy(case_of(copies), base()) == bytes_s


def test_a_round_is_judged_by_its_mean_latency_or_its_rate() -> None:
    assert _value(replace(base(), latency_ns=None), by_latency=True) == 0.0
    rated = replace(base(), rate=Value(7.0, "operations/s", 7.0, 7.0))
    assert _value(rated, by_latency=False) == 7.0


# --- the shape of a curve


def along(values: dict[float, float], rates: dict[float, float] | None = None, **parameters: float) -> Case:
    """A case of a curve over queue depths, with the throughput at each and these parameters of its model."""
    points = tuple(
        replace(
            base(),
            parameters={"rw": "randread", "bs": 4096, "iodepth": load},
            throughput=Value(value, "bytes/s", 0.99 * value, 1.01 * value),
            rate=None if rates is None else Value(rates[load], "operations/s"),
        )
        for load, value in values.items()
    )
    unit = "bytes/s" if rates is None else "operations/s"
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    result = replace(result, metric="throughput" if rates is None else "rate")
    curve = Curve(
        series={}, load="iodepth", points=tuple(range(len(points))), unit=unit, model="queue-knee",
        parameters={name: Value(value, "1") for name, value in parameters.items()}, ceiling=Value(100.0, unit),
    )  # fmt: skip
    return Case(replace(run_of(base()), experiments=(result,)), result, curve=curve)


@pytest.mark.parametrize(
    ("loss", "last", "falls"),
    [
        (0.049, 95.0, False),
        (0.05, 95.0, True),
        (0.06, 94.0, True),
        (0.06, 97.0, True),
        (0.06, 98.0, False),
        (0.06, 99.0, False),
        (0.06, 101.0, False),
    ],
)
def test_a_fall_counts_from_5_percent_of_the_model_and_half_of_it_measured(
    loss: float, last: float, falls: bool
) -> None:
    found = rolls_over(along({1.0: 50.0, 8.0: 100.0, 32.0: last}, loss=loss))
    assert (found is not None) == falls


@pytest.mark.parametrize(("second", "bend"), [(91.0, 16.0), (89.0, 8.0)])
def test_a_fall_begins_at_the_last_load_that_lost_at_most_a_quarter_of_it(second: float, bend: float) -> None:
    """A quarter of 40% is 10%: to 90 of 100."""
    found = rolls_over(along({1.0: 50.0, 8.0: 100.0, 16.0: second, 32.0: 60.0}, loss=0.4))
    assert found is not None and found.evidence["bend"] == bend


def test_a_load_of_zero_is_one_of_its_own() -> None:
    found = rolls_over(along({0.0: 100.0, 1.0: 50.0, 2.0: 50.0}, loss=0.5))
    assert found is not None and (found.evidence["bend"], found.evidence["most"]) == (0.0, 100.0)


def test_a_fall_is_that_of_the_rate_where_the_experiment_is_about_the_rate() -> None:
    same = {1.0: 50.0, 8.0: 100.0, 32.0: 100.0}
    falling = {1.0: 5.0, 8.0: 10.0, 32.0: 6.0}
    found = rolls_over(along(same, falling, loss=0.4))
    assert found is not None and (found.evidence["most"], found.evidence["last"]) == (10.0, 6.0)
    assert rolls_over(along(falling, same, loss=0.4)) is None


def test_a_load_off_the_curve_is_no_peak_to_fall_from() -> None:
    values = {1.0: 50.0, 4.0: 300.0, 8.0: 100.0, 32.0: 60.0}
    found = rolls_over(along(values, loss=0.4, odd_load=4.0))
    assert found is not None and (found.evidence["bend"], found.evidence["most"]) == (8.0, 100.0)
    found = rolls_over(along(values, loss=0.4, odd_load=2.0))
    assert found is not None and (found.evidence["bend"], found.evidence["most"]) == (4.0, 300.0)


# --- several hosts


def pairs(count: int, slow: float) -> Case:
    """The first pair of hosts reaches a share of what each other one does."""
    names = [f"{one}-{other}" for one in range(3) for other in range(3) if one != other][:count]
    points = tuple(
        replace(base(), parameters={BETWEEN.name: name}, throughput=Value(value, "bytes/s", value, value))
        for name, value in zip(names, [slow * 1e8] + [1e8] * (count - 1), strict=True)
    )
    result = made_experiment("network.x", "network", "?", "streams", "network_throughput", points, fixed={})
    return case_of(replace(result, declaration=replace(result.declaration, axes=(*result.declaration.axes, BETWEEN))))


@pytest.mark.parametrize(("count", "slow", "found"), [(5, 0.7, []), (6, 0.7, [(0,)]), (6, 0.81, [])])
def test_a_pair_is_slow_by_a_fifth_among_six(count: int, slow: float, found: list[tuple[int, ...]]) -> None:
    assert [verdict.points for verdict in slow_pair(pairs(count, slow))] == found


def test_a_pair_that_moves_no_bytes_is_judged_by_its_rate() -> None:
    moved, rate = Value(8.0, "bytes/s"), Value(2.0, "operations/s")
    assert _figure(base(throughput=moved, rate=rate, bytes=4)) == moved
    assert _figure(base(throughput=moved, rate=rate, bytes=0)) == rate
    assert _figure(base(throughput=moved, rate=None, bytes=0)) == moved


@pytest.mark.parametrize(
    ("shared", "each", "says"),
    [
        (89.0, 100.0, "costs 11%"),
        (91.0, 100.0, "is as fast as"),
        (0.25, 0.5, "costs 50%"),
        (0.25, 0.0, ""),
    ],
)
def test_a_shared_file_costs_from_a_tenth_of_what_a_file_each_gives(shared: float, each: float, says: str) -> None:
    points = tuple(
        replace(base(), parameters={"rw": "write", SHARED_FILE.name: one}, throughput=Value(value, "bytes/s"))
        for one, value in ((True, shared), (False, each))
    )
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    axes = (*result.declaration.axes, SHARED_FILE)
    found = shared_file(case_of(replace(result, declaration=replace(result.declaration, axes=axes))))
    assert len(found) == bool(says) and all(says in one.says for one in found)


# --- clients


def over_clients(run: Run, **changes: Any) -> Case:
    """A case of the first curve, with fields of it changed."""
    (result,) = run.experiments
    return Case(run, result, curve=replace(result.curves[0], **changes))


def test_the_least_load_is_linear_by_itself_also_with_several_clients() -> None:
    case = over_clients(made(*map(point, (2, 4, 8))))
    assert case.curve is not None
    first, second, _ = steps_of(case.run, case.result, case.curve)
    assert first.share_of_linear == pytest.approx(1.0)
    assert second.share_of_linear == pytest.approx(closed_rate(4) / closed_rate(2) / 2)


def test_a_point_that_names_no_hosts_ran_on_one_node() -> None:
    case = over_clients(made(point(1, hosts=()), point(2), point(4)))
    assert case.curve is not None
    assert [one.nodes for one in steps_of(case.run, case.result, case.curve)] == [1, 1, 2]


def test_without_a_best_load_the_last_one_is_it() -> None:
    found = scaling(over_clients(whole_curve(), best=None))
    assert found is not None and found.evidence["best_clients"] == 16
    run = whole_curve()
    assert scaling(Case(run, run.experiments[0])) is None


def test_on_a_flat_curve_one_client_is_enough() -> None:
    found = scaling(over_clients(whole_curve(), state="flat"))
    assert found is not None and found.says.startswith("More clients bring nothing (")
    assert found.advice.startswith("Use 1 client")


@pytest.mark.parametrize(("shares", "half"), [((0.9, 0.1), 1), ((0.6, 0.35, 0.05), 1), ((0.5, 0.4, 0.05, 0.05), 2)])
def test_where_shares_are_unequal_half_of_the_clients_are_advised(shares: tuple[float, ...], half: int) -> None:
    case = case_of(made(point(1), point(len(shares), shares)).experiments[0], at=1)
    found = unfair(case)
    assert found is not None and f"--{CLIENTS.name} {half} " in f"{found.advice} "


def test_points_that_are_all_invalid_fall_nowhere() -> None:
    case = along({1.0: 50.0, 8.0: 100.0, 32.0: 60.0}, loss=0.4)
    points = tuple(replace(one, validity="invalid") for one in case.result.points)
    assert rolls_over(case) is not None
    assert rolls_over(Case(case.run, replace(case.result, points=points), case.at, case.curve)) is None
