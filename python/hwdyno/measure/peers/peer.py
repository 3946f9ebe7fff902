"""What a reference tool is, and its result on one point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from hwdyno.model.words import UserError
from hwdyno.system.foreign import LARGEST_FIGURE, check_document


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
            check_document(figures, "its answer", LARGEST_FIGURE)
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

    def unsupported_reason(self, kernel: str, parameters: Mapping[str, Any]) -> str | None:
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
