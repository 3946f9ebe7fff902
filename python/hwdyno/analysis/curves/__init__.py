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
    curves_of,
    is_loaded,
    rate_to_settle,
    suggest_load,
)
from hwdyno.analysis.curves.operating_points import BEST_SHARE
from hwdyno.analysis.curves.series import error_of, value_of

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
    "curves_of",
    "error_of",
    "is_loaded",
    "rate_to_settle",
    "suggest_load",
    "value_of",
]
