"""Reads curves off an experiment's points: floor, knee, ceiling, best operating point and state."""

from __future__ import annotations

from hwdyno.analysis.curves.curve_fit import (
    CAPACITY,
    LOADED,
    LOADED_MODEL,
    LOSS,
    MIN_POINTS,
    ODD_LOAD,
    ODD_RATIO,
    REACHED_SHARE,
    fit_curves,
    is_loaded,
    rate_to_settle,
    suggest_load,
)
from hwdyno.analysis.curves.operating_points import BEST_SHARE
from hwdyno.analysis.curves.series import curve_value, relative_error

__all__ = [
    "BEST_SHARE",
    "CAPACITY",
    "LOADED",
    "LOADED_MODEL",
    "LOSS",
    "MIN_POINTS",
    "ODD_LOAD",
    "ODD_RATIO",
    "REACHED_SHARE",
    "curve_value",
    "fit_curves",
    "is_loaded",
    "rate_to_settle",
    "relative_error",
    "suggest_load",
]
