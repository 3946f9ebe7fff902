"""Single lines of rules that a change would break unseen: of GPUs, laws of figures, jobs, hosts and summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.curves.caches import Edge
from hwdyno.findings.children import unequal_jobs
from hwdyno.findings.gpu import gpu_clock_fell, gpu_link_narrow, gpu_load_in_turn, gpu_pageable, gpu_roofline
from hwdyno.findings.gpu_latency import _named, _ns, _stated, gpu_levels
from hwdyno.findings.gpu_sizes import gpu_fits_cache, gpu_launch_bound
from hwdyno.findings.hosts import straggler
from hwdyno.findings.laws import against_ceilings, little, physical_ceiling, rate_times_size, rated_exceeded
from hwdyno.findings.rule import Case, Verdict
from hwdyno.findings.summary import Hit, hedged, summarized
from hwdyno.findings.vector_search import vector_queries
from hwdyno.machine import Cache, Cpu, CudaDevice, GpuDrivers, Machine
from hwdyno.words import (
    Ceiling,
    CeilingClass,
    Concurrency,
    Curve,
    ExperimentResult,
    HostShare,
    Measurement,
    Severity,
    Value,
)
from made_experiment import made_experiment
from test_single_lines import case_of
from test_thresholds import base, run_of

KIBI, MEBI = 1 << 10, 1 << 20


def sure(value: float, unit: str = "bytes/s") -> Value:
    return Value(value, unit, 0.99 * value, 1.01 * value)


def point_of(rate: float, unit: str = "bytes/s", **parameters: Any) -> Measurement:
    return replace(base(), parameters=parameters, throughput=sure(rate, unit), rate=None, latency_ns=None, details={})


def on_machine(machine: Machine, kernel: str, points: tuple[Measurement, ...], *others: ExperimentResult) -> Case:
    """Points of one of a GPU's kernels on this machine, and what else its Run measured."""
    result = made_experiment("gpu.x", "gpu", "?", "", kernel, points, fixed={})
    return Case(replace(run_of(base()), machines=(machine,), experiments=(result, *others)), result, 0)


def with_gpu(**stated: Any) -> Machine:
    return Machine(gpu_drivers=GpuDrivers(cuda=(CudaDevice(name="made", **stated),)))


# --- clock, link and copies of a GPU


@pytest.mark.parametrize("clock_hz", [0.5, 1e9])
@pytest.mark.parametrize("machine", [Machine(), with_gpu()], ids=["no driver", "a driver that states no clock"])
def test_a_clock_cannot_fall_below_one_that_nobody_stated(machine: Machine, clock_hz: float) -> None:
    point = replace(point_of(1e12, "FLOP/s"), details={"clock_hz": clock_hz})
    assert gpu_clock_fell(on_machine(machine, "gpu_flops", (point,))) is None


@pytest.mark.parametrize(
    ("seen", "most", "link", "share"),
    [
        ([(3, 8)], (3, 16), [3, 8], 0.5),  # lanes
        ([(3, 16)], (4, 16), [3, 16], 0.5),  # generation
        ([(1, 16), (3, 8), (1, 8)], (3, 16), [3, 8], 0.5),  # the best that was seen while bytes went over it
        ([(3, None), (3, 0), (None, 16), (9, 16), (3, 8)], (3, 16), [3, 8], 0.5),  # unknown ones count for nothing
        ([(3, None), (None, 16), (9, 16)], (3, 16), None, None),
        ([(3, 16)], (3, 16), None, None),
        ([(3, 8)], (9, 16), None, None),
        ([(3, 8)], (None, 16), None, None),
        ([(3, 8)], (3, None), None, None),
        ([(3, 8)], (3, 0), None, None),
        ([(3, 8)], None, None, None),
    ],
)
def test_a_link_is_narrow_below_what_both_its_ends_can(
    seen: list[tuple[Any, Any]], most: tuple[Any, Any] | None, link: list[int] | None, share: float | None
) -> None:
    machine = with_gpu(link_generation_max=most[0], link_lanes_max=most[1]) if most else Machine()
    points = tuple(
        replace(point_of(1e9), details={"link_generation": generation, "link_lanes": lanes})
        for generation, lanes in seen
    )
    found = gpu_link_narrow(on_machine(machine, "gpu_transfer", points))
    assert (found is None) == (link is None)
    if found is not None and link is not None and most is not None and share is not None:
        assert found.evidence == {"link": link, "link_max": list(most), "share": pytest.approx(share)}
        assert found.weight == pytest.approx(1 / share)
        assert found.says == (
            f"The GPU's link ran at PCIe {link[0]} x{link[1]} during the copies, although it can PCIe {most[0]} "
            f"x{most[1]}. That leaves 50% of its rate."
        )


