"""Fits many small models at once: Levenberg-Marquardt with a robust loss, on arrays of problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Model = Callable[[Array], tuple[Array, Array]]

ROUNDS = 30
CONVERGED = 1e-6
"""The fit ends when each cost was once lowered by less than this share."""


def fit(
    model: Model, data: Array, starts: Array, bounds: tuple[Array, Array], weights: Array, scale: float, pull: Array
) -> tuple[Array, Array]:
    """The parameters of each problem (a row of ``starts``) with the least cost, and that cost.

    ``model`` gives the fitted values, problems x points, and their slopes, problems x points x parameters. The loss
    is soft L1, 2 s^2 (sqrt(1 + (r / s)^2) - 1), with the ``scale`` s, times ``weights`` (problems x points; 0 leaves
    a point out). ``pull`` has two rows: the values that parameters are drawn to, and how strongly (1 / variance).
    Steps are damped by Marquardt's rule (SIAM J. Appl. Math. 11, 1963) and reweighted by the loss (Holland & Welsch,
    Communications in Statistics 6, 1977); a step over a bound ends on it.
    """
    low, high = bounds
    here = np.clip(starts, low, high)
    damping = np.full(len(here), 1e-3)
    fitted, slopes = model(here)
    cost = _cost(fitted - data, here, weights, scale, pull)
    done = np.zeros(len(here), bool)
    for _ in range(ROUNDS):
        residuals = fitted - data
        robust = weights / np.sqrt(1 + (residuals / scale) ** 2)
        weighted = slopes * robust[:, :, None]
        gradient = np.einsum("bnp,bn->bp", weighted, residuals) + pull[1] * (here - pull[0])
        curvature = np.einsum("bnp,bnq->bpq", weighted, slopes)
        diagonal = np.einsum("bpp->bp", curvature)
        diagonal += pull[1]
        # A parameter on its bound that is pushed outward stays there, and the others go on.
        stuck = ((here <= low) & (gradient > 0)) | ((here >= high) & (gradient < 0))
        gradient = np.where(stuck, 0.0, gradient)
        curvature = np.where(stuck[:, :, None] | stuck[:, None, :], 0.0, curvature)
        diagonal = np.einsum("bpp->bp", curvature)
        diagonal += np.where(stuck, 1.0, damping[:, None] * diagonal + 1e-12)
        step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
        tried = np.clip(here - step, low, high)
        then, then_slopes = model(tried)
        new = _cost(then - data, tried, weights, scale, pull)
        better = new < cost
        damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-9, 1e9)
        here = np.where(better[:, None], tried, here)
        fitted = np.where(better[:, None], then, fitted)
        slopes = np.where(better[:, None, None], then_slopes, slopes)
        done |= (better & (cost - new <= CONVERGED * (cost + 1e-12))) | (damping >= 1e6)
        cost = np.where(better, new, cost)
        if done.all():
            break
    return here, cost


def _cost(residuals: Array, here: Array, weights: Array, scale: float, pull: Array) -> Array:
    loss = 2 * scale**2 * (np.sqrt(1 + (residuals / scale) ** 2) - 1)
    return np.asarray((weights * loss).sum(axis=1) + (pull[1] * (here - pull[0]) ** 2).sum(axis=1))
