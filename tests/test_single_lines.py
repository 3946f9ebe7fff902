"""Single lines that a change would break and no planted fault showed: links by name, ceilings' reach, real loaders."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import test_inference_findings as inference
import test_training_findings as training
from hwdyno.axes import with_field_axes
from hwdyno.ceilings.gpu import applies as bounds_gpu
from hwdyno.ceilings.inference import CACHED_IMAGES, applies_to_load, of_images, raw_of
from hwdyno.ceilings.links import pcie
from hwdyno.ceilings.named import link_rate
from hwdyno.ceilings.network import of_path
from hwdyno.curves import _between, _tight
from hwdyno.curves.knee import Knee
from hwdyno.curves.loaded import loaded_curve
from hwdyno.curves.models import Interval
from hwdyno.curves.projection import _next_load
from hwdyno.findings.between_runs import _within
from hwdyno.findings.claims import CLAIM, memory_by_clock
from hwdyno.findings.commands import aligned, place_of
from hwdyno.findings.contention import BACKGROUND, Cell, cells_of
from hwdyno.findings.gpu import gpu_one_way
from hwdyno.findings.inference import break_even, loads_of
from hwdyno.findings.kv_cache import kv_no_room, kv_too_few
from hwdyno.findings.laws import physical_ceiling
from hwdyno.findings.memory import huge_pages
from hwdyno.findings.open_loop import rate_not_reached, users_wait
from hwdyno.findings.peers import _off
from hwdyno.findings.repeats import two_modes
from hwdyno.findings.rule import Case
from hwdyno.findings.serving import serving_client_bound
from hwdyno.findings.training_loaders import loaders_compared
from hwdyno.findings.truth import _device_depth
from hwdyno.findings.vector_search import vector_recall
from hwdyno.machine import Machine
from hwdyno.statistics import interval_of_repeats, quantile_of, ratio_interval, steady_snia
from hwdyno.units import format_ns
from hwdyno.words import (
    Ceiling,
    Curve,
    ExperimentResult,
    Latency,
    Measurement,
    Note,
    OperatingPoint,
    PeerResult,
    Stream,
    Value,
)
from made_experiment import made_experiment
from test_thresholds import base, run_of


def case_of(result: ExperimentResult, at: int = 0) -> Case:
    return Case(replace(run_of(base()), experiments=(result,)), result, at)


@pytest.mark.parametrize(
    ("metric", "parameters", "bounds"),
    [
        ("gpu_peak/vector/single", {"precision": "single"}, True),
        ("gpu_peak/vector/single", {"precision": "double"}, False),
        ("gpu_peak/tensor/single", {"precision": "single"}, False),
        ("gpu_peak/vector/single", {"precision": "single", "array": 1 << 30}, False),
        ("gpu_peak/vector/single", {"precision": "single", "on": "cpu"}, False),
        ("gpu_memory/1000", {"operation": "copy", "array": 2000}, True),
        ("gpu_memory/1000", {"operation": "copy", "array": 1999}, False),
        ("gpu_memory/1000", {"operation": "triad", "array": 1334}, True),
        ("gpu_memory/1000", {"operation": "sort", "array": 1e9}, False),
    ],
)
def test_a_gpus_peaks_bound_what_runs_on_it(metric: str, parameters: dict[str, Any], bounds: bool) -> None:
    assert bounds_gpu(metric, parameters) == bounds


@pytest.mark.parametrize(("cache", "loader", "bounds"), [("cold", "mmap", 1), ("cold", "raw", 0), ("warm", "mmap", 0)])
def test_the_plain_read_bounds_real_loaders_from_storage(cache: str, loader: str, bounds: int) -> None:
    assert applies_to_load("raw", {"cache": cache, "loader": loader}) == bool(bounds)


# --- loaders of models


def load(loader: str, rate: float, **changes: Any) -> Measurement:
    made = inference.measured({"loader": loader, "cache": "cold"}, [rate] * 4, "bytes/s", bytes=4_000_000_000,
                              cpu_user_s=3.0, cpu_system_s=1.0)  # fmt: skip
    return replace(made, **changes)


def loads(*points: Measurement) -> ExperimentResult:
    return made_experiment("inference.cold_start", "inference", "?", "threads", "inference_load", points, fixed={})


def test_a_load_is_one_of_its_repeats() -> None:
    (one,) = loads_of(loads(load("mapped", 5e8)))
    assert (one.size, one.ready_s, one.cpu_s) == pytest.approx((1e9, 2.0, 1.0))


@pytest.mark.parametrize("wrong", [{"validity": "invalid"}, {"bytes": 0}, {"throughput": Value(0.0, "bytes/s")}])
def test_a_load_that_did_not_count_is_none(wrong: dict[str, Any]) -> None:
    assert loads_of(loads(load("mapped", 5e8, **wrong))) == []
    fastest = raw_of(loads(load("raw", 1e9), replace(load("raw", 5e9), **(wrong if "bytes" not in wrong else {}))))
    assert fastest is not None
    assert fastest.throughput.value == pytest.approx(5e9 if "bytes" in wrong else 1e9)


def test_a_restore_that_is_slower_at_the_most_tokens_never_breaks_even() -> None:
    assert break_even({"recompute": [(64.0, 1.0), (256.0, 2.0)], "restore": [(64.0, 0.5), (256.0, 2.5)]}) is None
    assert break_even({"recompute": [(64.0, 1.0)], "restore": [(256.0, 0.5)]}) is None


# --- training beside real loaders


def compared(*peers: tuple[str, int, float, dict[str, float]], ratio: bool = True) -> list[str]:
    """What is said of loaders: tool, its point, how many times as fast the engine is, and its details."""
    points = tuple(
        replace(training.point(number, 0.95), parameters={"accelerators": number},
                details={"au_rule": 0.95, "client_cpu_s_per_gb": 0.5})
        for number in (1, 4)
    )  # fmt: skip
    found = tuple(
        PeerResult(tool, "1.0", at, Value(1e9, "bytes/s"), details=details,
                   ratio=Value(times, "1", 0.9 * times, 1.1 * times) if ratio else None)
        for tool, at, times, details in peers
    )  # fmt: skip
    result = made_experiment("training.x", "training", "?", "accelerators", "training_loader", points, fixed={})
    return [one.says for one in loaders_compared(case_of(replace(result, peers=found)))]


def test_each_loader_is_compared_at_the_most_accelerators() -> None:
    details = {"au": 0.95, "cpu_s_per_gb": 2.0}
    says = compared(("numpy", 0, 3.0, details), ("numpy", 1, 2.0, details), ("pytorch", 0, 1.5, details))
    assert [one.split(",")[0] for one in says] == ["With 4 accelerators", "With 1 accelerator"]
    assert "(2 times as much, 1.8 to 2.2)" in says[0]
    assert "Each GB costs 2.00 s of CPU time there and 0.50 s here." in says[0]
    assert compared(("numpy", 0, 3.0, details), ratio=False) == []


@pytest.mark.parametrize(("theirs", "waits"), [(0.931, False), (0.929, True)])
def test_training_waits_for_a_loader_whose_au_is_lower(theirs: float, waits: bool) -> None:
    (says,) = compared(("pytorch", 1, 2.0, {"au": theirs}))
    assert ("training with it waits for the loader" in says) == waits


# --- others


@pytest.mark.parametrize(("elapsed_s", "depth"), [(2.0, 3.0), (0.0, None)])
def test_the_depth_at_a_device_is_its_queue_over_the_time(elapsed_s: float, depth: float | None) -> None:
    point = replace(base(), counters={"device_queue_s": 6.0}, elapsed_s=elapsed_s)
    assert _device_depth(Case(run_of(point), run_of(point).experiments[0], 0)) == depth


@pytest.mark.parametrize(("values", "error"), [([4.0], 0.0), ([-1.0, 1.0], 0.0), ([9.0, 11.0], 0.1)])
def test_repeats_of_one_run_have_an_error_from_two_on(values: list[float], error: float) -> None:
    assert _within(values) == pytest.approx(error)


def test_a_busy_client_says_what_a_chunk_costs_it() -> None:
    point = replace(base(), cpu_user_s=3.0, cpu_system_s=0.0, details={"client_cpu_s_a_chunk": 90e-6})
    result = made_experiment("inference.serving", "inference", "?", "concurrency", "inference_serving",
                             (replace(point, parameters={"concurrency": 8}),), fixed={})  # fmt: skip
    found = serving_client_bound(case_of(result))
    assert found is not None and "90.0 µs a chunk" in found.says


def test_the_more_was_turned_away_the_graver_it_is() -> None:
    point = replace(base(), notes=(Note("no_room", "7 entries had no room"),), details={"turned_away": 7})
    found = kv_no_room(Case(run_of(point), run_of(point).experiments[0], 0))
    assert found is not None and found.weight == 7.0


@pytest.mark.parametrize(("recall", "found"), [(0.899, True), (0.9, False)])
def test_a_low_recall_is_advised_twice_the_search(recall: float, found: bool) -> None:
    point = replace(base(), parameters={"index": "graph", "search_list": 50}, details={"recall": recall})
    result = made_experiment("inference.vector_search", "inference", "?", "threads", "training_vector_search",
                             (point,), fixed={})  # fmt: skip
    verdict = vector_recall(case_of(result))
    assert (verdict is not None) == found
    if verdict is not None:
        assert verdict.evidence["search_list"] == 50 and verdict.weight == pytest.approx(1 - recall)


@pytest.mark.parametrize(
    ("values", "skewed"), [([1.0, 3.0], False), ([1.0, 3.0, 9.0], True), ([-1.0, 1.0, 2.0], False)]
)
def test_two_repeats_or_negative_ones_are_not_called_skewed(values: list[float], skewed: int) -> None:
    assert bool(interval_of_repeats(values, "bytes/s")[1]) == bool(skewed)


@pytest.mark.parametrize(
    ("low", "high", "tight"), [(None, 1.01, False), (0.99, None, False), (0.99, 1.01, True), (0.5, 1.01, False)]
)
def test_a_ceiling_is_tight_with_both_ends_near(low: float | None, high: float | None, tight: bool) -> None:
    assert _tight(Interval(1.0, low, high)) == tight


def test_accelerators_wait_for_the_rest_of_their_time() -> None:
    found = training.findings(training.point(1, 0.6))["training_au"]
    assert "accelerators wait 40% of the time" in found.says


@pytest.mark.parametrize(
    ("blocks", "whole"),
    [("100,5000", "4096,8192"), ("100,200", 4096), ("4k,8k", "4k,8k"), ("100..4k", "100..4k"), (100, 4096), (512, 512)],
)
def test_direct_blocks_are_advised_in_whole_pages(blocks: str | int, whole: str | int) -> None:
    assert aligned({"direct": True, "bs": blocks})["bs"] == whole
    assert aligned({"direct": False, "bs": blocks})["bs"] == blocks


@pytest.mark.parametrize(
    ("resource", "path", "place"),
    [
        ("storage", "/data/hwdyno.data", "/data/hwdyno.data"),
        ("training", "/data/hwdyno-set", "/data"),
        ("storage", "/data/hwdyno-run-1/file", "/data"),
        ("training", "/data/other", "/data/other"),
    ],
)
def test_the_place_of_what_hwdyno_made_is_the_folder_around_it(resource: str, path: str, place: str) -> None:
    result = made_experiment(f"{resource}.x", resource, "?", "threads", "", (base(),), fixed={"path": path})
    assert place_of(replace(run_of(base()), command="hwdyno run"), result) == place


@pytest.mark.parametrize(
    ("ways", "found"), [((), 0), (("host-to-device",), 0), (("host-to-device", "device-to-host"), 1)]
)
def test_one_path_for_both_ways_needs_each_of_them(ways: tuple[str, ...], found: int) -> None:
    points = tuple(
        replace(base(), parameters={"operation": way, "memory": "pinned", "block": 1 << 26},
                throughput=Value(1e9, "bytes/s", 0.99e9, 1.01e9))
        for way in ("both-ways", *ways)
    )  # fmt: skip
    result = made_experiment("gpu.copy", "gpu", "?", "block", "gpu_copy", points, fixed={})
    assert (gpu_one_way(case_of(result)) is not None) == bool(found)


def test_a_rate_of_which_nothing_was_served_has_no_waits() -> None:
    point = replace(base(), parameters={"rate": 1e6}, rate=Value(10.0, "operations/s"), operations=10**6)
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", (point,)))
    curve = Curve(series={}, load="rate", points=(0,), unit="operations/s", model="",
                  floor=OperatingPoint(1e6, 10.0, 1e5, True, ""))  # fmt: skip
    assert users_wait(replace(case_of(result), curve=curve)) is None


def test_the_less_of_a_rate_was_reached_the_graver_it_is() -> None:
    point = replace(base(), parameters={"rw": "randread", "bs": 4096, "rate": 1e4}, operations=10**6,
                    rate=Value(7e3, "operations/s"), notes=(Note("rate_not_reached", "70% was reached"),))  # fmt: skip
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", (point,)))
    found = rate_not_reached(case_of(result))
    assert found is not None and found.weight == pytest.approx(0.3)


@pytest.mark.parametrize(("fall", "loss"), [(0.5, 0.5), (0.0, 0.0)])
def test_a_curve_that_falls_loses_what_its_last_load_is_below_the_ceiling(fall: float, loss: float) -> None:
    """By the square root of the load past 16: a half at 64."""
    one = Interval(1.0, None, None)
    knee = Knee(ceiling=one, crossing=one, p=one, top=1.0, one=1.0, gain=one, requests=True, fall=fall, bend=16.0,
                most=64.0)  # fmt: skip
    assert knee.loss == pytest.approx(loss, abs=0.03)
    assert knee.peak_load == (16.0 if fall else math.inf)


def test_a_load_that_moved_nothing_is_no_point_of_the_loaded_latency() -> None:
    points = [(1e9, 100.0), (2e9, 101.0), (4e9, 104.0), (6e9, 110.0), (8e9, 130.0)]
    rates, latencies = ([one[at] for one in points] for at in (0, 1))
    plain = loaded_curve(rates, latencies)
    assert plain is not None and plain == loaded_curve([0.0, *rates, 9e9], [100.0, *latencies, 0.0])


@pytest.mark.parametrize(("ratio", "severity"), [(0.5, None), (1.0, "warning"), (1.009, "warning"), (1.011, "invalid")])
def test_a_row_without_a_direction_may_go_both_ways_at_once(ratio: float, severity: str | None) -> None:
    """A link of 1 GB/s each way: above one, only both at once could be; above both, nothing could."""
    ways = tuple(
        Ceiling(metric, "physical", 1e9, "bytes/s", "the link", "test") for metric in ("read_bytes_s", "write_bytes_s")
    )
    point = replace(base(), parameters={"iodepth": 8}, throughput=Value(2e9 * ratio, "bytes/s"))
    made = run_of(point)
    result = replace(made.experiments[0], ceilings=ways)
    run = replace(made, imported_from="table", experiments=(result,))
    found = physical_ceiling(Case(run, result, 0))
    assert (found and found.severity) == severity


@pytest.mark.parametrize(
    ("study", "resource", "says"),
    [
        ("s", "compute", "the clock of the same study's CPU"),
        ("t", "compute", "looks like a CPU's clock"),
        ("s", "network", "looks like a CPU's clock"),
    ],
)
def test_a_memorys_clock_is_that_of_the_same_studys_processor(study: str, resource: str, says: str) -> None:
    def claims(kind: str, text: str, of: str, value: float, unit: str) -> ExperimentResult:
        point = replace(base(), parameters={"claim": text, "study": of}, throughput=Value(value, unit),
                        details={"claimed_unit": unit})  # fmt: skip
        return made_experiment(f"{kind}.claims", kind, "?", "claim", CLAIM, (point,), fixed={})

    memory = claims("memory", "3.7 GHz x 8 B x 2", "s", 59.2e9, "bytes/s")
    other = claims(resource, "16 cores x 3.7 GHz x 16", study, 947e9, "FLOP/s")
    run = replace(run_of(base()), experiments=(memory, other))
    found = memory_by_clock(Case(run, memory, 0))
    assert found is not None and says in found.says


def test_the_time_of_few_reads_is_their_95th_percentile() -> None:
    latency = Latency(1e6, 1e6, 2e6, 4e6, None, 9e6, 1e6, 100)
    point = replace(base(), parameters={"users": 4}, streams=(Stream("read", 100, 0, latency_ns={"total": latency}),))
    result = made_experiment("inference.kv", "inference", "?", "users", "training_kv_cache", (point,), fixed={})
    found = kv_too_few(case_of(result))
    assert found is not None
    assert f"the p95 of {format_ns(quantile_of(latency, 0.95))} rests on 5 of 100 entries" in found.says


def test_only_valid_images_from_memory_are_a_ceiling() -> None:
    def image(cache: str, workers: int, **changes: Any) -> Measurement:
        made = replace(base(), parameters={"cache": cache, "threads": workers}, throughput=Value(100.0, "operations/s"))
        return replace(made, **changes)

    points = (image("warm", 1), image("warm", 2, validity="invalid"), image("cold", 4),
              image("warm", 8, throughput=Value(0.0, "operations/s")))  # fmt: skip
    result = made_experiment("inference.images", "inference", "?", "threads", "inference_images", points, fixed={})
    found = list(of_images(run_of(base()), result))
    assert [(one.metric, one.value) for one in found] == [(f"{CACHED_IMAGES}1", 100.0)]


def cell(load: str, *, loaded: list[float], alone: list[float]) -> Measurement:
    details = {"loaded_by_round": loaded, "alone_by_round": alone}
    return replace(base(), parameters={BACKGROUND.name: load}, details=details)


def test_one_cell_is_as_certain_as_its_own_interval_and_two_are_less() -> None:
    """Bonferroni: of two, each holds with 97.5%."""
    rounds = {"loaded": [8.0, 8.1, 8.2, 7.9], "alone": [10.0, 10.2, 9.9, 10.1]}
    points = (cell("memory", **rounds), cell("network", **rounds), cell("compute", loaded=[8.0], alone=[10.0]))

    def found(count: int) -> list[Cell]:
        made = made_experiment("storage.x", "storage", "?", BACKGROUND.name, "", points[:count], fixed={})
        return cells_of(replace(run_of(base()), experiments=(made,)))

    (alone,) = found(1)
    assert alone.sure == alone.kept
    first, second = found(3)
    assert first.sure == second.sure == ratio_interval(rounds["loaded"], rounds["alone"], 0.975)
    assert first.sure.low < first.kept.low  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "generation", "lanes"),
    [
        ("PCIe 3 x4", 3, 4),
        ("PCIe 4.0 x16", 4, 16),
        ("PCIe Gen5 x8", 5, 8),
        ("PCI Express 3.0 x1", 3, 1),
        ("x8 PCIe 4.0", 4, 8),
        ("PCIe x4 Gen 3", 3, 4),
        ("M.2 PCIe 4.0 x4 NVMe", 4, 4),
    ],
)
def test_generation_and_lanes_stand_in_any_order(name: str, generation: int, lanes: int) -> None:
    rate = link_rate(name)
    assert rate is not None and rate.bytes_s == pytest.approx(pcie(generation, lanes).bytes_s)


def test_two_levels_are_said_as_they_were_noted() -> None:
    text = "two levels were seen, 1.0 and 2.0 GB/s"
    point = replace(base(), parameters={"rw": "randread", "bs": 4096}, notes=(Note("two_modes", text),))
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", (point,)))
    found = two_modes(case_of(result))
    assert found is not None and found.says.startswith("Two levels were seen, 1.0 and 2.0 GB/s (")
    assert found.evidence == {"note": text}
    assert two_modes(case_of(replace(result, points=(replace(point, notes=()),)))) is None


@pytest.mark.parametrize("noted", [True, False])
def test_a_rate_is_missed_where_the_measurement_noted_it(noted: bool) -> None:
    notes = (Note("rate_not_reached", "70% was reached"),) if noted else ()
    point = replace(base(), parameters={"rw": "randread", "bs": 4096, "rate": 1e4}, operations=10**6,
                    rate=Value(7e3, "operations/s"), notes=notes)  # fmt: skip
    result = with_field_axes(ExperimentResult("storage.rate", "storage", "?", "rate", "storage_blocks", (point,)))
    assert (rate_not_reached(case_of(result)) is not None) == noted
    closed = replace(point, parameters={"rw": "randread", "bs": 4096})
    assert rate_not_reached(case_of(replace(result, points=(closed,)))) is None


@pytest.mark.parametrize(
    ("restore", "says", "more"),
    [
        ({64: 0.01, 256: 0.02}, "at all 2 measured sizes, from 64 tokens on", "16,64"),
        ({64: 0.5, 256: 0.9}, "is slower than computing it again, up to 256 tokens", "256,512"),
        ({64: 0.2, 256: 0.25}, "beats computing it again from", "256,512"),
        ({4: 0.001, 256: 0.02}, "from 4 tokens on", "2,4"),
        ({64: 5.0, 1500: 9.0}, "up to 1,500 tokens", "1500,2000"),
    ],
)
def test_a_restore_is_advised_where_the_answer_lies(restore: dict[int, float], says: str, more: str) -> None:
    """Smaller prompts where it wins at all, larger ones where it wins at none, up to what the model takes."""
    found = inference.explained(inference.contexts({one: one / 640 for one in restore}, restore))["kv_restore"][0]
    assert says in found.says and f"--tokens {more}" in found.advice


def test_huge_pages_are_said_in_the_figures_unit() -> None:
    """A bandwidth has a latency of its accesses, too, and stays a bandwidth."""
    points = [
        replace(base(), parameters={"pages": pages, "operation": "read", "threads": 1, "working_set": 1 << 30},
                throughput=Value(rate, "bytes/s", 0.99 * rate, 1.01 * rate))
        for pages, rate in (("4k", 8e9), ("2m", 12e9))
    ]  # fmt: skip
    result = made_experiment("memory.pages", "memory", "?", "pages", "memory_bandwidth", tuple(points), fixed={})
    found = huge_pages(case_of(result))
    assert found is not None and "8,000 MB/s ±1.0% on 4 KiB pages, 12.0 GB/s ±1.0% on 2 MiB pages" in found.says
    assert found.evidence["gain"] == pytest.approx(0.5)


def test_a_links_formula_has_the_result_that_it_has() -> None:
    for name, shown in (("USB4 40 Gbps", "4,848 MB/s"), ("USB4 80 Gbps", "9,697 MB/s")):
        rate = link_rate(name)
        assert rate is not None and rate.formula.endswith(f"Gbit/s × 128/132 / 8 = {shown}")


def test_several_hosts_send_through_an_interface_each() -> None:
    details = {
        "interface": "eth0",
        "interface_bits_s": 10e9,
        "interface_virtual": False,
        "interface_driver": "mlx5_core",
    }
    point = replace(base(), parameters={"protocol": "tcp", "direction": "up"}, details=details)
    machines = tuple(replace(Machine(), hostname=name) for name in ("a", "b", "c"))
    made = run_of(point, "network")
    alone, each = (of_path(replace(made, machines=some), made.experiments[0]) for some in (machines[:1], machines))
    assert alone and [one.value / other.value for one, other in zip(each, alone, strict=True)] == [3.0]
    assert each[0].label.startswith("3 hosts, each like ")


@pytest.mark.parametrize(
    ("load", "latency"),
    [(0.5, 10.0), (1.0, 10.0), (2.0, 20.0), (4.0, 40.0), (8.0, 50.0), (100.0, 50.0)],
)
def test_a_latency_between_loads_lies_on_their_line(load: float, latency: float) -> None:
    known = [(1.0, 10.0), (4.0, 40.0), (8.0, 50.0)]
    assert _between(known, load) == pytest.approx(latency)
    assert _between([], load) is None


@pytest.mark.parametrize(("load", "following"), [(0.5, 2), (1, 2), (3, 8), (4, 8), (5, 16), (64, 128), (65, 256)])
def test_the_next_load_is_a_power_of_two_from_twice_on(load: float, following: int) -> None:
    assert _next_load(load) == following


@pytest.mark.parametrize(("ratio", "off"), [(0.5, 2.0), (0.8, 1.25), (1.0, 1.0), (1.25, 1.25), (4.0, 4.0)])
def test_a_peer_is_as_far_off_above_as_below(ratio: float, off: float) -> None:
    assert _off(Value(ratio, "1")) == pytest.approx(off)


@pytest.mark.parametrize(
    ("rounds", "steady"),
    [
        ([0.0] * 5, None),
        ([1.0] * 5, True),
        ([1.0] * 4, None),
        ([0.91, 1.09, 1.0, 0.91, 1.09], True),
        ([0.89, 1.11, 1.0, 0.89, 1.11], False),
        ([0.95, 0.98, 1.0, 1.02, 1.05], True),
        ([0.93, 0.97, 1.0, 1.03, 1.07], False),
        ([9.0, 1.0, 1.0, 1.0, 1.0, 1.0], True),
    ],
)
def test_five_rounds_are_steady_as_snia_has_it(rounds: list[float], steady: bool | None) -> None:
    """At most 20% between the least and the most, and 10% along the line through them."""
    assert steady_snia(rounds) is steady