@pytest.mark.parametrize(("pageable", "share"), [(0.5, 0.5), (0.0, None)])
def test_a_copy_that_carried_nothing_is_not_compared(pageable: float, share: float | None) -> None:
    points = tuple(
        point_of(rate, operation="host-to-device", memory=memory, block=MEBI)
        for memory, rate in (("pinned", 1.0), ("pageable", pageable))
    )
    found = gpu_pageable(on_machine(Machine(), "gpu_transfer", points))
    assert (found.evidence["share"] if found else None) == share


def test_of_loads_in_turn_the_one_that_overlaps_least_is_named() -> None:
    """Parts of 1 s each: 2 s in turn and 1 s at best, so 1.75 s save a quarter and 2 s nothing."""
    points = [
        point_of(rate, part=part, access="direct", block=block, buffers=2, readers=1, on="gpu")
        for block, took_s in ((MEBI, 1.75), (2 * MEBI, 2.0), (4 * MEBI, 1.6))
        for part, rate in (("whole", 1e9 / took_s), ("read", 1e9), ("copy", 1e9))
    ]
    found = gpu_load_in_turn(on_machine(Machine(), "gpu_load", tuple(points)))
    assert found is not None and found.evidence["overlap"] == pytest.approx(0.0)
    assert "(direct, 2 MiB)" in found.says


@pytest.mark.parametrize(
    ("intensities", "limit", "advised"),
    [
        ((32, 64, 128), "memory", "256,512,1024"),
        ((64, 256, 512), "memory", "1024"),
        ((1, 2, 4), "arithmetic", "0.125,0.25,0.5"),
        ((0.25, 2, 4), "arithmetic", "0.125"),
    ],
)
def test_intensities_beyond_the_measured_ones_are_advised_within_what_the_kernel_takes(
    intensities: tuple[float, ...], limit: str, advised: str
) -> None:
    """From 1/8 to 1024 FLOP/B: twice, 4 and 8 times the highest, or such parts of the lowest."""
    points = tuple(
        point_of(1e9 * one if limit == "memory" else 1e12, "FLOP/s", intensity=one, precision="single")
        for one in intensities
    )
    found = gpu_roofline(on_machine(Machine(), "gpu_roofline", points))
    assert found is not None and found.says.lower().startswith(f"{limit} limits")
    assert found.advice.split("--intensity ")[1].split()[0] == advised


# --- levels of a GPU's memory


def chase(latencies_ns: list[float], first: int = 64 * KIBI) -> tuple[Measurement, ...]:
    """A pointer chase whose working set doubles from point to point."""
    return tuple(
        point_of(1e9 / one, "operations/s", working_set=first << at, on="gpu") for at, one in enumerate(latencies_ns)
    )


def test_a_level_is_found_in_six_points_and_in_none_without_an_error() -> None:
    """Four times as slow from the fourth point on: the level ends at the third."""
    found = gpu_levels(on_machine(Machine(), "gpu_latency", chase([25.0] * 3 + [100.0] * 3)))
    assert found is not None
    assert found.evidence["levels"] == {"L1": {"ends_bytes": 256 * KIBI, "latency_ns": pytest.approx(25.0)}}
    assert found.evidence["memory_ns"] == pytest.approx(100.0)
    for few in (5, 1, 0):
        assert gpu_levels(on_machine(Machine(), "gpu_latency", chase(([25.0] * 3 + [100.0] * 3)[:few]))) is None


@pytest.mark.parametrize("points", [6, 10])
@pytest.mark.parametrize(("rise", "is_level"), [(1.39, False), (1.41, True)])
def test_a_level_is_slower_by_two_fifths_at_any_number_of_sizes(points: int, rise: float, is_level: bool) -> None:
    latencies_ns = [100.0] * 3 + [100.0 * rise] * (points - 3)
    assert (gpu_levels(on_machine(Machine(), "gpu_latency", chase(latencies_ns))) is not None) == is_level


