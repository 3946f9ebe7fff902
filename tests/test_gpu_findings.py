"""Why a GPU stays below its ceilings: each cause is planted on random GPUs and named; clean ones are not accused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.ceilings import bound_for
from hwdyno.findings import explain
from hwdyno.report.charts import charts_of
from hwdyno.report.picture import Dot, Line
from hwdyno.resources import ceilings_of, why_no_ceiling
from hwdyno.words import ExperimentResult, Run
from simulated_runs import rules_of, the
from simulation.gpu import INTENSITIES, MEMORY_BYTES_S, Gpu

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


def roofed(gpu: Gpu, made: ExperimentResult) -> Run:
    made = replace(made, ceilings=ceilings_of(gpu.machine(), "gpu"))
    return explain(Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu", (made,)))


def test_the_ridge_is_where_both_roofs_meet() -> None:
    for seed in SEEDS:
        gpu = Gpu.random(seed)
        found = the(roofed(gpu, gpu.roofline()), "gpu_roofline")
        ridge = 0.98 * gpu.units * 128 * gpu.clock_hz / (0.92 * MEMORY_BYTES_S)
        assert found.evidence["ridge"] == pytest.approx(ridge, rel=0.03), seed
        assert found.says.startswith("Memory limits below") and "Furthest" not in found.says
        assert "hwdyno gpu --precision single --array 256M --on gpu --intensity " in str(found.advice)


def test_the_point_that_is_furthest_below_its_roof_is_named() -> None:
    for seed in SEEDS:
        gpu = Gpu.random(seed)
        says = the(roofed(gpu, gpu.roofline(at=0.5, share=0.6)), "gpu_roofline").says
        assert "Furthest below: " in says and "of the roof at 0.5 FLOP/B" in says, says


def test_a_sweep_on_one_side_of_the_ridge_says_which() -> None:
    gpu = Gpu.random(1, units=60, boost_hz=1.5e9, clock_hz=1.5e9)
    ridge = 60 * 128 * 1.5e9 / MEMORY_BYTES_S
    low = [one for one in INTENSITIES if one < ridge / 2]
    high = [one for one in INTENSITIES if one > ridge * 2]
    under = the(roofed(gpu, gpu.roofline(intensities=tuple(low))), "gpu_roofline")
    assert "Memory limits up to" in under.says and "higher intensities" in str(under.advice)
    over = the(roofed(gpu, gpu.roofline(intensities=tuple(high))), "gpu_roofline")
    assert "Arithmetic limits from" in over.says and "lower intensities" in str(over.advice)


def test_the_roof_at_an_intensity_is_the_lower_ceiling() -> None:
    ceilings = ceilings_of(Gpu.random(1, units=60, boost_hz=1.5e9).machine(), "gpu")
    given = {"precision": "single", "array": 256 << 20}
    below, above = (bound_for(ceilings, {**given, "intensity": one}) for one in (0.5, 128.0))
    assert below is not None and below.unit == "FLOP/s" and below.value == pytest.approx(MEMORY_BYTES_S / 2)
    assert "× 0.5 FLOP/B = " in below.formula
    assert above is not None and above.value == pytest.approx(60 * 128 * 1.5e9)


def test_the_roofline_is_drawn_with_both_roofs_of_measurement_and_theory() -> None:
    gpu = Gpu.random(1)
    (chart,) = [one for one in charts_of(roofed(gpu, gpu.roofline())) if one.name.endswith("roofline")]
    marks = chart.picture.marks
    assert len([one for one in marks if isinstance(one, Dot)]) == len(INTENSITIES)
    assert len([one for one in marks if isinstance(one, Line)]) == 2
    texts = " ".join(chart.picture.texts)
    assert "measured peak" in texts and "FP32 peak of the vector units" in texts
    assert "Dashed slope" in chart.picture.caption
    run = roofed(gpu, gpu.roofline())
    bare = replace(run, experiments=tuple(replace(one, ceilings=()) for one in run.experiments))
    (alone,) = [one for one in charts_of(bare) if one.name.endswith("roofline")]
    assert "Dashed slope" not in alone.picture.caption, "a slope that is not drawn is not explained"
    assert len([one for one in alone.picture.marks if isinstance(one, Line)]) == 1


def test_an_instance_of_mig_has_no_ceiling_of_the_whole_memory() -> None:
    whole = Gpu.random(3).machine()
    (stated,) = whole.gpu_drivers.cuda
    part = replace(whole, gpu_drivers=replace(whole.gpu_drivers, cuda=(replace(stated, mig=True),)))
    of_whole, of_part = ({found.metric for found in ceilings_of(one, "gpu")} for one in (whole, part))
    assert of_whole - of_part == {f"gpu_memory/{stated.l2_bytes}"}
    assert why_no_ceiling(whole, "gpu") == ()
    assert "an instance of MIG has a share of it" in why_no_ceiling(part, "gpu")[0]


MEBI = float(1 << 20)
SIZES = {"octaves": tuple(8 << 10 << k for k in range(18)), "quick": tuple(16 << 10 << 2 * k for k in range(8))}


def chased(seed: int, levels: tuple[tuple[float, float], ...], sizes: tuple[int, ...]) -> Run:
    gpu = Gpu.random(seed)
    parts = (gpu.chase(levels, sizes),)
    return explain(Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu latency", parts))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("l1", [64 << 10, 128 << 10, 256 << 10], ids=["64 KiB of L1", "128 KiB of L1", "256 KiB of L1"])
def test_the_levels_of_a_gpus_memory_are_named(sizes: tuple[int, ...], l1: int) -> None:
    """L1 of 32 ns, 32 MiB of L2 (of which 40 are stated) of 210 ns, and memory of 480 ns: on every simulated GPU."""
    for seed in range(40):
        found = the(chased(seed, ((l1, 32.0), (32 * MEBI, 210.0), (1e15, 480.0)), sizes), "gpu_levels")
        levels = found.evidence["levels"]
        assert list(levels) == ["L1", "L2"] and found.evidence["reach_bytes"] is None, found.says
        assert l1 / 2 <= levels["L1"]["ends_bytes"] <= 4 * l1 and levels["L1"]["latency_ns"] == pytest.approx(
            32, rel=0.1
        )
        assert 8 * MEBI <= levels["L2"]["ends_bytes"] <= 128 * MEBI
        assert levels["L2"]["latency_ns"] == pytest.approx(210, rel=0.15)


def test_a_tlbs_reach_is_named_beyond_the_memory() -> None:
    levels = ((128 << 10, 32.0), (32 * MEBI, 200.0), (256 * MEBI, 450.0), (1e15, 900.0))
    sizes = tuple(8 << 10 << k for k in range(20))
    for seed in range(40):
        found = the(chased(seed, levels, sizes), "gpu_levels")
        assert list(found.evidence["levels"]) == ["L1", "L2"], found.says
        assert 128 * MEBI <= found.evidence["reach_bytes"] <= 1024 * MEBI and "past a TLB's reach" in found.says


def test_the_sentence_of_the_levels() -> None:
    found = the(chased(1, ((128 << 10, 32.0), (16 * MEBI, 200.0), (1e15, 500.0)), SIZES["octaves"]), "gpu_levels")
    assert found.severity == "info"
    assert found.says.startswith("A load on the GPU takes 32.") and "from L1 (up to about " in found.says
    assert " from L2 (up to about " in found.says and " ns from memory." in found.says


@pytest.mark.parametrize(
    ("levels", "sizes"),
    [
        (((1e15, 400.0),), SIZES["octaves"]),  # one level
        (((128 << 10, 32.0), (1e15, 400.0)), SIZES["octaves"][:5]),  # few points
        (((128 << 10, 32.0), (40 * MEBI, 200.0), (1e15, 400.0)), (*SIZES["octaves"][:5], 64 << 20)),
    ],
    ids=["one level", "few points", "its end is not seen"],
)
def test_no_level_is_invented(levels: tuple[tuple[float, float], ...], sizes: tuple[int, ...]) -> None:
    for seed in range(40):
        assert "gpu_levels" not in rules_of(chased(seed, levels, sizes).findings)


def test_a_last_cache_in_parts_is_named_by_what_the_driver_states() -> None:
    found = the(chased(3, ((128 << 10, 32.0), (14 * MEBI, 200.0), (1e15, 500.0)), SIZES["octaves"]), "gpu_levels")
    assert found.says.endswith("The driver states 40 MiB of L2; a load reaches a part of it this fast.")


ARRAYS = tuple(16 << 10 << k for k in range(15))
SMALL = {"gpu_fits_cache", "gpu_launch_bound"}


def by_array(seed: int, **planted: Any) -> Run:
    gpu = Gpu.random(seed)
    parts = (gpu.arrays(ARRAYS, **planted),)
    return explain(Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu bandwidth", parts))


def test_a_bandwidth_above_the_memorys_is_that_of_l2() -> None:
    """A triad of 24 MiB fits 40 MiB of L2, which is 2.5 times as fast as the memory."""
    for seed in range(40):
        run = by_array(seed, cache=(40 * MEBI, 2.5))
        assert rules_of(run.findings) & SMALL == {"gpu_fits_cache"}, seed
        found = the(run, "gpu_fits_cache")
        assert (
            found.evidence["ratio"] == pytest.approx(0.92 * 2.5, rel=0.03) and "It fits the 40 MiB of L2" in found.says
        )


def test_passes_that_take_the_same_time_are_bound_by_their_start() -> None:
    """A start of 8 us is 12 MB of the memory's time: a pass over half of it takes hardly longer than the smallest."""
    for seed in range(40):
        run = by_array(seed, start_s=8e-6)
        assert rules_of(run.findings) & SMALL == {"gpu_launch_bound"}, seed
        found = the(run, "gpu_launch_bound")
        assert 1.5e6 <= found.evidence["bytes"] <= 12.6e6, found.says
        assert found.evidence["pass_ns"] == pytest.approx(8000, rel=0.05)


@pytest.mark.parametrize("planted", [{}, {"cache": (40 * MEBI, 1.1)}], ids=["no cache", "a cache hardly faster"])
def test_a_bandwidth_of_the_memory_alone_is_explained_by_nothing_else(planted: dict[str, Any]) -> None:
    for seed in range(40):
        assert not rules_of(by_array(seed, **planted).findings) & SMALL, seed
