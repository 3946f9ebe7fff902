"""Compares Runs point by point: what is alike, what differs between the machines, and which changes exceed noise."""

from __future__ import annotations

from hwdyno.explain.comparison.changes import Change, ChangeVerdict, assumed_spread, fails, is_open, overall
from hwdyno.explain.comparison.differences import Difference, differences
from hwdyno.explain.comparison.matching import Matching, Unlike, match_points
from hwdyno.explain.comparison.side import FAILED, OPEN, Compared, device_compared, runs_compared, status

__all__ = [
    "FAILED",
    "OPEN",
    "Change",
    "ChangeVerdict",
    "Compared",
    "Difference",
    "Matching",
    "Unlike",
    "assumed_spread",
    "device_compared",
    "differences",
    "fails",
    "is_open",
    "match_points",
    "overall",
    "runs_compared",
    "status",
]
