"""Reference tools, one file each: is it here, run it on this Point, read its answer."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from hwdyno.words import UserError

PEERS = (
    "fio",
    "hpcc",
    "likwid",
    "stream",
    "sysbench",
    "multichase",
    "cpufp",
    "iperf3",
    "ping",
    "sockperf",
    "netperf",
    "dlio",
    "mlperf_kv",
    "numpy",
    "pytorch",
)
"""Each is the file ``peers/<name>.py`` whose ``PEER`` fills the protocol."""


@dataclass(frozen=True, slots=True)
class PeerReading:
    """What a peer reached on one point."""

    throughput: float
    unit: str
    rate: float | None
    """Operations per second, where throughput is something else."""
    latency_ns_mean: float | None
    cpu_s: float | None
    """CPU time that it spent in all, user and system."""
    operations: int
    details: Mapping[str, Any] = field(default_factory=dict)


class Peer(Protocol):
    """A reference tool that can stand beside kernels of ours."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def kernels(self) -> frozenset[str]:
        """Our kernels that it can stand beside."""
        ...

    def version(self) -> str | None:
        """Its version; none if it is not here."""
        ...

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why it cannot measure this point, in a sentence; none if it can."""
        ...

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """What to type to run it on this point."""
        ...

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run it once on this point.

        Raises ``UserError`` for a point that it cannot measure, and ``OSError`` when it failed; one line each.
        """
        ...


def find(name: str) -> Peer:
    """The peer called so. Raises ``UserError``."""
    if name not in PEERS:
        raise UserError(f"no reference tool is called '{name}'; there are: {', '.join(PEERS)}")
    return cast(Peer, importlib.import_module(f"hwdyno.peers.{name}").PEER)
