"""The knee of a queue: its model, with a fall past a depth where there is one, and its fit in log space.

The fit is robust (soft L1 loss, scale 2%). Intervals come from the covariance at the optimum, with the noise that the
scatter about the fit or the points' own repeats show, the greater: that includes what the model cannot follow.
numpy and scipy are imported where they are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwdyno.analysis.curves.knee_model import ENDLESS, SHARPNESS, STEP, Knee, Odd
from hwdyno.analysis.curves.scalability import NOISE, Interval, interval_of_log
from hwdyno.analysis.estimates import t_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MIN_P, MAX_P = 1.0, 40.0
"""p = 1 is the balanced job bound (Zahorjan et al., CACM 1982): no closed queueing network is softer."""
MAX_FALL = 2.0
FALL_MIN_POINTS, ODD_MIN_POINTS = 7, 6
MIN_LOSS, MIN_SHARE = 0.02, 0.01
ODD_SHARE = 0.11
"""A point this far off the curve of the others, and beyond their noise, is left out of the fit and named."""
ODD_SIGMAS = 4.0
LOOK_FOR_ODD = 0.04
"""Residual from which on a point is checked for being off the curve of the others."""


@dataclass(frozen=True)
class _Points:
    """Logarithms of loads and throughputs, and what is known of their noise."""

    n: Array
    x: Array
    error: float
    """Pooled standard error of the points by their repeats; 0 where it is not known."""
    errors: Array
    """Each point's own, as far as it is known; 0 where it is not."""
    requests: bool
    top: float = math.inf
    """The logarithm of the greatest ceiling that may be fitted."""

    def model(self, theta: Array) -> tuple[Array, Array]:
        """The logarithm of the throughput and its slopes, by (ln Xm, ln N*, ln p, d, ln Nd, width), for each row."""
        return _model(theta, self.n, self.requests)


def _model(theta: Array, n: Array, requests: bool) -> tuple[Array, Array]:
    import numpy as np

    top, crossing, log_p, fall, fall_load, width = (theta[:, at, None] for at in range(6))
    p = np.exp(log_p)
    stretch: Array | float = 1.0
    log_a = p * crossing
    if requests:
        complement = -np.expm1(-log_a)
        stretch = 1 / complement
        log_a = log_a + np.log(complement)
    z = log_a - p * n
    soft, slope = np.logaddexp(0.0, z) / p, _logistic(z)
    y = SHARPNESS * (n - fall_load)
    beyond = y - SHARPNESS * width
    past = (np.logaddexp(0.0, y) - np.logaddexp(0.0, beyond)) / SHARPNESS
    slopes = np.stack(
        (
            np.ones_like(soft),
            -slope * stretch,
            soft - slope * (crossing * stretch - n),
            -past,
            fall * (_logistic(y) - _logistic(beyond)),
            np.zeros_like(soft),
        ),
        axis=2,
    )
    return top - soft - fall * past, slopes


def _logistic(value: Array) -> Array:
    import numpy as np

    return np.asarray(0.5 * (1 + np.tanh(value / 2)))


@dataclass(frozen=True)
class _Fit:
    """One fitted model."""

    points: _Points
    theta: Array
    used: Array
    """1 for each point that shaped it, 0 for one left out."""
    free: int
    """How many parameters were fitted."""
    residuals: Array

    @property
    def spare(self) -> int:
        return int(self.used.sum()) - self.free

    @property
    def squares(self) -> float:
        """The sum of squares, in which an outlier beyond the loss's scale counts no more than there."""
        import numpy as np

        bounded = self.residuals**2 / np.sqrt(1 + (self.residuals / (3 * NOISE)) ** 2)
        return float((bounded * self.used).sum())

    @property
    def scatter(self) -> float:
        """Standard deviation about the fit."""
        return math.sqrt(self.squares / self.spare) if self.spare > 0 else 0.0

    @property
    def noise(self) -> float:
        """Standard error of a point, by the scatter or by its repeats, the greater; 0 where nothing tells."""
        return max(self.scatter, self.points.error)

    @property
    def t(self) -> float:
        return t_quantile(max(1, self.spare) if self.scatter > self.points.error else 30)

    def covariance(self) -> Array:
        """The parameters' covariance; 0 for one that was not fitted or is on its bound."""
        import numpy as np

        _, slopes = self.points.model(self.theta[None])
        free = slice(0, self.free)
        columns = slopes[0][:, free] * self.used[:, None]
        precision = columns.T @ columns / self.noise**2
        precision[2, 2] += (_PULL / NOISE) ** 2
        whole = np.zeros((6, 6))
        whole[free, free] = np.linalg.pinv(precision)
        return whole

    def variance(self, slopes: Array) -> float:
        """The variance of a quantity with these slopes by the parameters.

        By the noise of all points, or by each point's own, the greater (Eicker & White's sandwich; White, Econometrica
        48, 1980): where the points that tell the ceiling are noisier than the others, the noise of all says too little.
        """
        import numpy as np

        covariance = self.covariance()
        columns = self.points.model(self.theta[None])[1][0] * self.used[:, None]
        # How far the quantity moves with each point.
        influence = slopes @ covariance @ columns.T / self.noise**2
        spare = max(1, self.spare) / float(self.used.sum())
        squares = np.maximum(self.residuals**2 / spare, self.points.errors**2)
        return max(0.0, float(slopes @ covariance @ slopes), float(influence**2 @ squares))

    def at(self, n: Array) -> tuple[Array, Array]:
        """The logarithm of the throughput at logarithms of loads, and its slopes."""
        fitted, slopes = _model(self.theta[None], n, self.points.requests)
        return fitted[0], slopes[0]


