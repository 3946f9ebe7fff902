"""Levels of a GPU's memory, by pointer chases: each is named where it ends, and none is invented."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.caches import Edge
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.gpu_latency import _name_edges
from hwdyno.model.machine import Cache, Cpu, Machine
from hwdyno.model.words import Finding, Measurement, Run, Value
from made_gpu import KIBI, MEBI, judged, made, with_gpu
from simulated_runs import list_rules, the
from simulation.gpu import Gpu

SIZES = {"octaves": tuple(8 << 10 << k for k in range(18)), "quick": tuple(16 << 10 << 2 * k for k in range(8))}


def chased(seed: int, levels: tuple[tuple[float, float], ...], sizes: tuple[int, ...]) -> Run:
    gpu = Gpu.random(seed)
    parts = (gpu.chase(levels, sizes),)
    return explain(Run("r", "2026-01-01T00:00:00Z", None, (gpu.machine(),), "quick", "hwdyno gpu latency", parts))


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("l1", [64 << 10, 128 << 10, 256 << 10], ids=["64 KiB of L1", "128 KiB of L1", "256 KiB of L1"])
def test_levels_of_gpus_memory_are_named(sizes: tuple[int, ...], l1: int) -> None:
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


def test_tlbs_reach_is_named_beyond_memory() -> None:
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
        assert "gpu_levels" not in list_rules(chased(seed, levels, sizes).findings)


def test_a_last_cache_in_parts_is_named_by_what_the_driver_states() -> None:
    found = the(chased(3, ((128 << 10, 32.0), (14 * MEBI, 200.0), (1e15, 500.0)), SIZES["octaves"]), "gpu_levels")
    assert found.says.endswith("The driver states 40 MiB of L2; a load reaches a part of it this fast.")


def chain(latencies_ns: list[float], first: float = 64 * KIBI, octaves: float = 1.0) -> list[Measurement]:
    """A pointer chase whose working set grows by this many octaves from point to point."""
    sizes = [first * 2 ** (octaves * at) for at in range(len(latencies_ns))]
    return [made(1e9 / ns, "operations/s", working_set=size) for size, ns in zip(sizes, latencies_ns, strict=True)]


def levels_in(points: Iterable[Measurement], machine: Machine | None = None, on: str = "gpu") -> Finding | None:
    return judged("gpu_levels", points, machine, on=on)


STEP = chain([25.0] * 3 + [100.0] * 3)
INVALID = [replace(point, throughput=Value(1e9, "operations/s"), validity="invalid") for point in STEP]
IDLE = [replace(point, throughput=Value(0.0, "operations/s")) for point in STEP]


@pytest.mark.parametrize(
    ("points", "level"),
    [
        (STEP, (256 * KIBI, 25.0, 100.0)),
        (STEP[:5], None),
        (STEP[:1], None),
        (INVALID + STEP + IDLE, (256 * KIBI, 25.0, 100.0)),
        (chain([2e9] * 3 + [8e9] * 3), (256 * KIBI, 2e9, 8e9)),  # Less than one load a second.
        (chain([100.0] * 6 + [200.0, 240.0]), (64 * KIBI << 6, 100.0, 240.0)),
        (chain([100.0] * 7 + [200.0]), None),  # Twice the size was not measured.
        *((chain([100.0] * 3 + [rise] * (count - 3), octaves=octaves), rise > 140 and (KIBI << 6 + end, 100.0, rise))
          for rise in (139.0, 141.0) for count, octaves, end in ((6, 1.0, 2), (10, 1.0, 2), (9, 0.5, 1), (9, 2.0, 4))),
    ],
)  # fmt: skip
def test_level_is_slower_by_two_fifths(points: list[Measurement], level: Any) -> None:
    """The size at its end, and the time of a load below and above it."""
    found = levels_in(points)
    known = found and (*found.evidence["levels"]["L1"].values(), found.evidence["memory_ns"])
    assert known == (pytest.approx(level) if level else None)


@pytest.mark.parametrize(
    ("stated", "levels", "reach", "memory_ns"),
    [
        (95, ["L2"], None, 400),  # 1.57 octaves above
        (100, None, None, None),  # 1.64 octaves above
        (11, ["L2"], None, 400),  # 1.54 octaves below
        (10, [], 32, 100),  # 1.68 octaves below: a TLB's reach
        (63, ["L2"], None, 400),
        (66, ["L2"], None, 400),  # more than twice
    ],
)
def test_rise_near_l2_is_its_end(stated: int, levels: list[str] | None, reach: int | None, memory_ns: Any) -> None:
    """The latency rises at 32 MiB. L2's stated size is in MiB."""
    found = levels_in(chain([100.0] * 6 + [400.0] * 4, MEBI), with_gpu(l2_bytes=stated * (1 << 20)))
    assert (found and list(found.evidence["levels"])) == levels
    if found is not None:
        assert found.evidence["reach_bytes"] == (reach and reach * MEBI)
        assert found.evidence["memory_ns"] == pytest.approx(memory_ns)
        assert (f"The driver states {stated} MiB of L2" in found.says) == (stated > 64)


@pytest.mark.parametrize("l3", [60, 80])
def test_processor_levels_have_cache_names(l3: int) -> None:
    """L1 ends at 32 KiB, L2 at 1 MiB and L3 at 32 MiB. Caches without a size or a level count for nothing."""
    ends = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
    sizes = (Cache(3, "unified", l3 << 20), Cache(1, "data", 32 << 10), Cache(2, "unified", 1 << 20))
    machine = replace(with_gpu(l2_bytes=1 << 20), cpu=Cpu(caches=(Cache(4, "unified"), *sizes, Cache(None, "", 9))))
    sizes_measured = [8 * KIBI << at for at in range(18)]
    latencies_ns = [4.0 ** sum(size > end for end in ends.values()) for size in sizes_measured]
    found = levels_in(chain(latencies_ns, 8 * KIBI), machine, on="cpu")
    assert found is not None and found.evidence == {
        "levels": {name: {"ends_bytes": end, "latency_ns": pytest.approx(4.0**at)}
                   for at, (name, end) in enumerate(ends.items())},
        "memory_ns": pytest.approx(64.0),
        "reach_bytes": None,
    }  # fmt: skip
    assert (" The driver states 80 MiB of L3;" in found.says) == (l3 == 80) == ("states" in found.says)


@pytest.mark.parametrize(
    ("edges", "names"),
    [
        ((20.0, 36.0), {"L2": 36.0}),  # the nearer of two
        ((2.1,), {}),
        ((1.9,), {"L1": 1.9}),
        ((1.0, 32.0), {"L1": 1.0, "L2": 32.0}),
        ((32.0, 200.0), {"L2": 32.0, "TLB": 200.0}),
    ],
)
def test_a_rise_is_named_by_its_distance_from_l2(edges: tuple[float, ...], names: dict[str, float]) -> None:
    """Sizes in MiB, of which 32 of L2 are stated."""
    found = _name_edges([Edge(size * MEBI, 1.0, 2.0) for size in edges], [("L2", 32.0 * MEBI)])
    assert {name: edge.size_bytes / MEBI for name, edge in found} == names
