"""Single lines of the rules on the TLB, on caches that no counter shows and on memory, at their edges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.findings.hidden_caches import cache_hidden, cached_writes, host_cache
from hwdyno.findings.memory import claimed_cache, huge_pages, practical_bandwidth, write_allocate, wrong_node
from hwdyno.findings.rule import Case, Verdict
from hwdyno.findings.settings import _small_pages
from hwdyno.findings.tlb import _apart, _at, _chases, _footprint, _poor, _round, tlb_reach
from hwdyno.machine import Machine
from hwdyno.words import ExperimentResult, Measurement, Stream, Value
from made_experiment import made_experiment
from test_single_limits import at_work
from test_single_lines import case_of
from test_thresholds import base, run_of

# --- the reach of the TLB


@pytest.mark.parametrize(
    ("counts", "merged"),
    [
        ([100, 250], [25000**0.5]),
        ([100, 251], [100, 251]),
        ([100, 400, 900], [100, 600]),
        ([10, 100, 225], [10, 150]),
        ([225, 100], [150]),
        ([4, 8, 16], [32**0.5, 16]),
        ([], []),
    ],
)
def test_steps_within_a_factor_of_two_and_a_half_are_one(counts: list[float], merged: list[float]) -> None:
    """Their geometric mean."""
    assert _apart(counts) == pytest.approx(merged)


@pytest.mark.parametrize(("size", "rounded"), [(9, 9), (17, 16), (1100, 1152), (4096, 4096), (5000, 5120)])
def test_an_edge_is_rounded_to_an_eighth_of_its_power_of_two(size: float, rounded: int) -> None:
    assert _round(size) == rounded


@pytest.mark.parametrize(("stride", "bytes_used"), [(4096, 41600.0), (8192, 41600.0), (4160, 640.0), (128, 20800.0)])
def test_a_chase_uses_a_line_for_each_element(stride: float, bytes_used: float) -> None:
    """Whole pages leave the other sets of the cache unused, so they end as if they were dense."""
    assert _footprint(41600.0, stride) == bytes_used


@pytest.mark.parametrize(
    ("chase", "size", "ns"),
    [
        ([(1000.0, 2.0), (4000.0, 8.0)], 500.0, 2.0),
        ([(1000.0, 2.0), (4000.0, 8.0)], 1000.0, 2.0),
        ([(1000.0, 2.0), (4000.0, 8.0)], 2000.0, 4.0),
        ([(1000.0, 2.0), (4000.0, 8.0)], 4000.0, 8.0),
        ([(1000.0, 2.0), (4000.0, 8.0)], 4001.0, None),
        ([(1000.0, 2.0), (4000.0, 8.0), (16000.0, 2.0)], 8000.0, 4.0),
        ([(1000.0, 2.0), (1000.0, 8.0), (2000.0, 9.0)], 1000.0, 2.0),
    ],
)
def test_a_latency_lies_between_its_neighbours_by_logarithms(
    chase: list[tuple[float, float]], size: float, ns: float | None
) -> None:
    assert _at(chase, size) == (None if ns is None else pytest.approx(ns))


def chased(*points: tuple[int, str, int], validity: tuple[Any, ...] = ()) -> Case:
    """Random chases of 8 ns by working set, pages and stride."""
    latency = base().latency_ns
    assert latency is not None
    made: list[Measurement] = [
        base(parameters={"working_set": size, "pages": pages, "stride": stride}, throughput=Value(1e8, "operations/s"),
             latency_ns=replace(latency, mean=8.0, p50=8.0))
        for size, pages, stride in points
    ]  # fmt: skip
    made = [replace(one, validity=how) for one, how in zip(made, validity or ("valid",) * len(made), strict=True)]
    return case_of(made_experiment("memory.tlb", "memory", "?", "working_set", "memory_latency", tuple(made), fixed={}))


@pytest.mark.parametrize(
    ("pages", "stride", "place"),
    [("2m", 64, "dense"), ("2m", 256, "dense"), ("2m", 257, ""), ("2m", 4096, ""), ("4k", 4096, "paged"),
     ("4k", 4095, ""), ("4k", 64, ""), ("1g", 64, "")],
)  # fmt: skip
def test_a_chase_is_dense_on_huge_pages_or_one_element_a_page(pages: str, stride: int, place: str) -> None:
    dense, paged = _chases(chased((1 << 24, pages, stride)))
    assert dense == ([(1 << 24, 8.0)] if place == "dense" else [])
    assert paged == ({stride: [(1 << 24, 8.0)]} if place == "paged" else {})


@pytest.mark.parametrize(
    ("validity", "poor"),
    [
        (("valid", "degraded"), False),
        (("valid", "degraded", "invalid"), True),
        (("valid", "valid", "valid", "degraded", "degraded"), False),
    ],
)
def test_chases_are_poor_where_most_of_their_points_are(validity: tuple[Any, ...], poor: bool) -> None:
    assert _poor(chased(*[(1 << 24, "4k", 4096)] * len(validity), validity=validity)) == poor


def stepped(
    name: str, places: list[float], step: dict[float, float], pages: str, stride: int, base_ns: float = 8.0
) -> ExperimentResult:
    """A chase whose latency grows at these sizes by these factors, half of each (by logarithm) at the size itself."""
    latency = base().latency_ns
    assert latency is not None
    made = []
    for size in places:
        ns = base_ns
        for at, factor in step.items():
            ns *= factor ** (0.5 if size == at else float(size > at))
        made.append(
            base(parameters={"working_set": size, "pages": pages, "stride": stride, "locality": "random"},
                 throughput=Value(1e9 / ns, "operations/s"), latency_ns=replace(latency, mean=ns, p50=None))
        )  # fmt: skip
    return made_experiment(name, "memory", "?", "working_set", "memory_latency", tuple(made), fixed={})


def around(at: float, below: int = 6, above: int = 6) -> list[float]:
    """Sizes around one in steps of half an octave."""
    return [at * 2.0 ** (step / 2) for step in range(-below, above + 1)]


def reach_of(
    places: list[float], paged: dict[float, float], dense: dict[float, float] | None = None, lines: int = 99
) -> Verdict | None:
    """By the chases of these sizes; ``dense`` are the steps of the caches, which both chases show."""
    dense = dense or {}
    one = stepped("memory.one", places, {**dense, **paged}, "4k", 4096)
    other = stepped("memory.other", places[-lines:], dense, "2m", 64)
    return tlb_reach(Case(replace(run_of(base()), experiments=(one, other)), one, 0))


@pytest.mark.parametrize(("pages", "found"), [(8192, True), (8193, False), (1024, True)])
def test_a_tlb_has_at_most_8192_entries(pages: int, found: bool) -> None:
    verdict = reach_of(around(pages * 4096), {pages * 4096: 4.0})
    assert (verdict is not None) == found
    if verdict is not None:
        assert verdict.evidence["pages"] == [pytest.approx(pages)]
        assert verdict.evidence["huge_ns"] == pytest.approx(8.0)
        assert verdict.evidence["beyond_ns"] == pytest.approx(32.0)
        assert "page tables" not in verdict.says


def test_a_later_step_is_of_the_page_tables() -> None:
    small, large = 64 * 4096.0, 16384 * 4096.0
    verdict = reach_of(around(small, 6, 22), {small: 4.0, large: 4.0})
    assert verdict is not None and "From 16.0 k pages on, the page tables themselves leave a cache." in verdict.says
    assert (verdict.evidence["pages"], verdict.evidence["page_tables"]) == ([pytest.approx(64)], [pytest.approx(16384)])


def test_the_steps_of_the_caches_are_none_of_the_tlb() -> None:
    small, large = 64 * 4096.0, 1024 * 4096.0
    verdict = reach_of(around(small, 6, 14), {large: 4.0}, {small: 4.0})
    assert verdict is not None and verdict.evidence["pages"] == [pytest.approx(1024)]
    assert reach_of(around(small), {}, {small: 4.0}) is None


def test_a_load_that_takes_three_fifths_more_shows_the_tlb() -> None:
    """The logarithm of 1.6 in an octave is 0.47, and 0.4 stands out."""
    assert reach_of(around(4096.0 * 1024), {4096.0 * 1024: 1.6}) is not None


@pytest.mark.parametrize(("lines", "found"), [(13, True), (6, True), (5, False)])
def test_the_reach_needs_six_sizes_on_huge_pages(lines: int, found: bool) -> None:
    """The least of them stand for smaller working sets."""
    assert (reach_of(around(4096.0 * 1024), {4096.0 * 1024: 4.0}, lines=lines) is not None) == found


def test_the_reach_needs_a_chase_on_small_pages() -> None:
    one = stepped("memory.one", around(1 << 22), {1 << 22: 4.0}, "2m", 64)
    assert tlb_reach(case_of(one)) is None


# --- caches that no counter shows


def fast(name: str = "read", p50: float | None = 1000.0, **changes: Any) -> Case:
    """Operations of 1 µs whose device no counter shows."""
    latency = base().latency_ns
    assert latency is not None
    latency = replace(latency, p50=p50, mean=2000.0)
    stream = Stream(name, 1000, 4096000, latency_ns={"total": latency})
    return at_work(**{"counters": {}, "streams": (stream,), "latency_ns": latency, **changes})


@pytest.mark.parametrize(
    ("p50", "typical"),
    [(1000.0, 1000.0), (2999.0, 2999.0), (3000.0, None), (0.5, 0.5), (0.0, None), (None, 2000.0)],
)
def test_no_disk_answers_within_three_microseconds(p50: float | None, typical: float | None) -> None:
    found = cache_hidden(fast(p50=p50))
    assert (found.evidence["latency_ns"] if found else None) == typical


@pytest.mark.parametrize(
    "case",
    [
        fast(given={"ioengine": "null"}),
        fast("trim"),
        fast(counters={"device_read_bytes": 4096000.0}),
        fast(details={"disk_unseen_s": 1.0}),
    ],
    ids=["null", "trim", "counted", "unseen"],
)
def test_a_fast_answer_of_what_is_no_disk_or_is_counted_shows_no_cache(case: Case) -> None:
    assert cache_hidden(case) is None


@pytest.mark.parametrize(
    ("given", "size", "found"),
    [
        ({}, 10**6, True),
        ({}, 1, True),
        ({}, 0, False),
        ({"sync": 0}, 10**6, True),
        ({"sync": ""}, 10**6, True),
        ({"sync": "none"}, 10**6, True),
        ({"sync": 1}, 10**6, False),
        ({"sync": "dsync"}, 10**6, False),
        ({"fsync": 1}, 10**6, False),
        ({"ioengine": "null"}, 10**6, False),
    ],
)
def test_buffered_writes_lie_in_the_cache_unless_they_are_durable(
    given: dict[str, Any], size: int, found: bool
) -> None:
    case = at_work(given={"rw": "randwrite", "direct": False, "ioengine": "psync", **given},
                   streams=(Stream("write", 1000, size),), counters={"device_write_bytes": 1e9},
                   details={"cached_share_after": 0.9})  # fmt: skip
    assert (cached_writes(case) is not None) == found


def of_disk(kind: str | None, *pairs: tuple[int, float, float]) -> Verdict | None:
    """Sequential reads and writes by block on a disk of this kind."""
    points = tuple(
        base(parameters={"rw": rw, "bs": block, "iodepth": 8, "direct": True, "ioengine": "io_uring"},
             throughput=Value(rate, "bytes/s"))
        for block, read, write in pairs
        for rw, rate in (("read", read), ("write", write))
    )  # fmt: skip
    result = made_experiment("storage.x", "storage", "?", "bs", "storage_blocks", points, fixed={})
    case = case_of(result)
    machine = case.run.machine
    disks = (replace(machine.storage.disk, kind=kind),)
    machine = replace(machine, hypervisor=None, storage=replace(machine.storage, disks=disks))
    return host_cache(Case(replace(case.run, machines=(machine,)), result, 0))


@pytest.mark.parametrize(
    ("kind", "pairs", "ratio"),
    [
        ("virtio", [(1 << 20, 1e9, 2e9)], 2.0),
        ("nvme", [(1 << 20, 1e9, 2e9)], None),
        ("virtio", [(1 << 20, 1e9, 1.5e9)], 1.5),
        ("virtio", [(1 << 20, 1e9, 1.49e9)], None),
        ("virtio", [(1 << 20, 1e9, 2e9), (1 << 21, 1e9, 3e9)], 3.0),
        ("virtio", [(1 << 20, 0.0, 2e9)], None),
        ("virtio", [(1 << 20, 1.0, 2.0)], 2.0),
    ],
)
def test_a_virtual_disk_that_writes_faster_than_it_reads_has_a_cache(
    kind: str, pairs: list[tuple[int, float, float]], ratio: float | None
) -> None:
    found = of_disk(kind, *pairs)
    assert (found.evidence["ratio"] if found else None) == ratio


# --- memory


def bandwidth(*points: tuple[dict[str, Any], float, Any], name: str = "memory.x") -> ExperimentResult:
    made = tuple(
        base(parameters={"working_set": 1 << 30, "operation": "read", **given}, throughput=Value(rate, "bytes/s"),
             validity=validity, details={})
        for given, rate, validity in points
    )  # fmt: skip
    return made_experiment(name, "memory", "?", "threads", "memory_bandwidth", made, fixed={})


@pytest.mark.parametrize(("rate", "advice"), [(22e9, "Look for empty channels"), (24.5e9, "Nothing to do.")])
def test_channels_may_be_empty_below_nine_tenths_of_the_theory(rate: float, advice: str) -> None:
    """One module of DDR4-3200: 25.6 GB/s."""
    modules = [{"size_bytes": 16 << 30, "configured_mt_s": 3200, "locator": "CPU0_DIMM_A1"}]
    machine = Machine.of_survey({"memory": {"modules": modules}})
    case = case_of(bandwidth(({}, rate, "valid")))
    found = practical_bandwidth(Case(replace(case.run, machines=(machine,)), case.result, 0))
    assert found is not None and found.advice.startswith(advice)
    assert found.evidence["share"] == pytest.approx(rate / 25.6e9)


@pytest.mark.parametrize(("validity", "size", "found"), [("valid", 1 << 30, True), ("invalid", 1 << 30, False),
                                                         ("valid", 1 << 14, False)])  # fmt: skip
def test_streaming_stores_are_compared_where_both_count_and_reach_memory(validity: Any, size: int, found: bool) -> None:
    result = bandwidth(({"operation": "copy", "working_set": size}, 2e10, validity),
                       ({"operation": "nt_copy", "working_set": size}, 3e10, "valid"))  # fmt: skip
    assert (write_allocate(case_of(result)) is not None) == found


@pytest.mark.parametrize(("small", "huge", "found"), [("valid", "valid", True), ("invalid", "valid", False),
                                                      ("valid", "invalid", False)])  # fmt: skip
def test_huge_pages_are_compared_where_both_count(small: Any, huge: Any, found: bool) -> None:
    result = bandwidth(({"pages": "4k"}, 2e10, small), ({"pages": "2m"}, 3e10, huge))
    assert (huge_pages(case_of(result)) is not None) == found


def test_other_sizes_of_pages_are_not_compared() -> None:
    assert huge_pages(case_of(bandwidth(({"pages": "4k"}, 2e10, "valid"), ({"pages": "1g"}, 3e10, "valid")))) is None


def cache_of(claimed: int | None, *results: ExperimentResult) -> Verdict | None:
    caches = [{"level": 3, "type": "unified", "size_bytes": claimed}]
    machine = Machine.of_survey({"cpu": {"threads": 8, "caches": caches}})
    return claimed_cache(Case(replace(run_of(base()), machines=(machine,), experiments=results), results[0], 0))


MIB = 1 << 20


@pytest.mark.parametrize(
    ("claimed", "says"),
    [
        (MIB, "Caches end at about 1 MiB"),
        (2 * MIB, "Caches end at about 1 MiB"),
        (2 * MIB + 1, "behaves as if it had about 1 MiB"),
        (None, None),
    ],
)
def test_a_cache_is_smaller_where_twice_of_what_works_is_less_than_claimed(
    claimed: int | None, says: str | None
) -> None:
    """One step of latency at 1 MiB."""
    chase = stepped("memory.one", around(MIB), {MIB: 16.0}, "2m", 64)
    found = cache_of(claimed, chase)
    assert (found is not None) == (says is not None)
    assert found is None or (says is not None and says in found.says and "Smaller caches" not in found.says)


def test_the_chase_of_the_most_sizes_shows_the_caches() -> None:
    chase = stepped("memory.one", around(MIB), {MIB: 16.0}, "2m", 64)
    short = stepped("memory.short", [MIB, 2 * MIB], {}, "2m", 64)
    for results in ((short, chase), (chase, short)):
        found = cache_of(MIB, *results)
        assert found is not None and found.evidence["found_bytes"] == [pytest.approx(MIB)]
    assert cache_of(MIB, bandwidth(({}, 1e10, "valid"))) is None, "no chase"


@pytest.mark.parametrize(("below", "above", "found"), [(3, 2, True), (2, 2, False), (6, 1, False), (6, 2, True)])
def test_a_chase_has_six_sizes_and_goes_to_twice_the_cache(below: int, above: int, found: bool) -> None:
    """Steps of half an octave: two of them are twice the size."""
    chase = stepped("memory.one", around(MIB, below, above), {MIB: 16.0}, "2m", 64)
    assert (cache_of(MIB, chase) is not None) == found


@pytest.mark.parametrize(
    ("steps", "others"),
    [([64 << 10, MIB], ["64 KiB"]), ([64 << 10, MIB, 16 * MIB], ["64 KiB", "1 MiB"])],
)
def test_every_smaller_cache_is_named(steps: list[int], others: list[str]) -> None:
    places = around(MIB, 12, 14)
    found = cache_of(1 << 40, stepped("memory.one", places, dict.fromkeys(map(float, steps), 8.0), "2m", 64))
    assert found is not None
    named = found.says.partition("Smaller caches end at about ")[2]
    assert [part.partition(" (")[0] for part in named.rstrip(".").split(", ")] == others


@pytest.mark.parametrize(
    ("points", "far", "near", "loss"),
    [
        ([(0, "a", 4e10), (1, "a", 2e10)], 1, 0, 0.5),
        ([(0, "a", 4e10), (1, "a", 1e10), (2, "a", 2e10)], 1, 0, 0.75),
        ([(0, "a", 4e10), (1, "a", 3e10), (0, "b", 4e10), (1, "b", 1e10)], 1, 0, 0.75),
        ([(0, "a", 0.0), (1, "a", 0.0), (0, "b", 4e10), (1, "b", 1e10)], 1, 0, 0.75),
        ([(0, "b", 1.0), (1, "b", 0.5)], 1, 0, 0.5),
        ([(0, "a", 4e10), (1, "b", 1e10)], None, None, None),
        ([(0, "a", 0.0), (1, "a", 0.0)], None, None, None),
    ],
)
def test_the_far_node_is_the_slowest_of_a_group(
    points: list[tuple[int, str, float]], far: int | None, near: int | None, loss: float | None
) -> None:
    made = [({"node": node, "pattern": pattern}, rate, "valid") for node, pattern, rate in points]
    found = wrong_node(case_of(bandwidth(*made)))
    shown = (found.evidence["far_node"], found.evidence["near_node"], found.evidence["loss"]) if found else (None,) * 3
    assert shown == (far, near, loss)


@pytest.mark.parametrize(("rate", "found"), [(0.0, False), (1.0, True)])
def test_what_moved_nothing_is_no_bandwidth(rate: float, found: bool) -> None:
    assert (practical_bandwidth(case_of(bandwidth(({}, rate, "valid")))) is not None) == found


@pytest.mark.parametrize(("moved", "found"), [(1.0, False), (1.01, False), (1.03, True)])
def test_another_writer_shows_where_the_device_moved_more(moved: float, found: bool) -> None:
    case = at_work(given={"rw": "randwrite", "direct": False, "ioengine": "psync"},
                   streams=(Stream("write", 1000, 10**6),), counters={"device_write_bytes": moved * 1e6},
                   details={"cached_share_after": 0.9})  # fmt: skip
    assert (cached_writes(case) is not None) == found


@pytest.mark.parametrize(("block", "found"), [(16384, True), (16385, False)])
def test_a_cache_takes_longer_for_blocks_above_16_kib(block: int, found: bool) -> None:
    assert (cache_hidden(fast(given={"bs": block})) is not None) == found


@pytest.mark.parametrize(("block", "found"), [(128 << 10, True), ((128 << 10) - 1, False)])
def test_blocks_of_128_kib_measure_bandwidth(block: int, found: bool) -> None:
    assert (of_disk("virtio", (block, 1e9, 2e9)) is not None) == found


@pytest.mark.parametrize(("stride", "found"), [(256, True), (257, False)])
def test_a_chase_of_wide_strides_shows_no_cache(stride: int, found: bool) -> None:
    assert (cache_of(MIB, stepped("memory.one", around(MIB), {MIB: 16.0}, "2m", stride)) is not None) == found


def test_the_greatest_gain_of_streaming_stores_counts_from_a_twentieth_on() -> None:
    def gains(**ratios: float) -> Verdict | None:
        pairs = [(name, 1.0) for name in ratios] + [(f"nt_{name}", ratio) for name, ratio in ratios.items()]
        return write_allocate(case_of(bandwidth(*(({"operation": name}, 1e10 * one, "valid") for name, one in pairs))))

    found = gains(copy=1.25, add=1.5)
    assert found is not None and (found.evidence["operation"], found.evidence["ratio"]) == ("add", 1.5)
    assert gains(copy=1.04) is None and gains(copy=1.06) is not None


@pytest.mark.parametrize(("pages", "timed", "found"), [("4k", True, True), ("4k", False, False), ("1g", True, False)])
def test_small_pages_are_held_against_huge_ones(pages: str, timed: bool, found: bool) -> None:
    slow = stepped("memory.x", [1 << 24], {}, pages, 64, base_ns=100.0).points[0]
    huge = stepped("memory.x", [1 << 24], {}, "2m", 64, base_ns=50.0).points[0]
    slow = slow if timed else replace(slow, latency_ns=None)
    result = made_experiment("memory.x", "memory", "?", "pages", "memory_latency", (slow, huge), fixed={})
    assert ("Loads take 50% less time" in _small_pages(case_of(result))) == found
