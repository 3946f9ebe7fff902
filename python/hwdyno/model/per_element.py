"""What a loop over arrays does to each of their elements, from which its bytes and FLOP follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PerElement:
    """What a loop over arrays does to each of their elements; its bytes and FLOP follow from that."""

    reads: int
    """Arrays that it reads."""
    writes: int
    """Arrays that it writes."""
    allocates: int = 0
    """Arrays that it stores through the caches without having read them: the hardware reads their lines first."""
    flops: int = 0

    @property
    def arrays(self) -> int:
        """How many arrays it goes through, and so its bytes in elements."""
        return self.reads + self.writes

    @property
    def bus_factor(self) -> float:
        """Bytes on the bus over bytes counted (McCalpin, STREAM's FAQ)."""
        return (self.arrays + self.allocates) / self.arrays
