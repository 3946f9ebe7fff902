"""The shape of a curve beside its knee: a fall past a load, and a load off the curve of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.curves.knee_model import knee_at
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.curve_shape import off_the_curve, rolls_over
from hwdyno.explain.findings.rule import Case
from hwdyno.model.words import Curve, Value
from made_experiment import made_experiment
from made_point import base, make_run


def along(values: dict[float, float], rates: dict[float, float], **parameters: float) -> Case:
    """A curve of rates over queue depths, where the throughput changes by depth too, and parameters of its model."""
    points = tuple(
        base(parameters={"rw": "randread", "bs": 4096, "iodepth": load}, rate=Value(rates[load], "operations/s"),
             throughput=Value(value, "bytes/s", 0.99 * value, 1.01 * value))
        for load, value in values.items()
    )  # fmt: skip
    result = made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})
    result = replace(result, metric="rate" if max(values.values()) == 50.0 else "throughput")
    named = {name: Value(value, "1") for name, value in parameters.items()}
    curve = Curve({}, "iodepth", tuple(range(len(points))), "bytes/s", "queue-knee", named, ceiling=Value(1e2, "B/s"))
    return Case(replace(make_run(base()), experiments=(result,)), result, curve=curve)


@pytest.mark.parametrize(("values", "parameters", "bend"), [
    # 5% of the model, and half of the loss that counts in what was measured; past the last load that lost at most a
    # quarter of it. A load of zero is a load, and one off the curve no peak to fall from.
    ({8: 100, 32: 95}, {"loss": 0.049}, None), ({8: 100, 32: 95}, {"loss": 0.05}, 8), ({8: 100, 32: 60}, {}, None),
    ({8: 100, 32: 97.4}, {"loss": 0.06}, 8), ({8: 100, 32: 97.6}, {"loss": 0.06}, None),
    ({8: 100, 32: 101}, {"loss": 0.06}, None), ({8: 100, 16: 91, 32: 60}, {"loss": 0.4}, 16),
    ({8: 100, 16: 89, 32: 60}, {"loss": 0.4}, 8), ({0: 100, 2: 50}, {"loss": 0.5}, 0),
    ({4: 300, 8: 100, 32: 60}, {"loss": 0.4, "odd_load": 4.0}, 8),
    ({4: 300, 8: 100, 32: 60}, {"loss": 0.4, "odd_load": 2.0}, 4),
])  # fmt: skip
def test_throughput_falls_past_a_load(values: Any, parameters: dict[str, float], bend: float | None) -> None:
    values = {1: 50.0, **values}
    level = dict.fromkeys(values, 50.0)
    cases = along(values, level, **parameters), along(level, values, **parameters)
    assert [found and found.evidence["bend"] for found in map(rolls_over, cases)] == [bend, bend]
    result = replace(cases[0].result, points=tuple(replace(at, validity="invalid") for at in cases[0].result.points))
    assert rolls_over(replace(cases[0], result=result)) is None


@pytest.mark.parametrize(("fall", "ratio", "rule", "message"), [
    (0.5, 1.0, "rolls_over", "Throughput loses 82% past iodepth 32 ("), (0.0, 1.4, "off_the_curve", "40% above the"),
    (0.0, 0.7, "off_the_curve", "One load lies 30% below the curve of the others (randread 4 KiB, iodepth 64"),
])  # fmt: skip
def test_a_planted_shape_is_found(fall: float, ratio: float, rule: str, message: str) -> None:
    """A fall by the load's root from 32 on, or a multiple at 64, in a run from its points to its findings."""
    rates = {2.0**k: knee_at(2.0**k, 1e5, 8.0, 4.0, fall=fall, fall_load=32.0) for k in range(11)}
    rates[64.0] *= ratio
    run = explain(along({load: 4096 * rate for load, rate in rates.items()}, rates).run)
    (found,) = [finding for finding in run.findings if finding.rule in {"rolls_over", "off_the_curve"}]
    assert (found.rule, found.severity) == (rule, "warning") and message in found.says
    assert found.advice.endswith("--iodepth 32" if fall else "--iodepth 64")
    verdict = off_the_curve(Case(run, run.experiments[0], curve=run.experiments[0].curves[0]))
    assert (verdict and verdict.points) == (None if fall else (6,))
    assert verdict is None or verdict.weight == pytest.approx(abs(1 - ratio), rel=0.02)
