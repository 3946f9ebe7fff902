"""The scalability of threads, fitted in log space, and what the fits share.

The fit is robust (soft L1 loss, scale 2%) and gives its intervals from the covariance at the
optimum. scipy is imported where it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwdyno.analysis.estimates import t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

NOISE = 0.02
"""Scale of the soft L1 loss: residuals well above 2% count as outliers."""
USL_MIN_POINTS = 6


@dataclass(frozen=True)
class Interval:
    """A fitted number with its 95% interval; the ends are none where the data cannot give them."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Scalability:
    """Gunther's Universal Scalability Law: X(N) = cN / (1 + a(N-1) + bN(N-1)).

    ``a`` is contention and ``b`` coherence; ``b`` is none where its interval does not exclude 0.
    """

    c: Interval
    a: Interval
    b: Interval | None

    @property
    def peak_load(self) -> float | None:
        """Where X is greatest, if it turns down."""
        if self.b is None or self.a.value >= 1:
            return None
        return math.sqrt((1 - self.a.value) / self.b.value)

    @property
    def ceiling(self) -> float | None:
        """The most from a load of 1 on: there, at the peak, or c/a in the limit; none if it grows for ever."""
        if self.a.value >= 1:
            return self.c.value
        if self.peak_load is not None:
            return self.at(self.peak_load)
        return self.c.value / self.a.value if self.a.value > 1e-3 else None

    def at(self, load: float) -> float:
        """Throughput at a load."""
        b = self.b.value if self.b else 0.0
        return self.c.value * load / (1 + self.a.value * (load - 1) + b * load * (load - 1))


def fit_scalability(
    loads: Sequence[float], throughputs: Sequence[float], errors: Sequence[float] = ()
) -> Scalability | None:
    """Fits the Universal Scalability Law to at least six points; none for fewer, or for loads below 1."""
    if len(loads) < USL_MIN_POINTS or min(loads) < 1:
        return None
    import numpy as np
    from scipy.optimize import least_squares

    n, x = np.asarray(loads, float), np.log(np.asarray(throughputs, float))

    def fit(with_b: bool) -> tuple[Array, list[float | None]]:
        def parts(theta: Array) -> tuple[Array, Array]:
            a, b = theta[1], theta[2] if with_b else 0.0
            below = 1 + a * (n - 1) + b * n * (n - 1)
            columns = [np.ones_like(n), -(n - 1) / below] + ([-n * (n - 1) / below] if with_b else [])
            return theta[0] + np.log(n) - np.log(below), np.column_stack(columns)

        def residuals(theta: Array) -> Array:
            off: Array = parts(theta)[0] - x
            return off

        def jacobian(theta: Array) -> Array:
            return parts(theta)[1]

        start = np.array([float((x - np.log(n)).max()), 0.05] + ([1e-4] if with_b else []))
        lower = [-np.inf, 0.0] + ([0.0] if with_b else [])
        theta: Array = least_squares(
            residuals, start, jac=jacobian, bounds=(lower, np.inf), loss="soft_l1", f_scale=NOISE
        ).x
        fitted, slopes = parts(theta)
        return theta, _half_widths(fitted - x, slopes, errors)

    theta, half = fit(with_b=True)
    if half[2] is None or theta[2] - half[2] <= 0:
        theta, half = fit(with_b=False)
        b = None
    else:
        b = Interval(float(theta[2]), float(theta[2]) - half[2], float(theta[2]) + half[2])
    a_low, a_high = (
        (None, None) if half[1] is None else (max(0.0, float(theta[1]) - half[1]), float(theta[1]) + half[1])
    )
    return Scalability(c=interval_of_log(theta[0], half[0]), a=Interval(float(theta[1]), a_low, a_high), b=b)


def _half_widths(residuals: Array, slopes: Array, errors: Sequence[float]) -> list[float | None]:
    """Half of each parameter's 95% interval: from the scatter about the fit or the points' own errors, the greater.

    None throughout where there are no more points than parameters and no errors of the points.
    """
    import numpy as np

    spare = len(residuals) - slopes.shape[1]
    point_error = math.sqrt(math.fsum(e * e for e in errors) / len(errors)) if errors else 0.0
    scatter = 0.0
    if spare > 0:
        # Outliers beyond the loss's scale count no more than it, as in the loss itself.
        bounded = residuals**2 / np.sqrt(1 + (residuals / (3 * NOISE)) ** 2)
        scatter = math.sqrt(float(bounded.sum()) / spare)
    noise = max(scatter, point_error)
    if noise == 0:
        return [None] * slopes.shape[1]
    precision = slopes.T @ slopes / noise**2
    spread = np.sqrt(np.maximum(np.diag(np.linalg.pinv(precision)), 0))
    t = t_quantile(spare if scatter > point_error else 30)
    return [float(t * s) for s in spread]


def interval_of_log(log_value: float, half: float | None) -> Interval:
    """Back from log space."""
    value = math.exp(log_value)
    if half is None:
        return Interval(value)
    return Interval(value, math.exp(log_value - min(half, 50)), math.exp(log_value + min(half, 50)))
