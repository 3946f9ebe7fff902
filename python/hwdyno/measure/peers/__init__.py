"""Reference tools, one file each, found by walking this folder: find the tool, run it on a point, read its output."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast

from hwdyno.model.words import UserError
from hwdyno.system.foreign import LARGEST_FIGURE, checked
from hwdyno.system.suggestions import hint

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan


@dataclass(frozen=True, slots=True)
class PeerReading:
    """A peer's result on one point."""

    throughput: float
    unit: str
    rate: float | None
    """Operations per second, where throughput has another unit."""
    latency_ns_mean: float | None
    cpu_s: float | None
    """Total CPU time, user and system."""
    operations: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no tool can have measured: a rate that is not above 0, or a figure that is not finite."""
        try:
            figures = (self.throughput, self.rate, self.latency_ns_mean, self.cpu_s, self.operations, self.details)
            checked(figures, "its answer", LARGEST_FIGURE)
        except UserError as error:
            raise OSError(str(error)) from None
        if not self.throughput > 0:
            raise OSError("its answer has no rate above 0")


class Peer(Protocol):
    """A reference tool that can be compared with our kernels."""

    @property
    def name(self) -> str:
        """The tool's name."""
        ...

    @property
    def kernels(self) -> frozenset[str]:
        """Our kernels that it can be compared with."""
        ...

    def version(self) -> str | None:
        """The tool's version; none if it is not installed."""
        ...

    def unsupported(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
        """Why the tool cannot measure this point, in a sentence; none if it can."""
        ...

    def command(self, kernel: str, parameters: Mapping[str, Any]) -> list[str]:
        """The command line that measures this point."""
        ...

    def run(self, kernel: str, parameters: Mapping[str, Any]) -> PeerReading:
        """Run the tool once on this point.

        Raises ``UserError`` for a point that the tool cannot measure, and ``OSError`` if it fails; one line each.
        """
        ...


def names() -> tuple[str, ...]:
    """Every reference tool: a file ``peers/<name>.py`` whose ``PEER`` implements the protocol."""
    found = sorted(one.name for one in pkgutil.iter_modules(__path__))
    return tuple(name for name in found if _peer(name) is not None)


def find(name: str) -> Peer:
    """Look up a peer by name. Raises ``UserError``."""
    peer = _peer(name) if any(one.name == name for one in pkgutil.iter_modules(__path__)) else None
    if peer is None:
        raise UserError(f"no reference tool is called '{name}'; {hint(name, names())}")
    return peer


def installed(plan: Plan, host: Host, says: Callable[[str], None]) -> list[Peer]:
    """The plan's peers that are installed; missing ones are said. On several hosts, the runner checks each host's."""
    if not plan.peers:
        return []
    from hwdyno.measure.hosts.measured_site import site_of

    here = []
    for peer in map(find, dict.fromkeys(name for planned in plan.experiments for name in planned.experiment.peers)):
        if not site_of(host).several and peer.version() is None:
            remedy = getattr(peer, "install", "install it")
            says(f"{peer.name} is not installed, so it is left out; {remedy} to compare")
        else:
            here.append(peer)
    return here


def _peer(name: str) -> Peer | None:
    return cast("Peer | None", vars(importlib.import_module(f"{__name__}.{name}")).get("PEER"))
