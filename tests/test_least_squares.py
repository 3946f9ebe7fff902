"""Many small fits at once: where they end, and what a bound does."""

from __future__ import annotations

import numpy as np
import pytest
from hwdyno.curves.least_squares import fit


@pytest.mark.parametrize(("start", "rounds"), [(2.0, 15), (2.0 + 1e-10, 1)])
def test_a_fit_of_exact_points_ends_early(start: float, rounds: int) -> None:
    """No step is better than the truth: a damping of 1e-3 is past a million after 15 rises to the fourfold.

    A step that lowers a cost of next to nothing is the last.
    """
    x, calls = np.array([1.0, 2.0, 3.0]), 0

    def line(theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal calls
        calls += 1
        return theta[:, :1] * x, np.repeat(x[None, :, None], len(theta), axis=0)

    bounds, pull = (np.array([0.0]), np.array([9.0])), np.zeros((2, 1))
    found, _ = fit(line, 2 * x[None], np.array([[start]]), bounds, np.ones((1, 3)), 0.01, pull)
    assert found[0, 0] == pytest.approx(2.0) and calls == 1 + rounds


@pytest.mark.parametrize("way", [1.0, -1.0])
@pytest.mark.parametrize(("data", "x", "y"), [((0.0, 2.0), 2.0, 2.0), ((-5.0, 2.0), 0.0, 3.5)])
def test_a_parameter_stops_at_its_bound(
    way: float, data: tuple[float, float], x: float, y: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """x - y and y, with x from 0 on: at (0, 0) the first data push x nowhere, the second down. Lines take one round."""
    monkeypatch.setattr("hwdyno.curves.least_squares.ROUNDS", 1)
    slopes = np.array([[way, -1.0], [0.0, 1.0]])
    low, high = ([0.0, -9.0], [9.0, 9.0]) if way > 0 else ([-9.0, -9.0], [0.0, 9.0])
    found, _ = fit(
        lambda theta: (theta @ slopes.T, slopes[None]), np.array([data]), np.zeros((1, 2)),
        (np.array(low), np.array(high)), np.ones((1, 2)), 1e6, np.zeros((2, 2)),
    )  # fmt: skip
    assert found[0] == pytest.approx([way * x, y], rel=0.01)
