"""Compares our figures with the peers', in turn on the same points, and with the project's targets.

Each file in this folder but this one and ``__main__`` is one resource; it is found by listing the folder,
and offers ``measure(bench) -> Iterator[BenchmarkRow]``.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwdyno.analysis.estimates import median_interval
from hwdyno.measure.peers import Peer, PeerReading
from hwdyno.system import signals

Reading = dict[str, Any]
Parameters = dict[str, Any]


class BenchError(Exception):
    """A peer is missing or broken, so nothing can be compared."""


@dataclass(frozen=True)
class Target:
    """The bounds of a ratio or figure."""

    at_least: float | None = None
    at_most: float | None = None

    def says(self, unit: str = "") -> str:
        """The target in a few words."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}{unit}"
        word, bound = ("≥", self.at_least) if self.at_least is not None else ("≤", self.at_most)
        return f"{word} {bound:g}{unit}"

    def verdict(self, value: float, low: float | None, high: float | None) -> str:
        """``met``, ``not met``, or ``open`` where the value misses it and its interval does not."""
        least, most = self.at_least, self.at_most
        met = (least is None or value >= least) and (most is None or value <= most)
        possible = least is None or value >= least or (high is not None and high >= least)
        possible = possible and (most is None or value <= most or (low is not None and low <= most))
        return "met" if met else "open" if possible else "not met"


@dataclass(frozen=True)
class BenchmarkRow:
    """One line of the table: the medians of both tools, and the median of the pairs' ratios."""

    title: str
    unit: str
    ours: float
    theirs: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    target: Target | None = None

    @property
    def verdict(self) -> str:
        """Whether the target is met; empty without one."""
        if self.target is None:
            return ""
        value = self.ours if self.ratio is None else self.ratio
        return self.target.verdict(value, self.low, self.high)


def make_row(title: str, unit: str, pairs: Sequence[tuple[float, float]], target: Target | None = None) -> BenchmarkRow:
    """The row of a comparison: the median of the pairs' ratios with its interval."""
    ratios = [ours / theirs for ours, theirs in pairs]
    low, high = median_interval(ratios)
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return BenchmarkRow(title, unit, ours, theirs, statistics.median(ratios), low, high, target)


@dataclass(frozen=True)
class Bench:
    """The context of every resource's benchmarks."""

    directory: Path
    """An empty directory on the storage under test."""
    pairs: int
    runtime_s: float
    run: Callable[[str, Parameters], Reading]
    """Runs one of our kernels."""
    says: Callable[[str], None]
    """Prints progress."""

    def in_turn(self, peer: Peer, kernel: str, parameters: Parameters) -> list[tuple[Reading, PeerReading]]:
        """Run our kernel and the peer in turn, each pair on the same point. Raises ``BenchError`` if the peer fails."""
        whole = {"runtime": self.runtime_s, "ramp_time": 0.2, **parameters}
        return [self.pair(peer, kernel, {**whole, "seed": number + 1}) for number in range(self.pairs)]

    def pair(
        self, peer: Peer, kernel: str, ours: Parameters, theirs: Parameters | None = None
    ) -> tuple[Reading, PeerReading]:
        """Run our kernel, then the peer, on one point or on ``theirs``. Raises ``BenchError`` if the peer fails."""
        reading = self.run(kernel, ours)
        signals.check()
        try:
            return reading, peer.run(kernel, ours if theirs is None else theirs)
        except (ValueError, OSError) as error:
            raise BenchError(f"{peer.name}: {error}") from None
