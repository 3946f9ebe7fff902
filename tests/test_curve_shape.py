"""The shape of a curve beside its knee: a fall past a load, and a load off the curve of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.curves.knee import knee_at
from hwdyno.findings import explain
from hwdyno.findings.curve_shape import off_the_curve, rolls_over
from hwdyno.findings.rule import Case
from hwdyno.words import Curve, Value
from made_experiment import made_experiment
from made_point import base, run_of


def along(values: dict[float, float], rates: dict[float, float] | None = None, **parameters: float) -> Case:
    """A curve over queue depths, with the throughput at each and these parameters of its model."""
    points = tuple(
        base(parameters={"rw": "randread", "bs": 4096, "iodepth": load},
             throughput=Value(value, "bytes/s", 0.99 * value, 1.01 * value),
             rate=None if rates is None else Value(rates[load], "operations/s"))
        for load, value in values.items()
    )  # fmt: skip
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    result = replace(result, metric="throughput" if rates is None else "rate")
    named = {name: Value(value, "1") for name, value in parameters.items()}
    curve = Curve({}, "iodepth", tuple(range(len(points))), "bytes/s", "queue-knee", named, ceiling=Value(1e2, "B/s"))
    return Case(replace(run_of(base()), experiments=(result,)), result, curve=curve)


@pytest.mark.parametrize(
    ("values", "parameters", "bend"),
    [
        # 5% of the model, and half of the loss that counts in what was measured.
        ({8: 100, 32: 95}, {"loss": 0.049}, None),
        ({8: 100, 32: 95}, {"loss": 0.05}, 8),
        ({8: 100, 32: 97.4}, {"loss": 0.06}, 8),
        ({8: 100, 32: 97.6}, {"loss": 0.06}, None),
        ({8: 100, 32: 101}, {"loss": 0.06}, None),
        ({8: 100, 32: 60}, {}, None),
        # Past the last load that lost at most a quarter of it, 10%.
        ({8: 100, 16: 91, 32: 60}, {"loss": 0.4}, 16),
        ({8: 100, 16: 89, 32: 60}, {"loss": 0.4}, 8),
        # A load of zero is a load, and one off the curve no peak to fall from.
        ({0: 100, 2: 50}, {"loss": 0.5}, 0),
        ({4: 300, 8: 100, 32: 60}, {"loss": 0.4, "odd_load": 4.0}, 8),
        ({4: 300, 8: 100, 32: 60}, {"loss": 0.4, "odd_load": 2.0}, 4),
    ],
)
def test_throughput_falls_past_a_load(values: Any, parameters: dict[str, float], bend: float | None) -> None:
    case = along({1: 50.0, **values}, **parameters)
    found = rolls_over(case)
    assert (found and found.evidence["bend"]) == bend
    points = tuple(replace(point, validity="invalid") for point in case.result.points)
    assert rolls_over(Case(case.run, replace(case.result, points=points), curve=case.curve)) is None


def test_a_fall_is_that_of_the_metric() -> None:
    level, falling = {1.0: 50.0, 8.0: 100.0, 32.0: 100.0}, {1.0: 5.0, 8.0: 10.0, 32.0: 6.0}
    found = rolls_over(along(level, falling, loss=0.4))
    assert found is not None and (found.evidence["most"], found.evidence["last"]) == (10.0, 6.0)
    assert rolls_over(along(falling, level, loss=0.4)) is None


@pytest.mark.parametrize(
    ("load", "ratio", "message"),
    [(8.0, 0.7, "30% below"), (8.0, 1.4, "40% above"), (9.0, 0.7, None), (8.0, None, None)],
)
def test_a_load_is_off_the_curve(load: float, ratio: float | None, message: str | None) -> None:
    given = {"odd_load": load} if ratio is None else {"odd_load": load, "odd_ratio": ratio}
    found = off_the_curve(along({1.0: 50.0, 8.0: 100.0}, **given))
    assert (found is not None) == (message is not None)
    if found is not None and message is not None and ratio is not None:
        assert f"One load lies {message} the curve of the others" in found.says
        assert (found.points, found.weight) == ((1,), pytest.approx(abs(1 - ratio)))
        assert found.advice.startswith("Measure it again: ") and "--iodepth 8" in found.advice


@pytest.mark.parametrize(("fall", "dip", "rule"), [(0.5, 1.0, "rolls_over"), (0.0, 0.7, "off_the_curve")])
def test_a_planted_shape_is_found(fall: float, dip: float, rule: str) -> None:
    """A fall by the load's root from 32 on, or 70% at 64, in a run from its points to its findings."""
    rates = {2.0**k: knee_at(2.0**k, 1e5, 8.0, 4.0, fall=fall, bend=32.0) for k in range(11)}
    rates[64.0] *= dip
    case = along({load: 4096 * rate for load, rate in rates.items()}, rates)
    found = [finding for finding in explain(case.run).findings if finding.rule in {"rolls_over", "off_the_curve"}]
    assert [(finding.rule, finding.severity) for finding in found] == [(rule, "warning")]
    expected = "Throughput loses 82% past iodepth 32 (" if fall else "30% below the curve of the others"
    assert expected in found[0].says
