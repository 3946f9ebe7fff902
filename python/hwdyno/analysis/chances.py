"""Tails of Student's t, of F and of chi-squared, as plain numbers: importing scipy.special takes half a CPU second.

The continued fractions are those of DLMF, 8.17.22 (incomplete beta) and 8.9.2 (incomplete gamma), and the series
8.7.1, evaluated by Lentz's method (Applied Optics 15, 1976, as changed by Thompson and Barnett).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from statistics import NormalDist

_EXACT = 1e-15
_NEAR_ZERO = 1e-300
_NORMAL = 1e6
"""Degrees of freedom from which Student's t is normal to six digits."""


def t_tail(degrees: float, t: float) -> float:
    """The chance that Student's t is ``t`` or more."""
    if math.isinf(t):
        return 0.0 if t > 0 else 1.0
    far = _beta(degrees / 2, 0.5, degrees / (degrees + t * t), t * t / (degrees + t * t)) / 2
    return far if t >= 0 else 1 - far


@lru_cache(maxsize=4096)
def t_of_tail(degrees: float, chance: float) -> float:
    """The t that is reached with a chance, of at most a half.

    Newton's method on a tail that falls ever less steeply: it comes from below, and can go past zero but once.
    """
    normal = -NormalDist().inv_cdf(chance)
    if degrees > _NORMAL:
        return normal
    t = normal + (normal**3 + normal) / (4 * degrees)
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    for _ in range(200):
        density = math.exp(scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        step = (t_tail(degrees, t) - chance) / density
        t = max(0.0, t + step)
        if abs(step) <= 1e-7 * t:  # The next would be its square.
            break
    return t


def f_tail(above: float, below: float, ratio: float) -> float:
    """The chance that F, with these degrees of freedom above and below its line, is ``ratio`` or more."""
    if math.isinf(ratio):
        return 0.0
    whole = below + above * ratio
    return _beta(below / 2, above / 2, below / whole, above * ratio / whole)


def chi_square_tail(degrees: float, value: float) -> float:
    """The chance that chi-squared is ``value`` or more."""
    a, x = degrees / 2, value / 2
    if x <= 0 or math.isinf(x):
        return 1.0 if x <= 0 else 0.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x >= a + 1:
        return front / _fraction(x + 1 - a, ((-n * (n - a), x + 2 * n + 1 - a) for n in count(1)))
    part = total = 1 / a
    n = a
    while part > _EXACT * total:  # Not a number ends it as well.
        n += 1
        part *= x / n
        total += part
    return 1 - front * total


def _beta(a: float, b: float, x: float, complement: float) -> float:
    """The regularized incomplete beta function of ``x``; ``complement`` is 1 - x, without the loss of its digits."""
    if x <= 0 or complement <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, complement, x)
    front = (
        math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(complement)) / a
    )
    return front / _fraction(1.0, _beta_terms(a, b, x))


def _beta_terms(a: float, b: float, x: float) -> Iterator[tuple[float, float]]:
    yield -(a + b) / (a + 1) * x, 1.0
    for m in count(1):
        yield m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), 1.0
        yield -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), 1.0


def _fraction(first: float, terms: Iterator[tuple[float, float]]) -> float:
    """The continued fraction first + a1 / (b1 + a2 / (b2 + ...)) of pairs of a and b."""
    value = c = first
    d = 0.0
    for a, b in terms:
        d = 1 / (b + a * d or _NEAR_ZERO)
        c = b + a / c or _NEAR_ZERO
        value *= c * d
        if not abs(c * d - 1) > _EXACT:  # Not a number ends it as well.
            break
    return value
