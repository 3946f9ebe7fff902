"""Reference tools, one file each: is it here, run it on this Point, read its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class PeerReading(Protocol):
    """What a peer reached on one point."""

    throughput: float
    unit: str
    rate: float | None
    latency_ns_mean: float | None
    cpu_s: float | None
    operations: int
    details: Mapping[str, Any]


class Peer(Protocol):
    """A reference tool that can stand beside kernels of ours."""

    name: str
    kernels: frozenset[str]

    def version(self) -> str | None:
        """Its version; none if it is not here."""
        ...

    def command(self, kernel: str, parameters: dict[str, Any]) -> list[str]:
        """What to type to run it on this point."""
        ...

    def run(self, kernel: str, parameters: dict[str, Any]) -> PeerReading:
        """Run it once on this point."""
        ...