@pytest.mark.parametrize("spacing", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("rise", "is_level"), [(1.39, False), (1.41, True)])
def test_a_level_is_slower_by_two_fifths_at_any_distance_of_sizes(spacing: float, rise: float, is_level: bool) -> None:
    points = tuple(
        point_of(1e9 / (100.0 * (rise if at > 3 else 1.0)), "operations/s", working_set=2.0 ** (16 + spacing * at))
        for at in range(9)
    )
    assert (gpu_levels(on_machine(Machine(), "gpu_latency", points)) is not None) == is_level


@pytest.mark.parametrize(("after", "is_level"), [([200.0, 240.0], True), ([100.0, 200.0], False)])
def test_a_level_ends_where_twice_its_size_was_measured(after: list[float], is_level: bool) -> None:
    """The steepest place is the last but one: twice as slow before it, and a fifth after it; or it is the last."""
    found = gpu_levels(on_machine(Machine(), "gpu_latency", chase([100.0] * 6 + after)))
    assert (found is not None) == is_level
    assert found is None or found.evidence["levels"]["L1"]["ends_bytes"] == 64 * KIBI << 6


@pytest.mark.parametrize(("l3_mebi", "is_part"), [(80, True), (60, False)])
def test_a_processors_levels_are_named_by_its_caches(l3_mebi: int, is_part: bool) -> None:
    """L1 ends at 32 KiB, L2 at 1 MiB and L3 at 32 MiB; more than twice that is stated, or less."""
    caches = (Cache(3, "unified", l3_mebi * MEBI), Cache(1, "data", 32 * KIBI), Cache(2, "unified", MEBI))
    machine = replace(with_gpu(l2_bytes=MEBI), cpu=Cpu(caches=caches))
    sizes = [8 * KIBI << at for at in range(18)]
    latencies_ns = [1.0 if s <= 32 * KIBI else 4.0 if s <= MEBI else 16.0 if s <= 32 * MEBI else 80.0 for s in sizes]
    case = on_machine(machine, "gpu_latency", chase(latencies_ns, sizes[0]))
    result = replace(case.result, fixed={"on": "cpu"})
    found = gpu_levels(replace(case, result=result))
    assert found is not None and found.evidence == {
        "levels": {
            "L1": {"ends_bytes": 32 * KIBI, "latency_ns": pytest.approx(1.0)},
            "L2": {"ends_bytes": MEBI, "latency_ns": pytest.approx(4.0)},
            "L3": {"ends_bytes": 32 * MEBI, "latency_ns": pytest.approx(16.0)},
        },
        "memory_ns": pytest.approx(80.0),
        "reach_bytes": None,
    }
    assert (" The driver states 80 MiB of L3;" in found.says) == is_part == ("states" in found.says)


@pytest.mark.parametrize(("stated_mebi", "is_part"), [(40, True), (30, False)])
def test_a_lone_last_cache_in_parts_is_named(stated_mebi: int, is_part: bool) -> None:
    """It ends at 16 MiB."""
    latencies_ns = [100.0] * 5 + [400.0] * 4
    machine = with_gpu(l2_bytes=stated_mebi * MEBI)
    found = gpu_levels(on_machine(machine, "gpu_latency", chase(latencies_ns, MEBI)))
    assert found is not None and list(found.evidence["levels"]) == ["L2"]
    assert ("The driver states 40 MiB of L2" in found.says) == is_part == ("states" in found.says)


def test_memory_is_what_lies_below_a_tlbs_reach_where_no_cache_was_found() -> None:
    """Of L2 1 MiB is stated; the latency rises at 64 MiB alone."""
    latencies_ns = [100.0] * 5 + [400.0] * 4
    found = gpu_levels(on_machine(with_gpu(l2_bytes=MEBI), "gpu_latency", chase(latencies_ns, 4 * MEBI)))
    assert found is not None
    assert found.evidence == {"levels": {}, "memory_ns": pytest.approx(100.0), "reach_bytes": 64 * MEBI}


