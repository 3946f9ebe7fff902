"""Why a GPU stays below its ceilings: each cause is planted on random GPUs and named; clean ones are not accused."""

from __future__ import annotations

from typing import Any

import pytest
from hwdyno.ceilings import bound_for
from hwdyno.findings import explain
from hwdyno.words import Run
from simulated_runs import rules_of, the
from simulation.gpu import Gpu

SEEDS = range(40_000, 40_200)
RULES = {"gpu_clock_fell", "gpu_link_narrow", "gpu_pageable", "gpu_one_way"}
LOADING = {"gpu_load_waits", "gpu_load_in_turn"}


def explained(gpu: Gpu) -> Run:
    parts = (gpu.peaks(), gpu.copies())
    return explain(Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu", parts))


def test_clean_gpus_are_not_accused() -> None:
    for seed in SEEDS:
        assert not rules_of(explained(Gpu.random(seed)).findings) & RULES, seed


@pytest.mark.parametrize(
    ("rule", "planted", "says"),
    [
        ("gpu_clock_fell", {"clock": 0.7, "slowed_by": "power cap"}, "NVML's reason: power cap."),
        ("gpu_clock_fell", {"clock": 0.9}, "NVML gives no reason."),
        ("gpu_link_narrow", {"generation": 4, "lanes": 16, "link": (3, 8)}, "PCIe 3 x8 during the copies"),
        ("gpu_link_narrow", {"generation": 5, "lanes": 16, "link": (5, 8)}, "That leaves 50% of its rate."),
        ("gpu_pageable", {"pageable": 0.5}, "Pageable memory carries 50% of what pinned memory does"),
        ("gpu_one_way", {"both": 1.02}, "Both directions share one engine or one path"),
    ],
)
def test_each_cause_is_found_on_every_gpu(rule: str, planted: dict[str, Any], says: str) -> None:
    for seed in SEEDS:
        run = explained(Gpu.random(seed, **planted))
        assert rules_of(run.findings) & RULES == {rule}, seed
        assert says in the(run, rule).says.replace("49%", "50%").replace("51%", "50%"), the(run, rule).says


def loaded(seed: int = 1, **planted: Any) -> Run:
    gpu = Gpu.random(seed, **planted)
    return explain(
        Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu load --path .", (gpu.loads(),))
    )


@pytest.mark.parametrize(
    ("rule", "planted", "says"),
    [
        ("gpu_load_waits", {"read": 2e9, "copy": 8e9}, "The copy to the GPU waits for storage (direct, 8 MiB)"),
        ("gpu_load_waits", {"read": 20e9, "copy": 8e9}, "Storage waits for the copy to the GPU"),
        (
            "gpu_load_in_turn", {"read": 7e9, "copy": 8e9, "overlap": 0.1, "buffers": 1},
            "do not overlap (direct, 8 MiB): there is one buffer.",
        ),
        (
            "gpu_load_in_turn", {"read": 7e9, "copy": 8e9, "overlap": 0.2, "busy": 0.97},
            "both need the processors, which are 97% busy.",
        ),
        ("gpu_load_in_turn", {"read": 7e9, "copy": 8e9, "overlap": 0.0}, "limit not identified."),
    ],
)  # fmt: skip
def test_what_a_load_waits_for_is_found(rule: str, planted: dict[str, Any], says: str) -> None:
    for seed in SEEDS:
        run = loaded(seed, **planted)
        assert rules_of(run.findings) & LOADING == {rule}, seed
        assert says in the(run, rule).says, the(run, rule).says


def test_a_balanced_load_that_overlaps_is_not_accused() -> None:
    for seed in SEEDS:
        assert not rules_of(loaded(seed, read=7e9, copy=8e9).findings) & LOADING, seed


@pytest.mark.parametrize(
    ("rule", "under", "over"),
    [
        # Faster by a quarter, and as fast as the slower part.
        ("gpu_load_waits", {"read": 8e9, "copy": 10.2e9}, {"read": 8e9, "copy": 9.8e9}),
        # Half of what overlapping saves.
        ("gpu_load_in_turn", {"read": 8e9, "copy": 8e9, "overlap": 0.48}, {"read": 8e9, "copy": 8e9, "overlap": 0.52}),
        # In turn, it takes a fifth longer.
        (
            "gpu_load_in_turn", {"read": 8e9, "copy": 38e9, "overlap": 0.0},
            {"read": 8e9, "copy": 42e9, "overlap": 0.0},
        ),
    ],
)  # fmt: skip
def test_a_threshold_of_loading_is_where_it_is(rule: str, under: dict[str, Any], over: dict[str, Any]) -> None:
    assert rule in rules_of(loaded(1, **under).findings)
    assert rule not in rules_of(loaded(1, **over).findings)


def test_the_slower_part_is_the_ceiling_of_a_load() -> None:
    (result,) = loaded(read=2e9, copy=8e9).experiments
    whole, read, _ = result.points
    bound = bound_for(result.ceilings, {**result.fixed, **whole.parameters})
    assert bound is not None and bound.value == read.throughput.value
    assert bound_for(result.ceilings, {**result.fixed, **read.parameters}) is None
    assert bound_for(result.ceilings, {**result.fixed, **whole.parameters, "block": 4096}) is None


def test_what_is_measured_next_loads_the_same_file() -> None:
    advice = the(loaded(), "gpu_load_waits").advice
    assert "hwdyno gpu --part whole,read,copy --access direct --block 8388608 --buffers 8 --readers 1,2,4" in advice


@pytest.mark.parametrize(
    ("rule", "under", "over"),
    [
        ("gpu_clock_fell", {"clock": 0.949}, {"clock": 0.951}),
        ("gpu_pageable", {"pageable": 0.88}, {"pageable": 0.92}),
        ("gpu_one_way", {"both": 1.18}, {"both": 1.22}),
    ],
)
def test_a_threshold_is_where_it_is(rule: str, under: dict[str, Any], over: dict[str, Any]) -> None:
    assert rule in rules_of(explained(Gpu.random(1, **under)).findings)
    assert rule not in rules_of(explained(Gpu.random(1, **over)).findings)


def test_the_advice_is_a_command_of_these_copies() -> None:
    run = explained(Gpu.random(3, pageable=0.4))
    assert "hwdyno gpu --memory pinned,pageable --operation host-to-device --block" in str(the(run, "gpu_pageable"))
