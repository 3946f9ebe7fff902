"""The roofline of a made Run: slopes, ceilings and kernels where they belong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.analysis.curves.roofline import find_roofs
from hwdyno.measure.experiments.gpu import in_parts
from hwdyno.model.words import Declaration, ExperimentResult, Run, Value
from hwdyno.report import roofline
from hwdyno.report.charts import list_charts
from hwdyno.report.picture import Polyline
from made_memory import SET, flops, make_run, moved, point, result
from made_point import base


def made() -> Run:
    triad = replace(moved(30e9, "triad"), details={"flops": 2, "useful_bytes": 24})
    reads = result(
        "memory_bandwidth",
        "working_set",
        moved(400e9, "read", working_set=24 << 10),
        moved(200e9, "read", working_set=1 << 20),
        moved(190e9, "read", working_set=2 << 20),
        moved(34e9, "read", working_set=SET),
        replace(triad, parameters={**triad.parameters, "working_set": SET}),
    )
    # One thread has separate roofs.
    alone = [flops(13e9, "scalar"), flops(60e9, "avx512", precision="single")]
    peaks = result(
        "compute_flops", "threads", flops(14e9, "scalar", threads=2), flops(116e9, "avx512", threads=2), *alone
    )
    solved = result("linpack", "n", point(90e9, "FLOP/s", operation="lu", n=2400, threads=2))
    return make_run(reads, peaks, solved)


def test_levels_peaks_and_kernels() -> None:
    run = made()
    assert [roof.value for roof in roofline.levels(run)] == [400e9, 200e9, 34e9]
    assert [roof.value for roof in roofline.peaks(run)] == [14e9, 116e9]
    spots = {spot.label: spot for spot in roofline.spots(run)}
    assert spots["triad"].intensity == pytest.approx(1 / 12)
    assert spots["triad"].flop_s == pytest.approx(2.5e9)
    assert spots["LU (dgesv)"].intensity == 100


def test_no_kernel_is_above_the_roof() -> None:
    run = made()
    (chart,) = [candidate for candidate in list_charts(run) if candidate.name.endswith("roofline")]
    assert run.experiments[chart.experiment].kernel == "compute_flops"
    slopes_drawn = [mark for mark in chart.picture.marks if isinstance(mark, Polyline)]
    assert len(slopes_drawn) == len(chart.picture.series) == 3
    assert {"LU (dgesv)", "triad"} <= set(chart.picture.texts)
    slopes, tops = roofline.levels(run), roofline.peaks(run)
    for spot in roofline.spots(run):
        assert spot.flop_s <= min(tops[-1].value, slopes[0].value * spot.intensity)


def test_stores_past_caches_raise_memory_roof() -> None:
    """What moves more than reads do is what the memory gives, however large the set that it was measured on."""
    reads = [
        moved(value, "read", working_set=size) for value, size in ((400e9, 24 << 10), (39e9, 128 << 20), (36e9, SET))
    ]
    peak = result("compute_flops", "threads", flops(116e9, "avx512", threads=2))
    run = make_run(result("memory_bandwidth", "working_set", *reads, moved(44e9, "nt_triad", working_set=SET)), peak)
    assert [roof.value for roof in roofline.levels(run)] == [400e9, 44e9]


def test_without_levels_there_is_none() -> None:
    run = make_run(result("compute_flops", "threads", flops(116e9, "avx512")))
    assert roofline.draw_roofline(run) is None


@pytest.mark.parametrize(
    ("intensity", "precision", "near"),
    [(0.3, "single", "0.25"), (0.0625, "single", "0.125"), (0.03, "double", "0.0625"), (16.55, "half", "16.5")],
)
def test_parts_of_an_operation_are_refused_before_anything_is_measured(
    intensity: float, precision: str, near: str
) -> None:
    why = in_parts(Declaration(), {"intensity": intensity, "precision": precision})
    assert why is not None and why.endswith(f"the nearest is {near}")
    assert in_parts(Declaration(), {"intensity": float(near), "precision": precision}) is None


@pytest.mark.parametrize(("rate", "arrays", "found"), [(0.5, (1, 1), True), (0.0, (1, 1), False), (0.5, (1, 2), False)])
def test_a_gpus_roofs_need_three_intensities(rate: float, arrays: tuple[int, int], found: bool) -> None:
    """The points of one array. 0.25 FLOP/s at 1 FLOP/B take 0.25 B/s, and 0.5 FLOP/s is the most."""
    rows = ((1.0, 0.25), (2.0, 0.5), (2.0, 0.4), (4.0, rate), (8.0, 0.0))
    points = tuple(
        base(parameters={"intensity": row[0], "array": arrays[at % 2]}, throughput=Value(row[1], "FLOP/s"))
        for at, row in enumerate(rows)
    )
    roofs = find_roofs(ExperimentResult("gpu.x", "gpu", "?", "intensity", "gpu_roofline", points))
    spots = [(1.0, 0.25, 0), (2.0, 0.5, 1), (4.0, 0.5, 3)]
    assert (roofs and (roofs.bytes_s, roofs.flop_s)) == ((0.25, 0.5) if found else None)
    assert roofs is None or [(spot.intensity, spot.flop_s, spot.at) for spot in roofs.spots] == spots