@pytest.mark.parametrize(
    ("edges_mebi", "names"),
    [
        ((20.0, 36.0), {"L2": 36.0}),  # the nearer of two
        ((32 / 3.5,), {}),  # neither near nor far below
        ((32 / 4.5,), {}),  # far below, and more than any first level has
        ((2.1,), {}),
        ((1.9,), {"L1": 1.9}),
        ((1.0, 32.0), {"L1": 1.0, "L2": 32.0}),
        ((32.0, 200.0), {"L2": 32.0, "TLB": 200.0}),
    ],
)
def test_an_edge_has_the_name_of_the_cache_it_lies_near(edges_mebi: tuple[float, ...], names: dict[str, float]) -> None:
    """Of L2 32 MiB are stated; near is within a factor of 3, and L1 less than a quarter and than 2 MiB."""
    found = _named([Edge(one * MEBI, 1.0, 2.0) for one in edges_mebi], [("L2", 32.0 * MEBI)])
    assert {name: edge.size_bytes / MEBI for name, edge in found} == names


def test_a_cache_without_a_size_is_not_stated() -> None:
    caches = (Cache(2, "unified", MEBI), Cache(3, "unified"), Cache(1, "data", 32 * KIBI), Cache(None, "data", KIBI))
    machine = Machine(cpu=Cpu(caches=caches))
    assert _stated(machine, "cpu") == [("L1", 32.0 * KIBI), ("L2", 1.0 * MEBI)]
    assert _stated(machine, "gpu") == []


@pytest.mark.parametrize(("rate", "ns"), [(1e7, 100.0), (0.5, 2e9), (0.0, 0.0)])
def test_the_time_of_a_load_is_one_over_its_rate(rate: float, ns: float) -> None:
    assert _ns(point_of(rate, "operations/s")) == ns
    assert _ns(replace(point_of(rate, "operations/s"), validity="invalid")) == 0.0


# --- a GPU's arrays


@pytest.mark.parametrize(
    ("rate", "array", "l2", "is_cache"),
    [
        (105.0, 500, 1000, True),  # a copy reads and writes 1,000 B; 1.05 times the rated 100 B/s
        (104.0, 500, 1000, False),
        (200.0, 501, 1000, False),
        (200.0, 500, None, False),
    ],
)
def test_an_array_that_fills_the_last_cache_is_still_its(
    rate: float, array: int, l2: int | None, is_cache: bool
) -> None:
    case = on_machine(with_gpu(l2_bytes=l2), "gpu_bandwidth", (point_of(rate, operation="copy", array=array),))
    memory = Ceiling("gpu_memory/1000", "physical", 100.0, "bytes/s", "the memory", "test")
    found = gpu_fits_cache(replace(case, result=replace(case.result, ceilings=(memory,))))
    assert (found is not None) == is_cache


def passes(operation: str, arrays: tuple[int, ...], each: int, took_s: float) -> tuple[Measurement, ...]:
    """Passes of equal duration over arrays, of which each operation goes over so many at once."""
    return tuple(point_of(each * array / took_s, operation=operation, array=array) for array in arrays)


def test_the_largest_pass_that_its_start_bounds_is_named() -> None:
    points = (*passes("copy", (2000, 4000), 2, 5e-6), *passes("triad", (1000, 2000), 3, 5e-6))
    found = gpu_launch_bound(on_machine(Machine(), "gpu_bandwidth", points))
    assert found is not None
    assert found.evidence == {
        "operation": "copy", "bytes": 8000, "pass_ns": pytest.approx(5000.0), "launch_ns": None,
    }  # fmt: skip


def test_passes_that_take_an_hour_are_compared_too() -> None:
    found = gpu_launch_bound(on_machine(Machine(), "gpu_bandwidth", passes("copy", (1800, 3600), 2, 3600.0)))
    assert found is not None and found.evidence["pass_ns"] == pytest.approx(3.6e12)


@pytest.mark.parametrize(
    ("launches", "launch_ns"),
    [
        ([(2e5, "valid"), (1e5, "valid")], 5000.0),
        ([(1e5, "valid"), (1e6, "invalid")], 10_000.0),
        ([(1e5, "valid"), (0.0, "valid")], 10_000.0),
        ([(1e5, "degraded")], 10_000.0),
        ([(0.5, "valid")], 2e9),
        ([(1e6, "invalid"), (0.0, "valid")], None),
    ],
)
def test_the_fastest_launch_that_counts_is_said_beside_the_passes(
    launches: list[tuple[float, Any]], launch_ns: float | None
) -> None:
    started = tuple(replace(point_of(rate, "operations/s"), validity=validity) for rate, validity in launches)
    other = made_experiment("gpu.launch", "gpu", "?", "", "gpu_launch", started, fixed={})
    found = gpu_launch_bound(on_machine(Machine(), "gpu_bandwidth", passes("copy", (1000, 2000), 2, 1e-5), other))
    assert found is not None and found.evidence["launch_ns"] == launch_ns
    assert ("A launch alone takes" in found.says) == (launch_ns is not None)


