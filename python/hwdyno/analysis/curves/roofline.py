"""Both roofs of a device by its points at several arithmetic intensities.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model", CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwdyno.model.axes import INTENSITY
from hwdyno.model.units import as_number
from hwdyno.model.words import ExperimentResult, Parameters


@dataclass(frozen=True, slots=True)
class Reached:
    """What was computed at an intensity."""

    intensity: float
    """Operations for each byte of memory, FLOP/B."""
    flop_s: float
    at: int
    """The place of the point in its experiment."""


@dataclass(frozen=True, slots=True)
class Roofs:
    """A GPU's roofline as it was measured: the best of each roof, and the points under them."""

    bytes_s: float
    flop_s: float
    spots: tuple[Reached, ...]

    @property
    def ridge(self) -> float:
        """The intensity where both roofs meet, FLOP/B: below it memory is the limit, above it arithmetic."""
        return self.flop_s / self.bytes_s

    def over(self, intensity: float) -> float:
        """The roof at an intensity, FLOP/s."""
        return min(self.flop_s, intensity * self.bytes_s)


def find_roofs(result: ExperimentResult) -> Roofs | None:
    """Both roofs of a sweep of intensities of one precision; none where it has fewer than three of them."""
    found: dict[float, tuple[float, int]] = {}
    for at, point in enumerate(result.points):
        given: Parameters = {**result.fixed, **point.parameters}
        intensity, value = as_number(given.get(INTENSITY)), point.throughput.value
        if not intensity or point.validity == "invalid" or value <= 0:
            continue
        found[intensity] = max(found.get(intensity, (0.0, at)), (value, at))
    axes = ("precision", "on", "array")
    is_one = all(
        len({str({**result.fixed, **point.parameters}.get(axis)) for point in result.points}) == 1 for axis in axes
    )
    if len(found) < 3 or not is_one:
        return None
    rows = sorted(found.items())
    spots = tuple(Reached(intensity, value, at) for intensity, (value, at) in rows)
    bytes_s = max(spot.flop_s / spot.intensity for spot in spots)
    return Roofs(bytes_s, max(spot.flop_s for spot in spots), spots)
