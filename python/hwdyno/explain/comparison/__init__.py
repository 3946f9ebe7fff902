"""Compares Runs point by point: what is alike, what differs between the machines, and which changes exceed noise."""

from __future__ import annotations

from hwdyno.explain.comparison.changes import Change, ChangeVerdict, assumed, fails, is_open, overall
from hwdyno.explain.comparison.differences import Difference, differences
from hwdyno.explain.comparison.matching import Matching, Unlike, matched
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
    "assumed",
    "device_compared",
    "differences",
    "fails",
    "is_open",
    "matched",
    "overall",
    "runs_compared",
    "status",
]
