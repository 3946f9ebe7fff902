"""The peers of one run: each measures every point in turn with hwdyno, and one that keeps failing is left out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.peers import Peer, on_site
from hwdyno.measure.plan import Planned
from hwdyno.measure.runner.faults import format_error
from hwdyno.measure.runner.point import PointInWork
from hwdyno.model.units import format_duration, format_percent
from hwdyno.model.words import PeerResult
from hwdyno.system import signals

LONGEST_SHARE = 0.04
"""Share of a run's budget for one reading of a peer."""
PEER_FAILURES = 3
"""Consecutive failures after which a peer is left out."""


class PeerReadings:
    """The readings that reference tools take of a run's points."""

    def __init__(self, peers: Sequence[Peer], site: Site, budget_s: float | None = None) -> None:
        self.peers, self.site = peers, site
        self.longest_s = math.inf if budget_s is None else LONGEST_SHARE * budget_s
        self.versions = {peer.name: on_site.version(peer, site) for peer in peers}
        self.failures: dict[str, int] = {}
        """Consecutive failures by peer."""
        self.given_up: set[str] = set()
        """Peers that are left out from here on."""

    def fit(self, planned: Planned, parameters: Mapping[str, Any]) -> list[Peer]:
        """The peers that measure a point with these parameters: those that can, in a part of the run's time."""
        kernel = planned.experiment.kernel
        able = self._able(planned, parameters)
        return [peer for peer in able if _takes_s(peer, kernel, parameters) <= self.longest_s]

    def _able(self, planned: Planned, parameters: Mapping[str, Any]) -> list[Peer]:
        kernel = planned.experiment.kernel
        known = [peer for peer in self.peers if kernel in peer.kernels and peer.name in planned.experiment.peers]
        return [peer for peer in known if peer.unsupported_reason(kernel, dict(parameters)) is None]

    def with_pairs(self, planned: Planned) -> Planned:
        """An experiment with the number of its peers' readings per reading."""
        fit = sum(len(self.fit(planned, {**planned.fixed, **point})) for point in planned.points)
        return replace(planned, pairs=fit / max(1, len(planned.points)))

    def left_out(self, experiments: Sequence[Planned]) -> Iterator[str]:
        """A sentence on each peer that takes too much of the budget at some point."""
        longest: dict[str, float] = {}
        for planned in experiments:
            for parameters in ({**planned.fixed, **point} for point in planned.points):
                for peer in self._able(planned, parameters):
                    takes_s = _takes_s(peer, planned.experiment.kernel, parameters)
                    longest[peer.name] = max(takes_s, longest.get(peer.name, 0.0))
        for name, takes_s in longest.items():
            if takes_s > self.longest_s:
                yield (
                    f"{name} is left out where a reading takes it over {format_duration(self.longest_s)}, "
                    f"{format_percent(LONGEST_SHARE)} of the budget: it takes up to {format_duration(takes_s)}"
                )

    def in_turn(self, planned: Planned, point: PointInWork, parameters: dict[str, Any]) -> Iterator[str]:
        """Let each peer repeat the last reading of a point; yields the reason where one fails."""
        for peer in self.fit(planned, parameters):
            if peer.name in self.given_up:
                continue
            try:
                theirs = on_site.run_on_site(peer, planned.experiment.kernel, parameters, self.site)
            except (OSError, ValueError) as error:
                signals.check()  # Then this process has ended the peer, which is no failure of its.
                yield f"{peer.name} beside {planned.experiment.name}: {format_error(error)}{self._give_up(peer, error)}"
            else:
                self.failures[peer.name] = 0
                point.pairs.setdefault(peer.name, []).append((point.readings[-1], theirs))

    def _give_up(self, peer: Peer, error: Exception) -> str:
        self.failures[peer.name] = self.failures.get(peer.name, 0) + 1
        # A peer that hangs would cost its timeout at every reading, and one that always fails a message.
        if not isinstance(error, TimeoutError) and self.failures[peer.name] < PEER_FAILURES:
            return ""
        self.given_up.add(peer.name)
        return f"; {peer.name} was skipped from there"

    def results(self, planned: Planned, point: PointInWork, parameters: dict[str, Any]) -> list[PeerResult]:
        """Each peer's result on a point, from the pairs of readings."""
        made = [
            point.peer_result(
                peer, self.versions[peer.name], " ".join(peer.command(planned.experiment.kernel, parameters))
            )
            for peer in self.fit(planned, parameters)
        ]
        return [result for result in made if result is not None]


def _takes_s(peer: Peer, kernel: str, parameters: Mapping[str, Any]) -> float:
    """How long a reading takes a peer that does more than the point asks for; 0 of any other."""
    takes_s = getattr(peer, "takes_s", None)
    return float(takes_s(kernel, parameters)) if takes_s else 0.0
