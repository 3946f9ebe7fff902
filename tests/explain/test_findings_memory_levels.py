"""Caches and the TLB, by chases of planned steps: where each ends, and that none is invented."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings.tlb import _apart, _at, _footprint, _round
from hwdyno.model.words import ExperimentResult
from made_memory import MIB, found, make_run, point, result


def chased(
    sizes: list[float], steps: dict[float, float], pages: str = "2m", stride: int = 64, **more: Any
) -> ExperimentResult:
    """A chase of 8 ns that takes this many times longer beyond these sizes, half of it (by logarithm) at them."""
    points = []
    for size in sizes:
        ns = 8.0 * math.prod(factor ** (0.5 if size == at else float(size > at)) for at, factor in steps.items())
        given = {"pages": pages, "stride": stride, "locality": "random", "working_set": size, **more}
        points.append(point(1e9 / ns, "operations/s", ns, **given))
    return result("memory_latency", "working_set", *points, name=f"memory.{pages}.{len(sizes)}")


def around(at: float, below: int = 6, above: int = 6) -> list[float]:
    """Sizes in steps of half an octave."""
    return [at * 2.0 ** (step / 2) for step in range(-below, above + 1)]


STEP = chased(around(MIB), {MIB: 16.0})
HUGE = 1 << 40


@pytest.mark.parametrize(
    ("claimed", "chases", "says"),
    [
        (2 * MIB, [STEP], "Caches end at about 1 MiB"),
        (2 * MIB + 1, [STEP], "behaves as if it had about 1 MiB (latency 8.0"),
        (None, [STEP], None),
        (MIB, [chased([MIB, 2 * MIB], {}), STEP], "Caches end at about 1 MiB"),
        (MIB, [STEP, chased([MIB, 2 * MIB], {})], "Caches end at about 1 MiB"),
        (MIB, [chased(around(MIB, 3, 2), {MIB: 16.0})], "1 MiB"),  # Six sizes, up to twice the cache.
        (MIB, [chased(around(MIB, 2, 2), {MIB: 16.0})], None),
        (MIB, [chased(around(MIB, 6, 1), {MIB: 16.0})], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, stride=256)], "1 MiB"),
        (MIB, [chased(around(MIB), {MIB: 16.0}, stride=257)], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, "4k")], None),
        (MIB, [chased(around(MIB), {MIB: 16.0}, locality="page")], None),
        (HUGE, [chased(around(MIB, 12, 14), {MIB / 16: 8.0, MIB: 8.0})], "Smaller caches end at about 64 KiB (8.0"),
        (HUGE, [chased(around(MIB, 12, 14), {MIB / 16: 8.0, MIB: 8.0, 16.0 * MIB: 8.0})], "), 1 MiB (64"),
    ],
)
def test_caches_end_where_a_chase_slows(claimed: int | None, chases: list[ExperimentResult], says: Any) -> None:
    cpu = {"threads": 8, "caches": [{"level": 3, "type": "unified", "size_bytes": claimed}]}
    finding = found(make_run(*chases, machine={"cpu": cpu}), "claimed_cache")
    assert (finding and says in finding.says) == (says and True)
    assert finding is None or ("Smaller caches" in finding.says) == (claimed == HUGE)


PAGE, ENTRIES = 4096.0, 1024
SMALL, LARGE = 64 * PAGE, 16384 * PAGE


@pytest.mark.parametrize(
    ("sizes", "paged", "dense", "given", "pages"),
    [
        (around(8192 * PAGE), {8192 * PAGE: 4.0}, {}, {}, [8192]),
        (around(8193 * PAGE), {8193 * PAGE: 4.0}, {}, {}, []),
        (around(SMALL, 6, 22), {SMALL: 4.0, LARGE: 4.0}, {}, {}, [64]),
        (around(SMALL, 6, 14), {1024 * PAGE: 4.0}, {SMALL: 4.0}, {}, [1024]),  # A cache ends at the smaller one.
        (around(SMALL), {}, {SMALL: 4.0}, {}, []),
        (around(SMALL), {SMALL: 1.6}, {}, {}, [64]),
        (around(SMALL, 3, 2), {SMALL: 4.0}, {}, {}, [64]),
        (around(SMALL, 2, 2), {SMALL: 4.0}, {}, {}, []),
        *((around(SMALL), {SMALL: 4.0}, {}, {which: given}, [64] if given == {"stride": 256} else [])
          for which, given in (("dense", {"stride": 256}), ("dense", {"stride": 257}), ("dense", {"pages": "1g"}),
                               ("paged", {"stride": 4095}), ("paged", {"pages": "2m"}), ("paged", {"working_set": 0}),
                               ("paged", {"locality": "pages"}))),
    ],
)  # fmt: skip
def test_tlb_ends_where_only_pages_slow(sizes: list[float], paged: Any, dense: Any, given: Any, pages: Any) -> None:
    by_page = chased(sizes, {**dense, **paged}, **{"pages": "4k", "stride": 4096, **given.get("paged", {})})
    finding = found(make_run(by_page, chased(sizes, dense, **given.get("dense", {}))), "tlb_reach")
    assert (finding.evidence["pages"] if finding else []) == pytest.approx(pages)
    assert finding is None or ("From 16.0 k pages on, the page tables" in finding.says) == (LARGE in paged)
    if finding is not None and LARGE not in paged and not dense:
        (factor,) = paged.values()
        assert (finding.evidence["huge_ns"], finding.evidence["beyond_ns"]) == pytest.approx((8.0, 8.0 * factor))


@pytest.mark.parametrize(("lines", "degraded", "named"), [(6, 0, True), (5, 0, False), (13, 13, True), (13, 14, True)])
def test_tlb_needs_six_huge_page_sizes(lines: int, degraded: int, named: bool) -> None:
    """Where most of the 26 points are degraded, it says so."""
    both = (chased(around(SMALL), {SMALL: 4.0}, "4k", 4096), chased(around(SMALL)[-lines:], {}))
    left = iter(["degraded"] * degraded + ["valid"] * 26)
    both_judged = [
        replace(experiment, points=tuple(replace(at, validity=next(left)) for at in experiment.points))
        for experiment in both
    ]
    finding = found(make_run(*both_judged), "tlb_reach")
    assert (finding and "most points are degraded" in finding.says) == (degraded == 14 if named else None)


def test_steps_near_each_other_are_merged() -> None:
    """Steps within a factor of 2.5 of the first are merged to their geometric mean."""
    for counts, merged in (
        *(([100, 250], [25000**0.5]), ([100, 251], [100, 251]), ([100, 400, 900], [100, 600]), ([225, 100], [150])),
        *(([10, 100, 225], [10, 150]), ([4, 8, 16], [32**0.5, 16]), ([], [])),
    ):
        assert _apart(counts) == pytest.approx(merged)


def test_footprint_is_line_for_each_element() -> None:
    """Whole pages leave the other sets of the cache unused. An edge is known to an eighth of its power of two."""
    used = {stride: _footprint(41600.0, stride) for stride in (4096, 8192, 4160, 128)}
    assert used == {4096: 41600.0, 8192: 41600.0, 4160: 640.0, 128: 20800.0}
    assert [_round(size) for size in (9, 17, 1100, 4096, 5000)] == [9, 16, 1152, 4096, 5120]


def test_latency_between_sizes_is_by_logarithms() -> None:
    chase = [(1000.0, 2.0), (4000.0, 8.0), (16000.0, 2.0)]
    for size, ns in ((500.0, 2.0), (1000.0, 2.0), (2000.0, 4.0), (4000.0, 8.0), (8000.0, 4.0)):
        assert _at(chase, size) == pytest.approx(ns)
    assert _at(chase, 16001.0) is None and _at([(1000.0, 2.0), (1000.0, 8.0), (2000.0, 9.0)], 1000.0) == 2.0