_PULL = NOISE / 2
"""A light pull of p towards 2 (one unit of noise a factor of e) decides only what the data leave open."""


def fit_knee(
    loads: Sequence[float],
    throughputs: Sequence[float],
    errors: Sequence[float] = (),
    *,
    requests: bool = False,
    level: Interval | None = None,
) -> Knee:
    """Fits the knee to at least three points; ``errors`` are the points' own standard errors (shares), if known.

    ``requests`` says that the load counts requests in flight; ``level`` is the measured level of the last points, so
    that no ceiling is beyond it. A fall past a depth is fitted too, from seven points on, and both models are weighted
    by Akaike's criterion for few points, with the noise as its scale (QAICc; Burnham & Anderson, Model Selection and
    Multimodel Inference, 2002, sections 2.5 and 4.3): the ceiling's interval includes how far they differ.
    """
    import numpy as np

    n, x = np.log(np.asarray(loads, float)), np.log(np.asarray(throughputs, float))
    error = math.sqrt(math.fsum(e * e for e in errors) / len(errors)) if errors else 0.0
    point_errors = np.asarray(errors, float) if errors else np.zeros_like(n)
    top = math.log(level.high) if level is not None and level.high is not None else math.inf
    points = _Points(n, x, error, point_errors, requests, top)
    plain, falls = _fits(points, np.ones_like(n))
    odd = _find_odd(plain, falls)
    if odd is not None:
        used = np.ones_like(n)
        used[odd.at] = 0.0
        plain, falls = _fits(points, used)
    knee = _find_knee(plain, falls, odd)
    return knee if level is None else knee.within(level)


def _fits(points: _Points, used: Array, *, falling: bool = True) -> tuple[_Fit, list[_Fit]]:
    """The best fit without a fall, and those with one, the best first; none where the points are too few for one."""
    import numpy as np

    from hwdyno.analysis.curves.least_squares import fit

    n, x = points.n, points.x
    kept = used > 0
    top, least, most = float(x[kept].max()), float(n.min()), float(n.max())
    crossing = max(top - float((x - n)[kept].max()), 0.05 if points.requests else least)
    low = [top - 0.5, 1e-3 if points.requests else least - 3, math.log(MIN_P), 0.0, 0.0, STEP]
    high = [min(top + 4, points.top), most + 4.5, math.log(MAX_P), 0.0, 0.0, STEP]
    first = min(top + 0.02, points.top)
    starts = [[first, crossing, math.log(p), 0.0, 0.0, STEP] for p in (1.3, 6.0)]
    lows, highs = [low, low], [high, high]
    if falling and int(used.sum()) >= FALL_MIN_POINTS:
        # The fall begins between the second point and the last but one: outside it would be no fall, or no rise.
        places = np.linspace(max(n[1], float(n[kept][x[kept].argmax()]) - 0.7), n[-2], 2)
        for width in (STEP, ENDLESS):
            starts += [[first, crossing, math.log(p), 0.1, at, width] for at in places for p in (1.5, 8.0)]
            lows += [[*low[:3], 0.0, n[1], width]] * 4
            highs += [[*high[:3], MAX_FALL, n[-1] - 0.1, width]] * 4
    thetas, costs = fit(
        points.model,
        x[None],
        np.array(starts),
        (np.array(lows), np.array(highs)),
        np.tile(used, (len(starts), 1)),
        NOISE,
        np.array([[math.log(2)], [_PULL**2]]) * (np.arange(6) == 2),
    )

    made = [
        _Fit(points, theta, used, 3 if at < 2 else 5, row)
        for at, (theta, row) in enumerate(zip(thetas, points.model(thetas)[0] - x, strict=True))
    ]
    return made[int(costs[:2].argmin())], [made[2 + int(at)] for at in costs[2:].argsort()]


