"""Edges that no other test held: whom contention concerns, how wide a fall is, and what no copy can reach."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.curves.knee import fit_knee, knee_at
from hwdyno.findings import RULES, explain
from hwdyno.findings.published import more_than_memory
from hwdyno.findings.rule import Case
from hwdyno.words import Ceiling, CeilingClass
from test_edges_conditions import matrix
from test_single_published import row, table
from test_thresholds import base, run_of

# --- contention


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        ((0.8, 0.8), "contention"),
        ((1.001, 0.999), "no_contention"),
    ],
)
def test_contention_is_looked_for_in_a_matrix_and_nowhere_else(kept: tuple[float, float], found: str) -> None:
    """A sweep has no load beside it: neither what it costs nor that it costs nothing is asked."""
    (rule,) = (one for one in RULES if one.name == found)
    pairs, sweep = matrix(("compute", kept)).run, run_of(base())
    assert rule.applies.to_run(pairs) and found in {one.rule for one in explain(pairs).findings}
    assert not rule.applies.to_run(sweep)
    both = replace(sweep, experiments=(*sweep.experiments, *pairs.experiments))
    assert rule.applies.to_run(both), "one experiment of several is enough"


# --- a fall


@pytest.mark.parametrize("bend", [12.0, 24.0])
def test_a_fall_to_a_level_takes_an_octave(bend: float) -> None:
    """0.7 of the load's logarithm: points of such a fall lie on the fitted curve, and a wider one would miss them."""
    loads = [float(1 << step) for step in range(10)]
    measured = [knee_at(load, 100.0, 4.0, 8.0, fall=0.8, bend=bend, width=0.7) for load in loads]
    knee = fit_knee(loads, measured)
    assert knee.falls > 0.99
    assert [knee.at(load) for load in loads] == pytest.approx(measured, rel=0.002)
    assert knee.fall == pytest.approx(0.8, rel=0.02) and knee.bend == pytest.approx(bend, rel=0.02)


def test_a_fall_for_ever_goes_on_where_one_to_a_level_ends() -> None:
    """The document of a Run states over how much of the load's logarithm it falls: 50 is more than any curve has."""
    loads = [float(1 << step) for step in range(10)]
    measured = [knee_at(load, 100.0, 4.0, 8.0, fall=0.3, bend=24.0, width=1000.0) for load in loads]
    knee = fit_knee(loads, measured)
    assert knee.falls > 0.99 and knee.width == 50.0
    assert knee.at(24.0 * 64) == pytest.approx(100 * 64**-0.3, rel=0.01)


# --- copies


def copied(
    value: float, operation: str = "", unit: str = "bytes/s", memory: float | None = None, gpu: str = "B200"
) -> Case:
    """A row of a table of copies, beside one that tells the bandwidth of the device's own memory."""
    given: dict[str, Any] = {"gpu": gpu, **({"operation": operation} if operation else {})}
    others = [] if memory is None else [row(memory, gpu=gpu, operation="device-to-device")]
    return table(row(value, unit=unit, **given), *others, resource="gpu", at=0, kernel="gpu_transfer")


@pytest.mark.parametrize(
    ("operation", "memory", "gpu", "most", "words"),
    [
        ("", None, "B200", 8e12, "the fastest memory of devices without HBM4 has 8,000 GB/s."),
        ("device-to-device", None, "MI355X", 8e12, "the fastest memory of devices without HBM4 has 8,000 GB/s."),
        ("device-to-device", 1e12, "B200", 8e12, "the fastest memory of devices without HBM4 has 8,000 GB/s."),
        ("device-to-device", None, "Rubin", 22e12, "the fastest memory of any device has 22.0 TB/s."),
        ("", None, "MI455X", 22e12, "the fastest memory of any device has 22.0 TB/s."),
        (
            "host-to-device",
            None,
            "GH200",
            450e9,
            "link to the host of devices without HBM4 has 450 GB/s. Nothing was copied",
        ),
        (
            "device-to-host",
            None,
            "GH200",
            450e9,
            "link to the host of devices without HBM4 has 450 GB/s. Nothing was copied",
        ),
        (
            "device-to-host",
            None,
            "VR200 HBM4",
            900e9,
            "the fastest link to the host of any device has 900 GB/s. Nothing",
        ),
        ("Host-to-device", 100e9, "GH200", 100e9, "this device's memory has 100 GB/s. Nothing was copied"),
        ("buffer map", None, "GH200", 450e9, "devices without HBM4 has 450 GB/s. Mapping a buffer moves no byte"),
        ("buffer map", 7e9, "Rubin", 7e9, "this device's memory has 7,000 MB/s. Mapping a buffer moves no byte"),
    ],
)
def test_a_copy_is_none_from_half_above_the_memory_it_crosses(
    operation: str, memory: float | None, gpu: str, most: float, words: str
) -> None:
    assert more_than_memory(copied(1.49 * most, operation, memory=memory, gpu=gpu)) is None
    found = more_than_memory(copied(1.51 * most, operation, memory=memory, gpu=gpu))
    assert found is not None and words in found.says and found.evidence["most"] == most
    assert found.weight == pytest.approx(1.51)


def test_arithmetic_in_a_table_of_copies_is_none_of_them() -> None:
    """clpeak prints both: 19.5 TFLOP/s are plausible where 19.5 TB/s are not."""
    assert more_than_memory(copied(19.5e12)) is not None
    assert more_than_memory(copied(19.5e12, unit="flop/s")) is None
    rates = row(1e12, unit="operations/s", operation="device-to-device")
    case = table(row(800e9, operation="host-to-device"), rates, resource="gpu", at=0, kernel="gpu_transfer")
    found = more_than_memory(case)
    assert found is not None and found.evidence["most"] == 450e9, "operations/s tell no memory's bandwidth"


@pytest.mark.parametrize(("kind", "named"), [("physical", False), ("rated", True), ("reference", True)])
def test_a_copy_is_held_against_its_own_ceiling_where_that_is_physical(kind: CeilingClass, named: bool) -> None:
    case = copied(20e12)
    ceiling = Ceiling("bytes_s", kind, 22e12, "bytes/s", "the memory", "test")
    case = replace(case, result=replace(case.result, ceilings=(ceiling,)))
    assert (more_than_memory(case) is not None) == named
