"""The peers of one run: each measures every point in turn with hwdyno, and one that keeps failing is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hwdyno import signals
from hwdyno.hosts.site import Site
from hwdyno.peers import Peer, on_site
from hwdyno.plan import Planned
from hwdyno.runner.faults import message_of
from hwdyno.runner.point import PointInWork
from hwdyno.words import PeerResult

PEER_FAILURES = 3
"""Consecutive failures after which a peer is left out."""


class PeerReadings:
    """The readings that reference tools take of a run's points."""

    def __init__(self, peers: Sequence[Peer], site: Site) -> None:
        self.peers, self.site = peers, site
        self.versions = {peer.name: on_site.version(peer, site) for peer in peers}
        self.failures: dict[str, int] = {}
        """Consecutive failures by peer."""
        self.given_up: set[str] = set()
        """Peers that are left out from here on."""

    def fit(self, planned: Planned, parameters: Mapping[str, Any]) -> list[Peer]:
        """The peers that can measure a point with these parameters."""
        kernel = planned.experiment.kernel
        known = [peer for peer in self.peers if kernel in peer.kernels and peer.name in planned.experiment.peers]
        return [peer for peer in known if peer.unsupported(kernel, dict(parameters)) is None]

    def in_turn(self, planned: Planned, point: PointInWork, parameters: dict[str, Any]) -> Iterator[str]:
        """Let each peer repeat the last reading of a point; yields the reason where one fails."""
        for peer in self.fit(planned, parameters):
            if peer.name in self.given_up:
                continue
            try:
                theirs = on_site.measured(peer, planned.experiment.kernel, parameters, self.site)
            except (OSError, ValueError) as error:
                signals.check()  # Then this process has ended the peer, which is no failure of its.
                yield f"{peer.name} beside {planned.experiment.name}: {message_of(error)}{self._failed(peer, error)}"
            else:
                self.failures[peer.name] = 0
                point.pairs.setdefault(peer.name, []).append((point.readings[-1], theirs))

    def _failed(self, peer: Peer, error: Exception) -> str:
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