def _find_odd(plain: _Fit, falls: list[_Fit]) -> Odd | None:
    """The one inner point that is off the curve of the others, by more than their noise explains."""
    import numpy as np

    count, falling = len(plain.residuals), falls[0] if falls else None
    best = falling if falling is not None and falling.squares < plain.squares / 2 else plain
    if count < ODD_MIN_POINTS or np.abs(best.residuals[1:-1]).max() < LOOK_FOR_ODD:
        return None
    places = {1 + int(np.abs(fit.residuals[1:-1]).argmax()) for fit in (plain, falling) if fit is not None}
    found: list[tuple[float, Odd]] = []
    for at in places:
        used = np.ones(count)
        used[at] = 0.0
        without, _ = _fits(plain.points, used, falling=False)
        slopes = without.at(plain.points.n[at : at + 1])[1][0]
        off = -float(without.residuals[at])
        spread = math.sqrt(without.noise**2 + max(0.0, float(slopes @ without.covariance() @ slopes)))
        # A fall explains the points past it as well; one point off explains only itself.
        explained = falling is None or without.scatter <= falling.scatter
        if abs(off) > max(ODD_SIGMAS * spread, -math.log1p(-ODD_SHARE)) and explained:
            found.append((without.squares, Odd(at, math.exp(off))))
    return min(found, key=lambda candidate: candidate[0])[1] if found else None


def _find_knee(plain: _Fit, falls: list[_Fit], odd: Odd | None) -> Knee:
    """The knee with its intervals, over all models."""
    import numpy as np

    n = plain.points.n
    weight = _weight(plain, falls[0] if falls else None)
    chosen = falls[0] if weight >= 0.5 else plain
    theta = chosen.theta
    top, top_slopes = _find_top(chosen, n)
    models = [(1 - weight, plain), *(zip(_shares(falls, weight), falls, strict=True) if weight > 0 else ())]
    tops = [(share, model, *_find_top(model, n)) for share, model in models if share > MIN_SHARE]
    known = math.fsum(share for share, *_ in tops)
    ceiling = math.fsum(share * value for share, _, value, _ in tops) / known
    if chosen.noise == 0:
        half: list[float | None] = [None] * 4
    else:
        squares = [
            share * (model.variance(slopes) * (model.t / 1.96) ** 2 + (value - ceiling) ** 2)
            for share, model, value, slopes in tops
        ]
        covariance = chosen.covariance()
        first = top_slopes - chosen.at(n[:1])[1][0]
        wide = top_slopes + np.eye(6)[1] - np.eye(6)[0]
        spread = [math.sqrt(max(0.0, float(slopes @ covariance @ slopes))) for slopes in (first, wide)]
        apart = math.fsum(share * (value - ceiling) ** 2 for share, _, value, _ in tops) / known
        # Where R1 is read, a misfit of the model is no noise: the request alone was measured.
        wider = math.sqrt(spread[1] ** 2 + float(chosen.residuals[0]) ** 2 + apart)
        half = [
            1.96 * math.sqrt(math.fsum(squares) / known),
            chosen.t * wider,
            chosen.t * math.sqrt(float(covariance[2, 2])),
            chosen.t * spread[0],
        ]
    return Knee(
        ceiling=interval_of_log(ceiling, half[0]),
        crossing=interval_of_log(float(ceiling + theta[1] - theta[0]), half[1]),
        p=interval_of_log(float(theta[2]), half[2]),
        gain=interval_of_log(top - float(chosen.at(n[:1])[0][0]), half[3]),
        top=math.exp(theta[0]),
        r1=math.exp(theta[1] - theta[0]),
        requests=plain.points.requests,
        fall=float(theta[3]) if chosen.free == 5 else 0.0,
        fall_load=math.exp(theta[4]) if chosen.free == 5 else math.inf,
        width=float(theta[5]),
        falls=weight,
        most=math.exp(n[-1]),
        odd=odd,
    )


def _find_top(fit: _Fit, n: Array) -> tuple[float, Array]:
    """The logarithm of the most that a fitted curve reaches, and its slopes by the parameters."""
    import numpy as np

    if fit.free == 3:
        return float(fit.theta[0]), np.array([1.0, 0, 0, 0, 0, 0])
    fitted, slopes = fit.at(np.linspace(n[0], n[-1], 200))
    at = int(fitted.argmax())
    return float(fitted[at]), slopes[at]


def _shares(falls: list[_Fit], weight: float) -> list[float]:
    """The weight of each model with a fall: together ``weight``, each by how well it fits."""
    noise = max(falls[0].noise, 1e-4)
    alike = [math.exp(min(0.0, (falls[0].squares - fit.squares) / noise**2 / 2)) for fit in falls]
    return [weight * likelihood / math.fsum(alike) for likelihood in alike]


def _weight(plain: _Fit, falling: _Fit | None) -> float:
    """The Akaike weight of the model with a fall against that without, by QAICc."""
    if falling is None:
        return 0.0
    noise = max(falling.noise, 1e-4)
    falls = _find_top(falling, falling.points.n)[0] - float(falling.at(falling.points.n[-1:])[0][0])
    if falls < max(MIN_LOSS, 2 * noise):
        return 0.0  # It only bends the rise.
    count = int(plain.used.sum())

    def criterion(fit: _Fit) -> float:
        k = fit.free + 1
        return fit.squares / noise**2 + 2 * k + 2 * k * (k + 1) / max(1, count - k - 1)

    return 1 / (1 + math.exp(min(700.0, max(-700.0, (criterion(falling) - criterion(plain)) / 2))))
