"""Single lines that a change would break and no planted fault showed: links by name, ceilings' reach, real loaders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import test_inference_findings as inference
import test_training_findings as training
from hwdyno.ceilings.gpu import applies as bounds_gpu
from hwdyno.ceilings.inference import applies_to_load, raw_of
from hwdyno.ceilings.named import link_rate
from hwdyno.findings.between_runs import _within
from hwdyno.findings.inference import break_even, loads_of
from hwdyno.findings.kv_cache import kv_no_room
from hwdyno.findings.rule import Case
from hwdyno.findings.serving import serving_client_bound
from hwdyno.findings.training_loaders import loaders_compared
from hwdyno.findings.truth import _device_depth
from hwdyno.findings.vector_search import vector_recall
from hwdyno.words import ExperimentResult, Measurement, Note, PeerResult, Value
from made_experiment import made_experiment
from test_thresholds import base, run_of


def case_of(result: ExperimentResult, at: int = 0) -> Case:
    return Case(replace(run_of(base()), experiments=(result,)), result, at)


@pytest.mark.parametrize(
    ("name", "bytes_s"),
    [
        ("USB4 40 Gbps", 40e9 * 128 / 132 / 8),
        ("USB4 80 Gbps", 80e9 * 128 / 132 / 8),
        ("USB 3.2 Gen 2x2", 20e9 * 128 / 132 / 8),
        ("USB 3.2 20Gbps", 20e9 * 128 / 132 / 8),
        ("USB 3.2 10Gbps", 10e9 * 128 / 132 / 8),
        ("USB 3.2 5Gbps", 5e9 * 8 / 10 / 8),
        ("USB 2.0", 13 * 512 * 8000.0),
        ("SATA 2", 3e9 * 8 / 10 / 8),
        ("SATA", 6e9 * 8 / 10 / 8),
        ("SATA 1.5Gbps", 1.5e9 * 8 / 10 / 8),
    ],
)
def test_a_link_is_what_its_standard_carries(name: str, bytes_s: float) -> None:
    rate = link_rate(name)
    assert rate is not None and rate.bytes_s == pytest.approx(bytes_s)


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


def beside(*peers: tuple[str, int, float, dict[str, float]], ratio: bool = True) -> list[str]:
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
    says = beside(("numpy", 0, 3.0, details), ("numpy", 1, 2.0, details), ("pytorch", 0, 1.5, details))
    assert [one.split(",")[0] for one in says] == ["With 4 accelerators", "With 1 accelerator"]
    assert "(2 times as much, 1.8 to 2.2)" in says[0]
    assert "Each GB costs 2.00 s of CPU time there and 0.50 s here." in says[0]
    assert beside(("numpy", 0, 3.0, details), ratio=False) == []


@pytest.mark.parametrize(("theirs", "waits"), [(0.931, False), (0.929, True)])
def test_training_waits_for_a_loader_whose_au_is_lower(theirs: float, waits: bool) -> None:
    (says,) = beside(("pytorch", 1, 2.0, {"au": theirs}))
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