# --- laws of figures


def storage_case(point: Measurement, kind: CeilingClass = "physical") -> Case:
    """A point of storage below a ceiling of 1 GB/s."""
    case = case_of(made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", (point,), fixed={}))
    link = Ceiling("read_bytes_s", kind, 1e9, "bytes/s", "the link", "test")
    return replace(case, result=replace(case.result, ceilings=(link,)))


def test_littles_law_needs_no_latency_where_the_depth_was_counted() -> None:
    point = replace(base(), latency_ns=None, concurrency=Concurrency(8.0, 16.0))
    found = little(storage_case(point))
    assert found is not None and "Throughput x latency is 16.0 in flight, but only 8 were requested" in found.says


@pytest.mark.parametrize(("off", "severity"), [(0.04, "info"), (0.06, "warning")])
def test_a_tables_figures_may_be_means_of_different_samples_up_to_a_twentieth(off: float, severity: str) -> None:
    rate = 123_457.0
    point = replace(base(), rate=Value(rate * (1 + off), "operations/s"), throughput=Value(4096 * rate, "bytes/s"))
    case = storage_case(point)
    found = rate_times_size(replace(case, run=replace(case.run, imported_from="csv")))
    assert found is not None and found.severity == severity and "The factor" not in found.says


def test_what_the_null_engine_moves_crosses_no_link() -> None:
    point = replace(base(), throughput=sure(2e9))
    assert [one.share for one in against_ceilings(storage_case(point), "physical")] == [2.0]
    null = replace(point, parameters={**point.parameters, "ioengine": "null"})
    assert against_ceilings(storage_case(null), "physical") == []


def test_half_of_a_sites_nodes_have_half_of_its_ceiling() -> None:
    share = HostShare("a", sure(1e9), operations=1000, bytes=1000, elapsed_s=1.0, start_offset_s=0.0, repeats=3)
    case = storage_case(replace(base(), throughput=sure(1e9), hosts=(share,)))
    site = replace(case.run, machines=(Machine(hostname="a"), Machine(hostname="b")))
    (found,) = against_ceilings(replace(case, run=site), "physical")
    assert found.share == 2.0


@pytest.mark.parametrize(
    ("at_device", "says"), [(899.0, "a cache supplied the rest"), (900.0, "The device's counters agree")]
)
def test_a_cache_supplied_what_less_than_nine_tenths_came_from_the_device(at_device: float, says: str) -> None:
    """Of 1,000 B, where nothing counts what was written."""
    point = replace(base(), throughput=sure(2e9), bytes=1000, counters={"device_read_bytes": at_device})
    found = physical_ceiling(storage_case(point))
    assert found is not None and says in found.says


@pytest.mark.parametrize(("ratio", "advice"), [(1.15, "Nothing to do"), (1.25, "Suspect a cache")])
def test_a_fifth_above_a_makers_figure_makes_a_cache_likely(ratio: float, advice: str) -> None:
    found = rated_exceeded(storage_case(replace(base(), throughput=sure(ratio * 1e9)), "rated"))
    assert found is not None and found.advice.startswith(advice)


# --- jobs of unequal duration


def unequal(shortest: float | None = 0.5, **parameters: Any) -> Verdict | None:
    """Three jobs whose rates add up to a tenth more than what moved."""
    details = {"children_sum_over_parent": 1.1, "children_shortest_share": shortest}
    given = {"bs": 4096, "numjobs": 3, **parameters}
    return unequal_jobs(storage_case(replace(base(), parameters=given, throughput=sure(5e8), details=details)))


@pytest.mark.parametrize(
    ("parameters", "is_unequal"),
    [({}, False), ({"time_based": True}, False), ({"time_based": False}, True)],
)
def test_jobs_that_run_for_a_time_end_together(parameters: dict[str, Any], is_unequal: bool) -> None:
    assert (unequal(rw="read", **parameters) is not None) == is_unequal


@pytest.mark.parametrize(("shortest", "says"), [(0.5, ": one ended after 50% of it."), (1.0, "."), (None, ".")])
def test_a_job_ended_early_where_it_ran_for_less_than_the_whole_time(shortest: float | None, says: str) -> None:
    found = unequal(shortest, pattern="read")
    assert found is not None and f"Not all jobs ran all the time{says} The sum" in found.says


@pytest.mark.parametrize("pattern", ["randread", "randwrite", "randrw"])
def test_a_pattern_in_fios_words_keeps_them(pattern: str) -> None:
    found = unequal(pattern=pattern)
    assert found is not None and found.advice.startswith("Let all jobs run for the same time: ")
    assert f"--rw {pattern} " in found.advice and "--direct 0 " in found.advice


# --- hosts


@pytest.mark.parametrize(("longer", "waits"), [(1.04, False), (1.1, True)])
def test_a_host_whose_readings_are_a_twentieth_longer_is_waited_for(longer: float, waits: bool) -> None:
    hosts = tuple(
        HostShare(name, sure(rate), operations=1000, bytes=1000, elapsed_s=took, start_offset_s=0.0, repeats=1)
        for name, rate, took in (("a", 50.0, 10.0 * longer), ("b", 100.0, 10.0), ("c", 100.0, 10.0))
    )
    found = straggler(storage_case(replace(base(), hosts=hosts)))
    assert found is not None and ("The site waits for it." in found.says) == waits


# --- summaries


def hits_of(*severities: Severity) -> list[Hit]:
    """A hit on a point each; the later, the more weight."""
    result = made_experiment("x", "storage", "?", "", "storage_blocks", (base(),) * len(severities), fixed={})
    verdicts = [
        Verdict(one, f"{one.capitalize()} {at}.", {}, "Repeat it.", weight=float(at))
        for at, one in enumerate(severities)
    ]
    return [Hit(result, at, verdict) for at, verdict in enumerate(verdicts)]


@pytest.mark.parametrize(
    ("rule", "severities", "says", "points"),
    [
        ("rate_times_size", ("info", "warning", "info"), "Warning 1.", (1,)),
        ("rate_times_size", ("info", "info"), "Info 1. Clearest of 2 points of x.", (0, 1)),
        ("little", ("info", "warning"), "Warning 1. Worst of 2 points of x.", (0, 1)),
        ("little", ("warning", "info"), "Warning 0. Worst of 2 points of x.", (0, 1)),
        ("little", ("invalid", "warning"), "Invalid 0. Worst of 2 points of x.", (0, 1)),
    ],
)
def test_the_gravest_of_several_verdicts_is_said_and_notes_on_rounding_count_apart(
    rule: str, severities: tuple[Severity, ...], says: str, points: tuple[int, ...]
) -> None:
    found = summarized(rule, hits_of(*severities))
    assert (found.says, found.points) == (says, points)


@pytest.mark.parametrize(
    ("points", "caution"), [(5, ""), (4, ""), (3, " Caution: 2 of 3 points are degraded or invalid.")]
)
def test_a_curve_is_doubtful_where_most_of_its_points_are(points: int, caution: str) -> None:
    poor = (replace(base(), validity="degraded"), replace(base(), validity="invalid"))
    result = made_experiment("x", "storage", "?", "", "storage_blocks", (*poor, *(base(),) * (points - 2)), fixed={})
    curve = Curve({}, "iodepth", tuple(range(points)), "bytes/s", "none")
    assert hedged("A curve.", result, curve) == f"A curve.{caution}"


# --- vector indexes


def searches(points: tuple[Measurement, ...]) -> Case:
    return case_of(
        made_experiment("training.x", "training", "?", "threads", "training_vector_search", points, fixed={})
    )


def searched(queries_s: float, recall: float, **parameters: Any) -> Measurement:
    details = {"queries_s": queries_s, "recall": recall, "reads_per_query": 5.0, "bytes_per_query": 20480.0}
    return replace(point_of(1e6, "operations/s", **parameters), details=details)


def test_only_searches_with_enough_recall_count_where_there_are_any() -> None:
    found = vector_queries(searches((searched(9000.0, 0.5, threads=1), searched(1000.0, 0.9, threads=2))))
    assert found is not None and found.evidence["queries_s"] == 1000.0
    found = vector_queries(searches((searched(9000.0, 0.5, threads=1), searched(1000.0, 0.8, threads=2))))
    assert found is not None and found.evidence["queries_s"] == 9000.0
